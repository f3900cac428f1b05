/**
 * Indexes on rising ids thin out: what goes leaves room in their pages that nothing will ever fill again. What is thin is found by
 * the server's statistics alone, and rebuilt beside whoever works with it, outside of any transaction.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type pg from 'pg'
import { indexRebuildMsMax } from '../base/limits.ts'
import type { Database, OpenDatabase } from './open.ts'
import { ourTables } from './survey.ts'

export interface ThinIndex {
  name: string
  bytes: number
  /** What it would come to when it is rebuilt. */
  denseBytes: number
  /** This role may rebuild it. */
  isOurs: boolean
}

/** A B-tree that random keys fill is about three quarters of what a new one is. */
const densePartMin = 0.5
/** It is not worth the work for less. */
const savedBytesMin = 4 * 1024 * 1024

/**
 * B-trees alone, of which it is known how many entries a page takes; equal keys that are stored once make one look denser. Rows that
 * came since the statistics were made count, rows that went do not: what is in doubt is left.
 */
const estimates = sql`
  select c.oid, c.relname::text as name, pg_relation_size(c.oid)::bigint as bytes, s.block,
    pg_has_role(c.relowner, 'usage') as "isOurs",
    case when i.indpred is null then greatest(c.reltuples, pg_stat_get_live_tuples(t.oid)) else c.reltuples end as entries,
    (
      -- 8 bytes of header and 4 of pointer an entry, 40 of each page
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

/** The one first that would save most. */
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

/** What a rebuilding that broke off has left. */
async function findLeftBehind(db: Database): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select c.relname::text as name from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid = any (array(select to_regclass(name) from unnest(${ourTables}::text[]) name))
      and not i.indisvalid and c.relname ~ '_cc(new|old)[0-9]*$' and pg_has_role(c.relowner, 'usage')
  `.execute(db)
  return rows.map(({ name }) => name)
}

/** What looks left behind may be somebody's who is at it. */
async function isSomebodyAtIt(db: Database): Promise<boolean> {
  const { rows } = await sql`
    select from pg_stat_progress_create_index where datname = current_database() limit 1
  `.execute(db)
  return rows.length > 0
}

const cancelMsMax = 5_000

/** Ends with the signal too: the statement is looked for by its text, since behind a pooler nobody knows who carries it out. */
async function runAlone(pool: pg.Pool, statement: string, signal: AbortSignal): Promise<void> {
  const text = `${statement} /* ${randomUUID()} */`
  const client = await pool.connect()
  let timer: NodeJS.Timeout | undefined
  let giveUp = () => {}
  const given = new Promise<never>((_, reject) => {
    giveUp = () => {
      timer = setTimeout(() => reject(signal.reason), cancelMsMax)
      pool.query('select pg_cancel_backend(pid) from pg_stat_activity where query = $1', [text]).catch(() => {})
    }
  })
  signal.addEventListener('abort', giveUp)
  try {
    signal.throwIfAborted()
    await Promise.race([client.query(text), given])
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  } finally {
    signal.removeEventListener('abort', giveUp)
    clearTimeout(timer)
  }
}

export interface Rebuilding {
  /** Aborted: what is under way is given up, and its remains are the next one's to drop. */
  stop: AbortSignal
  onIndex(name: string): void
  /** No more is rebuilt. */
  onTrouble(what: string, error: unknown): void
}

/** One after the other, as many as the time allows, and returns those; none while anybody else builds an index there. */
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
