/**
 * Restores a backup into an empty home. The database is made beside its place, by the migrations of the backup's own time, and
 * renamed when it is complete: a backup that breaks off, or a process that is killed, leaves the home empty.
 */
import { rename } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import type { BackupEnd, BackupHead, BackupTable } from './backup.ts'
import { BackupReader } from './backup-reader.ts'
import { copyIn } from './copy.ts'
import { newTemporaryName, sync } from './embedded/cluster.ts'
import { findOwnPaths, makeHome } from './embedded/own-folders.ts'
import { findPaths, hasData, type Paths } from './embedded/paths.ts'
import { findServer, stopServer } from './embedded/postmaster.ts'
import { startThrowAway } from './embedded/throw-away.ts'
import { knowsMigrations, migrateTo, migrationTable } from './migrate.ts'
import { type OpenDatabase, openDatabase } from './open.ts'
import { type Connection, withTransaction } from './transaction.ts'

/** A restored backup, and the result. */
export interface Restored extends BackupHead {
  rows: number
  strangers: Strangers
}

/** Tables of a backup that are not leadpush's: they were left out. A backup may have any number of them, so only some names are kept. */
interface Strangers {
  count: number
  names: string[]
}

const namesMax = 20
/** PostgreSQL's. */
const nameCharsMax = 63

/**
 * Restores the backup `input` into `home`, with its schema: the next command that opens the database migrates it. Throws `usage`, with
 * nothing done, if the home has a database, or if `input` is not a backup that this program knows; `failed` if it breaks off. `open`
 * decrypts the key of erasures, if it is encrypted in the backup; its errors end the restore with nothing done.
 */
export async function restoreBackup(
  home: string,
  input: Readable,
  open?: (erasureKey: string) => Buffer,
): Promise<Restored> {
  const paths = await findOwnPaths(home)
  if (await hasData(paths)) throw occupied(paths)
  const reader = new BackupReader(input)
  const head = await readHead(reader)
  const erasureKey = head.erasureKey === undefined ? undefined : open?.(head.erasureKey)
  await makeHome(home)
  const prefix = `${newTemporaryName()}-`
  const server = await startThrowAway({ folder: home, prefix, throwAway: false })
  try {
    const loaded = await load(server.url, head, reader, erasureKey)
    await putInPlace(await findPaths(server.home), await findOwnPaths(home))
    return { ...head, ...loaded }
  } finally {
    await server.leave()
  }
}

const occupied = ({ home }: Paths) =>
  new LeadpushError('usage', `There is a database in ${home} already.`, {
    hint: 'Set LEADPUSH_HOME to an empty folder, or move this one away.',
  })

/** Stops the server of `made`, and gives its data to `paths`. */
async function putInPlace(made: Paths, paths: Paths): Promise<void> {
  await stopServer(made)
  if ((await findServer(made)) !== undefined) {
    throw new LeadpushError('database', 'The PostgreSQL that took the backup in does not stop.')
  }
  try {
    await rename(made.data, paths.data)
  } catch (error) {
    throw codeOf(error) === 'ENOTEMPTY' || codeOf(error) === 'EEXIST' ? occupied(paths) : error
  }
  await sync(paths.home)
}

async function readHead(reader: BackupReader): Promise<BackupHead> {
  const head = (await reader.readLine().catch(() => ({}))) as Partial<BackupHead>
  if (!isHead(head)) {
    throw new LeadpushError('usage', 'This is not a backup of leadpush.', {
      hint: '`leadpush db backup FILE` makes one.',
    })
  }
  if (head.format !== 1 || !(await knowsMigrations(head.migrations))) {
    throw new LeadpushError('usage', `The backup is of a newer leadpush (${head.version}).`, {
      hint: 'Restore it with that version, or a later one.',
    })
  }
  return head
}

/** Whoever made the backup may have written anything. */
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string')

const isHead = (head: Partial<BackupHead>): head is BackupHead =>
  head.leadpush === 'backup' &&
  isTexts([head.version, head.madeAt, head.erasureKey ?? '']) &&
  Number.isInteger(head.postgres) &&
  isTexts(head.migrations)

