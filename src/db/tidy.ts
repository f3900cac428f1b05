/**
 * After much has changed: what autovacuum would do some time later, and in an embedded server that stops with the command
 * perhaps never. Plans rely on the statistics, index-only scans on the visibility map, words on the index's pending list.
 */
import type { OpenDatabase } from './open.ts'

const rowsWorthIt = 1_000

/** `tables` are names of ours. Trouble with it changes nothing: it is repeated by whatever comes next. */
export async function tidyTables(opened: OpenDatabase, tables: readonly string[], changedRows: number): Promise<void> {
  if (changedRows < rowsWorthIt) return
  await opened.pool.query(`vacuum (analyze, skip_locked) ${tables.join(', ')}`).catch(() => {})
}

/** So that what was deleted is no longer there to be read, as far as no older transaction may still look at it. */
export async function vacuumTables(opened: OpenDatabase, tables: readonly string[]): Promise<void> {
  for (const table of tables) {
    await opened.pool.query(`vacuum (index_cleanup on, skip_locked) ${table}`).catch(() => {})
  }
}
