/**
 * The receiver as a run sees it (contract 4.5, 4.12, 4.17): feeds its health, its pace and the compression with the outcomes of this run
 * and, once a second, with the findings of other processes; writes news for them, and reports these.
 */
import type { Clock, Timer } from '../../base/clock.ts'
import { alikeInARow, outageLookMs } from '../../base/limits.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import type { Known, Ledger } from '../ledger.ts'
import type { PushReporter } from '../reporter.ts'
import type { Wire } from '../wire.ts'
import {
  ask,
  type Event,
  type Health,
  hasTry,
  maySend,
  type Permission,
  pauseAfter,
  type Rules,
  signOf,
  step,
  unproven,
  type Work,
  type Write,
} from './health.ts'
import { PaceWatch } from './pace-watch.ts'
import { ReceiverRow } from './receiver-row.ts'

/** Whether first attempts go out compressed (contract 4.17); `auto`: once an answer has said that the receiver takes that. */
export type CompressMode = 'auto' | 'gzip' | 'off'

export interface ReceiverSettings {
  receiverUrl: string
  outageMs: number
  compress: CompressMode
  ratePerSecond: number | undefined
  retryDelayMs: number
}

export interface ReceiverContext {
  ledger: Pick<Ledger, 'receiver'>
  wire: Wire
  clock: Clock
  settings: ReceiverSettings
  /**
   * `trouble`: a push stops while the receiver is in trouble. `recovery`: the push goes on regardless, and records that the receiver is
   * well again. `nothing`: neither.
   */
  looksFor: 'trouble' | 'recovery' | 'nothing'
  /** The push goes on even if the receiver's successes show nothing. */
  accepts: boolean
  /** Whether the trouble that an earlier push found is reported. */
  tellsAgain: boolean
  reporter: PushReporter
}

const isTrouble = ({ is }: Health) => is === 'down' || is === 'refuses'

export class Receiver {
  readonly pace: PaceWatch

  private readonly context: ReceiverContext
  private readonly rules: Rules
  private readonly row: ReceiverRow
  private gzip: Known['gzip'] = { takes: false, isRefused: false }
  private health: Health = unproven
  private hasBegun = false
  private onChange = () => {}
  private timer: Timer | undefined
  private looking: Promise<void> | undefined
  /** How the last attempt without an answer below 500 ended. */
  private lastFailure: string | undefined

  constructor(context: ReceiverContext) {
    const { ledger, settings, looksFor, accepts, reporter, clock } = context
    const looks = looksFor === 'trouble'
    this.context = context
    this.rules = { patienceMs: looks ? settings.outageMs : 0, refusals: looks, empty: !accepts, inARow: alikeInARow }
    this.row = new ReceiverRow(ledger.receiver(settings.receiverUrl))
    this.pace = new PaceWatch({ clock, row: this.row, settings, follows: looksFor !== 'nothing', reporter })
  }

  /** Whether first attempts that are recorded now go out compressed. */
  get usesGzip(): boolean {
    const { compress } = this.context.settings
    return compress === 'gzip' || (compress === 'auto' && this.gzip.takes)
  }

  get hasTry(): boolean {
    return hasTry(this.health)
  }

  /** Whether an attempt that is recorded may go out, beside those on the wire. */
  maySend(onWire: number): boolean {
    return maySend(this.health, onWire)
  }

  ask(work: Work): Permission {
    return ask(this.health, work, this.context.clock.now(), this.rules)
  }

  /** Begins to read the findings of others; `onChange` is called when more or fewer attempts may be made than before. */
  async begin(onChange: () => void): Promise<void> {
    const { looksFor } = this.context
    this.onChange = onChange
    if (this.hasBegun) {
      await this.apply({ is: 'firsts again' })
      await this.look()
    } else this.learn(await this.row.write((row) => row.begin(looksFor !== 'nothing')), true)
    this.hasBegun = true
    if (looksFor === 'nothing') return
    this.timer = this.context.clock.every(outageLookMs, () => void this.look())
  }

  /** Stops looking until it begins again. */
  pause(): void {
    this.context.clock.cancel(this.timer)
  }

  /** Writes the remaining news for others. `cutShort`: attempts are left. */
  async end(cutShort: boolean): Promise<void> {
    await this.looking
    await this.noteNotMade()
    await this.apply({ is: 'end', cutShort })
    await this.pace.end()
  }

  /** Reads the findings of other processes. An absent database is reported by other statements. */
  look(): Promise<void> {
    if (this.context.looksFor === 'nothing') return Promise.resolve()
    this.looking ??= this.exchange()
      .catch(() => {})
      .finally(() => {
        this.looking = undefined
      })
    return this.looking
  }

  /** Like `look`, but includes findings that come after a look under way has read. */
  async lookAnew(): Promise<void> {
    await this.looking
    await this.look()
  }

  /** Notes the outcome of an attempt. The promise settles once other processes can see it. */
  async note(attempt: RecordedAttempt, outcome: AttemptOutcome): Promise<void> {
    const sign = signOf(outcome)
    if (sign.is === 'down') this.lastFailure = outcome.error ?? ''
    const event = { is: 'outcome', attempt: attempt.attempt, sign } as const
    const writes = [
      this.pace.note(attempt, outcome),
      this.apply(event, outcome.httpStatus),
      this.noteGzip(outcome),
    ].filter((write) => write !== undefined)
    if (writes.length > 0) await Promise.all(writes)
  }

