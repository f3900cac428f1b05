/**
 * The loop around a push: takes planned pushes and due second attempts, has each attempt recorded, makes it, and has its outcome
 * recorded. At most `concurrency` attempts are recorded beyond those that are being made, which bounds the cost of a kill: twice
 * `concurrency` attempts in all. It waits for a receiver that is down as a whole.
 */
import { pause, type Timer } from '../../base/clock.ts'
import { Sleeper } from '../../base/sleeper.ts'
import { isDatabaseError } from '../../db/away.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import type { Permission, Work } from '../receiver/permission.ts'
import type { Receiver } from '../receiver/receiver.ts'
import type { LoopEnd } from '../run/run-end.ts'
import { plannedMax, type UserPush } from '../whom/planned-pushes.ts'
import { Reserve } from '../whom/reserve.ts'
import { AttemptsInHand, isWorthStatement } from './attempts-in-hand.ts'
import type { LoopContext } from './loop-context.ts'
import { makeAttempt } from './make-attempt.ts'

/** `serve` runs few pushes at once: one that sends owed pushes does not wait longer than this for a second attempt. */
const owedPatienceMs = 2_000
/** After a try that could not be recorded. */
const againMs = 250
/** Users that are drawn at a time. */
const drawnAtOnce = 16
/** If this machine lacks what even one request needs, that is tried again after so long, and so often. */
const shortageMs = 1_000
const shortagesMax = 60

export class PushLoop {
  private readonly context: LoopContext
  private readonly pushes: AsyncGenerator<UserPush>
  private readonly attempts: AttemptsInHand
  private readonly receiver: Receiver
  private readonly sleeper: Sleeper
  private planned: UserPush[] = []
  /** Planned pushes of users who were drawn from all who are owed. */
  private drawn: UserPush[] = []
  private readonly reserve = new Reserve<UserPush>()
  /** The keys of recorded attempts of drawn users, one for each user whose push was begun for that. */
  private readonly drawnKeys = new Set<string>()
  /** A draw has found nobody: whoever comes later is for the next round. */
  private isNobodyToDraw = false
  /** How often in a row this machine lacked what a single request needs. */
  private shortages = 0
  private plannedAll = false
  private isPlanning = false
  private readonly onWire = new Set<RecordedAttempt>()
  private paceTimer: Timer | undefined
  private end: LoopEnd | undefined
  private failure: unknown

  /** It sends all `pushes`, and all due attempts. */
  constructor(context: LoopContext, pushes: AsyncGenerator<UserPush>) {
    this.context = context
    this.pushes = pushes
    this.sleeper = new Sleeper(context.clock)
    this.receiver = context.receiver
    this.attempts = new AttemptsInHand(context)
  }

  /** Throws the error that it fails with, after it has finished as on a stop, unless the database stays away. */
  async run(): Promise<LoopEnd> {
    const { stop, clock } = this.context
    const wake = () => this.sleeper.wake()
    stop.addEventListener('abort', wake)
    void this.plan()
    try {
      await this.receiver.begin(wake)
      await this.fill()
    } catch (error) {
      this.fail(error)
    }
    this.plannedAll = true
    clock.cancel(this.paceTimer)
    await this.finish()
    this.receiver.pause()
    stop.removeEventListener('abort', wake)
    const { end = { is: 'stopped' }, failure } = this
    if (isDatabaseError(failure)) throw failure
    await this.receiver.end(end.is !== 'done')
    await this.attempts.release(end.is === 'leaving' ? 'then' : 'now')
    if (failure !== undefined) throw failure
    return end
  }

  /** Another server answers: deleted rows may be there again. */
  lookAnew(): void {
    this.attempts.due.lookAnew()
    this.sleeper.wake()
  }

  private get stopping(): boolean {
    return this.context.stop.aborted || this.end !== undefined || this.failure !== undefined
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.sleeper.wake()
  }

  /** Attempts under way are finished and recorded, unless the database stays away: then they count as lost. */
  private async finish(): Promise<void> {
    while (this.onWire.size > 0 || this.attempts.ending > 0) {
      try {
        await this.wait(1_000)
      } catch (error) {
        this.fail(error)
        if (this.onWire.size === 0) break
        await this.sleeper.sleep(1_000)
      }
    }
    // what is being planned comes to its end before that
    await this.pushes.return(undefined).catch((error) => this.fail(error))
  }

