/**
 * The loop around a push: takes planned pushes and second attempts that are due, has each attempt recorded, makes it, has what
 * came of it recorded. At most `concurrency` attempts are recorded beyond those that are being made, which bounds what a kill
 * costs; a receiver that is down as a whole is waited for.
 */
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { type AttemptOutcome, sendAttempt } from '../deliveries/attempt.ts'
import { BodyBuffers, buildBody } from '../deliveries/body.ts'
import type { LedgerDelivery, Reach, RecordedAttempt } from '../deliveries/ledger.ts'
import type { PushToBegin } from '../deliveries/record.ts'
import type { Worker } from '../deliveries/workers.ts'
import { messageOf } from '../errors.ts'
import type { Http } from '../http.ts'
import { isAtHand, type LeadStore } from '../leads/lead-store.ts'
import { outageFailuresInARow, outageProbeMs } from '../limits.ts'
import { Sleeper } from '../sleeper.ts'
import { Outage } from './outage.ts'
import { Pace } from './pace.ts'
import { isWorthStatement, RecordedAttempts } from './recorded-attempts.ts'
import type { UserCount } from './user-count.ts'

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
  /** What of that which others left it goes on with. */
  reach: Reach
  /** Gets those whose pushes it begins, and those with whose it goes on. */
  users: UserCount
  /** A pause before a second attempt that is longer is left to whoever comes then. */
  patienceMs: number
  /** Whether an outage of the receiver is looked for. */
  minded: boolean
  stop: AbortSignal
  /** Plans again what was planned before listings were erased; `erasures` are counted now. */
  planAnew(pushes: readonly Planned[], erasures: number): Promise<Planned[]>
  onDelivery(delivery: LedgerDelivery): void
  onAttempt(attempt: RecordedAttempt, outcome: AttemptOutcome): void
  onNote(note: string): void
  /** What it waits for from now on; undefined: for nothing any more. */
  onWait(what: string | undefined): void
}

export type Planned = Omit<PushToBegin, 'started'> & {
  email: string
  /** How many erasures were counted before anything of it was read. */
  erasures: number
}

/** Planned pushes that wait to be begun: their users are kept from other processes. */
export const plannedMax = 64

export class PushLoop {
  gaveUp = false

  private readonly context: LoopContext
  private readonly attempts: RecordedAttempts
  private readonly outage: Outage
  private readonly pace: Pace
  private readonly buffers = new BodyBuffers()
  private readonly planned: Planned[] = []
  private plannedAll = false
  private onWire = 0
  private paceTimer: NodeJS.Timeout | undefined
  private readonly sleeper = new Sleeper()
  private readonly planningSleeper = new Sleeper()
  /** Something is due later than it has patience for. */
  private isLeaving = false
  private failure: unknown
  private awayNoted = false

  constructor(context: LoopContext) {
    this.context = context
    const { db, worker, runId, period, reach, users, settings, onDelivery } = context
    this.attempts = new RecordedAttempts({
      ...{ db, worker, runId, period, reach, users, onDelivery },
      retryDelayMs: settings.retryDelayMs,
      concurrency: settings.concurrency,
      onAway: (error) => this.noteAway(error),
      onFlushed: (failure) => {
        if (failure !== undefined) return this.fail(failure)
        this.noteBack()
        this.sleeper.wake()
      },
    })
    this.outage = new Outage(context.minded ? settings.outageMs : 0)
    this.pace = new Pace(settings.ratePerSecond)
  }

  /** Sends everything that `pushes` yields and what is due; returns when nothing is left, on a stop, or when it gave up. */
  async run(pushes: AsyncIterable<Planned>): Promise<void> {
    const wake = () => this.wakeAll()
    this.context.stop.addEventListener('abort', wake)
    const planning = this.planAhead(pushes)
    try {
      await this.fill()
    } catch (error) {
      this.fail(error)
    }
    this.plannedAll = true
    this.wakeAll()
    clearTimeout(this.paceTimer)
    await planning
    // attempts under way are finished and recorded, unless the database stays away: then they count as lost
    while (this.onWire > 0 || (this.attempts.underWayCount > 0 && this.failure === undefined))
      await this.sleeper.sleep(1_000)
    await this.attempts.flushed()
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    await this.attempts.giveBack(this.isLeaving ? 'then' : 'now')
  }

  private get stopping(): boolean {
    return this.context.stop.aborted || this.gaveUp || this.failure !== undefined
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.wakeAll()
  }

  private wakeAll(): void {
    this.sleeper.wake()
    this.planningSleeper.wake()
  }

  private async planAhead(pushes: AsyncIterable<Planned>): Promise<void> {
    try {
      for await (const push of pushes) {
        // the loop waits for the first one, and does better with those that come at once with it
        if (this.planned.push(push) === 1) setImmediate(() => this.sleeper.wake())
        while (this.planned.length >= plannedMax && !this.stopping && !this.plannedAll)
          await this.planningSleeper.sleep(1_000)
        if (this.stopping || this.plannedAll) break
      }
    } catch (error) {
      this.fail(error)
    }
    this.plannedAll = true
    this.sleeper.wake()
  }

  /** How many more attempts may be recorded now. */
  private room(): number {
    if (this.outage.isDown) return this.mayProbe() ? 1 : 0
    const { concurrency, ratePerSecond } = this.context.settings
    // with a rate, no more than leave within a tenth of a second
    const ahead =
      ratePerSecond === undefined ? concurrency : Math.min(concurrency, Math.max(1, Math.floor(ratePerSecond / 10)))
    const { ready, open, ending } = this.attempts
    const room = Math.min(ahead - ready.length, concurrency + ahead - (open - ending))
    return isWorthStatement(room, ahead) ? room : 0
  }

