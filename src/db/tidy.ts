/**
 * Vacuums and analyses after large changes. Autovacuum would do so some time later, and perhaps never in an embedded server
 * that stops with the command. Plans rely on the statistics, index-only scans on the visibility map, searches by words on a
 * short pending list of the index.
 */
import type { OpenDatabase } from './open.ts'
import { type Connection, withTransaction } from './transaction.ts'

const rowsWorthIt = 1_000
const lockMsMax = 10_000

/**
 * Vacuums and analyses `tables` (names of ours) unless few rows changed. Errors are ignored: the next command does it again.
 */
export async function tidyTables(opened: OpenDatabase, tables: readonly string[], changedRows: number): Promise<void> {
  if (changedRows < rowsWorthIt) return
  await opened.pool.query(`vacuum (analyze, skip_locked) ${tables.join(', ')}`).catch(() => {})
}

/** Vacuums `tables` so that deleted rows can no longer be read on disk, unless an older transaction may still see them. */
export async function vacuumTables(opened: OpenDatabase, tables: readonly string[]): Promise<void> {
  for (const table of tables) {
    await opened.pool.query(`vacuum (index_cleanup on, skip_locked) ${table}`).catch(() => {})
  }
}

/**
 * Makes the statistics of `tables` anew, which have values of deleted rows until then. It waits for an analysis under way, which may have
 * read these rows.
 */
export async function analyseTables(opened: OpenDatabase, tables: readonly string[]): Promise<void> {
  const work = (connection: Connection) =>
    connection.query(`set local lock_timeout = ${lockMsMax}; analyze ${tables.join(', ')}`)
  await withTransaction(opened, work).catch(() => {})
}
