/**
 * The loop around a push: takes planned pushes and second attempts that are due, has each attempt recorded, makes it, has what
 * came of it recorded. At most `concurrency` attempts are recorded beyond those that are being made, which bounds what a kill
 * costs; a receiver that is down as a whole is waited for.
 */
import type { Proxies } from '../base/config.ts'
import { messageOf } from '../base/errors.ts'
import { Sleeper } from '../base/sleeper.ts'
import { rideOut } from '../db/away.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { type AttemptOutcome, sendAttempt } from '../deliveries/attempt.ts'
import { BodyBuffers, buildBody } from '../deliveries/body.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import type { LedgerDelivery, Reach, RecordedAttempt } from '../deliveries/ledger.ts'
import type { PushToBegin } from '../deliveries/record.ts'
import type { Http } from '../http/client.ts'
import { isAtHand, type LeadStore } from '../leads/lead-store.ts'
import { Pace } from './pace.ts'
import { ReceiverWatch } from './receiver-watch.ts'
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
  proxies?: Proxies
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
  /** Whether an outage of the receiver is looked for, and whether one is told that a push before this one found. */
  minded: boolean
  tellsAgain: boolean
  stop: AbortSignal
  /** Plans again what was planned before listings were erased; `erasures` are counted now. */
  planAnew(pushes: readonly Planned[], erasures: number): Promise<Planned[]>
  onDelivery(delivery: LedgerDelivery): void
  onLeftOwed(userId: number): void
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

/** While the receiver is down it is looked so often whether it is time for an attempt. */
const downLookMs = 250

/** Planned pushes that wait to be begun: their users are kept from other processes. */
export const plannedMax = 64

export class PushLoop {
  gaveUp = false

  private readonly context: LoopContext
  private readonly attempts: RecordedAttempts
  private readonly watch: ReceiverWatch
  private readonly pace: Pace
  private readonly buffers = new BodyBuffers()
  private readonly planned: Planned[] = []
  private plannedAll = false
  private onWire = 0
  private paceTimer: NodeJS.Timeout | undefined
  private readonly sleeper = new Sleeper()
  private readonly planningSleeper = new Sleeper()
  /** While the receiver is down: the attempt that may be made. */
  private permitted: AttemptKind | undefined
  /** Something is due later than it has patience for. */
  private isLeaving = false
  private failure: unknown
  private awayNoted = false

  constructor(context: LoopContext) {
    this.context = context
    const { db, http, worker, runId, period, reach, users, settings, onDelivery, onLeftOwed } = context
    this.attempts = new RecordedAttempts({
      ...{ db, worker, runId, period, reach, users, onDelivery, onLeftOwed },
      retryDelayMs: settings.retryDelayMs,
      concurrency: settings.concurrency,
      onAway: (error) => this.noteAway(error),
      onFlushed: (failure) => {
        if (failure !== undefined) return this.fail(failure)
        this.noteBack()
        this.sleeper.wake()
      },
    })
    this.watch = new ReceiverWatch({
      ...{ db, http, settings },
      patienceMs: context.minded ? settings.outageMs : 0,
      onChange: (change, why) => this.noteReceiver(change, why),
    })
    this.pace = new Pace(settings.ratePerSecond)
  }