const isTable = (line: Partial<BackupTable>): line is BackupTable =>
  typeof line.table === 'string' && isTexts(line.columns)

const isEnd = ({ sequences }: Partial<BackupEnd>) =>
  typeof sequences === 'object' && sequences !== null && Object.values(sequences).every(Number.isSafeInteger)

async function load(url: string, head: BackupHead, reader: BackupReader, erasureKey: Buffer | undefined) {
  const opened = await openDatabase({ databaseUrl: url, home: '' }, { schema: 'untouched' })
  try {
    await migrateTo(opened.db, head.migrations)
    const loaded = await withTransaction(opened, (connection) => loadAll(connection, reader, erasureKey)).catch(
      (error) => {
        throw error instanceof LeadpushError
          ? error
          : new LeadpushError('failed', `The backup cannot be restored: ${messageOf(error)}; nothing was kept.`, {
              hint: 'Restore another backup.',
              cause: error,
            })
      },
    )
    await analyse(opened)
    return loaded
  } finally {
    await opened.close()
  }
}

async function loadAll(
  connection: Connection,
  reader: BackupReader,
  erasureKey: Buffer | undefined,
): Promise<Pick<Restored, 'rows' | 'strangers'>> {
  // rows come in any order and have the effects of triggers already: foreign keys and triggers are off
  await connection.query('set local session_replication_role = replica')
  const { rows: found } = await connection.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'`,
  )
  const known = new Set(found.map(({ name }) => name))
  const made = await findMigrations(connection)
  const missing = new Set(known)
  // migrations bring rows of their own; and filling a table that was emptied in the same transaction needs no WAL
  await connection.query(`truncate ${[...known].join(', ')} cascade`)
  const strangers: Strangers = { count: 0, names: [] }
  let [tables, rows, rowsLeftOut] = [0, 0, 0]
  for (;;) {
    const line = (await reader.readLine()) as BackupTable | BackupEnd
    if (!('table' in line ? isTable(line) : isEnd(line)))
      throw new Error('a line between its tables is none of a backup')
    if (!('table' in line)) {
      if (line.tables !== tables || line.rows !== rows + rowsLeftOut)
        throw new Error('it has not the rows that its end tells')
      for (const [name, value] of Object.entries(line.sequences))
        await connection.query('select setval(to_regclass($1), $2)', [name, value])
      await reader.readEnd()
      if (missing.size > 0) throw new Error(`it has no table ${[...missing].join(', ')}`)
      if ((await findMigrations(connection)) !== made)
        throw new Error('its migrations are not those that its head names')
      if (erasureKey) await connection.query('insert into erasure_key values ($1)', [erasureKey])
      await checkErasureKey(connection)
      return { rows, strangers }
    }
    tables++
    missing.delete(line.table)
    if (known.has(line.table)) rows += await copyIn(connection, line.table, line.columns, reader.readRows())
    else {
      if (strangers.count++ < namesMax) strangers.names.push(line.table.slice(0, nameCharsMax))
      for await (const bytes of reader.readRows()) rowsLeftOut += count(bytes)
    }
  }
}

/** The migrations that made the tables, as text: a home with other migrations cannot be opened. */
async function findMigrations(connection: Connection): Promise<string> {
  const { rows } = await connection.query(`select name, checksum from ${migrationTable} order by name`)
  return JSON.stringify(rows)
}

/** Without the one row of this table nothing could be erased. */
async function checkErasureKey(connection: Connection): Promise<void> {
  const { rows } = await connection.query<{ n: number }>('select count(*)::integer as n from erasure_key')
  if (rows[0]?.n !== 1) throw new Error('it has not the one row of erasure_key')
}

/** Rows are lines: COPY spells a line break within a value `\n`. */
function count(bytes: Buffer): number {
  let lines = 0
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines++
  return lines
}

/** As after a large import: an embedded server may never do it by itself. */
async function analyse(opened: OpenDatabase): Promise<void> {
  await opened.pool.query('vacuum (analyze)')
}
