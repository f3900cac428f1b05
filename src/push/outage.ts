/**
 * The rules of an outage (contract 4.12): when an attempt may still be made while the receiver is down as a whole. Pure: it knows the
 * outcomes, the findings of other processes and the times that it is given.
 */

import { outageCheckMs, outagePauseMs, outagePauseMsMax } from '../base/limits.ts'
import type { AttemptKind } from '../deliveries/due.ts'

/** An outage as the database has it, for all processes. Times count from now. */
export interface KnownOutage {
  /** Attempts made since the receiver went down. */
  tries: number
  nextMs: number
  /** In how many milliseconds a second attempt may be made. */
  secondMs: number
}

/** The pause before the next try, after `tries` of them. */
export const pauseAfter = (tries: number) => Math.min(outagePauseMs * 2 ** tries, outagePauseMsMax)

export class Outage {
  tries = 0

  private readonly patienceMs: number
  private downSince: number | undefined
  /** The outage is in the database too. */
  private isKnown = false
  private tryAt = 0
  private secondAt = 0

  /** `patienceMs` 0: outages are not looked for, and those of other processes do not count. */
  constructor(patienceMs: number) {
    this.patienceMs = patienceMs
  }

  get isDown(): boolean {
    return this.downSince !== undefined
  }

  /** This process has found the outage. */
  goDown(now: number): void {
    this.downSince = now
    this.isKnown = true
    this.tries = 0
    this.tryAt = now + pauseAfter(0)
  }

  /** Notes the outcome of an attempt; returns whether it ends the outage. */
  noteEnd(httpStatus: number | null): boolean {
    if (!this.isDown || httpStatus === null || httpStatus >= 500) return false
    this.downSince = undefined
    return true
  }

  /** Learns what the database has; returns `down` when that is news. A push that begins during an outage may try at once. */
  learn(known: KnownOutage | undefined, now: number, isBeginning = false): 'down' | undefined {
    if (this.patienceMs === 0) return undefined
    const wasDown = this.isDown
    if (known === undefined) {
      // other processes reach the receiver; an attempt of this one must show whether it does too
      if (wasDown && this.isKnown) this.tryAt = now
      this.isKnown = false
      return undefined
    }
    this.isKnown = true
    this.secondAt = now + known.secondMs
    if (wasDown && known.tries === this.tries) return undefined
    this.tries = known.tries
    this.tryAt = now + (isBeginning ? 0 : known.nextMs)
    this.downSince ??= now
    return wasDown ? undefined : 'down'
  }

  /** During an outage: milliseconds until the next attempt. */
  untilTry(now: number, kind: AttemptKind = 'first'): number {
    return Math.max(0, (kind === 'second' ? Math.max(this.tryAt, this.secondAt) : this.tryAt) - now)
  }

  /** An attempt is made now. */
  noteTry(now: number): void {
    this.tries++
    this.tryAt = now + pauseAfter(this.tries)
  }

  /** The receiver shows no sign of life: looks again soon, since looking costs no attempt. */
  noteNoSign(now: number): void {
    this.tryAt = now + outageCheckMs
  }

  /** The patience has run out, and no try is due: a due try must still be made, even if its delivery takes a while to be found. */
  isOver(now: number): boolean {
    return this.downSince !== undefined && now - this.downSince >= this.patienceMs && this.untilTry(now) > 0
  }
}
