/**
 * Finds old rows without an index, which every delivery would have to pay for, by their position in the table: reads the
 * table once, a stretch of blocks at a time, and deletes old rows in bounded batches, one transaction each.
 */

import { type RawBuilder, sql } from 'kysely'
import { pruneRowsMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'

/** What a prune works with. */
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

/** What `prune` does with one table, whose rows are called `t`. */
export interface SweptPart {
  table: string
  /** SQL: whether row `t` goes; undefined where none does. */
  isOld(context: PruneContext): RawBuilder<boolean> | Promise<RawBuilder<boolean> | undefined>
  /** SQL: what row `t` counts; 1 where it is left out. */
  units?: RawBuilder<number>
  /** Deletes rows for which `isMeant` holds, at most `pruneRowsMax`, and returns how many, where one statement cannot. */
  deleteRows?(context: PruneContext, isMeant: RawBuilder<boolean>): Promise<number>
}

/** Deletes the old rows of a table, and returns what they count; in a dry run adds it up. Skips locked rows. */
export async function sweepPart(context: PruneContext, part: SweptPart): Promise<number> {
  const { db, dryRun } = context
  const table = sql.table(part.table)
  const isOld = await part.isOld(context)
  if (isOld === undefined) return 0
  let units = 0
  const add = async (rows: RawBuilder<unknown>) => {
    const { rows: sums } = await sql<{ found: number; units: number }>`
      with gone as (${rows}) select count(*) as found, coalesce(sum(units), 0)::bigint as units from gone
    `.execute(db)
    units += sums[0]?.units ?? 0
    return sums[0]?.found ?? 0
  }
  const each = part.units ?? sql<number>`1`
  const handle = async (isMeant: RawBuilder<boolean>) => {
    if (dryRun) return await add(sql`select ${each} as units from ${table} t where ${isMeant}`)
    if (!part.deleteRows)
      return await add(sql`delete from ${table} t where t.ctid = any (array(
        select t.ctid from ${table} t where ${isMeant} limit ${pruneRowsMax} for update skip locked
      )) returning ${each} as units`)
    const found = await part.deleteRows(context, isMeant)
    units += found
    return found
  }
  await sweep(
    context,
    part.table,
    (isHere) => handle(sql`${isHere} and (${isOld})`),
    dryRun ? Number.POSITIVE_INFINITY : pruneRowsMax,
  )
  return units
}
