/**
 * Finds old rows without an index, which every delivery would have to pay for, by their position in the table: reads the
 * table once, a stretch of blocks at a time, and deletes old rows in bounded batches, one transaction each.
 */

import { type RawBuilder, sql } from 'kysely'
import { pruneRowsMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'

/** What each part of a prune works with. */
export interface PruneContext {
  db: Database
  /** Rows older than this go: a `timestamptz` as text, to the microsecond. */
  before: string
  maxLeadAgeMs: number
  /** Deletes nothing, and counts what would be deleted. */
  dryRun: boolean
  /** Aborted: no batch is begun after the one under way. */
  stop: AbortSignal
}

/** A statement looks at 16 MB of a table at most. */
const blocksMax = 2_048
const blocksAtFirst = 64

/**
 * Calls `work` for each stretch of `table`, with SQL that tells whether row `t` lies in it. `work` handles at most `rowsMax`
 * rows and returns how many; it is called again for a stretch that had that many. Returns the sum.
 */
export async function sweep(
  { db, stop }: Pick<PruneContext, 'db' | 'stop'>,
  table: string,
  work: (isHere: RawBuilder<boolean>) => Promise<number>,
  rowsMax = pruneRowsMax,
): Promise<number> {
  const { rows } = await sql<{ blocks: number }>`
        select pg_relation_size(${table}::regclass) / current_setting('block_size')::bigint as blocks
      `.execute(db)
  const blocks = rows[0]?.blocks ?? 0
  let sum = 0
  let span = blocksAtFirst
  for (let from = 0; from < blocks && !stop.aborted; ) {
    const isHere = sql<boolean>`t.ctid >= ${`(${from},0)`}::tid and t.ctid < ${`(${from + span},0)`}::tid`
    const found = await rideOut(db, () => work(isHere))
    sum += found
    if (found >= rowsMax) {
      span = Math.max(1, span >> 1)
      continue
    }
    from += span
    if (found * 4 < pruneRowsMax) span = Math.min(blocksMax, span * 2)
  }
  return sum
}

/** Deletes rows `t` for which `isMeant` holds, at most `pruneRowsMax`, and returns how many. */
type DeleteRows = (isMeant: RawBuilder<boolean>) => Promise<number>

/** Deletes rows; skips locked ones. */
const deleteFrom =
  ({ db }: PruneContext, table: string): DeleteRows =>
  async (isMeant) => {
    const { numAffectedRows } = await sql`
      delete from ${sql.table(table)} where ctid = any (array(
        select t.ctid from ${sql.table(table)} t where ${isMeant} limit ${pruneRowsMax} for update skip locked
      ))
    `.execute(db)
    return Number(numAffectedRows ?? 0)
  }

/** Deletes the rows `t` of `table` for which `isOld` holds; in a dry run counts them, or adds up `counted` of them. */
export function sweepRows(
  context: PruneContext,
  table: string,
  isOld: RawBuilder<boolean>,
  deleteRows: DeleteRows = deleteFrom(context, table),
  counted = sql<number>`count(*)`,
): Promise<number> {
  if (!context.dryRun) return sweep(context, table, (isHere) => deleteRows(sql`${isHere} and (${isOld})`))
  const count = async (isHere: RawBuilder<boolean>) => {
    const { rows } = await sql<{ n: number }>`
      select ${counted} as n from ${sql.table(table)} t where ${isHere} and (${isOld})
    `.execute(context.db)
    return rows[0]?.n ?? 0
  }
  return sweep(context, table, count, Number.POSITIVE_INFINITY)
}
