/** Samples the columns, or the keys, of the first records of a file: by their values a message says which field they may be. */
import type { RecordPage } from './read-records.ts'

/** Columns of a file with some of their values that are not empty. */
export type ColumnSamples = ReadonlyMap<string, readonly string[]>

/** So many records are looked at, so many values a column and columns kept, of so many characters. */
const [recordsMax, valuesMax, columnsMax, valueCharsMax] = [200, 50, 500, 200]
/** Keys within keys of JSON, as `address.postalCode`. */
const depthMax = 3

export class ColumnSampler {
  /** In CSV the names of the columns. */
  header: readonly string[] | undefined
  looked = 0
  private readonly found = new Map<string, string[]>()

  look(page: Pick<RecordPage, 'records' | 'header'>): void {
    this.header ??= page.header?.names
    for (const record of page.records) {
      if (this.looked >= recordsMax) break
      this.looked++
      if (record.cells) for (const [at, cell] of record.cells.entries()) this.sample(this.header?.[at] ?? '', cell)
      else this.sampleKeys(record.value, '', 1)
    }
  }

  get samples(): ColumnSamples {
    return this.found
  }

  /** The columns of the header, or else the keys that records had. */
  get names(): readonly string[] {
    return this.header ?? [...this.found.keys()]
  }

  private sampleKeys(value: unknown, prefix: string, depth: number): void {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return
    for (const [key, below] of Object.entries(value)) {
      if (typeof below === 'object' && !Array.isArray(below) && depth < depthMax)
        this.sampleKeys(below, `${prefix}${key}.`, depth + 1)
      else if (typeof below === 'string' || typeof below === 'number') this.sample(prefix + key, String(below))
      else if (depth === 1) this.sample(key, '')
    }
  }

  private sample(column: string, value: string): void {
    let values = this.found.get(column)
    if (!values) {
      if (column === '' || this.found.size >= columnsMax) return
      values = []
      this.found.set(column, values)
    }
    if (value.trim() !== '' && values.length < valuesMax) values.push(value.slice(0, valueCharsMax))
  }
}
