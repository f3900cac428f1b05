/**
 * The loop around a push: takes planned pushes and second attempts that are due, records each attempt, makes it, records what
 * came of it. Statements to the ledger are batched by what gathers while the one before is under way. At most `concurrency`
 * attempts are recorded beyond those that are being made, which bounds what a kill costs.
 */
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { type AttemptOutcome, sendAttempt } from '../deliveries/attempt.ts'
import { BodyBuffers, buildBody } from '../deliveries/body.ts'
import {
  endAbandoned,
  endErased,
  findAdrift,
  findNextDue,
  type LedgerDelivery,
  type PushToBegin,
  type RecordedAttempt,
  type RecordedOutcome,
  recordDueAttempts,
  recordGivenBack,
  recordOutcomes,
  recordPushes,
  recordUnsent,
} from '../deliveries/ledger.ts'
import type { Worker } from '../deliveries/workers.ts'
import { messageOf } from '../errors.ts'
import type { Http } from '../http.ts'
import type { LeadStore } from '../leads/lead-store.ts'
import { outageFailuresInARow, outageProbeMs } from '../limits.ts'
import { Outage } from './outage.ts'
import { Pace } from './pace.ts'

export interface LoopSettings {
  receiverUrl: string
  dataSource: string
  timeoutMs: number
  retryDelayMs: number
  concurrency: number
  ratePerSecond: number | undefined
  outageMs: number
}

export interface LoopContext {
  db: Database
  http: Http
  worker: Worker
  leads: LeadStore
  settings: LoopSettings
  runId: number
  period: string
  /** Only what this loop begins, not what others left. */
  own: boolean
  /** Whether an outage of the receiver is looked for. */
  minded: boolean
  stop: AbortSignal
  onDelivery(delivery: LedgerDelivery): void
  onAttempt(attempt: RecordedAttempt, outcome: AttemptOutcome): void
  onNote(note: string): void
}

type Planned = Omit<PushToBegin, 'deliveries'> & {
  email: string
  deliveries: Omit<PushToBegin['deliveries'][number], 'started'>[]
}

const plannedMax = 64
const outcomesPerStatement = 256

export class PushLoop {
  /** Users whose pushes this loop began, and those with whose it went on. */
  users = 0
  gaveUp = false

  private readonly context: LoopContext
  private readonly outage: Outage
  private readonly pace: Pace
  private readonly planned: Planned[] = []
  private plannedAll = false
  private ready: RecordedAttempt[] = []
  /** Being taken back: until that is certain, they must not be found or recorded again. */
  private takingBack: readonly string[] = []
  /** Made or being made, and not recorded yet what came of them. */
  private readonly underWay = new Map<string, RecordedAttempt>()
  private onWire = 0
  private readonly buffers = new BodyBuffers()
  private readonly outcomes: RecordedOutcome[] = []
  private flushing: Promise<void> | undefined
  /** When the next second attempt of ours may be due, by this process's clock; undefined: not known to be any. */
  private dueAt: number | undefined
  private paceTimer: NodeJS.Timeout | undefined
  private wakers: (() => void)[] = []
  private failure: unknown

  constructor(context: LoopContext) {
    this.context = context
    this.outage = new Outage(context.minded ? context.settings.outageMs : 0)
    this.pace = new Pace(context.settings.ratePerSecond)
    this.dueAt = context.own ? undefined : 0
  }

  /** Sends everything that `pushes` yields and what is due; returns when nothing is left, on a stop, or when it gave up. */
  async run(pushes: AsyncIterable<Planned>): Promise<void> {
    const wake = () => this.wake()
    this.context.stop.addEventListener('abort', wake)
    const planning = this.planAhead(pushes)
    try {
      await this.fill()
    } catch (error) {
      this.fail(error)
    }
    this.plannedAll = true
    this.wake()
    clearTimeout(this.paceTimer)
    await planning
    // attempts under way are finished and recorded, unless the database stays away: then they count as lost
    while (this.onWire > 0 || (this.underWay.size > 0 && this.failure === undefined)) await this.sleep(1_000)
    await this.flushing
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    await this.giveBack()
  }

