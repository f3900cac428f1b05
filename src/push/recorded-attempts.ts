/**
 * The attempts of a push between the ledger and the wire: recorded and to be made (`ready`), being made (`underWay`), made and not
 * recorded yet what came of them (`outcomes`). Statements are batched by what gathers while the one before is under way; a try
 * whose answer was lost with the database is made good.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { rideOut } from '../db/away.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { AttemptOutcome } from '../deliveries/attempt.ts'
import {
  type AttemptKind,
  type DueFrom,
  findAdrift,
  findNextDue,
  recordDueAttempts,
  recordGivenBack,
} from '../deliveries/due.ts'
import {
  endAbandoned,
  endErased,
  findUsersBegun,
  type LedgerDelivery,
  type Reach,
  type RecordedAttempt,
  recordUnsent,
  type Standing,
} from '../deliveries/ledger.ts'
import {
  type BegunPush,
  type PushToBegin,
  type RecordedOutcome,
  recordOutcomes,
  recordPushes,
} from '../deliveries/record.ts'
import type { UserCount } from './user-count.ts'

export interface RecordedAttemptsContext {
  db: Database
  worker: Worker
  runId: number
  period: string
  /** What of that which others left it goes on with. */
  reach: Reach
  /** Gets those whose pushes are begun here, and those with whose it goes on. */
  users: UserCount
  retryDelayMs: number
  /** Attempts under way at once. */
  concurrency: number
  onDelivery(delivery: LedgerDelivery): void
  /** Another transaction went on changing the user for too long: the subscription push was not begun, and stays owed. */
  onLeftOwed(userId: number): void
  onAway(error: unknown): void
  /** Outcomes were recorded, or recording them failed for good. */
  onFlushed(failure?: unknown): void
}

const outcomesPerStatement = 256
/** Users whom another transaction is changing are tried again so often, for so long in all; then theirs stays owed. */
const busyMs = 100
const busyMsMax = 5_000
/** Outcomes wait so long for others, that a statement records several. */
const gatherMs = 10

/**
 * Whether `n` of at most `max` are enough to record them now. A statement costs much the same for one and for many: this, and
 * what others wait for it, is most of what the ledger costs.
 */
export const isWorthStatement = (n: number, max: number) => n * 4 >= max * 3

export class RecordedAttempts {
  /** When the next attempt that is ours to make may be due, by this process's clock; undefined: not known to be any. */
  dueAt: number | undefined
  ready: RecordedAttempt[] = []

  private readonly context: RecordedAttemptsContext
  /** What was due before it is taken, or was passed over: undefined, and all is looked at. */
  private dueFrom: DueFrom | undefined
  private busyMsLeft = busyMsMax
  private readonly underWay = new Map<string, RecordedAttempt>()
  private readonly outcomes: RecordedOutcome[] = []
  /** Being taken back: until that is certain, they must not be found or recorded again. */
  private takingBack: readonly string[] = []
  private flushing: Promise<void> | undefined
  private isBeginning = false
  private holdsSeconds = false
  /** Second attempts were held when `dueAt` was found out. */
  private hasPassedOver = false
  private gathering: NodeJS.Timeout | undefined
  private flushNext: NodeJS.Immediate | undefined

  constructor(context: RecordedAttemptsContext) {
    this.context = context
    this.dueAt = context.reach === 'own' ? undefined : 0
  }

  /** Recorded and not over, made or not. */
  get open(): number {
    return this.ready.length + this.underWay.size
  }

  /** Those of `open` that will be over once the next pushes are begun. */
  get ending(): number {
    return this.flushing ? 0 : Math.min(this.outcomes.length, outcomesPerStatement)
  }

  get underWayCount(): number {
    return this.underWay.size
  }

  get isIdle(): boolean {
    return this.open === 0 && this.outcomes.length === 0 && this.flushing === undefined
  }

  get isDue(): boolean {
    return this.dueAt !== undefined && this.dueAt <= performance.now()
  }

  /** Second attempts wait, or no longer: what is due are first ones alone. */
  holdSeconds(holds: boolean): void {
    this.holdsSeconds = holds
    if (holds || !this.hasPassedOver) return
    this.hasPassedOver = false
    this.dueAt = 0
  }

  /** The next one to be made; from here on it is under way. */
  take(): RecordedAttempt | undefined {
    const attempt = this.ready.shift()
    if (attempt) this.underWay.set(attempt.idempotencyKey, attempt)
    return attempt
  }

  /** What is due, first attempts before second ones, whether they wait or not; or in how many milliseconds something is. */
  async findNext(): Promise<AttemptKind | number | undefined> {
    await this.endAbandoned()
    const [firstMs, secondMs] = [await this.findNextDue('first'), await this.findNextDue('second')]
    if (firstMs !== null) return firstMs > 0 ? firstMs : 'first'
    if (secondMs !== null) return secondMs > 0 ? secondMs : 'second'
    return undefined
  }

  private get only(): AttemptKind | undefined {
    return this.holdsSeconds ? 'first' : undefined
  }