  /** With `auto` a 415 turns compression off, and an `Accept-Encoding` counts for nothing for a while after one. */
  private noteGzip({ httpStatus, acceptsGzip }: AttemptOutcome): Promise<void> | undefined {
    const { takes, isRefused } = this.gzip
    const takesNow = httpStatus !== 415 && (takes || (acceptsGzip && !isRefused))
    if (this.context.settings.compress !== 'auto' || takesNow === takes) return undefined
    this.gzip = { takes: takesNow, isRefused: isRefused || !takesNow }
    return this.row.write((row) => row.tellGzip(takesNow))
  }

  /** `attempt`, or the attempt for a granted try, could not be made. */
  async noteNotMade(attempt?: RecordedAttempt): Promise<void> {
    if (attempt) this.pace.noteNotMade(attempt)
    await this.apply({ is: 'not made' })
  }

  /** All first attempts are made. Returns whether that changes what may be made. */
  async noteNoFirstsLeft(): Promise<boolean> {
    const before = this.health
    const isInQuestion = (before.is === 'unproven' && before.stands !== 'second') || before.is === 'doubted'
    // a run with too few attempts to see trouble itself may learn of it from another run
    if (isInQuestion) await this.look()
    await this.apply({ is: 'no firsts left' })
    return this.health !== before
  }

  /** During trouble, when a try is due: whether this process, and no other, makes one attempt now. */
  async takeTry(kind: AttemptKind, stop: AbortSignal): Promise<boolean> {
    if (this.health.is === 'down' && !(await this.showsLife(kind))) {
      await this.apply({ is: 'no sign' })
      return false
    }
    // others may have found or tried something meanwhile
    const next = kind === 'first' ? ({ is: 'first' } as const) : ({ is: 'second', inMs: 0 } as const)
    if (stop.aborted || this.ask({ open: 0, isIdle: true, next }).is !== 'try' || !('tries' in this.health))
      return false
    const { tries } = this.health
    if (await this.row.write((row) => row.take(tries, kind))) {
      await this.apply({ is: 'granted', kind })
      return true
    }
    await this.lookAnew()
    // nobody else sees the outage: this process tries by itself
    if (this.health.is !== 'down' || this.health.shared) return false
    await this.apply({ is: 'granted', kind })
    return true
  }

  /** Nothing can be tried for a while. */
  async noteNoSign(): Promise<void> {
    await this.apply({ is: 'no sign' })
  }

  /**
   * Whether the receiver may be back: a connection can be made and, before a second attempt, a HEAD is answered below 500. Behind a
   * proxy only a request shows whether it can be reached.
   */
  private async showsLife(kind: AttemptKind): Promise<boolean> {
    const answer = await this.context.wire.head()
    if (kind === 'first') return answer.kind === 'answer' || answer.stage !== 'connect'
    return answer.kind === 'answer' && answer.status < 500
  }

  private async exchange(): Promise<void> {
    await this.pace.share()
    const known = await this.row.read()
    if (known) this.learn(known, false)
  }

  private learn({ trouble, pace, gzip }: Known, begins: boolean): void {
    const { looksFor } = this.context
    this.gzip = gzip
    this.pace.learn(pace)
    if (looksFor === 'trouble') void this.apply({ is: 'row', known: trouble, begins })
    else if (begins && looksFor === 'recovery') this.health = { is: 'accepted', stands: trouble !== undefined }
  }

  private apply(event: Event, httpStatus: number | null = null): Promise<void> | undefined {
    const before = this.health
    const { health, write } = step(before, event, this.context.clock.now(), this.rules)
    this.health = health
    if (health !== before) this.tell(before, write, event, httpStatus)
    return write && this.row.write((row) => row.tell(write))
  }

  private tell(before: Health, write: Write | undefined, event: Event, httpStatus: number | null): void {
    const { health } = this
    if (health.is !== before.is) {
      const { reporter, tellsAgain } = this.context
      if (isTrouble(before) || isTrouble(health)) reporter.waits(health.is === 'down' ? 'the receiver' : undefined)
      const note = describeChange(before, health, write, event, { httpStatus, lastFailure: this.lastFailure })
      const isOld = 'known' in health && health.known
      if (note !== undefined && (tellsAgain || !isOld)) reporter.note(note)
    }
    this.onChange()
  }
}

/** A sentence for people when the receiver went down or is out of trouble. */
function describeChange(
  before: Health,
  health: Health,
  write: Write | undefined,
  event: Event,
  { httpStatus, lastFailure }: { httpStatus: number | null; lastFailure: string | undefined },
): string | undefined {
  if (health.is === 'down') {
    if (health.known) return 'The receiver is down, as a push before this one found: trying it.'
    if (write?.says !== 'down') return 'The receiver is down, as another push found: waiting for it.'
    const attempts = write.instead ? 'attempts' : 'first attempts'
    const why = lastFailure === undefined ? '' : `; the last: ${lastFailure}`
    return `The receiver is down: ${write.inARow} ${attempts} in a row failed${why}. Trying again after ${pauseAfter(0) / 1_000} s, then after twice as long each time.`
  }
  if (health.is === 'over' || (before.is !== 'down' && before.is !== 'refuses')) return undefined
  if (event.is === 'row') return 'The receiver answers otherwise, as another push found: going on.'
  const what = before.is === 'down' ? 'answers again' : `no longer answers HTTP ${before.status} to everybody`
  const then = 'stands' in health ? `HTTP ${httpStatus} came, so other second attempts wait` : 'going on'
  return `The receiver ${what}: ${then}.`
}
