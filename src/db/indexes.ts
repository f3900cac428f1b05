/**
 * Rebuilds the indexes of tables that lost many of their rows. An index on rising ids thins out, because deleted rows leave room in its
 * pages that no later row fills. Rebuilding blocks nobody and runs outside of any transaction.
 */
import { sql } from 'kysely'
import type pg from 'pg'
import { indexRebuildMsMax } from '../base/limits.ts'
import { cancelOn } from './client.ts'
import type { Database, OpenDatabase } from './open.ts'
import { isOurTable } from './survey.ts'
import type { Tables } from './tables.ts'

type Rows = Readonly<Partial<Record<keyof Tables, number>>>

/** The rows of each table, by the server's last count. */
export async function findRows(db: Database): Promise<Rows> {
  const { rows } = await sql<{ name: string; n: number }>`
    select c.relname::text as name, greatest(c.reltuples, 0)::bigint as n from pg_class c where ${isOurTable}
  `.execute(db)
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]))
}

/** Fewer deleted rows are not worth the work. */
const deletedMin = 100_000

/** The tables of which at least half of their `rows` were `deleted`. */
export const findThinned = (rows: Rows, deleted: Rows): (keyof Tables)[] =>
  (Object.keys(deleted) as (keyof Tables)[]).filter(
    (table) => (deleted[table] ?? 0) >= Math.max(deletedMin, (rows[table] ?? 0) / 2),
  )

/** The indexes that this role may rebuild, the largest first: those of some tables, or the remains of an interrupted rebuilding. */
export async function findIndexes(db: Database, which: readonly (keyof Tables)[] | 'left behind'): Promise<string[]> {
  const isMeant =
    which === 'left behind'
      ? sql`not i.indisvalid and x.relname ~ '_cc(new|old)[0-9]*$'`
      : sql`i.indisvalid and c.relname = any (${which}::text[])`
  const { rows } = await sql<{ name: string }>`
    select x.relname::text as name from pg_index i join pg_class x on x.oid = i.indexrelid join pg_class c on c.oid = i.indrelid
    where ${isOurTable} and pg_has_role(x.relowner, 'usage') and ${isMeant} order by pg_relation_size(x.oid) desc, x.relname
  `.execute(db)
  return rows.map(({ name }) => name)
}

/** Whether some index is being built now: an invalid index may belong to that work. */
async function isSomebodyAtIt(db: Database): Promise<boolean> {
  const { rows } = await sql`
    select from pg_stat_progress_create_index where datname = current_database() limit 1
  `.execute(db)
  return rows.length > 0
}

/** Runs `statement` on a connection of its own until `signal` aborts. */
async function runAlone(pool: pg.Pool, statement: string, signal: AbortSignal): Promise<void> {
  const client = await pool.connect()
  const stopListening = cancelOn(client, signal)
  try {
    signal.throwIfAborted()
    await client.query(statement)
  } finally {
    stopListening()
    client.release(signal.aborted)
  }
}

/** The stop signal and the listeners of a rebuilding. */
export interface Rebuilding {
  /** Aborted: gives up the index under way; the next rebuilding drops its remains. */
  stop: AbortSignal
  onIndex(name: string): void
  /** Called once for an error: nothing more is rebuilt. */
  onTrouble(what: string, error: unknown): void
}

/**
 * Rebuilds the indexes of `tables` one after the other, as many as `indexRebuildMsMax` allows, and returns them. It rebuilds none while
 * anybody else builds an index in this database. Never throws.
 */
export async function rebuildIndexes(
  { db, pool }: OpenDatabase,
  tables: readonly (keyof Tables)[],
  { stop, onIndex, onTrouble }: Rebuilding,
): Promise<string[]> {
  const signal = AbortSignal.any([stop, AbortSignal.timeout(indexRebuildMsMax)])
  const rebuilt: string[] = []
  let at = 'looking for indexes to rebuild'
  try {
    if (await isSomebodyAtIt(db)) return []
    for (const name of await findIndexes(db, 'left behind')) {
      at = `dropping ${name}`
      await runAlone(pool, `drop index concurrently if exists ${name}`, signal)
    }
    for (const name of await findIndexes(db, tables)) {
      at = `rebuilding ${name}`
      onIndex(name)
      await runAlone(pool, `reindex index concurrently ${name}`, signal)
      rebuilt.push(name)
    }
  } catch (error) {
    if (!stop.aborted) onTrouble(at, error)
  }
  return rebuilt
}
