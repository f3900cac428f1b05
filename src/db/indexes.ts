/**
 * Finds and rebuilds thin indexes. An index on rising ids thins out, because deleted rows leave room in its pages that no
 * later row fills. The server's statistics alone tell which indexes are thin; rebuilding blocks nobody and runs outside of
 * any transaction.
 */
import { sql } from 'kysely'
import type pg from 'pg'
import { indexRebuildMsMax } from '../base/limits.ts'
import { cancelOn } from './client.ts'
import type { Database, OpenDatabase } from './open.ts'
import { ourTables } from './survey.ts'

/** An index that is much larger than it has to be. */
export interface ThinIndex {
  name: string
  bytes: number
  /** An estimate of its size after rebuilding. */
  denseBytes: number
  /** Whether this role may rebuild it. */
  isOurs: boolean
}

/**
 * An index is thin when rebuilding would leave less than this part of it. Random keys fill a B-tree to about three quarters.
 */
const densePartMin = 0.5
/** Rebuilding is not worth the work for a smaller gain. */
const savedBytesMin = 4 * 1024 * 1024

/**
 * Covers B-trees alone, since it is known how many entries their pages take. Equal keys stored once make an index look denser
 * than it is. Rows added since the last analyze count, rows deleted since then do not: the estimate errs towards leaving an
 * index alone.
 */
const estimates = sql`
  select c.oid, c.relname::text as name, pg_relation_size(c.oid)::bigint as bytes, s.block,
    pg_has_role(c.relowner, 'usage') as "isOurs",
    case when i.indpred is null then greatest(c.reltuples, pg_stat_get_live_tuples(t.oid)) else c.reltuples end as entries,
    (
      -- an entry has 8 bytes of header and 4 of pointer, a page 40 of its own
      select floor((s.block - 40) * 0.9 / (ceil((8 + sum(case when a.attlen > 0 then a.attlen else w.avg_width end)) / 8.0) * 8 + 4))
      from pg_attribute a
        left join pg_stats w on w.schemaname = n.nspname and (w.tablename, w.attname) = (
          select d.relname, d.attname from (
            select t.relname, k.attname from pg_attribute k where k.attrelid = t.oid and k.attnum = i.indkey[a.attnum - 1]
            union all select c.relname, a.attname where i.indkey[a.attnum - 1] = 0
          ) d)
      where a.attrelid = c.oid having bool_and(a.attlen > 0 or w.avg_width is not null)
    ) as "perPage"
  from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
    join pg_namespace n on n.oid = t.relnamespace join pg_am m on m.oid = c.relam,
    (select current_setting('block_size')::integer) s (block)
  where i.indrelid = any (array(select to_regclass(name) from unnest(${ourTables}::text[]) name))
    and m.amname = 'btree' and i.indisvalid and t.reltuples >= 0 and c.reltuples >= 0`

/** The thin indexes, those with the largest gain first. */
export async function findThinIndexes(db: Database): Promise<ThinIndex[]> {
  const { rows } = await sql<ThinIndex>`
    select name, bytes, "denseBytes", "isOurs" from (
      select *, ((ceil(entries / "perPage") * 1.01 + 2) * block)::bigint as "denseBytes" from (${estimates}) e where "perPage" > 0
    ) e
    where bytes - "denseBytes" >= ${savedBytesMin}::bigint and "denseBytes" < ${densePartMin}::double precision * bytes
    order by bytes - "denseBytes" desc
  `.execute(db)
  return rows
}

/** Names of the invalid indexes that an interrupted rebuilding left behind. */
async function findLeftBehind(db: Database): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select c.relname::text as name from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid = any (array(select to_regclass(name) from unnest(${ourTables}::text[]) name))
      and not i.indisvalid and c.relname ~ '_cc(new|old)[0-9]*$' and pg_has_role(c.relowner, 'usage')
  `.execute(db)
  return rows.map(({ name }) => name)
}

/** Whether some index is being built now: an invalid index may belong to that work, and not be left behind. */
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

/** How rebuilding is stopped, and whom it tells. */
export interface Rebuilding {
  /** Aborted: gives up the index under way; the next rebuilding drops its remains. */
  stop: AbortSignal
  onIndex(name: string): void
  /** Called once for an error: nothing more is rebuilt. */
  onTrouble(what: string, error: unknown): void
}

/**
 * Rebuilds thin indexes one after the other, as many as `indexRebuildMsMax` allows, and returns those that it rebuilt; none
 * while anybody else builds an index in this database. Never throws.
 */
export async function rebuildThinIndexes({ db, pool }: OpenDatabase, rebuilding: Rebuilding): Promise<ThinIndex[]> {
  const { stop, onIndex, onTrouble } = rebuilding
  const signal = AbortSignal.any([stop, AbortSignal.timeout(indexRebuildMsMax)])
  const rebuilt: ThinIndex[] = []
  let at = 'looking for thin indexes'
  try {
    if (await isSomebodyAtIt(db)) return []
    for (const name of await findLeftBehind(db)) {
      at = `dropping ${name}`
      await runAlone(pool, `drop index concurrently if exists ${name}`, signal)
    }
    for (const index of await findThinIndexes(db)) {
      if (!index.isOurs) continue
      at = `rebuilding ${index.name}`
      onIndex(index.name)
      await runAlone(pool, `reindex index concurrently ${index.name}`, signal)
      rebuilt.push(index)
    }
  } catch (error) {
    if (!stop.aborted) onTrouble(at, error)
  }
  return rebuilt
}
