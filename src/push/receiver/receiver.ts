/**
 * The receiver as a run sees it (contract 4.5, 4.12, 4.17): feeds its health, its pace and the compression with the outcomes of this run
 * and, once a second, with the findings of other processes; tells them news, and reports these.
 */
import type { Clock, Timer } from '../../base/clock.ts'
import { alikeDrawnAfter, alikeFirstDrawnAfter, alikeInARow, alikeMin, outageLookMs } from '../../base/limits.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import type { Known, ReceiverNews, ReceiverStore } from '../ledger.ts'
import type { PushReporter } from '../reporter.ts'
import type { Wire } from '../wire.ts'
import {
  drawsOnly,
  type Event,
  type Health,
  isInDoubt,
  type Rules,
  regardless,
  step,
  unproven,
  type Write,
} from './health.ts'
import { Pace } from './pace.ts'
import { ask, maySend, type Permission, type Work } from './permission.ts'
import { signOf, type Trouble, troubleRules } from './trouble.ts'

export interface ReceiverSettings {
  outageMs: number
  /** Whether first attempts go out compressed (contract 4.17); `auto`: once an answer has said that the receiver takes that. */
  compress: 'auto' | 'gzip' | 'off'
  ratePerSecond: number | undefined
  retryDelayMs: number
}

export interface ReceiverContext {
  row: ReceiverStore
  wire: Wire
  clock: Clock
  settings: ReceiverSettings
  /** The push stops while the receiver is in trouble, and slows down if it asks for less. */
  heeds: boolean
  /** The push goes on regardless of trouble, and its first success ends a trouble that others see. */
  accepts: boolean
  /** It serves only users with a failed, unknown or doubtful delivery. Trouble that few of their attempts show it tells nobody. */
  isOfFailed: boolean
  /** Whether the trouble that an earlier push found is reported. */
  tellsAgain: boolean
  reporter: PushReporter
}

const kindOf = ({ attempt }: Pick<RecordedAttempt, 'attempt'>): AttemptKind => (attempt === 1 ? 'first' : 'second')

export class Receiver {
  private readonly context: ReceiverContext
  private readonly rules: Rules
  private readonly pace: Pace
  private health: Health = unproven
  private gzip: Known['gzip'] = null
  /** The deliveries whose answers showed nothing, one after the other, up to now; once that holds the push, also those under way. */
  private readonly emptyKeys: string[] = []
  /** No answer has shown anything else. */
  private isAllEmpty = true
  /** When this run last had a success, and which one it has told others of. */
  private wellAt: number | undefined
  private toldWellAt: number | undefined
  /** Deliveries that were refused as compressed: their second attempts are plain, and show as much as first ones. */
  private readonly refusedGzip = new Set<string>()
  /** The last statement on the row, and how many statements are under way or wait for their turn. */
  private last: Promise<unknown> = Promise.resolve()
  private unanswered = 0
  private onChange = () => {}
  private timer: Timer | undefined

  constructor(context: ReceiverContext) {
    const { settings, heeds, accepts } = context
    const patienceMs = heeds ? settings.outageMs : 0
    this.context = context
    const drawnAfter = { unproven: alikeFirstDrawnAfter, mixed: alikeDrawnAfter }
    this.rules = { patienceMs, refusals: heeds && !accepts, empty: !accepts, inARow: alikeInARow, drawnAfter }
    this.pace = new Pace(settings.ratePerSecond, { retryDelayMs: settings.retryDelayMs })
  }

  /** Whether first attempts that are recorded now go out compressed. */
  get usesGzip(): boolean {
    const { compress } = this.context.settings
    return compress === 'gzip' || (compress === 'auto' && this.gzip === 'takes')
  }

  /** Attempts a second that may begin; undefined: no limit. */
  get ratePerSecond(): number | undefined {
    return this.pace.ratePerSecond
  }

  /** About how many attempts a second the receiver allows, once it has asked for less; undefined: it has not. */
  get allowedRate(): number | undefined {
    const { pace } = this
    return pace.isSlowed && this.wellAt !== undefined ? (pace.allowedRate(this.now) ?? pace.ratePerSecond) : undefined
  }

