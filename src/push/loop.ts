/**
 * The loop around a push: takes planned pushes and second attempts that are due, has each attempt recorded, makes it, has what
 * came of it recorded. At most `concurrency` attempts are recorded beyond those that are being made, which bounds what a kill
 * costs: twice `concurrency` attempts in all. A receiver that is down as a whole is waited for.
 */
import { Sleeper } from '../base/sleeper.ts'
import { describeAbsence } from '../db/away.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import type { RecordedAttempt } from '../deliveries/ledger.ts'
import { AttemptMaker } from './attempt-maker.ts'
import { Compression } from './compression.ts'
import type { LoopContext } from './loop-context.ts'
import { isWorthStatement } from './outcome-queue.ts'
import { PaceWatch } from './pace-watch.ts'
import { plannedMax, type UserPush } from './planned-pushes.ts'
import { ReceiverWatch } from './receiver-watch.ts'
import { RecordedAttempts } from './recorded-attempts.ts'

/** How often the loop checks, while the receiver is down, whether an attempt is due. */
const downLookMs = 250

export class PushLoop {
  gaveUp = false
  /** Why the loop gave up, if the receiver refuses every delivery alike, or its first answers are empty successes. */
  heldBy: string | undefined

  private readonly context: LoopContext
  private readonly attempts: RecordedAttempts
  private readonly watch: ReceiverWatch
  private readonly pace: PaceWatch
  private readonly compression: Compression
  private readonly maker: AttemptMaker
  private readonly planned: UserPush[] = []
  private plannedAll = false
  private onWire = 0
  private paceTimer: NodeJS.Timeout | undefined
  private readonly sleeper = new Sleeper()
  private readonly planningSleeper = new Sleeper()
  /** While the receiver is down: the kind of attempt that may be made; undefined: none. */
  private permitted: AttemptKind | undefined
  /** The pace held second attempts back when the loop last looked for work. */
  private hasPacedSeconds = false
  /** The next attempt is due later than `patienceMs`. */
  private isLeaving = false
  private failure: unknown
  private awayNoted = false

  constructor(context: LoopContext) {
    this.context = context
    const { db, http, settings } = context
    this.compression = new Compression(db, settings.receiverUrl, settings.compress)
    this.attempts = new RecordedAttempts(context, {
      usesGzip: () => this.compression.isOn,
      onTakenOver: () => this.watch.lookAnew(),
      onAway: (error) => this.noteAway(error),
      onFlushed: (failure) => {
        if (failure !== undefined) return this.fail(failure)
        this.noteBack()
        this.sleeper.wake()
      },
    })
    this.watch = new ReceiverWatch({
      ...{ db, http, settings },
      looksFor: context.looksFor,
      doubt: context.doubt,
      isBeginning: context.isBeginning,
      patienceMs: settings.outageMs,
      onChange: (change, why) => this.noteReceiver(change, why),
    })
    this.pace = new PaceWatch({ db, settings, follows: context.looksFor !== 'nothing', reporter: context.reporter })
    const { attempts, watch, pace, compression } = this
    this.maker = new AttemptMaker(context, { attempts, watch, pace, compression }, () => this.wakeAll())
  }

