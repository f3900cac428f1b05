/** Counts the users whom a run or its preview serves, each once. */
export class UserCount {
  total = 0
  /** The ids, 32 a number: millions of users take a few megabytes. */
  private readonly counted = new Map<number, number>()
  /** Users who may still be owed something. They are few. */
  private readonly met = new Set<number>()

  remembers(userId: number): boolean {
    return this.met.has(userId)
  }

  get remembered(): readonly number[] {
    return [...this.met]
  }

  /** `mayReturn`: the user was asked for by name, or is met again, as after a subscription push or a delivery of an earlier run. */
  add(userId: number, mayReturn: boolean): void {
    if (mayReturn) this.met.add(userId)
    const [at, bit] = [Math.floor(userId / 32), 1 << (userId % 32)]
    const bits = this.counted.get(at) ?? 0
    if ((bits & bit) !== 0) return
    this.counted.set(at, bits | bit)
    this.total++
  }

  /**
   * `users` of a summary (contract 4.15): users served, users skipped, and users left who are not counted yet. Users who are left
   * out with a line are among the skipped, and are counted or left too.
   */
  totalWith({ skipped, leftOut, uncounted }: { skipped: number; leftOut: number; uncounted: number }): number {
    return this.total + skipped - leftOut + uncounted
  }
}