  /** Sends everything that `pushes` yields and what is due; returns when nothing is left, on a stop, or when it gave up. */
  async run(pushes: AsyncIterable<Planned>): Promise<void> {
    const wake = () => this.wakeAll()
    this.context.stop.addEventListener('abort', wake)
    const planning = this.planAhead(pushes)
    try {
      await this.watch.begin()
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
    this.watch.end()
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    await this.attempts.giveBack(this.isLeaving ? 'then' : 'now')
  }

  /** It gave up on a receiver that a push before it had found to be down. */
  get gaveUpAgain(): boolean {
    return this.gaveUp && this.watch.beganDown
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
    const { concurrency, ratePerSecond } = this.context.settings
    // with a rate, no more than leave within a tenth of a second
    const ahead =
      ratePerSecond === undefined ? concurrency : Math.min(concurrency, Math.max(1, Math.floor(ratePerSecond / 10)))
    const { ready, open, ending } = this.attempts
    const room = Math.min(ahead - ready.length, concurrency + ahead - (open - ending))
    return isWorthStatement(room, ahead) ? room : 0
  }

  private async fill(): Promise<void> {
    while (!this.stopping) {
      this.attempts.holdSeconds(this.watch.isDown || this.watch.isInQuestion)
      this.drain()
      if (this.watch.isOver) {
        this.gaveUp = true
        this.context.onNote('The receiver stayed down: giving up; what is left is owed.')
        break
      }
      if (this.watch.isDown) {
        if (await this.tryOnce()) break
        continue
      }
      const hasWork = this.planned.length > 0 || this.attempts.isDue
      const room = hasWork ? this.room() : 0
      if (room > 0) await this.recordNext(room)
      else if (!hasWork && this.attempts.isIdle && this.plannedAll) {
        if (await this.isDone()) break
      } else await this.sleeper.sleep(this.untilNextWork())
    }
  }

  /** The receiver is down: makes an attempt if it is time for one, and otherwise waits. Whether there is none to be made. */
  private async tryOnce(): Promise<boolean> {
    const { watch, attempts } = this
    // what was recorded while it went down waits for it
    if (this.permitted === undefined) await attempts.takeBack()
    const isBusy = this.onWire > 0 || !attempts.isIdle
    if (isBusy || (this.permitted === undefined && watch.untilTry() > 0)) {
      await this.sleeper.sleep(downLookMs)
      return false
    }
    const next = this.planned.length > 0 ? 'first' : await attempts.findNext()
    if (next === undefined && this.plannedAll && this.planned.length === 0) return true
    if (next !== 'first' && !this.plannedAll) await this.sleeper.sleep(downLookMs)
    else if (typeof next !== 'string' || watch.untilTry(next) > 0) watch.noteNoSign()
    else {
      if (this.permitted !== next) this.permitted = (await watch.takeTry(next, this.context.stop)) ? next : undefined
      if (this.permitted !== undefined) await this.recordOne(next)
      // it was not to be had, and may be in a moment
      if (this.permitted !== undefined && attempts.isIdle) await this.sleeper.sleep(downLookMs)
    }
    return false
  }

  private untilNextWork(): number {
    const { dueAt } = this.attempts
    const due = dueAt === undefined ? 60_000 : dueAt - performance.now()
    return Math.max(5, due > 0 ? due : 1_000)
  }

  /** Looks once more for what others left; then whether nothing is waiting for us, and otherwise waits for it. */
  private async isDone(): Promise<boolean> {
    if ((await this.attempts.recordDue(1)) > 0) return false
    if (this.watch.isInQuestion) {
      await this.watch.noteAllMade()
      return false
    }
    if (this.attempts.dueAt === undefined) return true
    this.isLeaving = this.attempts.dueAt - performance.now() > this.context.patienceMs
    if (this.isLeaving) return true
    // whoever woke it meanwhile woke nobody
    if (this.stopping) return false
    await this.sleeper.sleep(this.untilNextWork())
    return false
  }

  private async recordNext(room: number): Promise<void> {
    const isRecorded = this.attempts.isDue && (await this.attempts.recordDue(room)) > 0
    if (!isRecorded) await this.beginPlanned(room)
    this.noteBack()
  }

  /** Who is planned has had no attempt at all. */
  private async recordOne(kind: AttemptKind): Promise<void> {
    if (this.planned.length > 0) await this.beginPlanned(1)
    else await this.attempts.recordDue(1, kind)
    this.noteBack()
  }

  private async beginPlanned(room: number): Promise<void> {
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
      if (this.watch.isDown && (this.onWire > 0 || this.permitted === undefined)) break
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
      this.permitted = undefined
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
    const noted = this.watch.note(attempt.attempt, outcome)
    this.attempts.noteOutcome(attempt, outcome)
    await noted
  }

  private noteReceiver(change: 'down' | 'up', why: string): void {
    this.permitted = undefined
    this.context.onWait(change === 'down' ? 'the receiver' : undefined)
    if (change === 'up' || !this.watch.beganDown || this.context.tellsAgain) this.context.onNote(why)
    this.wakeAll()
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
