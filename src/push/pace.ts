/** How late a timer may fire on a busy machine. */
const timerMs = 5

/** Spaces attempts evenly: at most `ratePerSecond`, none saved up while there was nothing to send. Times are milliseconds. */
export class Pace {
  private readonly intervalMs: number
  private nextAt = Number.NEGATIVE_INFINITY

  constructor(ratePerSecond: number | undefined) {
    this.intervalMs = ratePerSecond === undefined ? 0 : 1_000 / ratePerSecond
  }

  /** How long to wait for the next attempt; 0: it may be made now, and is counted. */
  take(now: number): number {
    if (this.intervalMs === 0) return 0
    if (this.nextAt > now) return this.nextAt - now
    // a timer that fires a little late must not slow the average down, but what was long past is not made up for
    const late = now - this.nextAt
    this.nextAt = (late <= Math.max(this.intervalMs / 4, timerMs) ? this.nextAt : now) + this.intervalMs
    return 0
  }
}