  /** Plans ahead until enough pushes wait to be begun. */
  private async plan(): Promise<void> {
    if (this.isPlanning) return
    this.isPlanning = true
    try {
      while (this.planned.length < plannedMax && !this.stopping && !this.plannedAll) {
        const { done, value } = await this.pushes.next()
        if (done) this.plannedAll = true
        // the loop waits for the first push; one turn later it also finds those that were planned at the same moment
        else if (this.planned.push(...this.reserve.offer(value)) === 1)
          this.context.clock.soon(() => this.sleeper.wake())
      }
    } catch (error) {
      this.fail(error)
    }
    this.isPlanning = false
    if (this.plannedAll) this.sleeper.wake()
  }

  /**
   * How many more attempts may be recorded now. `recordPushes`, which begins planned pushes, takes outcomes along, and these make room.
   * Due attempts are recorded without outcomes, so their room comes once these are recorded.
   */
  private room(next: 'due' | 'planned', { firsts, seconds }: Permission & { is: 'go' }): number {
    const { atOnce: concurrency } = this.context.slots
    const { ratePerSecond } = this.receiver
    // with a rate, no more than the attempts of a tenth of a second
    const ahead =
      ratePerSecond === undefined ? concurrency : Math.min(concurrency, Math.max(1, Math.floor(ratePerSecond / 10)))
    const { ready, unfinished, ending } = this.attempts
    const left = next === 'planned' ? unfinished - ending : unfinished
    const room = Math.min(ahead - ready.length, concurrency + ahead - left)
    if (!isWorthStatement(room, ahead)) return 0
    // if second ones are held, only first ones are due
    return Math.min(room, next === 'due' && seconds > 0 ? Math.min(firsts, seconds) : firsts)
  }

  /** Goes on until all is made, it cannot go on, or it is stopped. */
  private async fill(): Promise<void> {
    while (!this.stopping) {
      this.drain()
      const permission = await this.askReceiver()
      if (permission.is === 'go') await this.goOn(permission)
      else if (permission.is === 'try') await this.tryOnce(permission.kind)
      else if (permission.is === 'wait') await this.wait(permission.ms)
      else if (permission.is === 'end') this.noteEnd(permission)
    }
  }

  private async askReceiver(): Promise<Permission> {
    // trouble must not cost attempts that were recorded before it
    if (!this.receiver.maySend(0)) await this.attempts.takeBack()
    else if (this.receiver.drawsOnly) await this.attempts.takeBack(this.attempts.takeOut(this.isDrawn))
    // whoever was taken by another process, or was taken back
    for (const key of this.drawnKeys) if (!this.attempts.has(key) && !this.isOnWire(key)) this.drawnKeys.delete(key)
    const permission = await this.receiver.ask({ open: this.open, drawn: this.drawnKeys.size })
    if (permission.is !== 'wait' || !this.isIdle) return permission
    return await this.receiver.ask({ open: 0, next: await this.findNext() })
  }

  private readonly isOnWire = (key: string) => [...this.onWire].some(({ idempotencyKey }) => idempotencyKey === key)
  private readonly isDrawn = ({ idempotencyKey }: RecordedAttempt) => this.drawnKeys.has(idempotencyKey)

  /** Draws users from all who are owed, and plans their pushes. Returns whether there are any. */
  private async draw(): Promise<boolean> {
    if (this.isNobodyToDraw) return false
    const pushes = await this.context.draw(drawnAtOnce, this.reserve.below)
    this.isNobodyToDraw = pushes.length === 0
    const nameOf = ({ scope, userId }: UserPush) => `${scope} ${userId}`
    const names = new Set(pushes.map(nameOf))
    this.drawn.push(...pushes)
    const isNew = (push: UserPush) => !names.has(nameOf(push))
    this.planned = this.planned.filter(isNew)
    this.reserve.keepOnly(isNew)
    void this.plan()
    return pushes.length > 0
  }

  /** Drawn users who are not needed wait again; once nobody else is left, the reserve goes out. */
  private putBack(): void {
    this.planned.unshift(...this.drawn.splice(0).flatMap((push) => this.reserve.offer(push)))
    if (this.plannedAll && this.planned.length === 0) this.planned = this.reserve.take()
  }

  /** All users are begun. Draws from those who wait for an attempt: a first one was taken back, or a second one counts too. */
  private async drawBegun(room: number, only: AttemptKind | undefined): Promise<void> {
    const attempts = await this.attempts.recordDue(room, only, true)
    for (const { idempotencyKey } of attempts) this.drawnKeys.add(idempotencyKey)
    if (attempts.length === 0) await this.receiver.noteNobodyToDraw()
  }

