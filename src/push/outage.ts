/**
 * Tells a receiver that is down as a whole from users whose deliveries fail (contract 4.12): after 20 first attempts in a
 * row without an answer below 500 in the meantime only one attempt is made every 10 s, until such an answer comes or the
 * patience is over.
 */
import { outageFailuresInARow, outageProbeMs } from '../limits.ts'

export class Outage {
  private readonly patienceMs: number
  private failuresInARow = 0
  private downSince: number | undefined
  private probedAt = 0

  /** `patienceMs` 0: it is not looked for. */
  constructor(patienceMs: number) {
    this.patienceMs = patienceMs
  }

  get isDown(): boolean {
    return this.downSince !== undefined
  }

  /** Takes what came of an attempt; returns `down` or `up` when that changes the receiver's state. */
  note(attempt: 1 | 2, httpStatus: number | null, now: number): 'down' | 'up' | undefined {
    if (this.patienceMs === 0) return undefined
    if (httpStatus !== null && httpStatus < 500) {
      const wasDown = this.isDown
      this.failuresInARow = 0
      this.downSince = undefined
      return wasDown ? 'up' : undefined
    }
    if (attempt === 1) this.failuresInARow++
    if (this.isDown || this.failuresInARow < outageFailuresInARow) return undefined
    this.downSince = now
    this.probedAt = now
    return 'down'
  }

  /** While it is down: how long to wait for the next attempt. */
  untilProbe(now: number): number {
    return Math.max(0, this.probedAt + outageProbeMs - now)
  }

  /** While it is down: whether an attempt may be made now; if so it is counted. */
  takeProbe(now: number): boolean {
    if (this.untilProbe(now) > 0) return false
    this.probedAt = now
    return true
  }

  isOver(now: number): boolean {
    return this.downSince !== undefined && now - this.downSince >= this.patienceMs
  }
}
