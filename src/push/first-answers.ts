/**
 * Whether the first answers of a run are all empty successes (contract 4.5), as those of a login page in the receiver's place are:
 * then the run begins nothing more. Pure: it knows the outcomes that it is given.
 */
import { alikeInARow, alikeMin } from '../base/limits.ts'
import type { AttemptOutcome } from '../deliveries/attempt.ts'

/** Whether such answers hold a run: its reason is that of `findReasonToHold`. */
export const isHeldByAnswers = (reason: string) => reason.startsWith('held: none of the first ')

export class FirstAnswers {
  private empty = 0
  private last = ''
  /** Nothing is looked for any more. */
  private isOver: boolean

  /** `accepts`: the run goes on whatever its first answers are. */
  constructor(accepts: boolean) {
    this.isOver = accepts
  }

  /** How many attempts may begin before an answer of another kind; `open` is how many have begun and not ended. */
  attemptsLeft(open: number): number {
    return this.isOver ? Number.POSITIVE_INFINITY : Math.max(0, alikeInARow - this.empty - open)
  }

  /** Notes the outcome of an attempt, a first or a second one. One without an answer counts for nothing. */
  note({ httpStatus, emptySuccess }: Pick<AttemptOutcome, 'httpStatus' | 'emptySuccess'>): void {
    if (httpStatus === null || this.isOver) return
    if (emptySuccess === undefined) this.isOver = true
    else {
      this.empty++
      this.last = emptySuccess
    }
  }

  /** The reason of a skip line, once enough answers prove trouble; `isAll`: no further answer will come. */
  findReasonToHold(isAll: boolean): string | undefined {
    if (this.isOver || this.empty < (isAll ? alikeMin : alikeInARow)) return undefined
    return `held: none of the first ${this.empty} answers shows that the receiver took a delivery (--accept goes on regardless); the last: ${this.last}`
  }
}