  /** Records up to `room` attempts that are due, and makes them ready. Returns how many. */
  async recordDue(room: number, only: AttemptKind | undefined = this.only): Promise<number> {
    let attempts = await this.takeDue(room, only)
    // what was passed over is still there
    if (attempts.length === 0 && this.dueFrom !== undefined) {
      this.dueFrom = undefined
      attempts = await this.takeDue(room, only)
    }
    if (attempts.length === 0) await this.endAbandoned()
    if (attempts.length < room) await this.noteNextDue(only)
    // it is due and was not to be had: somebody holds its row, or the lease was lost a moment ago
    if (attempts.length === 0 && this.dueAt !== undefined) this.dueAt = Math.max(this.dueAt, performance.now() + 100)
    await this.countUsers(attempts)
    this.ready.push(...attempts)
    return attempts.length
  }

  private async takeDue(room: number, only: AttemptKind | undefined): Promise<RecordedAttempt[]> {
    const { db, worker, reach, onAway } = this.context
    let uncertain = false
    return await rideOut(
      async () => {
        // a try whose answer was lost may have recorded attempts: they are ours to make
        const known = this.knownKeys()
        const adrift = uncertain ? await findAdrift(db, worker.ids, known) : []
        if (adrift.length > 0) return adrift
        const look = { workerIds: worker.ids, limit: room, reach, known, only, from: this.dueFrom }
        const { attempts, next } = await recordDueAttempts(db, look)
        if (next !== undefined) this.dueFrom = next
        return attempts
      },
      (error) => {
        uncertain = true
        onAway(error)
      },
    )
  }

  private async endAbandoned(): Promise<void> {
    const { db, worker, reach, onDelivery } = this.context
    const end = () => endAbandoned(db, { workerIds: worker.ids, reach, known: this.knownKeys() })
    const ended = await rideOut(end)
    await this.countUsers(ended)
    for (const delivery of ended) onDelivery(delivery)
    await rideOut(() => worker.renew())
  }

  /** Those whose deliveries an earlier run had begun; this one may have begun another by now. */
  private async countUsers(deliveries: readonly { runId: number; userId: number }[]): Promise<void> {
    const { db, runId, users } = this.context
    const ids = deliveries.flatMap((delivery) => (delivery.runId === runId ? [] : [delivery.userId]))
    if (ids.length === 0) return
    const begun = users.hasForgotten ? await rideOut(() => findUsersBegun(db, runId, ids)) : undefined
    for (const id of ids) if (!begun?.has(id)) users.add(id, true)
  }

  private async findNextDue(only: AttemptKind | undefined): Promise<number | null> {
    const { db, worker, reach } = this.context
    return await rideOut(() => findNextDue(db, { workerIds: worker.ids, reach, only }))
  }

  private async noteNextDue(only: AttemptKind | undefined): Promise<void> {
    const { db, worker, reach } = this.context
    const ms = await rideOut(() => findNextDue(db, { workerIds: worker.ids, reach, only, from: this.dueFrom }))
    this.hasPassedOver ||= only !== undefined
    this.dueAt = ms === null ? undefined : performance.now() + Math.max(ms, 0) + 2
  }

  private knownKeys(): string[] {
    return [...this.underWay.keys(), ...this.ready.map(({ idempotencyKey }) => idempotencyKey), ...this.takingBack]
  }

  /**
   * Begins `pushes`, with the first attempts of their deliveries that are `started`; the others are due at once. They were
   * planned when `erasures` were counted; returns how many are counted now: if more, nothing was begun. Takes what came of
   * other attempts along.
   */
  async recordPushes(pushes: readonly PushToBegin[], erasures: number): Promise<number> {
    const { db, worker, runId, period, onAway } = this.context
    const outcomes = this.unrecorded()
    this.isBeginning = true
    clearTimeout(this.gathering)
    this.gathering = undefined
    let uncertain = false
    try {
      return await rideOut(
        async () => {
          if (uncertain) for (const attempt of await findAdrift(db, worker.ids, this.knownKeys())) this.begin(attempt)
          for (let left = pushes; ; ) {
            const recorded = await recordPushes(db, { workerId: worker.id, runId, period, erasures }, left, outcomes)
            this.noteRecorded(outcomes.splice(0), recorded.told)
            for (const begun of recorded.begun) this.beginPush(begun)
            // planned anew is a batch of which nothing was begun
            if (left !== pushes && recorded.erasures !== erasures) return erasures
            if (!recorded.live) await worker.renew()
            else if (recorded.busy.length === 0) return recorded.erasures
            else if (this.busyMsLeft <= 0) {
              for (const { userId } of recorded.busy) this.context.onLeftOwed(userId)
              return recorded.erasures
            } else {
              this.busyMsLeft -= busyMs
              await delay(busyMs)
              left = recorded.busy
            }
          }
        },
        (error) => {
          uncertain = true
          onAway(error)
        },
      )
    } finally {
      this.isBeginning = false
      this.flushSoon()
    }
  }

