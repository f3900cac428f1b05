/**
 * Some users of a push, picked as if at random, go last, and are drawn first: whom the receiver always fails for may be nearly all who are
 * left behind the others, and a draw from these would show trouble where there is none.
 */

/** One in two, but no more than so many: each suspicion of those who fail needs one who does not. */
const reservedShare = 0.5
const reservedMax = 64
/** So few prove no trouble: the first of a push, and a small push, keep the order of their places. */
const orderedFirst = 16

/** Its multiples leave the parts of whole numbers evenly spread. */
export const goldenRatio = (Math.sqrt(5) - 1) / 2
/** The same of 2^32. */
export const reserveFactor = 0x9e3779b1

/** From 0 to 1, the same for each process. */
export const reserveRank = (userId: number) => (Math.imul(userId, reserveFactor) >>> 0) / 2 ** 32

/** `scope`: null where a user was asked for, or is owed a subscription push. */
export class Reserve<Push extends { userId: number; scope: string | null }> {
  /** Users with a lower rank belong to it. */
  below = reservedShare
  private pushes: Push[] = []
  private offered = 0

  /** Takes a push of a pass if its user belongs to the reserve. Returns those that go now. */
  offer(push: Push): Push[] {
    if (push.scope === null || ++this.offered <= orderedFirst || reserveRank(push.userId) >= this.below) return [push]
    this.pushes.push(push)
    this.pushes.sort((a, b) => reserveRank(a.userId) - reserveRank(b.userId))
    const over = this.pushes.splice(reservedMax)
    if (over[0] !== undefined) this.below = reserveRank(over[0].userId)
    return over
  }

  keepOnly(isKept: (push: Push) => boolean): void {
    this.pushes = this.pushes.filter(isKept)
  }

  /** All, in an order as if at random. */
  take(): Push[] {
    return this.pushes.splice(0)
  }
}
