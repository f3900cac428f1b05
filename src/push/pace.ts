/** Spaces attempts evenly: at most `ratePerSecond`, none saved up while there was nothing to send. Times are milliseconds. */
export class Pace {
  private readonly intervalMs: number
  private nextAt = 0

  constructor(ratePerSecond: number | undefined) {
    this.intervalMs = ratePerSecond === undefined ? 0 : 1_000 / ratePerSecond
  }

  /** How long to wait for the next attempt; 0: it may be made now, and is counted. */
  take(now: number): number {
    if (this.intervalMs === 0) return 0
    if (this.nextAt > now) return this.nextAt - now
    // a timer that fires late must not slow the average down, but neither may two follow each other at once
    this.nextAt = Math.max(this.nextAt + this.intervalMs, now + this.intervalMs / 2)
    return 0
  }
}
