/** Counts, by name, the unknown fields of an import: they are reported, and change nothing. */

/**
 * How many records had each unknown field. Keeps `namesMax` names of `charsMax` characters; further names are counted
 * together.
 */
export class IgnoredFields {
  private readonly counts = new Map<string, number>()
  static readonly namesMax = 1_000
  static readonly charsMax = 100
  /** The name under which further names are counted. */
  static readonly others = '…'

  add(name: string, records = 1): void {
    let key = name.length > IgnoredFields.charsMax ? `${name.slice(0, IgnoredFields.charsMax)}…` : name
    if (!this.counts.has(key) && this.counts.size >= IgnoredFields.namesMax) key = IgnoredFields.others
    this.counts.set(key, (this.counts.get(key) ?? 0) + records)
  }

  /** A cell of CSV. A column without a name, which spreadsheets write, counts where something stands in it. */
  addCell(column: string, cell: string): void {
    if (column !== '' || cell.trim() !== '') this.add(column || '(no name)')
  }

  addAll(others: IgnoredFields): void {
    for (const [name, records] of others.counts) this.add(name, records)
  }

  toObject(): Record<string, number> {
    return Object.fromEntries(this.counts)
  }
}
