/**
 * Some users of a push, picked as if at random, go last, and are drawn first: whom the receiver always fails for may be nearly all who are
 * left behind the others, and a draw from these would show trouble where there is none.
 */

/** One user in two, but at most so many: each suspicion takes one for whom the receiver is well. */
const reservedShare = 0.5
const reservedMax = 64
/** The first users of a push keep their order. So few prove no trouble. */
const orderedFirst = 16

/** The inverse of the golden ratio: the fractions of its multiples lie evenly between 0 and 1. */
export const goldenRatio = (Math.sqrt(5) - 1) / 2
/** A prime near 2^32 times as much: the same in whole numbers. */
export const reserveFactor = 0x9e3779b1

/** Of a larger id only the rest counts: times the factor it is within a bigint. */
export const reserveIds = 2 ** 31

/** From 0 to 1. It depends on the user's id alone, so each process and the database find the same. */
export const reserveRank = (userId: number) => (Math.imul(userId % reserveIds, reserveFactor) >>> 0) / 2 ** 32

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
