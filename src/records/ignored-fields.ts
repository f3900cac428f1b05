/** Counts the fields of an import that nobody knows, by name: they are told, and change nothing. */

/** How often each field that a lead does not have occurred; so many names are told apart, of so many characters. */
export class IgnoredFields {
  private readonly counts = new Map<string, number>()
  static readonly namesMax = 1_000
  static readonly charsMax = 100
  /** What further names are counted under. */
  static readonly others = '…'

  add(name: string, records = 1): void {
    let key = name.length > IgnoredFields.charsMax ? `${name.slice(0, IgnoredFields.charsMax)}…` : name
    if (!this.counts.has(key) && this.counts.size >= IgnoredFields.namesMax) key = IgnoredFields.others
    this.counts.set(key, (this.counts.get(key) ?? 0) + records)
  }

  addAll(others: IgnoredFields): void {
    for (const [name, records] of others.counts) this.add(name, records)
  }

  toObject(): Record<string, number> {
    return Object.fromEntries(this.counts)
  }
}
