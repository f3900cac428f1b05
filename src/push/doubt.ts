/**
 * The doubt whether the receiver as a whole is in trouble (contract 4.12): how the last first attempts ended alike. Pure: it knows
 * the outcomes that it is given.
 */
import { alikeInARow, alikeMin } from '../base/limits.ts'

/** How attempts end alike: without an answer below 500, or with this status, a refusal. */
export type AlikeEnd = 'down' | number

/** Statuses that ask for another try, or concern one delivery alone. */
const noRefusals: readonly number[] = [408, 409, 425, 429]

/** Undefined: the receiver is well. `httpStatus` is that of a complete answer. */
export function endOf(httpStatus: number | null): AlikeEnd | undefined {
  if (httpStatus === null || httpStatus >= 500) return 'down'
  return httpStatus >= 300 && !noRefusals.includes(httpStatus) ? httpStatus : undefined
}

export class Doubt {
  /** How many first attempts in a row ended alike. */
  inARow = 0
  /** An answer ended a trouble but looks like another, or refused an encoding alone; nothing better has come since. */
  isWary = false
  /** All first attempts are made, and one answer proves nothing: second attempts are made one by one. */
  isProbing = false

  private readonly looksForOutage: boolean
  private end: AlikeEnd | undefined
  private firsts = 0
  private hasSeenOther = false
  /** How many deliveries in a row were refused for their encoding alone. */
  private unclear = 0

  constructor(looksForOutage: boolean) {
    this.looksForOutage = looksForOutage
  }

  /** Second attempts wait until first attempts have shown whether the receiver is in trouble. */
  get isOpen(): boolean {
    return (this.inARow > 0 || this.isWary) && !this.isProbing
  }

  /** How many first attempts may begin before one has ended differently; `open` is how many have begun and not ended. */
  firstsLeft(open: number): number {
    if (this.isProbing) return Math.max(0, 1 - open)
    return this.hasSeenOther ? Number.POSITIVE_INFINITY : Math.max(0, alikeInARow - this.firsts - open)
  }

  /** Notes the outcome of an attempt; returns how the last first attempts ended, once they prove trouble. */
  note(attempt: 1 | 2, httpStatus: number | null): AlikeEnd | undefined {
    const found = endOf(httpStatus)
    const end = found === 'down' && !this.looksForOutage ? undefined : found
    const isOther = end === undefined || (this.end !== undefined && end !== this.end)
    if (attempt === 2 && !this.isProbing) {
      if (isOther && httpStatus !== null) this.break()
      return undefined
    }
    this.firsts++
    if (isOther && this.isProbing && end !== undefined) this.inARow = 0
    else if (isOther) this.break()
    if (end === undefined) return undefined
    this.end = end
    this.inARow++
    if (this.inARow < (this.isProbing ? alikeMin : alikeInARow)) return undefined
    return end
  }

  /** All first attempts are made: fewer than usual may prove trouble now; if not, the doubt is over. */
  noteAllMade(): AlikeEnd | undefined {
    const { end } = this
    if (this.inARow === this.firsts && this.inARow >= alikeMin) return end
    if (this.isWary) {
      this.isProbing = true
      return undefined
    }
    this.inARow = 0
    this.end = undefined
    return undefined
  }

  /** The receiver is out of trouble: earlier outcomes count no more. */
  restart(): void {
    this.break()
    this.hasSeenOther = false
    this.firsts = 0
  }

  /** Begins anew with the answer that ended a trouble; it counts as that to a first attempt. */
  restartWith(httpStatus: number | null): void {
    this.restart()
    this.note(1, httpStatus)
    this.isWary = this.inARow > 0
  }

  restartUnclear(): void {
    this.restart()
    this.noteUnclear()
  }

  /** A 415 to a compressed delivery tells nothing of a plain one: a second attempt must show whether that is refused too. */
  noteUnclear(): void {
    if (this.hasSeenOther) return
    this.isWary = true
    this.isProbing ||= ++this.unclear >= alikeInARow
  }

  /** First attempts may follow, which show more. */
  endProbing(): void {
    this.isProbing = false
  }

  private break(): void {
    this.isWary = false
    this.isProbing = false
    this.unclear = 0
    this.inARow = 0
    this.end = undefined
    this.hasSeenOther = true
  }
}
