/**
 * Tells a receiver that is down as a whole from users whose deliveries fail, and when an attempt may be made all the same
 * (contract 4.12). It knows what it is told, of attempts and of what other processes found out, and the time that comes with it.
 */

import {
  outageCheckMs,
  outageFailuresInARow,
  outageFailuresMin,
  outagePauseMs,
  outagePauseMsMax,
} from '../base/limits.ts'
import type { AttemptKind } from '../deliveries/due.ts'

/** An outage as the database has it, for all processes. Times are from now on. */
export interface KnownOutage {
  /** Attempts that were made since it is down. */
  tries: number
  nextMs: number
  /** Until a second attempt may be made. */
  secondMs: number
}

/** After so many tries the next one waits so long. */
export const pauseAfter = (tries: number) => Math.min(outagePauseMs * 2 ** tries, outagePauseMsMax)

export class Outage {
  /** The first attempts made last of which none was answered below 500. */
  failuresInARow = 0
  tries = 0

  private readonly patienceMs: number
  private firsts = 0
  private downSince: number | undefined
  /** The database has it too. */
  private isKnown = false
  private tryAt = 0
  private secondAt = 0

  /** `patienceMs` 0: it is not looked for. */
  constructor(patienceMs: number) {
    this.patienceMs = patienceMs
  }

  get isDown(): boolean {
    return this.downSince !== undefined
  }

  /** Second attempts wait until first ones have told what it is. */
  get isInQuestion(): boolean {
    return this.failuresInARow > 0
  }

  /** Takes what came of an attempt; returns `down` or `up` when that changes the receiver's state. */
  note(attempt: 1 | 2, httpStatus: number | null, now: number): 'down' | 'up' | undefined {
    if (this.patienceMs === 0) return undefined
    if (attempt === 1) this.firsts++
    if (httpStatus !== null && httpStatus < 500) {
      const wasDown = this.isDown
      this.failuresInARow = 0
      this.downSince = undefined
      return wasDown ? 'up' : undefined
    }
    if (attempt === 1) this.failuresInARow++
    return this.failuresInARow >= outageFailuresInARow ? this.goDown(now) : undefined
  }

  /** No first attempt is left to tell what it is. */
  noteAllMade(now: number): 'down' | undefined {
    const { failuresInARow, firsts } = this
    if (failuresInARow === firsts && failuresInARow >= outageFailuresMin) return this.goDown(now)
    this.failuresInARow = 0
    return undefined
  }

  private goDown(now: number): 'down' | undefined {
    if (this.isDown) return undefined
    this.downSince = now
    this.isKnown = true
    this.tries = 0
    this.tryAt = now + pauseAfter(0)
    return 'down'
  }

  /** Takes what the database knows; returns `down` when that is news. Whoever begins while it is down may try at once. */
  learn(known: KnownOutage | undefined, now: number, isBeginning = false): 'down' | undefined {
    if (this.patienceMs === 0) return undefined
    const wasDown = this.isDown
    if (known === undefined) {
      // others reach it; whether this process does, an attempt of its own tells
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

  /** While it is down: how long to wait for the next attempt. */
  untilTry(now: number, kind: AttemptKind = 'first'): number {
    return Math.max(0, (kind === 'second' ? Math.max(this.tryAt, this.secondAt) : this.tryAt) - now)
  }

  /** An attempt is made now. */
  noteTry(now: number): void {
    this.tries++
    this.tryAt = now + pauseAfter(this.tries)
  }

  /** There is no sign of it yet: it costs nobody anything to look for one again. */
  noteNoSign(now: number): void {
    this.tryAt = now + outageCheckMs
  }

  /** The patience is, and no attempt is due that was not made: what is to be sent may take a while to be found. */
  isOver(now: number): boolean {
    return this.downSince !== undefined && now - this.downSince >= this.patienceMs && this.untilTry(now) > 0
  }
}
