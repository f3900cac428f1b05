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
  /** The record as it came; empty where it must not be kept. */
  raw: Buffer
  /** Whether its `href` or e-mail could be read. */
  isNamed: boolean
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
  problem: string
  raw: Buffer | null
  is_named: boolean
}

/** The bad rows of `table`, in the order of the file, page by page. */
async function* readPages(
  connection: Connection,
  { table, key }: Pick<RejectOptions, 'table' | 'key'>,
): AsyncGenerator<StagedReject[]> {
  await connection.query(
    `declare staged_rejects no scroll cursor for
     select s.ctid::text as row, line, problem, ${key} is not null as is_named, case when octet_length(raw) <= ${rawBytesMax} then raw end as raw
     from ${table} s where problem is not null order by n`,
  )
  for (;;) {
    const { rows } = await connection.query<Row>(`fetch ${recordsPerFetch} from staged_rejects`)
    if (rows.length === 0) break
    let page: StagedReject[] = []
    let bytes = 0
    for (const { row, line, problem, raw: small, is_named: isNamed } of rows) {
      const raw = small ?? (await readLarge(connection, table, row))
      if (bytes > 0 && bytes + raw.length > bytesPerPage) {
        yield page
        page = []
        bytes = 0
      }
      const [path, message] = JSON.parse(problem)
      page.push({ line, raw, path, message, isNamed })
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

/** What becomes of bad rows. */
export interface RejectOptions {
  /** The staging table, and its column of what tells whose record it is. */
  table: string
  key: string
  onRejected: (rejected: StagedReject) => void | Promise<void>
  /** The indexes of rejects with what was erased: they are counted apart and not told, but where it `redacts`. */
  findErased?: (rejects: readonly StagedReject[]) => Promise<ReadonlyMap<number, { redacts: boolean }>>
  /** Takes all of them, as they came. */
  onPage?: ((rejects: readonly StagedReject[]) => Promise<void>) | undefined
}

/** Without the record, and without the value that a message ends with. */
const redact = ({ line, path, message, isNamed }: StagedReject): StagedReject => ({
  line,
  isNamed,
  path,
  message: message.replace(/: .*$/s, ''),
  raw: Buffer.alloc(0),
})

/** Tells the bad rows, deletes them, and returns how many were told and how many hidden. */
export async function rejectStaged(
  connection: Connection,
  { table, key, onRejected, findErased, onPage }: RejectOptions,
): Promise<{ rejected: number; hidden: number }> {
  let [rejected, hidden] = [0, 0]
  for await (const page of readPages(connection, { table, key })) {
    await onPage?.(page)
    const erased = await findErased?.(page)
    for (const [at, reject] of page.entries()) {
      const hit = erased?.get(at)
      if (hit && !hit.redacts) {
        hidden++
        continue
      }
      rejected++
      await onRejected(hit ? redact(reject) : reject)
    }
  }
  if (rejected + hidden > 0) await connection.query(`delete from ${table} where problem is not null`)
  return { rejected, hidden }
}

/**
 * Gives `problem` to the rows `s` for which the SQL `where` holds, rejects them as `rejectStaged` does, and returns how many they are. The
 * rows are found once: each row that is deleted was told, even if others change rows meanwhile.
 */
export async function rejectFound(
  connection: Connection,
  where: string,
  problem: Problem,
  options: Omit<RejectOptions, 'findErased'>,
): Promise<number> {
  const found = `update ${options.table} s set problem = $1 where ${where}`
  const { rowCount } = await connection.query(found, [serialiseProblem(problem)])
  return rowCount ? (await rejectStaged(connection, options)).rejected : 0
}