  /** Deliveries whose answers do not show that the receiver took them: they hold the push, or are all that came before it ended. */
  get doubtfulKeys(): readonly string[] {
    const isHeld = this.health.is === 'over' && this.health.why.by === 'answers'
    return isHeld || (this.isAllEmpty && this.emptyKeys.length >= alikeMin) ? this.emptyKeys : []
  }

  get drawsOnly(): boolean {
    return drawsOnly(this.health, this.rules)
  }

  isInDoubt(isDue: boolean): boolean {
    return isInDoubt(this.health, isDue)
  }

  maySend(onWire: number): boolean {
    return maySend(this.health, onWire)
  }

  async ask(work: Work): Promise<Permission> {
    if (this.health.is === 'open') await this.apply({ is: 'time' })
    return ask(this.health, work, this.now, this.rules)
  }

  /** The ready attempt that may begin now at this pace, and is counted; or the milliseconds until one may. */
  take(ready: readonly RecordedAttempt[]): RecordedAttempt | number {
    let waitMs = Number.POSITIVE_INFINITY
    for (const kind of ['second', 'first'] as const) {
      // without a limit all go in their order
      const next = this.pace.isSlowed ? ready.find((attempt) => kindOf(attempt) === kind) : ready[0]
      if (next === undefined) continue
      const untilNext = this.pace.take(this.now, kindOf(next))
      if (untilNext <= 0) return next
      waitMs = Math.min(waitMs, untilNext)
    }
    return waitMs
  }

  /** How long no second attempt may begin: first attempts show whether the receiver takes any again. */
  untilSecond(): number {
    const waitMs = this.pace.untilSecond(this.now)
    // a turn of a few milliseconds is the loop's to wait for
    return waitMs > 50 ? waitMs : 0
  }

  /** Begins to read the findings of others; `onChange` is called when more or fewer attempts may be made than before. */
  async begin(onChange: () => void): Promise<void> {
    const { row, heeds, clock } = this.context
    this.onChange = onChange
    this.learn(await this.inTurn(() => row.begin(heeds)), true)
    // without the database looks do not pile up
    if (heeds) this.timer = clock.every(outageLookMs, () => void (this.unanswered === 0 && this.look()))
  }

  /** Stops looking until it begins again. */
  pause(): void {
    this.context.clock.cancel(this.timer)
  }

  /** Tells others the remaining news. `cutShort`: attempts are left. */
  async end(cutShort: boolean): Promise<void> {
    await this.noteTakenBack()
    await this.apply({ is: 'end', cutShort })
    if (this.context.heeds) await Promise.all([this.tellPace(), this.tellSuccess()])
  }

  /** Reads the findings of other processes. An absent database is reported by other statements. */
  async look(): Promise<void> {
    if (!this.context.heeds) return
    const reading = [this.tellSuccess(), this.inTurn(() => this.context.row.read())] as const
    const [, known] = await Promise.all(reading).catch(() => [])
    if (known?.wellMs != null) await this.apply({ is: 'others well', at: this.now - known.wellMs })
    // what this process has found meanwhile is newer
    if (known && this.unanswered === 0) this.learn(known, false)
  }

  /** Notes the outcome of an attempt. The promise settles once other processes can see it. */
  async note(attempt: RecordedAttempt, outcome: AttemptOutcome, drawn: boolean): Promise<void> {
    const sign = signOf(outcome, attempt.gzip)
    const event = { is: 'outcome', attempt: this.showsAsMuchAs(attempt), sign, drawn } as const
    if (sign.is === 'nothing' && this.context.settings.compress === 'auto') this.refusedGzip.add(attempt.idempotencyKey)
    if (event.sign.is === 'well') this.wellAt = this.now
    if (this.looksLikeTrouble(event)) await this.look()
    const writes = [this.notePace(attempt, outcome), this.apply(event), this.noteGzip(outcome)]
    if (event.sign.is === 'empty') this.emptyKeys.push(attempt.idempotencyKey)
    else this.isAllEmpty = false
    if (this.health.is === 'open' && this.health.alike?.is !== 'empty') this.emptyKeys.length = 0
    // without news it does not yield: the loop's next statement takes the outcome along
    if (writes.some((write) => write !== undefined)) await Promise.all(writes)
  }