  private get stopping(): boolean {
    return this.context.stop.aborted || this.gaveUp || this.failure !== undefined
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.wake()
  }

  private wake(): void {
    const wakers = this.wakers
    this.wakers = []
    for (const waker of wakers) waker()
  }

  /** Until something happens, or `ms` have passed. */
  private async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.min(ms, 60_000))
      this.wakers.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  private async planAhead(pushes: AsyncIterable<Planned>): Promise<void> {
    try {
      for await (const push of pushes) {
        this.planned.push(push)
        this.wake()
        while (this.planned.length >= plannedMax && !this.stopping && !this.plannedAll) await this.sleep(1_000)
        if (this.stopping || this.plannedAll) break
      }
    } catch (error) {
      this.fail(error)
    }
    this.plannedAll = true
    this.wake()
  }

  /** How many more attempts may be recorded now. */
  private room(): number {
    if (this.outage.isDown) return this.mayProbe() ? 1 : 0
    const { concurrency, ratePerSecond } = this.context.settings
    // with a rate, no more than leave within a tenth of a second
    const ahead =
      ratePerSecond === undefined ? concurrency : Math.min(concurrency, Math.max(1, Math.floor(ratePerSecond / 10)))
    const room = ahead - this.ready.length - this.outcomes.length
    return room * 2 >= ahead ? room : 0
  }

  private mayProbe(): boolean {
    return this.underWay.size + this.ready.length === 0 && this.outage.untilProbe(performance.now()) === 0
  }

  private async fill(): Promise<void> {
    while (!this.stopping) {
      this.drain()
      if (this.outage.isOver(performance.now())) {
        this.gaveUp = true
        this.context.onNote('The receiver stayed down: giving up; what is left is owed.')
        break
      }
      const hasWork = this.planned.length > 0 || (this.dueAt !== undefined && this.dueAt <= performance.now())
      const room = hasWork ? this.room() : 0
      if (room > 0) await this.recordNext(room)
      else if (!hasWork && this.isIdle && this.plannedAll) {
        if (await this.isDone()) break
      } else await this.sleep(this.untilNextWork())
    }
  }

  private get isIdle(): boolean {
    return (
      this.underWay.size === 0 && this.ready.length === 0 && this.outcomes.length === 0 && this.flushing === undefined
    )
  }

  private untilNextWork(): number {
    const due = this.dueAt === undefined ? 60_000 : this.dueAt - performance.now()
    return Math.max(5, Math.min(due > 0 ? due : 1_000, this.outage.isDown ? 250 : 60_000))
  }

  /** Looks once more for what others left; then whether nothing is waiting for us, and otherwise waits for it. */
  private async isDone(): Promise<boolean> {
    this.ready.push(...(await this.recordDue(1)))
    if (this.ready.length > 0) return false
    if (this.dueAt === undefined) return true
    await this.sleep(this.untilNextWork())
    return false
  }

  private async noteNextDue(): Promise<void> {
    const ms = await rideOut(() => findNextDue(this.context.db, this.context.worker.ids))
    this.dueAt = ms === null ? undefined : performance.now() + Math.max(ms, 0) + 2
  }

  private async recordNext(room: number): Promise<void> {
    if (this.dueAt !== undefined && this.dueAt <= performance.now()) {
      const attempts = await this.recordDue(room)
      for (const attempt of attempts) this.ready.push(attempt)
      if (attempts.length > 0) return
    }
    const batch: Planned[] = []
    for (let attempts = 0; attempts < room && this.planned.length > 0; ) {
      const push = this.planned.shift() as Planned
      batch.push(push)
      attempts += push.deliveries.length
    }
    if (batch.length === 0) return
    this.wake()
    await this.recordBatch(batch, room)
  }

  private async recordDue(room: number): Promise<RecordedAttempt[]> {
    const { db, worker, own } = this.context
    let uncertain = false
    const attempts = await rideOut(
      async () => {
        // a try whose answer was lost may have recorded attempts: they are ours to make
        const known = this.knownKeys()
        const adrift = uncertain ? await findAdrift(db, worker.ids, known) : []
        return adrift.length > 0
          ? adrift
          : await recordDueAttempts(db, { workerIds: worker.ids, limit: room, own, known })
      },
      (error) => {
        uncertain = true
        this.noteAway(error)
      },
    )
    if (attempts.length === 0) {
      const abandoned = () => endAbandoned(db, { ofWorkers: own ? worker.ids : undefined, known: this.knownKeys() })
      for (const ended of await rideOut(abandoned)) this.context.onDelivery(ended)
      await rideOut(() => worker.renew())
      await this.noteNextDue()
      // it is due and was not to be had: somebody holds its row, or the lease was lost a moment ago
      if (this.dueAt !== undefined) this.dueAt = Math.max(this.dueAt, performance.now() + 100)
    } else if (attempts.length < room) await this.noteNextDue()
    this.users += attempts.filter(({ part, runId }) => part === 1 && runId !== this.context.runId).length
    return attempts
  }

  private knownKeys(): string[] {
    return [...this.underWay.keys(), ...this.ready.map(({ idempotencyKey }) => idempotencyKey), ...this.takingBack]
  }

  private async recordBatch(batch: Planned[], room: number): Promise<void> {
    const { db, worker, runId, period } = this.context
    let free = room
    const pushes = batch.map(
      (push): PushToBegin => ({
        ...push,
        deliveries: push.deliveries.map((delivery) => ({ ...delivery, started: free-- > 0 })),
      }),
    )
    let uncertain = false
    await rideOut(
      async () => {
        if (uncertain) for (const attempt of await findAdrift(db, worker.ids, this.knownKeys())) this.begin(attempt)
        for (;;) {
          const { live, begun } = await recordPushes(db, { workerId: worker.id, runId, period }, pushes)
          for (const user of begun) this.beginPush(pushes, user)
          if (live) return
          await worker.renew()
        }
      },
      (error) => {
        uncertain = true
        this.noteAway(error)
      },
    )
  }

  private beginPush(pushes: PushToBegin[], user: { userId: number; email: string; receiverKey: string }): void {
    const push = pushes.find(({ userId }) => userId === user.userId)
    if (!push) return
    this.users++
    const { runId, period } = this.context
    for (const { started, ...delivery } of push.deliveries) {
      if (started) this.ready.push({ ...delivery, ...user, kind: push.kind, runId, period, attempt: 1 })
      else this.dueAt = 0
    }
  }

  private begin(attempt: RecordedAttempt): void {
    if (attempt.part === 1 && attempt.attempt === 1) this.users++
    this.ready.push(attempt)
    this.dueAt = 0
  }

  /** Makes as many of the recorded attempts as may be under way. */
  private drain(): void {
    while (!this.stopping && this.ready.length > 0 && this.onWire < this.context.settings.concurrency) {
      if (this.outage.isDown && (this.onWire > 0 || !this.outage.takeProbe(performance.now()))) break
      const waitMs = this.pace.take(performance.now())
      if (waitMs > 0) {
        this.paceTimer ??= setTimeout(() => {
          this.paceTimer = undefined
          this.drain()
        }, waitMs)
        break
      }
      const attempt = this.ready.shift() as RecordedAttempt
      this.underWay.set(attempt.idempotencyKey, attempt)
      this.onWire++
      this.make(attempt)
        .catch((error) => this.fail(error))
        .finally(() => {
          this.onWire--
          this.drain()
        })
    }
    this.wake()
  }

  private async make(attempt: RecordedAttempt): Promise<void> {
    const { http, leads, settings, db } = this.context
    const pieces = await rideOut(() => leads.readJson(attempt.versionIds))
    if (pieces === undefined) {
      const ended = await rideOut(() => endErased(db, attempt.idempotencyKey))
      for (const delivery of ended) this.context.onDelivery({ ...delivery, email: attempt.email })
      this.underWay.delete(attempt.idempotencyKey)
      return
    }
    const buffer = this.buffers.take(attempt.bytes)
    const body = buildBody(attempt.queryList, pieces, attempt.bytes, buffer)
    const outcome = await sendAttempt(http, settings, { ...attempt, body })
    this.buffers.giveBack(buffer)
    this.context.onAttempt(attempt, outcome)
    await this.noteOutcome(attempt, outcome)
  }

  private async noteOutcome(attempt: RecordedAttempt, outcome: AttemptOutcome): Promise<void> {
    const change = this.outage.note(attempt.attempt, outcome.httpStatus, performance.now())
    const retryDelayMs = Math.max(this.context.settings.retryDelayMs, outcome.retryAfterMs ?? 0)
    this.outcomes.push({ ...outcome, idempotencyKey: attempt.idempotencyKey, attempt: attempt.attempt, retryDelayMs })
    this.flushing ??= this.flush().finally(() => {
      this.flushing = undefined
      this.wake()
    })
    if (change === 'down') await this.holdBack(outcome.error)
    if (change === 'up') this.context.onNote('The receiver answers again: going on.')
  }

  /** The receiver is down: what is recorded and was not sent waits for it. */
  private async holdBack(why: string | null): Promise<void> {
    this.context.onNote(
      `The receiver is down: ${outageFailuresInARow} first attempts in a row failed; the last: ${why}. Trying again every ${outageProbeMs / 1_000} s.`,
    )
    const unsent = this.ready.map(({ idempotencyKey }) => idempotencyKey)
    this.ready = []
    this.takingBack = [...this.takingBack, ...unsent]
    await rideOut(() => recordUnsent(this.context.db, this.context.worker.ids, unsent))
    this.takingBack = this.takingBack.filter((key) => !unsent.includes(key))
    if (unsent.length > 0) this.dueAt = 0
  }

  private async flush(): Promise<void> {
    try {
      while (this.outcomes.length > 0) {
        const batch = this.outcomes.slice(0, outcomesPerStatement)
        const deliveries = await rideOut(
          () => recordOutcomes(this.context.db, batch),
          (error) => this.noteAway(error),
        )
        this.outcomes.splice(0, batch.length)
        for (const delivery of deliveries) this.noteRecorded(delivery, batch)
        // also those whose row is gone meanwhile: nobody waits for them
        for (const { idempotencyKey } of batch) this.underWay.delete(idempotencyKey)
        this.wake()
      }
    } catch (error) {
      this.fail(error)
    }
  }

  private noteRecorded(delivery: LedgerDelivery, batch: RecordedOutcome[]): void {
    const attempt = this.underWay.get(delivery.idempotencyKey)
    if (delivery.status !== 'pending') {
      this.context.onDelivery({ ...delivery, email: attempt?.email ?? null })
      return
    }
    const delayMs = batch.find(({ idempotencyKey }) => idempotencyKey === delivery.idempotencyKey)?.retryDelayMs ?? 0
    const dueAt = performance.now() + delayMs
    if (this.dueAt === undefined || dueAt < this.dueAt) this.dueAt = dueAt
  }

  private async giveBack(): Promise<void> {
    const { db, worker, onDelivery } = this.context
    const unsent = this.ready.map(({ idempotencyKey }) => idempotencyKey)
    if (unsent.length > 0) await rideOut(() => recordUnsent(db, worker.ids, unsent))
    for (const delivery of await rideOut(() => recordGivenBack(db, worker.ids))) onDelivery(delivery)
  }

  private awayNoted = false
  private noteAway(error: unknown): void {
    if (this.awayNoted) return
    this.awayNoted = true
    this.context.onNote(`The database is away (${messageOf(error)}): waiting for it, for 30 s at most.`)
  }
}