  private beginPush({ push, email, receiverKey }: BegunPush): void {
    const { runId, period, users } = this.context
    const { userId, kind } = push
    users.add(userId, kind === 'subscription')
    for (const [at, delivery] of push.deliveries.entries()) {
      if (at < push.started)
        this.ready.push({ ...delivery, userId, email, receiverKey, kind, runId, period, attempt: 1 })
      else this.dueAt = 0
    }
  }

  private begin(attempt: RecordedAttempt): void {
    const { part, userId, kind } = attempt
    if (part === 1 && attempt.attempt === 1) this.context.users.add(userId, kind === 'subscription')
    this.ready.push(attempt)
    this.dueAt = 0
  }

  /** What came of an attempt; recorded with the others that come meanwhile. */
  noteOutcome({ idempotencyKey, attempt }: RecordedAttempt, outcome: AttemptOutcome): void {
    const retryDelayMs = Math.max(this.context.retryDelayMs, outcome.retryAfterMs ?? 0)
    this.outcomes.push({ ...outcome, idempotencyKey, attempt, retryDelayMs })
    this.flushSoon()
  }

  /** What can be recorded now, or goes along with what is begun. */
  private unrecorded(): RecordedOutcome[] {
    return this.outcomes.slice(0, this.ending)
  }

  /**
   * What else is under way is waited for, but not for long. Where it is worth a statement, the loop comes first: what it
   * begins at this moment takes it along.
   */
  private flushSoon(): void {
    if (this.flushing || this.isBeginning || this.outcomes.length === 0) return
    const { length } = this.outcomes
    if (length >= this.underWay.size || isWorthStatement(length, this.context.concurrency)) {
      this.flushNext ??= setImmediate(() => this.flush())
    } else this.gathering ??= setTimeout(() => this.flush(), gatherMs)
  }

  private flush(): void {
    clearTimeout(this.gathering)
    this.gathering = undefined
    this.flushNext = undefined
    if (this.flushing || this.isBeginning || this.outcomes.length === 0) return
    const { onFlushed } = this.context
    this.flushing = this.recordOutcomes().then(
      () => {
        this.flushing = undefined
        this.flushSoon()
        onFlushed()
      },
      (error) => {
        this.flushing = undefined
        onFlushed(error)
      },
    )
  }

  private async recordOutcomes(): Promise<void> {
    const { db, onAway } = this.context
    const outcomes = this.unrecorded()
    const told = await rideOut(() => recordOutcomes(db, outcomes), onAway)
    this.noteRecorded(outcomes, told)
  }

  /** `outcomes` are the first of those that were not recorded. */
  private noteRecorded(outcomes: readonly RecordedOutcome[], told: readonly Standing[]): void {
    this.outcomes.splice(0, outcomes.length)
    for (const standing of told) this.noteStanding(standing, outcomes)
    // also those whose row is gone meanwhile: nobody waits for them
    for (const { idempotencyKey } of outcomes) this.underWay.delete(idempotencyKey)
  }

  private noteStanding(standing: Standing, outcomes: readonly RecordedOutcome[]): void {
    const attempt = this.underWay.get(standing.idempotencyKey)
    if (!attempt) return
    if (standing.status !== 'pending') {
      const { runId, userId, email, kind, period, part, parts, queries, leads, bytes } = attempt
      this.context.onDelivery({ ...standing, runId, userId, email, kind, period, part, parts, queries, leads, bytes })
      return
    }
    const delayMs = outcomes.find(({ idempotencyKey }) => idempotencyKey === standing.idempotencyKey)?.retryDelayMs ?? 0
    this.dueAt = Math.min(this.dueAt ?? Number.POSITIVE_INFINITY, performance.now() + delayMs)
  }

  /** The body of an attempt cannot be built any more: it is not made. */
  async endErased({ idempotencyKey, email }: RecordedAttempt): Promise<void> {
    const { db, worker } = this.context
    const ended = await rideOut(() => endErased(db, worker.ids, idempotencyKey))
    for (const delivery of ended) this.context.onDelivery({ ...delivery, email })
    this.underWay.delete(idempotencyKey)
    // unless it ended
    this.dueAt = 0
  }

  /** Takes back what is recorded and was not made: it is due again. */
  async takeBack(): Promise<void> {
    const { db, worker, onDelivery } = this.context
    const emailOf = new Map(this.ready.map(({ idempotencyKey, email }) => [idempotencyKey, email]))
    const unsent = [...emailOf.keys()]
    if (unsent.length === 0) return
    this.ready = []
    this.takingBack = [...this.takingBack, ...unsent]
    for (const ended of await rideOut(() => recordUnsent(db, worker.ids, unsent))) {
      onDelivery({ ...ended, email: emailOf.get(ended.idempotencyKey) ?? null })
    }
    this.takingBack = this.takingBack.filter((key) => !unsent.includes(key))
    this.dueAt = 0
  }

  /** Gives back what this process still has, for others: due now, or then, when it would have been. */
  async giveBack(due: 'now' | 'then'): Promise<void> {
    const { db, worker, onDelivery } = this.context
    await this.takeBack()
    for await (const delivery of recordGivenBack(db, worker.ids, due)) onDelivery(delivery)
  }

  /** Until what is being recorded is. */
  async flushed(): Promise<void> {
    await this.flushing
  }
}