  /** A second attempt that goes out plain after a 415 is as good as a first one. */
  private showsAsMuchAs({ attempt, gzip, idempotencyKey }: RecordedAttempt): 1 | 2 {
    const isPlainAnew = !gzip && (this.context.settings.compress === 'gzip' || this.refusedGzip.delete(idempotencyKey))
    return isPlainAnew ? 1 : attempt
  }

  private notePace(attempt: RecordedAttempt, outcome: AttemptOutcome): Promise<unknown> | undefined {
    const { heeds, reporter } = this.context
    if (!heeds) return undefined
    const { isSlowed } = this.pace
    if (!this.pace.note({ kind: kindOf(attempt), ...outcome }, this.now)) return undefined
    if (!isSlowed) reporter.note(`The receiver asks for less (HTTP ${outcome.httpStatus}): slowing down.`)
    reporter.pace(this.allowedRate)
    return this.tellPace()
  }

  private tellPace(): Promise<unknown> {
    return this.tell({ says: 'pace', ...this.pace.known(this.now) })
  }

  private tellSuccess(): Promise<unknown> | undefined {
    const { wellAt } = this
    if (wellAt === undefined || wellAt === this.toldWellAt) return undefined
    this.toldWellAt = wellAt
    return this.inTurn(() => this.context.row.tell({ says: 'success', agoMs: this.now - wellAt }))
  }

  /** With `auto` a 415 turns compression off, and an `Accept-Encoding` counts for nothing for a while after one. */
  private noteGzip({ httpStatus, acceptsGzip }: AttemptOutcome): Promise<unknown> | undefined {
    const { gzip } = this
    if (gzip === 'takes' && httpStatus === 415) this.gzip = 'refused'
    else if (gzip === null && acceptsGzip && httpStatus !== 415) this.gzip = 'takes'
    if (this.context.settings.compress !== 'auto' || this.gzip === gzip) return undefined
    return this.tell({ says: 'gzip', takes: this.gzip === 'takes' })
  }

  /** `attempt`, or the attempt for a granted try, shows nothing of the receiver: nothing of it went out. */
  async noteTakenBack(attempt?: RecordedAttempt): Promise<void> {
    if (attempt) this.pace.noteEnded(kindOf(attempt))
    await this.apply({ is: 'taken back' })
  }

  async noteNobodyToDraw(): Promise<void> {
    if (this.looksLikeTrouble({ is: 'nobody to draw' })) await this.look()
    await this.apply({ is: 'nobody to draw' })
  }

  /** All first attempts are made. Returns whether that changes what may be made. */
  async noteNoFirstsLeft(): Promise<boolean> {
    const before = this.health
    // a run with too few attempts to see trouble itself may learn of it from another run
    await this.look()
    await this.apply({ is: 'no firsts left' })
    return this.health !== before
  }

  /** During trouble, when a try is due: whether this process, and no other, makes one attempt now. */
  async takeTry(kind: AttemptKind, stop: AbortSignal): Promise<boolean> {
    const needsLife = this.health.is === 'trouble' && troubleRules[this.health.trouble.is].needsLife
    if (needsLife && !(await this.findLife(kind))) return false
    // others may have found or tried something meanwhile
    const { health } = this
    const permission = ask(health, { open: 0, next: { is: kind } }, this.now, this.rules)
    if (stop.aborted || health.is !== 'trouble' || permission.is !== 'try') return false
    // where nobody else sees the outage this process tries by itself
    if (health.shared && !(await this.tell({ says: 'try', trouble: health.trouble, tries: health.tries, kind }))) {
      await this.look()
      return false
    }
    await this.apply({ is: 'granted', kind })
    return true
  }

  /**
   * Whether the receiver may be up: a connection can be made and, before a second attempt, a HEAD is answered below 500, or with 501, as
   * servers do that know no HEAD. Behind a proxy only a request shows whether it can be reached.
   */
  async findLife(kind: AttemptKind): Promise<boolean> {
    const answer = await this.context.wire.head()
    const isAlive =
      kind === 'first'
        ? answer.kind === 'answer' || answer.stage !== 'connect'
        : answer.kind === 'answer' && (answer.status < 500 || answer.status === 501)
    if (!isAlive) await this.apply({ is: 'no sign' })
    return isAlive
  }

