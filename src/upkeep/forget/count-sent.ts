/** Counts the deliveries that were sent with erased listings, as far as the ledger still knows and a few seconds allow. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { decodeRecipe } from '../../deliveries/recipe.ts'

/** How many deliveries had an erased listing in them. */
export interface SentCount {
  /** Deliveries that are delivered or unknown. */
  count: number
  /** False if the time ran out before older deliveries were read. */
  complete: boolean
}

const lookMsMax = 10_000
const blocksPerLook = 512

/** Counts deliveries with one of the versions; reads the table from its end, where most of the newest rows are. */
export async function countSent(db: Database, erased: ReadonlySet<number>, stop: AbortSignal): Promise<SentCount> {
  const { rows: sizes } = await sql<{ blocks: number }>`
    select pg_relation_size('deliveries') / current_setting('block_size')::bigint as blocks
  `.execute(db)
  const isErased = (id: number) => erased.has(id)
  const untilMs = performance.now() + lookMsMax
  let count = 0
  for (let to = sizes[0]?.blocks ?? 0; to > 0; to -= blocksPerLook) {
    if (stop.aborted || performance.now() > untilMs) return { count, complete: false }
    const from = Math.max(0, to - blocksPerLook)
    const { rows } = await sql<{ recipe: Buffer }>`
      select recipe from deliveries where ctid >= ${`(${from},0)`}::tid and ctid < ${`(${to},0)`}::tid
        and status in ('delivered', 'unknown')
    `.execute(db)
    for (const { recipe } of rows) if (decodeRecipe(recipe).some(isErased)) count++
  }
  return { count, complete: true }
}
