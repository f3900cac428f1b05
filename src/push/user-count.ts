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
}
