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

/**
 * What is known of the receiver, and what becomes of second attempts meanwhile:
 *
 *   open     nothing, or the last first attempts ended alike: they wait
 *   wary     an answer ended a trouble but looks like another, or refused an encoding alone: they wait
 *   probing  the same, and no first attempt may follow: they are made one by one, and count as first ones
 *   calm     no trouble is in sight: they are made as they are due
 *
 * An attempt that ends without trouble leads to calm; the end of the first attempts from open to calm, from wary to probing.
 */
type DoubtState = 'open' | 'wary' | 'probing' | 'calm'

export class Doubt {
  /** How many first attempts in a row ended alike. */
  inARow = 0

  private readonly looksForOutage: boolean
  private state: DoubtState = 'open'
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
    return this.state === 'open' || this.state === 'wary'
  }

  get isProbing(): boolean {
    return this.state === 'probing'
  }

  /** One answer has raised a doubt that more must prove or end. */
  get isUnsettled(): boolean {
    return this.state === 'wary' || this.state === 'probing'
  }

  /** How many first attempts may begin before one has ended differently; `open` is how many have begun and not ended. */
  firstsLeft(open: number): number {
    if (this.isProbing) return Math.max(0, 1 - open)
    return this.hasSeenOther ? Number.POSITIVE_INFINITY : Math.max(0, alikeInARow - this.firsts - this.unclear - open)
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
    if (this.state === 'calm') this.state = 'open'
    this.end = end
    this.inARow++
    if (this.inARow >= (this.isProbing ? alikeMin : alikeInARow)) return end
    this.probeIfNoFirstsLeft()
    return undefined
  }

  /** All first attempts are made: fewer than usual may prove trouble now. */
  noteAllMade(): AlikeEnd | undefined {
    if (this.inARow === this.firsts && this.inARow >= alikeMin) return this.end
    if (this.state === 'wary') this.state = 'probing'
    else if (this.hasSeenOther) this.calm()
    else this.restart()
    return undefined
  }

  /** The receiver is out of trouble: earlier outcomes count no more. */
  restart(): void {
    this.calm()
    this.hasSeenOther = false
    this.firsts = 0
  }

  /** Begins anew with the answer that ended a trouble; it counts as that to a first attempt. */
  restartWith(httpStatus: number | null): void {
    this.restart()
    this.note(1, httpStatus)
    if (this.state === 'open') this.state = 'wary'
  }

  restartUnclear(): void {
    this.restart()
    this.noteUnclear()
  }

  /** A 415 to a compressed delivery tells nothing of a plain one: a second attempt must show whether that is refused too. */
  noteUnclear(): void {
    if (this.hasSeenOther) return
    this.unclear++
    if (!this.isProbing) this.state = 'wary'
    this.probeIfNoFirstsLeft()
  }

  /** First attempts may follow, which show more. */
  endProbing(): void {
    if (!this.isProbing) return
    this.state = 'wary'
    this.firsts = 0
    this.unclear = 0
  }

  private probeIfNoFirstsLeft(): void {
    if (this.state === 'wary' && this.firstsLeft(0) === 0) this.state = 'probing'
  }

  private break(): void {
    this.calm()
    this.hasSeenOther = true
  }

  private calm(): void {
    this.state = 'calm'
    this.unclear = 0
    this.inARow = 0
    this.end = undefined
  }
}
