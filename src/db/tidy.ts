/**
 * Vacuums and analyses after large changes. Autovacuum would do so some time later, and perhaps never in an embedded server
 * that stops with the command. Plans rely on the statistics, index-only scans on the visibility map, searches by words on a
 * short pending list of the index.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../base/errors.ts'
import type { OpenDatabase } from './open.ts'

const rowsWorthIt = 1_000

/**
 * Vacuums and analyses `tables` (names of ours) unless few rows changed. Errors are ignored: the next command does it again.
 */
export async function tidyTables(opened: OpenDatabase, tables: readonly string[], changedRows: number): Promise<void> {
  if (changedRows < rowsWorthIt) return
  await opened.pool.query(`vacuum (analyze, skip_locked) ${tables.join(', ')}`).catch(() => {})
}

/** A table that is locked just now is tried so often, with a pause between. */
const lockTriesMax = 25
const lockPauseMs = 200
/** Why each table was not vacuumed. */
export type Untidied = ReadonlyMap<string, string>

const isLocked = 'another session locks it'
/** SQLSTATE of the notice that a table was skipped. */
const lockNotAvailable = '55P03'

/**
 * Vacuums `tables` so that deleted rows can no longer be read on disk, unless an older transaction may still see them. Returns those that
 * it had to leave out, each with why.
 */
export async function vacuumTables(opened: OpenDatabase, tables: readonly string[]): Promise<Untidied> {
  const left = new Map<string, string>()
  for (const table of tables) {
    const why = await vacuumTable(opened, table).then((isDone) => (isDone ? undefined : isLocked), messageOf)
    if (why !== undefined) left.set(table, why)
  }
  return left
}

/** Whether it did; it does not wait in the line for the lock, where every other process would wait behind it. */
async function vacuumTable({ pool }: OpenDatabase, table: string): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    const connection = await pool.connect()
    let isSkipped = false
    const onNotice = ({ code }: { code: string | undefined }) => {
      isSkipped ||= code === lockNotAvailable
    }
    connection.on('notice', onNotice)
    try {
      await connection.query(`vacuum (index_cleanup on, skip_locked) ${table}`)
    } finally {
      connection.off('notice', onNotice)
      connection.release()
    }
    if (!isSkipped) return true
    if (tries === lockTriesMax) return false
    await sleep(lockPauseMs)
  }
}
