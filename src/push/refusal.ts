/**
 * The rules of a receiver that refuses every delivery alike (contract 4.12): the push that finds it makes no more attempts, the next
 * push makes one. Pure: it knows the outcomes, the findings of other processes and the times, in milliseconds, that it is given.
 */
import { refusalSecondMs, refusalTryMs } from '../base/limits.ts'
import type { AttemptKind } from '../deliveries/due.ts'

/** A refusal as the database has it, for all processes. Times count from now. */
export interface KnownRefusal {
  status: number
  /** Attempts made since the refusal was found. */
  tries: number
  nextMs: number
  /** In how many milliseconds a second attempt may be made. */
  secondMs: number
  /** Another process is making an attempt. */
  isTrying: boolean
}

/** An hourly push that begins a moment too early waits: otherwise it would make its attempt only every other hour. */
const nearlyDueMs = 60_000

export class Refusal {
  /** The status that every delivery gets; undefined: the receiver does not refuse. */
  status: number | undefined
  tries = 0

  private readonly timeoutMs: number
  /** When this push may make its attempt; undefined: it makes none. */
  private tryAt: number | undefined
  /** When the next push may make its attempt. */
  private nextAt = 0
  private secondAt = 0
  /** The attempt of another process ends by then. */
  private otherUntil: number | undefined

  /** An attempt takes `timeoutMs` at most. */
  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs
  }

  get isHeld(): boolean {
    return this.status !== undefined
  }

  /** This process has found the refusal. */
  hold(status: number): void {
    this.status = status
    this.tryAt = undefined
    this.otherUntil = undefined
    this.nextAt = 0
    this.secondAt = 0
  }

  /** Learns what the database has; returns `held` or `well` when that is news. Only a push that begins may try. */
  learn(known: KnownRefusal | undefined, now: number, isBeginning = false): 'held' | 'well' | undefined {
    const wasHeld = this.isHeld
    if (known === undefined) {
      this.status = undefined
      return wasHeld ? 'well' : undefined
    }
    this.status = known.status
    this.tries = known.tries
    if (isBeginning) this.tryAt = now + known.nextMs
    this.nextAt = now + known.nextMs
    this.secondAt = now + known.secondMs
    if (!known.isTrying) this.otherUntil = undefined
    else if (isBeginning) this.otherUntil = now + this.timeoutMs
    return wasHeld ? undefined : 'held'
  }

  /** This process makes its attempt now. */
  noteTry(now = 0, kind: AttemptKind = 'first'): void {
    this.nextAt = now + refusalTryMs
    if (kind === 'second') this.secondAt = now + refusalSecondMs
    this.tryAt = undefined
    this.otherUntil = undefined
  }

  /** Notes the outcome of an attempt; returns whether it ends the refusal. */
  noteEnd(httpStatus: number | null): boolean {
    if (this.status === undefined || httpStatus === null || httpStatus === this.status) return false
    this.status = undefined
    return true
  }

  /** Milliseconds until a later push may make an attempt of that kind. */
  untilNext(now: number, kind: AttemptKind): number {
    return Math.max(0, (kind === 'second' ? Math.max(this.nextAt, this.secondAt) : this.nextAt) - now)
  }

  /** Milliseconds until the attempt of this push; infinite: it makes none. */
  untilTry(now: number, kind: AttemptKind = 'first'): number {
    const { tryAt, otherUntil = now } = this
    if (otherUntil > now) return otherUntil - now
    if (tryAt === undefined) return Number.POSITIVE_INFINITY
    const waitMs = Math.max(0, (kind === 'second' ? Math.max(tryAt, this.secondAt) : tryAt) - now)
    return waitMs <= nearlyDueMs ? waitMs : Number.POSITIVE_INFINITY
  }
}