  /** Whether the push takes its attempts for trouble at this event. Others are asked first: they may have had a success since. */
  private looksLikeTrouble(event: Event): boolean {
    return this.health.is === 'open' && step(this.health, event, this.now, this.rules).health.is !== 'open'
  }

  private get now(): number {
    return this.context.clock.now()
  }

  private learn({ trouble, pace, gzip }: Known, begins: boolean): void {
    this.gzip = gzip
    if (!this.context.heeds) return
    this.pace.learn(pace, this.now)
    this.context.reporter.pace(this.allowedRate)
    // a push that goes on regardless waits all the same for a receiver that it finds in trouble itself
    if (this.context.accepts && this.health.is !== 'trouble') {
      if (begins) this.health = regardless(trouble)
    } else void this.apply({ is: 'row', known: trouble, begins })
  }

  /** Returns a promise that settles once other processes can see what is news to them. */
  private apply(event: Event): Promise<unknown> | undefined {
    const before = this.health
    const { health, write } = step(before, event, this.now, this.rules)
    const isOfFew = write?.says === 'trouble' && write.inARow > 0 && write.inARow < alikeInARow
    const isKept = isOfFew && this.context.isOfFailed && before.is === 'open' && !before.theirs
    if (health !== before) {
      this.health = isKept && health.is === 'trouble' ? { ...health, shared: false } : health
      this.report(before, write)
      this.onChange()
    }
    return write && !isKept ? this.tell(write) : undefined
  }

  private tell(news: ReceiverNews): Promise<boolean> {
    return this.inTurn(() => this.context.row.tell(news))
  }

  /** Trouble and recovery cannot overtake each other. */
  private inTurn<T>(statement: () => Promise<T>): Promise<T> {
    this.unanswered++
    const turn = this.last.then(statement, statement).finally(() => this.unanswered--)
    this.last = turn
    return turn
  }

  /** Tells people that the receiver went down, or is out of trouble. */
  private report(before: Health, write: Write | undefined): void {
    const { health } = this
    const { reporter, tellsAgain } = this.context
    if (health.is === before.is) return
    if (health.is === 'trouble' && troubleRules[health.trouble.is].isWaitedFor) {
      reporter.waits('the receiver')
      if (!health.known) reporter.note(describeOutage(before, health.trouble, write))
      else if (tellsAgain)
        reporter.note(`${describeKnown(health.trouble)}, as a push before this one found: trying it.`)
    } else if (before.is === 'trouble') {
      reporter.waits(undefined)
      if (health.is === 'open') reporter.note(describeEnd(before, health))
    }
  }
}

const describeKnown = ({ is }: Trouble) =>
  is === 'asks' ? 'The receiver takes nothing and asks for less' : 'The receiver is down'

function describeOutage(before: Health, trouble: Trouble, write: Write | undefined): string {
  if (write?.says !== 'trouble') return `${describeKnown(trouble)}, as another push found: waiting for it.`
  const { inARow, error } = write
  const attempts = before.is === 'open' && (before.theirs || !before.firstsLeft) ? 'attempts' : 'first attempts'
  const shown = inARow === 0 ? 'it shows no sign of life' : `${inARow} ${attempts} in a row failed; the last: ${error}`
  const firstMs = troubleRules.down.pauseMs(0)
  return `The receiver is down: ${shown}. Trying again after ${firstMs / 1_000} s, then after twice as long each time.`
}

function describeEnd({ trouble }: Health & { is: 'trouble' }, { alike }: Health & { is: 'open' }): string {
  const what =
    trouble.is === 'down'
      ? 'answers again'
      : trouble.is === 'asks'
        ? 'takes deliveries again'
        : `no longer answers HTTP ${trouble.status} to everybody`
  const other = alike && 'status' in alike ? `HTTP ${alike.status}` : 'no answer'
  const then = alike && alike.is !== 'empty' ? `${other} came, so other second attempts wait` : 'going on'
  return `The receiver ${what}: ${then}.`
}
