/**
 * Knows which source has which listing (contract 4.18). An import notes the listings in its files while it merges them. At the end of its
 * transaction they are compared with those that the source had, and only the differences are written.
 */
import { formatCount, plural } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
import { spellingDistance } from '../base/nearest.ts'
import type { Database } from '../db/open.ts'
import type { Connection } from '../db/transaction.ts'

/** The source of the listings of an import. */
export interface SourceOptions {
  name: string
  /** The files have all listings of the source: the others are gone. */
  complete: boolean
  /** Even if they lack more than half of its live listings. */
  accept: boolean
  /** A listing that was not seen for longer is not live. */
  maxLeadAgeMs: number
}

/** Of names that differ in more than a fifth nobody takes one for the other. */
const nearMax = 0.2
const nameForm = /^[A-Za-z0-9._-]{1,50}$/

/** Throws `usage` for a name that no source may have. */
export function checkSourceName(name: string): void {
  if (nameForm.test(name)) return
  throw new LeadpushError('usage', `--source: ${JSON.stringify(name)} is no name of a source.`, {
    hint: 'A name has 1 to 50 letters (a to z), digits, dots, hyphens or underscores.',
  })
}

/** Other sources that are spelt like one that is new, the nearest first: a slip of the pen would make a source of its own. */
export async function findNearSources(db: Database, name: string): Promise<string[]> {
  const rows = await db.selectFrom('sources').select('name').orderBy('name').execute()
  const names = rows.map((row) => row.name)
  return names.includes(name) ? [] : names.filter((other) => spellingDistance(name, other) <= nearMax)
}

/** Keeps the `href`s of rejected records, before they are taken out of `staged_leads`: the file has their listings too. */
export async function noteRejected(connection: Connection): Promise<void> {
  await connection.query(`
    insert into rejected_hrefs
    select distinct href_sha256, true from staged_leads where problem is not null and href_sha256 is not null`)
}

/** Keeps those of `hrefs`, found in the raw text of rejected records, that a listing has, and returns their places among them. */
export async function noteNamedListings(connection: Connection, hrefs: readonly string[]): Promise<number[]> {
  const { rows } = await connection.query<{ place: number }>(
    `with known as materialized (
       select place, l.href_sha256 from unnest($1::text[]) with ordinality named (href, place)
       cross join lateral (
         select href_sha256 from leads where href_sha256 = sha256(convert_to(named.href, 'UTF8')) offset 0
       ) l
     ), noted as (insert into rejected_hrefs select distinct href_sha256, false from known)
     select place - 1 as place from known`,
    [hrefs],
  )
  return rows.map(({ place }) => place)
}

/** Notes the listings of the file that was merged. What another record's text names counts only where `source` has had it. */
export async function notePresent(connection: Connection, source: string): Promise<void> {
  await connection.query(
    `insert into present_leads select lead_id, given from matched_leads
     union all select l.id, 0 from rejected_hrefs r join leads l on l.href_sha256 = r.href_sha256
     where r.is_own or exists (
       select from lead_sources m join sources o on o.id = m.source_id where m.lead_id = l.id and o.name = $1)`,
    [source],
  )
}

/** The id of a source; null where it has none yet, or `name` is undefined. */
export async function findSourceId(connection: Connection, name: string | undefined): Promise<number | null> {
  if (name === undefined) return null
  const { rows } = await connection.query<{ id: number }>('select id from sources where name = $1', [name])
  // of a new source all others come first
  return rows[0]?.id ?? 0
}

/**
 * SQL: the fields of a listing that other sources decide, as bits: those that a source gave which has it, and had it before this one did.
 * Null where `sourceId` is: records of no source replace what is known.
 */
export const decidedFields = (leadId: string, sourceId: string) => `
  select bit_or(m.given) from lead_sources m
  where m.lead_id = ${leadId} and m.gone_at is null and m.source_id <> ${sourceId}::integer
    and m.since_import_id < coalesce((
      select own.since_import_id from lead_sources own
      where own.lead_id = ${leadId} and own.source_id = ${sourceId}::integer and own.gone_at is null
    ), ${Number.MAX_SAFE_INTEGER})`

/** The source, and the time of its import, to the microsecond. `ended`: the import finished. */
async function recordSource(
  connection: Connection,
  name: string,
  { ended, complete }: Record<'ended' | 'complete', boolean>,
) {
  const { rows } = await connection.query<{ id: number; at: string }>(
    `with moment as materialized (select clock_timestamp() as at)
     insert into sources (name, imported_at, completed_at) select $1, at, case when $3 then at end from moment
     on conflict (name) do update set
       imported_at = case when $2 then excluded.imported_at else sources.imported_at end,
       completed_at = coalesce(excluded.completed_at, sources.completed_at)
     returning id, (select at::text from moment) as at`,
    [name, ended, complete],
  )
  return rows[0] as { id: number; at: string }
}

/**
 * Makes `source_changes`: the differences between the noted listings and those of the source. The files of a `complete` import take one
 * pass over both; of others each noted listing is looked up.
 */