  private mayProbe(): boolean {
    return this.attempts.open === 0 && this.outage.untilProbe(performance.now()) === 0
  }

  private async fill(): Promise<void> {
    while (!this.stopping) {
      this.drain()
      if (this.outage.isOver(performance.now())) {
        this.gaveUp = true
        this.context.onNote('The receiver stayed down: giving up; what is left is owed.')
        break
      }
      const hasWork = this.planned.length > 0 || this.attempts.isDue
      const room = hasWork ? this.room() : 0
      if (room > 0) await this.recordOrHoldBack(room)
      else if (!hasWork && this.attempts.isIdle && this.plannedAll) {
        if (await this.isDone()) break
      } else await this.sleeper.sleep(this.untilNextWork())
    }
  }

  private untilNextWork(): number {
    const { dueAt } = this.attempts
    const due = dueAt === undefined ? 60_000 : dueAt - performance.now()
    return Math.max(5, Math.min(due > 0 ? due : 1_000, this.outage.isDown ? 250 : 60_000))
  }

  /** Looks once more for what others left; then whether nothing is waiting for us, and otherwise waits for it. */
  private async isDone(): Promise<boolean> {
    if ((await this.attempts.recordDue(1)) > 0) return false
    if (this.attempts.dueAt === undefined) return true
    this.isLeaving = this.attempts.dueAt - performance.now() > this.context.patienceMs
    if (this.isLeaving) return true
    // whoever woke it meanwhile woke nobody
    if (this.stopping) return false
    await this.sleeper.sleep(this.untilNextWork())
    return false
  }

  private async recordOrHoldBack(room: number): Promise<void> {
    const wasDown = this.outage.isDown
    await this.recordNext(room)
    this.noteBack()
    // what was recorded while the receiver went down must not be tried before second attempts that are due
    if (this.outage.isDown && !wasDown) await this.attempts.takeBack()
  }

  private async recordNext(room: number): Promise<void> {
    if (this.attempts.isDue && (await this.attempts.recordDue(room)) > 0) return
    const batch: (Planned & PushToBegin)[] = []
    const erasures = this.planned[0]?.erasures ?? 0
    for (let free = room; free > 0 && this.planned[0]?.erasures === erasures; ) {
      const push = this.planned.shift() as Planned
      const started = Math.min(free, push.deliveries.length)
      batch.push({ ...push, started })
      free -= started
    }
    if (batch.length === 0) return
    const recording = this.attempts.recordPushes(batch, erasures)
    // planning goes on while the database has the statement, not before
    setImmediate(() => this.planningSleeper.wake())
    const counted = await recording
    if (counted !== erasures) this.planned.unshift(...(await this.context.planAnew(batch, counted)))
  }

  /** Makes as many of the recorded attempts as may be under way. */
  private drain(): void {
    const { concurrency, ratePerSecond } = this.context.settings
    while (!this.stopping && this.attempts.ready.length > 0 && this.onWire < concurrency) {
      if (this.outage.isDown && (this.onWire > 0 || !this.outage.takeProbe(performance.now()))) break
      const waitMs = this.pace.take(performance.now())
      if (waitMs > 0) {
        this.paceTimer ??= setTimeout(() => {
          this.paceTimer = undefined
          this.drain()
        }, waitMs)
        break
      }
      const attempt = this.attempts.take()
      if (!attempt) break
      this.onWire++
      // what is to be recorded next goes to the database first: it is at that while these are built and sent; not with a rate,
      // by which each has its moment
      if (ratePerSecond === undefined) setImmediate(() => this.begin(attempt))
      else this.begin(attempt)
    }
    this.sleeper.wake()
  }

  private begin(attempt: RecordedAttempt): void {
    this.make(attempt)
      .catch((error) => this.fail(error))
      .finally(() => {
        this.onWire--
        this.drain()
      })
  }

  private async make(attempt: RecordedAttempt): Promise<void> {
    const { http, leads, settings } = this.context
    const { contents } = attempt
    const found = isAtHand(contents) ? contents : await rideOut(() => leads.readJson(contents))
    if (found === undefined) return await this.attempts.endErased(attempt)
    const buffer = this.buffers.take(attempt.bytes)
    const body = buildBody(attempt.queryList, found, attempt.bytes, buffer)
    const outcome = await sendAttempt(http, settings, { ...attempt, body })
    this.buffers.giveBack(buffer)
    this.context.onAttempt(attempt, outcome)
    const change = this.outage.note(attempt.attempt, outcome.httpStatus, performance.now())
    this.attempts.noteOutcome(attempt, outcome)
    if (change === 'down') await this.holdBack(outcome.error)
    if (change === 'up') {
      this.context.onWait(undefined)
      this.context.onNote('The receiver answers again: going on.')
    }
  }

  /** The receiver is down: what is recorded and was not sent waits for it. */
  private async holdBack(why: string | null): Promise<void> {
    this.context.onWait('the receiver')
    this.context.onNote(
      `The receiver is down: ${outageFailuresInARow} first attempts in a row failed; the last: ${why}. Trying again every ${outageProbeMs / 1_000} s.`,
    )
    await this.attempts.takeBack()
  }

  private noteAway(error: unknown): void {
    if (this.awayNoted) return
    this.awayNoted = true
    this.context.onWait('the database')
    this.context.onNote(`The database is away (${messageOf(error)}): waiting for it, for 30 s at most.`)
  }

  private noteBack(): void {
    if (!this.awayNoted) return
    this.awayNoted = false
    this.context.onWait(undefined)
    this.context.onNote('The database answers again: going on.')
  }
}
