/**
 * Knows which source has which listing (contract 4.18). An import notes the listings in its files while it merges them. At the end of its
 * transaction they are compared with those that the source had, and only the differences are written.
 */
import { formatCount, plural } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
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

const nameForm = /^[A-Za-z0-9._-]{1,50}$/

/** Throws `usage` for a name that no source may have. */
export function checkSourceName(name: string): void {
  if (nameForm.test(name)) return
  throw new LeadpushError('usage', `--source: ${JSON.stringify(name)} is no name of a source.`, {
    hint: 'A name has 1 to 50 letters (a to z), digits, dots, hyphens or underscores.',
  })
}

/** Keeps the `href`s of rejected records, before they are taken out of `staged_leads`: the file has their listings too. */
export async function noteRejected(connection: Connection): Promise<void> {
  await connection.query(`
    insert into rejected_hrefs
    select distinct href_sha256 from staged_leads where problem is not null and href_sha256 is not null`)
}

/** Notes the listings of the file that was merged. */
export async function notePresent(connection: Connection): Promise<void> {
  await connection.query(`
    insert into present_leads select lead_id from matched_leads
    union all select l.id from rejected_hrefs r join leads l on l.href_sha256 = r.href_sha256`)
}

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
 * Makes `source_changes`: the differences between the noted listings and those of the source. One pass over both, however often the same
 * listings come.
 */
async function compare(connection: Connection, sourceId: number): Promise<void> {
  await connection.query(
    `create temp table source_changes (lead_id bigint not null, present boolean not null, known boolean not null) on commit drop`,
  )
  await connection.query(
    `insert into source_changes
     select coalesce(p.lead_id, m.lead_id), p.lead_id is not null, m.lead_id is not null
     from present_leads p full join (select lead_id, gone_at from lead_sources where source_id = $1) m on m.lead_id = p.lead_id
     where m.lead_id is null or (p.lead_id is null) <> (m.gone_at is not null)`,
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

/** Records that the source has the noted listings. A listing that had disappeared from it is live again. */
async function attach(connection: Connection, sourceId: number): Promise<void> {
  await connection.query(
    `insert into lead_sources (lead_id, source_id) select lead_id, $1 from source_changes where present and not known
     order by lead_id on conflict do nothing`,
    [sourceId],
  )
  await connection.query(
    `update lead_sources m set gone_at = null from source_changes c
     where c.present and c.known and m.lead_id = c.lead_id and m.source_id = $1`,
    [sourceId],
  )
  await connection.query(
    'update lead_seen s set gone = false from source_changes c where c.present and s.lead_id = c.lead_id and s.gone',
  )
}

/** Records that the source lacks all others, and returns how many listings no source has any more. */
async function detach(connection: Connection, sourceId: number, at: string): Promise<number> {
  const changed = await connection.query(
    `update lead_sources m set gone_at = $2 from source_changes c
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
     select nextval('lead_version_ids'), (select max(id) from imports), lead_id, 'lead_gone' from gone`,
  )
  return rowCount ?? 0
}

/**
 * Records the noted listings of the source, at the end of the import's transaction, and returns how many listings are gone from now on.
 * `ended`: all files went in; if one broke off, nothing is gone. Throws `failed` if too few are left (contract 4.18).
 */
export async function recordPresent(connection: Connection, options: SourceOptions, ended = true): Promise<number> {
  const complete = options.complete && ended
  const { id, at } = await recordSource(connection, options.name, { ended, complete })
  await connection.query('analyze present_leads')
  await compare(connection, id)
  if (complete && !options.accept) await guardSource(connection, id, options)
  await attach(connection, id)
  return complete ? await detach(connection, id, at) : 0
}