  /** Sends all `pushes` and all attempts that are due; returns when none is left, on a stop, or when it gave up. */
  async run(pushes: AsyncIterable<UserPush>): Promise<void> {
    const wake = () => this.wakeAll()
    this.context.stop.addEventListener('abort', wake)
    const planning = this.planAhead(pushes)
    try {
      await this.compression.begin()
      await this.watch.begin()
      await this.pace.begin()
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
    if (this.failure === undefined) await this.watch.settle(this.stopping || this.isLeaving)
    if (this.failure === undefined) await this.pace.end()
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    await this.attempts.giveBack(this.isLeaving ? 'then' : 'now')
    if (this.maker.lackOfKey !== undefined) throw this.maker.lackOfKey
  }

  /** Another server answers: the same ids may mean other listings, and rows that were gone are there again. */
  lookAnew(): void {
    this.maker.forgetBodies()
    this.attempts.due.lookAnew()
    this.sleeper.wake()
  }

  /** The loop gave up on a receiver that an earlier push had found to be in trouble. */
  get gaveUpAgain(): boolean {
    return this.gaveUp && this.watch.beganInTrouble
  }

  private get stopping(): boolean {
    const { lackOfKey } = this.maker
    return this.context.stop.aborted || this.gaveUp || this.failure !== undefined || lackOfKey !== undefined
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.wakeAll()
  }

  private wakeAll(): void {
    this.sleeper.wake()
    this.planningSleeper.wake()
  }

  private async planAhead(pushes: AsyncIterable<UserPush>): Promise<void> {
    try {
      for await (const push of pushes) {
        // the loop waits for the first push; one turn later it finds those that are planned in the same moment too
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

  /**
   * How many more attempts may be recorded now. Outcomes that the statement takes along make room: those of `recordPushes`, which
   * begins what is planned. What is due is recorded without any, so its room comes once outcomes are flushed, which wakes the loop.
   */
  private room(next: 'due' | 'planned'): number {
    // first attempts that look alike are made: a second one must show what they do not
    if (next === 'planned' && this.watch.isProbing && this.attempts.due.at !== undefined) return 0
    const { concurrency } = this.context.settings
    const { ratePerSecond } = this.pace
    // with a rate, no more than leave within a tenth of a second
    const ahead =
      ratePerSecond === undefined ? concurrency : Math.min(concurrency, Math.max(1, Math.floor(ratePerSecond / 10)))
    const { ready, unfinished, ending } = this.attempts
    const left = next === 'planned' ? unfinished - ending : unfinished
    const room = Math.min(ahead - ready.length, concurrency + ahead - left)
    if (!isWorthStatement(room, ahead)) return 0
    const open = ready.length + this.onWire
    return Math.min(room, this.watch.firstsLeft(open), this.context.firstAnswers.attemptsLeft(open))
  }

  private async fill(): Promise<void> {
    while (!this.stopping) {
      this.hasPacedSeconds = this.pace.untilSecond() > 0
      this.attempts.due.holdSeconds(this.watch.isInTrouble || this.watch.isInQuestion || this.hasPacedSeconds)
      this.drain()
      this.heldBy = this.context.firstAnswers.findReasonToHold(false)
      this.gaveUp = this.heldBy !== undefined
      if (this.gaveUp) break
      if (this.watch.isOver) {
        this.gaveUp = true
        this.context.reporter.note('The receiver stayed down: giving up; what is left is owed.')
        break
      }
      if (this.watch.isInTrouble) {
        if (await this.tryOnce()) break
        continue
      }
      // what is due comes first
      const next = this.attempts.isDue ? 'due' : this.planned.length > 0 ? 'planned' : undefined
      const room = next === undefined ? 0 : this.room(next)
      if (next !== undefined && room > 0) await this.recordNext(next, room)
      else if (next === undefined && this.attempts.isIdle && this.plannedAll) {
        if (await this.isDone()) break
      } else await this.sleeper.sleep(this.untilNextWork())
    }
  }

  /** The receiver is in trouble: makes an attempt if one is due, and otherwise waits. Returns whether the loop is done. */
  private async tryOnce(): Promise<boolean> {
    const { watch, attempts } = this
    // attempts that were recorded as the trouble began must not be spent on it
    if (this.permitted === undefined) await attempts.takeBack()
    const isBusy = this.onWire > 0 || !attempts.isIdle
    const untilTry = watch.untilTry()
    if (isBusy || (this.permitted === undefined && untilTry > 0 && Number.isFinite(untilTry))) {
      await this.sleeper.sleep(downLookMs)
      return false
    }
    const due = this.planned.length > 0 ? undefined : await attempts.findNext()
    // planning may have gone on meanwhile
    const next = this.planned.length > 0 ? 'first' : due
    if (next === undefined && this.plannedAll && this.planned.length === 0) return true
    if (next !== 'first' && !this.plannedAll) {
      await this.sleeper.sleep(downLookMs)
      return false
    }
    this.heldBy = watch.heldBy(next === 'second' ? 'second' : 'first')
    if (this.heldBy !== undefined) {
      this.gaveUp = true
      return true
    }
    if (typeof next !== 'string' || watch.untilTry(next) > 0) {
      watch.noteNoSign()
      await this.sleeper.sleep(downLookMs)
    } else {
      if (this.permitted !== next) this.permitted = (await watch.takeTry(next, this.context.stop)) ? next : undefined
      if (this.permitted !== undefined) await this.recordOne(next)
      // the attempt could not be recorded, and may be in a moment
      if (this.permitted !== undefined && attempts.isIdle) await this.sleeper.sleep(downLookMs)
    }
    return false
  }

  private untilNextWork(): number {
    const { at } = this.attempts.due
    const due = at === undefined ? 60_000 : at - performance.now()
    // the pace may let them go by now: the loop must look again, or they are slept over
    const paced = this.hasPacedSeconds ? this.pace.untilSecond() : 60_000
    return Math.max(5, Math.min(due > 0 ? due : 1_000, paced))
  }

  /** Looks once more for abandoned deliveries. Returns whether nothing is left to wait for; otherwise waits for the next attempt. */
  private async isDone(): Promise<boolean> {
    if ((await this.attempts.recordDue(1)) > 0) return false
    if (this.watch.isInQuestion) {
      await this.watch.noteAllMade()
      return false
    }
    if (this.hasPacedSeconds && (await this.attempts.findNext()) !== undefined) {
      await this.sleeper.sleep(this.untilNextWork())
      return false
    }
    if (this.attempts.due.at === undefined) return true
    this.isLeaving = this.attempts.due.at - performance.now() > this.context.patienceMs
    if (this.isLeaving) return true
    // a stop that came meanwhile has woken nobody
    if (this.stopping) return false
    await this.sleeper.sleep(this.untilNextWork())
    return false
  }

  private async recordNext(next: 'due' | 'planned', room: number): Promise<void> {
    if (next === 'due') await this.attempts.recordDue(room)
    else await this.beginPlanned(room)
    this.noteBack()
  }

  /** While the receiver is down: planned pushes go first, since their users have had no attempt. */
  private async recordOne(kind: AttemptKind): Promise<void> {
    if (this.planned.length > 0) await this.beginPlanned(1)
    else await this.attempts.recordDue(1, kind)
    this.noteBack()
  }

  private async beginPlanned(room: number): Promise<void> {
    const batch: UserPush[] = []
    const { erasures, server } = this.planned[0] ?? {}
    for (let free = room; free > 0 && this.planned[0]?.erasures === erasures && this.planned[0]?.server === server; ) {
      const push = this.planned.shift() as UserPush
      batch.push(push)
      free -= push.deliveries.length
    }
    if (batch.length === 0) return
    const recording = this.attempts.recordPushes(batch, room)
    // planning goes on while the database has the statement, not before
    setImmediate(() => this.planningSleeper.wake())
    const { pushes, counted } = await recording
    if (pushes.length === 0) return
    this.maker.forgetBodies()
    this.planned.unshift(...(await this.context.planned.again(pushes, counted)))
  }

  /** Makes as many of the recorded attempts as may be under way. */
  private drain(): void {
    const { concurrency } = this.context.settings
    const { ratePerSecond } = this.pace
    while (!this.stopping && this.attempts.ready.length > 0 && this.onWire < concurrency) {
      if (this.watch.isInTrouble && (this.onWire > 0 || this.permitted === undefined)) break
      const next = this.pace.take(this.attempts.ready)
      if (typeof next === 'number') {
        // an answer that came meanwhile may let it go sooner
        clearTimeout(this.paceTimer)
        this.paceTimer = setTimeout(() => this.drain(), next)
        break
      }
      this.attempts.take(next)
      this.permitted = undefined
      this.onWire++
      // the next statement goes to the database first, which carries it out while these bodies are built; with a rate each attempt
      // has its own moment
      if (ratePerSecond === undefined) setImmediate(() => this.begin(next))
      else this.begin(next)
    }
    this.sleeper.wake()
  }

  private begin(attempt: RecordedAttempt): void {
    this.maker
      .make(attempt)
      .catch((error) => this.fail(error))
      .finally(() => {
        this.onWire--
        this.drain()
      })
  }

  private noteReceiver(change: 'down' | 'refuses' | 'well', why: string | undefined): void {
    this.permitted = undefined
    this.context.reporter.waits(change === 'down' ? 'the receiver' : undefined)
    const isNews = change === 'well' || !this.watch.beganInTrouble || this.context.tellsAgain
    if (why !== undefined && isNews) this.context.reporter.note(why)
    this.wakeAll()
  }

  private noteAway(error: unknown): void {
    if (this.awayNoted) return
    this.awayNoted = true
    this.context.reporter.waits('the database')
    this.context.reporter.note(describeAbsence(error))
  }

  private noteBack(): void {
    if (!this.awayNoted) return
    this.awayNoted = false
    this.context.reporter.waits(undefined)
    this.context.reporter.note('The database answers again: going on.')
  }
}
