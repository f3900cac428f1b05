/** Finds the listing of the same house that a user gets instead of the one that is explained (contract 4.20). */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { liesInPlaces } from '../../matching/lies-in.ts'
import { findCounted, type Live } from '../../matching/listed.ts'
import { hasWords } from '../../matching/match.ts'
import type { ExplainedListing } from './listing.ts'

/** The href of the listing that was imported first, among those that the user's queries match; null if there is none, or each counts. */
export async function findSameHouse(
  db: Database,
  listing: ExplainedListing,
  live: Live,
  userId: number,
): Promise<string | null> {
  if (live.sameHouse === 'each' || listing.gone || listing.seenAt < live.seenSince) return null
  const matches = sql<boolean>`exists (
    select from queries q join searches s on s.id = q.search_id
    where q.user_id = ${userId} and (s.places is null or ${liesInPlaces(sql`other`, sql`s.places`)})
      and (s.words is null or other.${hasWords(sql`s.words`)})
  )`
  const { rows } = await sql<{ href: string | null }>`
    select (
      select v.json::json ->> 'href' from leads o join lead_versions v on v.id = o.version_id
      where o.id = ${findCounted(sql`l`, live.seenSince, matches)}
    ) as href
    from leads l where l.id = ${listing.leadId}
  `.execute(db)
  return rows[0]?.href ?? null
}
