/**
 * The bad records of an import. They are staged among the good ones, because a later bad record replaces an earlier good one
 * like any other, and because some records turn out bad only once the whole file is read.
 */
import type { Connection } from '../db/transaction.ts'

/** What is wrong with a record. */
export interface Problem {
  /** The field, or '' for the record as a whole. */
  path: string
  message: string
}

/** What is said of a field that a record must have, and has not. */
export const missing = 'is missing'

/** A rejected record with its problem. */
export interface StagedReject extends Problem {
  line: number
  /** The record as it came. */
  raw: Buffer
}

/** A problem as the staging table keeps it: as JSON, since the message may hold a NUL. */
export const serialiseProblem = ({ path, message }: Problem): string => JSON.stringify([path, message])

const recordsPerFetch = 256
const bytesPerPage = 1024 * 1024
/** Larger records are read one by one. */
const rawBytesMax = 8 * 1024

interface Row {
  row: string
  line: number
  problem: string | null
  raw: Buffer | null
}

/** The rows of `table` for which `where` holds, in the order of the file, page by page. */
async function* readPages(
  connection: Connection,
  { table, where, otherwise }: RejectOptions,
): AsyncGenerator<StagedReject[]> {
  await connection.query(
    `declare staged_rejects no scroll cursor for
     select s.ctid::text as row, line, problem, case when octet_length(raw) <= ${rawBytesMax} then raw end as raw
     from ${table} s where ${where} order by n`,
  )
  for (;;) {
    const { rows } = await connection.query<Row>(`fetch ${recordsPerFetch} from staged_rejects`)
    if (rows.length === 0) break
    let page: StagedReject[] = []
    let bytes = 0
    for (const { row, line, problem, raw: small } of rows) {
      const raw = small ?? (await readLarge(connection, table, row))
      if (bytes > 0 && bytes + raw.length > bytesPerPage) {
        yield page
        page = []
        bytes = 0
      }
      const [path, message] = problem === null ? [otherwise.path, otherwise.message] : JSON.parse(problem)
      page.push({ line, raw, path, message })
      bytes += raw.length
    }
    yield page
  }
  await connection.query('close staged_rejects')
}

async function readLarge(connection: Connection, table: string, row: string): Promise<Buffer> {
  const { rows } = await connection.query<{ raw: Buffer }>(`select raw from ${table} where ctid = $1::tid`, [row])
  return rows[0]?.raw ?? Buffer.alloc(0)
}

/** Which rows to reject, and whom to tell. */
export interface RejectOptions {
  table: string
  /** SQL over the rows `s` of the staging table. */
  where: string
  /** The problem of rows that have none of their own. */
  otherwise: Problem
  onRejected: (rejected: StagedReject) => void | Promise<void>
  /** The indexes of rejects that are counted apart and not told. */
  findHidden?: (rejects: readonly StagedReject[]) => Promise<ReadonlySet<number>>
}

/** Tells the rows for which `where` holds, deletes them, and returns how many were told and how many hidden. */
export async function rejectStaged(
  connection: Connection,
  options: RejectOptions,
): Promise<{ rejected: number; hidden: number }> {
  let [rejected, hidden] = [0, 0]
  for await (const page of readPages(connection, options)) {
    const apart = (await options.findHidden?.(page)) ?? new Set()
    for (const [at, reject] of page.entries()) if (!apart.has(at)) await options.onRejected(reject)
    hidden += apart.size
    rejected += page.length - apart.size
  }
  if (rejected + hidden > 0) await connection.query(`delete from ${options.table} s where ${options.where}`)
  return { rejected, hidden }
}
