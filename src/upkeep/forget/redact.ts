/**
 * Drops the contacts of listings, which stay: each gets a new version, as if a later record had changed it, since a version never changes.
 * The versions with contacts are then erased like others, and with them all that was made of them.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { hasContact, withoutContacts } from '../../leads/contacts.ts'
import { hashOfStored } from '../../leads/staged-leads.ts'
import type { MeantVersion } from './target.ts'

/** What took the place of redacted versions. */
export interface Replaced {
  /** The new version by the old one. */
  by: ReadonlyMap<number, number>
  /** Older versions with contacts, which are deleted. */
  superseded: number[]
}

/** Gives the listings of `versions`, which must be their current ones, versions without contacts; the caller deletes the old ones. */
export async function redactListings(db: Database, versions: readonly MeantVersion[]): Promise<Replaced> {
  if (versions.length === 0) return { by: new Map(), superseded: [] }
  const ids = versions.map(({ id }) => id)
  // the listings keep their order among each other
  const { rows } = await sql<{ old: number; id: number }>`
    with made as materialized (
      select old.id as old, old.lead_id, ${sql.raw(withoutContacts('old.json'))} as json, old.kept, nextval('lead_version_ids') as id
      from (select * from lead_versions where id = any (${ids}) order by id) old
    ),
    inserted as (insert into lead_versions (id, lead_id, json, kept) select id, lead_id, json, kept from made),
    updated as (
      update leads l set version_id = m.id, json_sha256 = ${sql.raw(hashOfStored('m.json', 'm.kept'))} from made m where l.id = m.lead_id
    )
    select old, id from made
  `.execute(db)
  const by = new Map(rows.map(({ old, id }) => [old, id]))
  // their triggers stay: one whose version is gone is sent as the listing is by then
  const superseded = await sql<{ id: number }>`
    delete from lead_versions where superseded_at is not null and lead_id = any (${versions.map(({ leadId }) => leadId)})
      and ${sql.raw(hasContact('lead_versions'))}
    returning id
  `.execute(db)
  return { by, superseded: superseded.rows.map(({ id }) => id) }
}
