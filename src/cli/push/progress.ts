/** The progress of a push. */
import { formatCount, formatRate, plural, seconds } from '../../base/amounts.ts'
import type { PushLine } from '../../index.ts'
import type { PushReporter } from '../../push/reporter.ts'

/** The rate covers the last one to two windows. */
const rateWindowMs = 10_000

/** Counts the events of a push, and formats the progress line. */
export class ProgressCount {
  private readonly now: () => number
  private readonly startMs: number
  private total: number | undefined
  private allowed: number | undefined
  private done = 0
  private logged = 0
  private undelivered = 0
  private toTryAgain = 0
  private waiting: { for: string; sinceMs: number } | undefined
  private marks: [older: { ms: number; done: number }, newer: { ms: number; done: number }]

  constructor(now: () => number = () => performance.now()) {
    this.now = now
    this.startMs = now()
    const mark = { ms: this.startMs, done: 0 }
    this.marks = [mark, mark]
  }

  setPace(ratePerSecond: number | undefined): void {
    this.allowed = ratePerSecond
  }

  setTotal(users: number): void {
    this.total = users
  }

  noteAttempt({ attempt, error }: Pick<Parameters<PushReporter['attempt']>[0], 'attempt' | 'error'>): void {
    if (attempt === 1 && error !== null) this.toTryAgain++
  }

  add(line: PushLine): void {
    if (line.type !== 'delivery') return
    // a delivery that another process began had its first attempt there; one that is given back keeps its second attempt
    if (line.attempts === 2) this.toTryAgain = Math.max(0, this.toTryAgain - 1)
    if (line.status === 'pending') return
    if (line.part === line.parts) this.done++
    if (line.status !== 'delivered') this.undelivered++
  }

  waits(what: string | undefined): void {
    this.waiting = what === undefined ? undefined : { for: what, sinceMs: this.now() }
  }

  /** The progress line: its pieces, the most important first, as many as fit. `columns` may be infinite. */
  text(columns: number): string {
    const { waiting, total, allowed } = this
    if (total === undefined && !waiting) return 'Looking for users to serve'.slice(0, Math.max(1, columns))
    const rate = this.rate()
    const waitedSeconds = waiting ? Math.floor((this.now() - waiting.sinceMs) / 1_000) : 0
    const waited = waitedSeconds < 120 ? `${waitedSeconds} s` : seconds(waitedSeconds)
    const left = Math.max(0, (total ?? 0) - this.done)
    const pieces = [
      waiting && `waiting for ${waiting.for}: ${waited}`,
      total !== undefined && `${formatCount(this.done)} of ${plural(Math.max(total, this.done), 'user')}`,
      this.undelivered > 0 && `${formatCount(this.undelivered)} not delivered`,
      !waiting && left > 0 && rate > 0 && `${seconds(left / rate)} left`,
      !waiting && allowed !== undefined && `the receiver allows ${formatRate(allowed)}`,
      this.toTryAgain > 0 && `${formatCount(this.toTryAgain)} to try again`,
      !waiting && `${rate.toFixed(rate < 10 ? 1 : 0)}/s`,
    ].filter((piece) => typeof piece === 'string')
    while (pieces.length > 1 && pieces.join(', ').length > columns) pieces.pop()
    const text = pieces.join(', ')
    return text.length > columns ? `${text.slice(0, Math.max(0, columns - 1))}…` : text
  }

  /** For a log, which has the beginning and the end of each wait already: nothing unless users were served since the last time. */
  logText(): string | undefined {
    if (this.waiting || this.done === this.logged) return undefined
    this.logged = this.done
    return this.text(Number.POSITIVE_INFINITY)
  }

  /** Users a second. */
  private rate(): number {
    const ms = this.now()
    const [older, newer] = this.marks
    if (ms - newer.ms >= rateWindowMs) this.marks = [newer, { ms, done: this.done }]
    return ((this.done - older.done) * 1_000) / Math.max(ms - older.ms, 1)
  }
}