  /** Attempts that are recorded or being made. */
  private get open(): number {
    return this.attempts.ready.length + this.onWire.size
  }

  /** Nothing is open, nor is an outcome on its way to the ledger. */
  private get isIdle(): boolean {
    return this.open === 0 && this.attempts.unfinished === 0
  }

  /** Records the outcomes that have gathered; where none have, sleeps for `ms`, until there may be something to do. */
  private async wait(ms: number): Promise<void> {
    const { untilRecording } = this.attempts
    if (untilRecording <= 0) await this.attempts.recordOutcomes()
    else await this.sleeper.sleep(Math.min(ms, untilRecording))
  }

  private noteEnd({ why }: Permission & { is: 'end' }): void {
    this.end = why.by === 'nothing left' ? { is: 'done' } : { is: 'gave up', why }
    if (why.by !== 'outage' && why.by !== 'asking') return
    const what = why.by === 'outage' ? 'stayed down' : 'takes nothing, and asks for less'
    this.context.reporter.note(`The receiver ${what}: giving up; the other users stay owed.`)
  }

  /** No trouble is known: records attempts to make, or waits for some. */
  private async goOn(permission: Permission & { is: 'go' }): Promise<void> {
    if (!permission.drawn) this.putBack()
    const { attempts, planned } = this
    const pacedMs = this.receiver.untilSecond()
    const only = permission.seconds === 0 || pacedMs > 0 ? 'first' : undefined
    if (permission.drawn && permission.firsts > 0 && this.drawn.length === 0 && !(await this.draw())) {
      const room = this.room('due', permission)
      await (room > 0 ? this.drawBegun(room, only) : this.wait(this.untilNextWork(only, pacedMs)))
      return
    }
    // due attempts come first
    const isDue = !permission.drawn && attempts.due.untilNext(only) <= 0
    const isPlanned = this.drawn.length > 0 || (!permission.drawn && planned.length > 0)
    const next = isDue ? 'due' : isPlanned ? 'planned' : undefined
    const room = next === undefined ? 0 : this.room(next, permission)
    if (next === 'due' && room > 0) await this.recordDue(room, only, permission)
    else if (next === 'planned' && room > 0) await this.beginPlanned(room)
    else if (next !== undefined || !this.isIdle || !this.plannedAll) await this.wait(this.untilNextWork(only, pacedMs))
    else await this.findEnd(only, pacedMs)
  }

  /** Before the first answer a second attempt needs a sign of life. Where none is due, nobody asks for one. */
  private async recordDue(room: number, only: AttemptKind | undefined, { looks }: Permission & { is: 'go' }) {
    const { attempts, receiver } = this
    let kind = only
    if (looks && kind !== 'first') {
      await attempts.due.noteNext('second')
      if (attempts.due.untilNext('second') > 0) kind = 'first'
      else if (!(await receiver.findLife('second'))) return
    }
    // that of any user: those who came first may be of one place
    await attempts.recordDue(room, kind, looks)
  }

  /**
   * The receiver is in trouble: the next attempt that could be tried; undefined: none is planned so far. First attempts go first, since
   * their users have had none.
   */
  private async findNext(): Promise<Work['next']> {
    if (this.drawn.length > 0 || (await this.draw()) || this.planned.length > 0) return { is: 'first' }
    await this.attempts.lookAnew()
    // a run with a limit draws nobody: its reserve goes out here
    this.putBack()
    const [firstMs, secondMs] = [this.attempts.due.untilNext('first'), this.attempts.due.untilNext('second')]
    // planning may have gone on meanwhile
    if (this.planned.length > 0 || firstMs <= 0) return { is: 'first' }
    if (!this.plannedAll) return undefined
    const inMs = Math.max(0, Math.min(firstMs, secondMs))
    if (inMs === Number.POSITIVE_INFINITY) return { is: 'nothing' }
    return { is: 'second', inMs }
  }

  /** The receiver is in trouble: makes one attempt of that kind, if other processes leave it to this one. */
  private async tryOnce(kind: AttemptKind): Promise<void> {
    if (!(await this.receiver.takeTry(kind, this.context.stop))) return await this.sleeper.sleep(againMs)
    const isPlanned = this.drawn.length + this.planned.length > 0
    await (isPlanned ? this.beginPlanned(1) : this.attempts.recordDue(1, kind, true))
    if (!this.isIdle) return
    // its user was removed, or another process has taken them
    this.putBack()
    await this.receiver.noteTakenBack()
    await this.sleeper.sleep(againMs)
  }

