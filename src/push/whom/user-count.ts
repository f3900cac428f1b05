/** Counts the users whom a run or its preview serves, each once. */
export class UserCount {
  total = 0
  /** Users whose subscription push was not begun, since another transaction was changing them; it stays owed. */
  readonly leftOwed = new Set<number>()
  /** Users who may be met again. They are few; the others may be millions and are not remembered. */
  private readonly met = new Set<number>()

  /** Whether it counted users whom it does not remember. */
  get hasForgotten(): boolean {
    return this.total > this.met.size
  }

  remembers(userId: number): boolean {
    return this.met.has(userId)
  }

  get remembered(): readonly number[] {
    return [...this.met]
  }

  /** `mayReturn`: the user was asked for by name, or may be met again, as after a subscription push or a delivery of an earlier run. */
  add(userId: number, mayReturn: boolean): void {
    if (this.met.has(userId)) return
    this.total++
    if (mayReturn) this.met.add(userId)
  }

  /**
   * `users` of a summary (contract 4.15): users served, users skipped, and users left who are not counted yet. Users who are held
   * back are among the skipped, and are counted or left too.
   */
  totalWith({ skipped, heldUsers, uncounted }: { skipped: number; heldUsers: number; uncounted: number }): number {
    return this.total + skipped - heldUsers + uncounted
  }
}
