/** How many users a run or its preview serves: each once, whatever they get. */
export class UserCount {
  total = 0
  /** Of users there may be millions, of those who may be met again few: these alone are remembered. */
  private readonly met = new Set<number>()

  /** Whether it counted users that it does not remember. */
  get hasForgotten(): boolean {
    return this.total > this.met.size
  }

  remembers(userId: number): boolean {
    return this.met.has(userId)
  }

  get remembered(): readonly number[] {
    return [...this.met]
  }

  /** `mayReturn`: with a subscription push, or with what an earlier run had begun, they may be met again. */
  add(userId: number, mayReturn: boolean): void {
    if (this.met.has(userId)) return
    this.total++
    if (mayReturn) this.met.add(userId)
  }

  /**
   * `users` of a summary (contract 4.15): those it served, whoever else was `skipped`, and those it left who are not counted yet.
   * Who is held back was skipped, and is left.
   */
  totalWith({ skipped, heldUsers, uncounted }: { skipped: number; heldUsers: number; uncounted: number }): number {
    return this.total + skipped - heldUsers + uncounted
  }
}
