/**
 * The first value of each kind that an import took in with a doubt: one that cannot be read, or a postal code in no table. The
 * summary shows them beside their counts.
 */
import { describeUnreadable, showValue, type UnreadableValue } from './read-value.ts'

/** Where a value stands, what is wrong with it, and how it is shown: escaped and cut. */
export interface Example {
  file: string
  line: number
  message: string
  value: string
}

/** The values of files that could not be read: how many by field, and the first of each field. */
export class UnreadableValues {
  readonly counts = new Map<string, number>()
  readonly examples = new Map<string, Example>()

  add(values: readonly UnreadableValue[], file: string, line: number): void {
    for (const unread of values) {
      const { field, value } = unread
      this.counts.set(field, (this.counts.get(field) ?? 0) + 1)
      if (this.examples.has(field)) continue
      this.examples.set(field, { file, line, message: describeUnreadable(unread), value: showValue(value, field) })
    }
  }

  addAll(others: UnreadableValues): void {
    for (const [field, count] of others.counts) this.counts.set(field, (this.counts.get(field) ?? 0) + count)
    for (const [field, example] of others.examples) if (!this.examples.has(field)) this.examples.set(field, example)
  }
}
