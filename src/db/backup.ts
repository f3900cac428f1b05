/**
 * Writes a backup of a database: gzipped text that any later leadpush on any major version of PostgreSQL restores (`restore.ts`). It
 * begins with a line of JSON about the backup. Then a line for each table names its columns, followed by the rows in COPY's form. A last
 * line ends it: a file without that line breaks off.
 */
import { pipeline } from 'node:stream/promises'
import type { Gzip } from 'node:zlib'
import { LeadpushError } from '../base/errors.ts'
import { packageVersion } from '../base/package-root.ts'
import { copyOut } from './copy.ts'
import type { OpenDatabase } from './open.ts'
import { type Connection, withTransaction } from './transaction.ts'

/** The first line. `format` rises when an older program could not read the backup. */
export interface BackupHead {
  leadpush: 'backup'
  format: 1
  /** The program's version. */
  version: string
  /** The server's major version. */
  postgres: number
  madeAt: string
  /** The migrations that made its tables. */
  migrations: string[]
  /** The key of erasures, encrypted; its table then has no row. */
  erasureKey?: string
}

/** The line before the rows of a table, which end with `\.` on a line of its own. */
export interface BackupTable {
  table: string
  columns: string[]
}

/** The last line. A sequence that was never used is missing. */
export interface BackupEnd {
  tables: number
  rows: number
  sequences: Record<string, number>
}

/**
 * Writes the content of the database at one moment into `gzip`, and ends it; others may write meanwhile. Destroys `gzip` if that fails.
 * `seal` encrypts the key of erasures; without it the key is in the backup in plain form.
 */
export async function writeBackup(opened: OpenDatabase, gzip: Gzip, seal?: Seal): Promise<BackupEnd> {
  const end: BackupEnd = { tables: 0, rows: 0, sequences: {} }
  await withTransaction(opened, (connection) => pipeline(dump(connection, end, seal), gzip), undefined, 'rollback')
  return end
}

type Seal = (erasureKey: Buffer) => string

/** Its one row has the key of erasures. */
const erasureTable = 'erasure_key'

const toLine = (line: BackupHead | BackupTable | BackupEnd) => Buffer.from(`${JSON.stringify(line)}\n`)

async function* dump(connection: Connection, end: BackupEnd, seal: Seal | undefined): AsyncGenerator<Uint8Array> {
  await connection.query('set transaction isolation level repeatable read, read only')
  // an operator's postgresql.conf may say otherwise
  await connection.query("set local datestyle = 'ISO'; set local extra_float_digits = 1")
  const { rows: tables } = await connection.query<BackupTable>(`
    select relname as table, array_agg(attname::text order by attnum) as columns
    from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = current_schema()::regnamespace and relkind = 'r'
      and attnum > 0 and not attisdropped and attgenerated = ''
    group by relname order by relname`)
  // an older schema has no such table
  const sealed =
    seal && tables.some(({ table }) => table === erasureTable) ? seal(await findErasureKey(connection)) : undefined
  yield toLine({ ...(await describe(connection)), ...(sealed && { erasureKey: sealed }) })
  for (const table of tables) {
    yield toLine(table)
    if (sealed === undefined || table.table !== erasureTable) {
      const rows = copyOut(connection, table.table, table.columns)
      yield* rows
      end.rows += rows.rowCount
    }
    yield Buffer.from('\\.\n')
  }
  end.tables = tables.length
  // after the rows: a sequence may be ahead of the snapshot, never behind
  const { rows: sequences } = await connection.query<{ name: string; value: number }>(`
    select sequencename as name, last_value as value from pg_sequences
    where schemaname = current_schema() and last_value is not null order by sequencename`)
  for (const { name, value } of sequences) end.sequences[name] = value
  yield toLine(end)
}

async function findErasureKey(connection: Connection): Promise<Buffer> {
  const { rows } = await connection.query<{ key: Buffer }>(`select key from ${erasureTable}`)
  if (!rows[0])
    throw new LeadpushError('failed', 'The key of erasures is gone: what is saved without it cannot be restored.')
  return rows[0].key
}

async function describe(connection: Connection): Promise<BackupHead> {
  const { rows } = await connection.query<{ postgres: number; migrations: string[] }>(`
    select current_setting('server_version_num')::integer / 10000 as postgres,
      (select array_agg(name::text order by name) from schema_migrations) as migrations`)
  const { postgres = 0, migrations = [] } = rows[0] ?? {}
  return {
    leadpush: 'backup',
    format: 1,
    version: packageVersion,
    postgres,
    madeAt: new Date().toISOString(),
    migrations,
  }
}
