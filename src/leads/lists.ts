/**
 * Lists of what is to be erased: one identifier a line, or the files of the Delete Request and Opt-out Platform. A list is staged by COPY,
 * then recorded in whole statements, so that neither its length nor the number of listings matters to memory.
 */
import { lineCharsMax } from '../base/read-lines.ts'
import { type CopyRows, copyInto } from '../db/copy.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'
import { parseContact } from './contacts.ts'
import { type DropFile, readWorkItems } from './drop-files.ts'
import { countNewErasures, type Erasure, type ErasureRow, recordErasures, toErasureRow } from './erasures.ts'
import { hrefSchema } from './lead.ts'
import { findKey } from './marks.ts'

/** What recording a list came to. */
export interface ListCounts {
  /** Lines, or work items. */
  read: number
  /** Identifiers that were not refused before. */
  added: number
  /** Lines that are neither a URL nor a contact. */
  rejected: number
  /** Removed work items. */
  removed: number
}

const stagedColumns = 'id, mark, kind, list_mark, removed'

async function createStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_list (
      id text, mark bytea not null, kind text not null, list_mark bytea, removed boolean not null
    ) on commit drop`)
}

/** Adds a row of `staged_list`; of a work item with its `id`, and whether it is a removed one. */
function addStaged(rows: CopyRows, id: string | undefined, erasure: ErasureRow, removed = false): void {
  rows.begin(5)
  rows.text(id)
  rows.bytea(erasure.mark)
  rows.text(erasure.kind)
  rows.bytea(erasure.list_mark ?? undefined)
  rows.boolean(removed)
}

/** Stages what is to be looked for as `listed_marks`, and returns how many of these marks are new. */
async function stageMarks(connection: Connection, redacts: boolean): Promise<number> {
  await connection.query(
    `create temp table listed_marks on commit drop as
     select distinct on (s.mark) s.mark, s.kind, s.list_mark, ${redacts} as redacts from staged_list s where not s.removed
       and not exists (select from work_items w where w.id = s.id and w.mark is null)
       and not exists (select from staged_list r where r.removed and r.id = s.id) order by s.mark`,
  )
  await connection.query('create index on listed_marks (mark)')
  await connection.query('analyze listed_marks')
  const { rows } = await connection.query<{ n: number }>(countNewErasures('listed_marks'))
  return rows[0]?.n ?? 0
}

/** Records what is staged, but for a dry run. Returns how many marks are new. */
async function record(connection: Connection, redacts: boolean, dryRun: boolean): Promise<number> {
  await connection.query('analyze staged_list')
  await connection.query(`set local work_mem = '64MB'`)
  const added = await stageMarks(connection, redacts)
  if (dryRun) return added
  await connection.query(
    `insert into work_items (id, mark) select distinct on (id) id, mark from staged_list where id is not null and not removed
     order by id on conflict do nothing`,
  )
  await connection.query(
    `insert into work_items (id) select distinct id from staged_list where removed on conflict (id) do update set mark = null`,
  )
  await connection.query(recordErasures('listed_marks'))
  await connection.query(
    `delete from erasures e using staged_list s where s.removed and e.mark = s.mark and e.kind in ('email', 'phone')
       and not exists (select from work_items w where w.mark = e.mark)`,
  )
  return added
}

/** How a list is recorded. */
export interface RecordListOptions {
  redacts: boolean
  dryRun: boolean
  signal?: AbortSignal
  /** A line that is neither a URL nor a contact. */
  onRejected?: (line: number) => void
}

/** The erasure that a line of a list is; undefined for any other text. */
function parseLine(line: string): Erasure | undefined {
  const text = line.trim()
  if (text.length >= lineCharsMax) return undefined
  if (/^https?:/i.test(text)) {
    const parsed = hrefSchema.safeParse(text)
    return parsed.success ? { href: parsed.data } : undefined
  }
  const contact = parseContact(text)
  return contact === undefined ? undefined : { contact }
}

/** Records the lines of a list; blank ones do not count. In a transaction. */
export async function recordLines(
  connection: Connection,
  lines: AsyncIterable<string>,
  { redacts, dryRun, onRejected }: RecordListOptions,
): Promise<ListCounts> {
  const key = await findKey(kyselyOn(connection))
  await createStaging(connection)
  const counts = { read: 0, added: 0, rejected: 0, removed: 0 }
  await copyInto(connection, `staged_list (${stagedColumns})`, async (rows, flush) => {
    let at = 0
    for await (const line of lines) {
      at++
      if (line.trim() === '') continue
      counts.read++
      const erasure = parseLine(line)
      if (erasure === undefined) {
        counts.rejected++
        onRejected?.(at)
        continue
      }
      addStaged(rows, undefined, toErasureRow(key, erasure))
      if (rows.isFull) await flush()
    }
  })
  counts.added = await record(connection, redacts, dryRun)
  return counts
}

/** Records the work items of all files, or of none where one is broken. In a transaction. */
export async function recordWorkItems(
  connection: Connection,
  files: readonly DropFile[],
  { redacts, dryRun, signal }: RecordListOptions,
): Promise<ListCounts> {
  const key = await findKey(kyselyOn(connection))
  await createStaging(connection)
  const counts = { read: 0, added: 0, rejected: 0, removed: 0 }
  await copyInto(connection, `staged_list (${stagedColumns})`, async (rows, flush) => {
    for (const file of files) {
      const removed = file.type === 'Removed'
      for await (const items of readWorkItems(file, signal)) {
        counts[removed ? 'removed' : 'read'] += items.length
        for (const item of items) {
          addStaged(rows, item.id, toErasureRow(key, item), removed)
          if (rows.isFull) await flush()
        }
      }
    }
  })
  counts.added = await record(connection, redacts, dryRun)
  return counts
}
