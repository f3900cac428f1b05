/**
 * The unreadable values that an import took as unknown: their number by field, and the first of each. The summary shows them. They are
 * staged with their records, because a record may still be replaced, rejected or kept out.
 */
import type { Connection } from '../db/transaction.ts'
import { describeUnreadable, type UnreadableValue } from './read-value.ts'

/** The place of a value, its fault, and its form in messages: escaped and cut. */
export interface Example {
  file: string
  line: number
  message: string
  value: string
}

export class UnreadableValues {
  readonly counts = new Map<string, number>()
  /** The first by field; also the first unknown postal code. */
  readonly examples = new Map<string, Example>()

  add(field: string, count: number, example: Example): void {
    this.counts.set(field, (this.counts.get(field) ?? 0) + count)
    this.addExample(field, example)
  }

  addAll({ counts, examples }: UnreadableValues): void {
    for (const [field, count] of counts) this.counts.set(field, (this.counts.get(field) ?? 0) + count)
    for (const [field, example] of examples) this.addExample(field, example)
  }

  addExample(field: string, example: Example): void {
    if (!this.examples.has(field)) this.examples.set(field, example)
  }
}

type Staged = [field: string, message: string, value: string]

/** The values of a record, for `staged_leads.unread`. */
export function serialiseUnread(values: readonly UnreadableValue[]): string {
  const staged = values.map((unread): Staged => {
    const { message, value } = describeUnreadable(unread)
    return [unread.field, message, value]
  })
  return JSON.stringify(staged)
}

/** Adds the values of the merged records in `staged_leads`, those of `file`, to `unreadable`. */
export async function addUnread(connection: Connection, file: string, unreadable: UnreadableValues): Promise<void> {
  const { rows } = await connection.query<{ field: string; count: number; line: number; unread: string }>(
    `with counted as (
       select u.value->>0 as field, count(*) as count, min(s.n) as n
       from staged_leads s, jsonb_array_elements(s.unread::jsonb) u where s.unread is not null group by 1
     )
     select c.field, c.count, s.line, s.unread from counted c join staged_leads s on s.n = c.n order by c.n, c.field`,
  )
  for (const { field, count, line, unread } of rows) {
    const [, message = '', value = ''] = (JSON.parse(unread) as Staged[]).find(([name]) => name === field) ?? []
    unreadable.add(field, count, { file, line, message, value })
  }
}