async function compare(connection: Connection, sourceId: number, complete: boolean): Promise<void> {
  await connection.query(
    `create temp table source_changes (
       lead_id bigint not null, present boolean not null, known boolean not null, given integer not null
     ) on commit drop`,
  )
  await connection.query(
    `insert into source_changes
     select coalesce(p.lead_id, m.lead_id), p.lead_id is not null, m.lead_id is not null, coalesce(p.given, 0)
     from (select lead_id, bit_or(given) as given from present_leads group by lead_id) p
       ${complete ? 'full' : 'left'} join (select * from lead_sources where source_id = $1) m on m.lead_id = p.lead_id
     where m.lead_id is null or (p.lead_id is null) <> (m.gone_at is not null) or p.given & ~m.given <> 0`,
    [sourceId],
  )
  await connection.query('analyze source_changes')
}

/** Throws `failed` if the files lack more than half of the source's live listings. */
async function guardSource(
  connection: Connection,
  sourceId: number,
  { name, maxLeadAgeMs }: SourceOptions,
): Promise<void> {
  // the listings in the files were seen a moment ago: only the missing ones need a look at their age
  const { rows } = await connection.query<{ present: number; lacking: number }>(
    `select lacking.live as lacking,
       (select count(*) from lead_sources where source_id = $1 and gone_at is null) - lacking.n as present
     from (
       select count(*) as n, count(*) filter (where s.seen_at >= now() - $2 * interval '1 millisecond') as live
       from source_changes c join lead_seen s on s.lead_id = c.lead_id where not c.present
     ) lacking`,
    [sourceId, maxLeadAgeMs],
  )
  const { present, lacking } = rows[0] ?? { present: 0, lacking: 0 }
  if (present >= lacking) return
  const has = `only ${formatCount(present)} of the ${plural(present + lacking, 'live listing')}`
  throw new LeadpushError(
    'failed',
    `The import of the source ${name} has ${has} of this source: nothing was changed.`,
    {
      hint: 'If the others are gone indeed, import it again with --accept. If these are not all its files, give all of them, or leave --complete out.',
    },
  )
}

/** SQL: the import under way, the last one of its files so far. Imports take turns. */
const thisImport = '(select max(id) from imports)'

/** Records that the source has the noted listings. A listing that had disappeared from it is live again. */
async function attach(connection: Connection, sourceId: number): Promise<void> {
  await connection.query(
    // a listing that was gone from all: the last of its sources lost it when it went
    `with back as (
       update lead_seen s set gone = false from source_changes c where c.present and s.lead_id = c.lead_id and s.gone
       returning s.lead_id
     )
     insert into lead_events (version_id, import_id, lead_id, kind, payload)
     select nextval('lead_version_ids'), ${thisImport}, lead_id, 'lead_back', (
       select jsonb_build_object('goneImport', max(since_import_id), 'goneAtMs', extract(epoch from max(gone_at)) * 1000)
       from lead_sources m where m.lead_id = back.lead_id
     ) from back`,
  )
  await connection.query(
    `insert into lead_sources (lead_id, source_id, since_import_id, given)
     select lead_id, $1, ${thisImport}, given from source_changes where present and not known
     order by lead_id on conflict do nothing`,
    [sourceId],
  )
  await connection.query(
    `update lead_sources m set gone_at = null, given = c.given | case when m.gone_at is null then m.given else 0 end,
       since_import_id = case when m.gone_at is null then m.since_import_id else ${thisImport} end
     from source_changes c where c.present and c.known and m.lead_id = c.lead_id and m.source_id = $1`,
    [sourceId],
  )
}

/** Records that the source lacks all others, and returns how many listings no source has any more. */
async function detach(connection: Connection, sourceId: number, at: string): Promise<number> {
  const changed = await connection.query(
    `update lead_sources m set gone_at = $2, since_import_id = ${thisImport} from source_changes c
     where not c.present and m.lead_id = c.lead_id and m.source_id = $1`,
    [sourceId, at],
  )
  if (!changed.rowCount) return 0
  const { rowCount } = await connection.query(
    `with gone as (
       update lead_seen s set gone = true from source_changes c
       where not c.present and s.lead_id = c.lead_id and not s.gone
         and not exists (select from lead_sources m where m.lead_id = s.lead_id and m.gone_at is null)
       returning s.lead_id
     )
     insert into lead_events (version_id, import_id, lead_id, kind)
     select nextval('lead_version_ids'), ${thisImport}, lead_id, 'lead_gone' from gone`,
  )
  return rowCount ?? 0
}

/** What came of the files of an import. */
interface Ended {
  /** All of them went in; if one broke off, nothing is gone. */
  ended: boolean
  /** A rejected record that may be of any listing: then nothing is gone either, unless with `--accept`. */
  hasUnnamed: boolean
}

/**
 * Records the noted listings of the source, at the end of the import's transaction, and returns how many listings are gone from now on.
 * Throws `failed` if too few are left (contract 4.18).
 */
export async function recordPresent(
  connection: Connection,
  options: SourceOptions,
  { ended, hasUnnamed }: Ended = { ended: true, hasUnnamed: false },
): Promise<number> {
  const complete = options.complete && ended
  const takesAway = complete && (options.accept || !hasUnnamed)
  const { id, at } = await recordSource(connection, options.name, { ended, complete: takesAway })
  await connection.query('analyze present_leads')
  await compare(connection, id, complete)
  if (complete && !options.accept) await guardSource(connection, id, options)
  await attach(connection, id)
  return takesAway ? await detach(connection, id, at) : 0
}