  /** `pacedMs`: how long the pace holds second attempts back. */
  private untilNextWork(only: AttemptKind | undefined, pacedMs: number): number {
    const due = this.attempts.due.untilNext(only)
    return Math.max(5, Math.min(due > 0 ? due : 1_000, pacedMs > 0 ? pacedMs : 60_000))
  }

  /** Looks once more for abandoned deliveries. Where none are left it is done; otherwise it waits for the next attempt. */
  private async findEnd(only: AttemptKind | undefined, pacedMs: number): Promise<void> {
    const { due } = this.attempts
    if ((await this.attempts.recordDue(1, only)).length > 0) return
    if (only === 'first') await due.noteNext('second')
    // before another answer those who are left decide: others of them may be in the hands of other processes
    if (this.receiver.isInDoubt(due.untilNext() < Number.POSITIVE_INFINITY) && (await this.draw())) return
    if (await this.receiver.noteNoFirstsLeft()) return
    const untilMs = due.untilNext()
    if (untilMs === Number.POSITIVE_INFINITY) this.end = { is: 'done' }
    else if (this.context.scope.owedOnly && untilMs > owedPatienceMs) this.end = { is: 'leaving' }
    // a stop that came meanwhile did not wake the loop
    else if (!this.stopping) await this.sleeper.sleep(this.untilNextWork(only, pacedMs))
  }

  private async beginPlanned(room: number): Promise<void> {
    const { clock, planned } = this.context
    const isDrawn = this.drawn.length > 0
    const queue = isDrawn ? this.drawn : this.planned
    const batch: UserPush[] = []
    const { erasures, server } = queue[0] ?? {}
    for (let free = room; free > 0 && queue[0]?.erasures === erasures && queue[0]?.server === server; ) {
      const push = queue.shift() as UserPush
      batch.push(push)
      free -= push.deliveries.length
    }
    if (batch.length === 0) return
    if (isDrawn) for (const push of batch) this.drawnKeys.add(push.deliveries[0]?.idempotencyKey ?? '')
    const recording = this.attempts.recordPushes(batch, room)
    // planning goes on while the database has the statement, not before
    clock.soon(() => void this.plan())
    const recorded = await recording
    if (recorded.left.length === 0 || this.stopping) return
    const again = await planned.again(recorded.left, recorded.erasures)
    if (isDrawn) this.drawn.unshift(...again)
    else this.planned.unshift(...again)
  }

  /** Makes as many of the recorded attempts as may be under way. */
  private drain(): void {
    const { clock, slots } = this.context
    while (!this.stopping && this.onWire.size < slots.atOnce) {
      const { ready } = this.attempts
      const sendable = this.receiver.drawsOnly ? ready.filter(this.isDrawn) : ready
      if (sendable.length === 0 || !this.receiver.maySend(this.onWire.size)) break
      const next = this.receiver.take(sendable)
      if (typeof next === 'number') {
        // an answer that came meanwhile may allow it sooner
        clock.cancel(this.paceTimer)
        this.paceTimer = clock.after(next, () => this.drain())
        break
      }
      this.attempts.take(next)
      this.onWire.add(next)
      // the next statement goes to the database first, which carries it out while these bodies are built
      clock.soon(() => void this.make(next))
    }
    this.sleeper.wake()
  }

  private async make(attempt: RecordedAttempt): Promise<void> {
    try {
      const lacks = await makeAttempt(this.context, this.attempts, attempt, this.isDrawn(attempt))
      if (lacks === undefined) this.shortages = 0
      else await this.noteShortage(lacks)
    } catch (error) {
      this.fail(error)
    }
    this.drawnKeys.delete(attempt.idempotencyKey)
    this.onWire.delete(attempt)
    this.drain()
  }

  /** This machine lacks what so many requests need: fewer go out at once; if it does not suffice for one, it is waited for. */
  private async noteShortage(lacks: string): Promise<void> {
    const { slots, reporter, clock } = this.context
    const atOnce = Math.max(1, Math.min(slots.atOnce, this.onWire.size) >> 1)
    if (atOnce < slots.atOnce) {
      slots.atOnce = atOnce
      reporter.note(`This machine lacks ${lacks}: at most ${atOnce} requests at once from now on.`)
    }
    if (this.onWire.size > 1) return
    if (++this.shortages <= shortagesMax) return await pause(clock, shortageMs)
    reporter.note(`This machine still lacks ${lacks}: giving up; the other users stay owed.`)
    this.end = { is: 'gave up', why: { by: 'shortage' } }
  }
}
