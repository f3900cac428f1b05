/**
 * The pace of a push (contract 4.12): follows the receiver's answers, shares its findings with other processes and later runs through the
 * receiver's row, and reports them.
 */
import type { Clock } from '../../base/clock.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import type { PushReporter } from '../reporter.ts'
import { type KnownPace, Pace } from './pace.ts'
import type { ReceiverRow } from './receiver-row.ts'

export interface PaceWatchContext {
  clock: Clock
  row: ReceiverRow
  settings: { ratePerSecond: number | undefined; retryDelayMs: number }
  /** Whether the pace follows a receiver that asks for less. */
  follows: boolean
  reporter: PushReporter
}

const kindOf = ({ attempt }: Pick<RecordedAttempt, 'attempt'>) => (attempt === 1 ? 'first' : 'second')

export class PaceWatch {
  private readonly context: PaceWatchContext
  private readonly pace: Pace
  /** The pace that this process wrote into the row; undefined: none. */
  private told: number | null | undefined
  private isReported = false

  constructor(context: PaceWatchContext) {
    const { ratePerSecond, retryDelayMs } = context.settings
    this.context = context
    this.pace = new Pace(ratePerSecond, { retryDelayMs })
  }

  private now(): number {
    return this.context.clock.now()
  }

  /** Attempts a second that may begin; undefined: no limit. */
  get ratePerSecond(): number | undefined {
    return this.pace.ratePerSecond
  }

  /** Keeps the pace for the next run. */
  async end(): Promise<void> {
    if (this.context.follows && (this.pace.isSlowed || this.told !== undefined)) await this.tell()
  }

  /** The ready attempt that may begin now, and is counted; or the milliseconds until one may. */
  take(ready: readonly RecordedAttempt[]): RecordedAttempt | number {
    let waitMs = Number.POSITIVE_INFINITY
    for (const kind of ['second', 'first'] as const) {
      // without a limit all go in their order
      const next = this.pace.isSlowed ? ready.find((attempt) => kindOf(attempt) === kind) : ready[0]
      if (next === undefined) continue
      const untilNext = this.pace.take(this.now(), kindOf(next))
      if (untilNext <= 0) return next
      waitMs = Math.min(waitMs, untilNext)
    }
    return waitMs
  }

  /** How long no second attempt may begin: first attempts show whether the receiver takes any again. */
  untilSecond(): number {
    const waitMs = this.pace.untilSecond(this.now())
    // a turn of a few milliseconds is the loop's to wait for
    return waitMs > 50 ? waitMs : 0
  }

  /** Takes the outcome of an attempt. If that is news, returns a promise that settles once others can read it. */
  note(attempt: RecordedAttempt, { httpStatus, retryAfterMs, durationMs }: AttemptOutcome): Promise<void> | undefined {
    const { follows, reporter } = this.context
    if (!follows) return undefined
    const answer = { status: httpStatus ?? undefined, retryAfterMs: retryAfterMs ?? undefined, durationMs }
    const isNews = this.pace.note({ kind: kindOf(attempt), ...answer }, this.now())
    if (!isNews) return undefined
    if (!this.isReported) reporter.note(`The receiver asks for less (HTTP ${httpStatus}): slowing down.`)
    this.isReported = true
    this.report()
    return this.tell()
  }

  noteNotMade(attempt: RecordedAttempt): void {
    this.pace.noteNotMade(kindOf(attempt))
  }

  learn(known: KnownPace): void {
    if (!this.context.follows) return
    this.pace.learn(known, this.now())
    this.report()
  }

  /** Writes a changed pace for others. An absent database is reported elsewhere. */
  async share(): Promise<void> {
    const rate = this.pace.known(this.now()).allowedRate
    if (this.told === undefined || rate === this.told) return
    if (Math.abs((rate ?? 0) - (this.told ?? 0)) > (rate ?? 0) / 20) await this.tell()
  }

  private report(): void {
    const { pace, context } = this
    context.reporter.pace(pace.isSlowed ? (pace.allowedRate(this.now()) ?? pace.ratePerSecond) : undefined)
  }

  private async tell(): Promise<void> {
    const known = this.pace.known(this.now())
    await this.context.row.write((row) => row.tellPace(known, !this.pace.isSlowed))
    this.told = known.allowedRate
  }
}
