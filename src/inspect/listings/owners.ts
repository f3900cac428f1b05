/**
 * The users with a query that matches a listing, regardless of its age and rank. Searches are looked at page by page, until a number of
 * users is found or a time is over.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { liesInPlaces } from '../../matching/lies-in.ts'
import { hasWords } from '../../matching/match.ts'
import type { Query } from '../../users/query.ts'

/** A user, and the first of their queries that matches. */
export interface Owner {
  email: string
  subscribed: boolean
  query: Query
}

export interface Owners {
  /** Sorted by e-mail; if there are more, those that were found first. */
  users: Owner[]
  /** Whether these are all. */
  complete: boolean
}

const usersMax = 200
/** A search may have 4,000 postal codes. */
const searchesPerPage = 1_000
/** A user may have many queries that match. */
const queriesPerPage = 1_000
const lookingMsMax = 5_000

export async function findOwners(db: Database, leadId: number): Promise<Owners> {
  const endAt = performance.now() + lookingMsMax
  const users = new Map<string, Owner>()
  const toOwners = (complete: boolean): Owners => ({
    users: [...users.values()].sort((a, b) => (a.email < b.email ? -1 : 1)).slice(0, usersMax),
    complete,
  })
  for (let last = 0; ; ) {
    const page = await findMatching(db, leadId, last)
    const found = await findUsersOf(db, page.matching)
    for (const owner of found) if (!users.has(owner.email)) users.set(owner.email, owner)
    if (users.size > usersMax || found.length === queriesPerPage) return toOwners(false)
    if (page.last === null) return toOwners(true)
    if (performance.now() > endAt) return toOwners(false)
    last = page.last
  }
}

/** The searches of the page after `after` that match the listing; `last` is null after the last page. */
async function findMatching(
  db: Database,
  leadId: number,
  after: number,
): Promise<{ matching: number[]; last: number | null }> {
  const { rows } = await sql<{ matching: number[]; searches: number; last: number | null }>`
    with page as (select * from searches where id > ${after} order by id limit ${searchesPerPage})
    select count(*) as searches, max(s.id) as last, coalesce(json_agg(s.id) filter (where
      (s.places is null or ${liesInPlaces(sql`l`, sql`s.places`)}) and (s.words is null or ${hasWords(sql`s.words`)})), '[]') as matching
    from page s cross join leads l where l.id = ${leadId}
  `.execute(db)
  const { matching = [], searches = 0, last = null } = rows[0] ?? {}
  return { matching, last: searches < searchesPerPage ? null : last }
}

async function findUsersOf(db: Database, searchIds: readonly number[]): Promise<Owner[]> {
  if (searchIds.length === 0) return []
  const { rows } = await sql<{ email: string; subscribed: boolean } & Query>`
    select u.email, u.subscribed, q.type, q.value, q.radius from (
      select * from queries where search_id = any (${searchIds}) order by search_id limit ${queriesPerPage}
    ) q join users u on u.id = q.user_id order by q.user_id, q.position
  `.execute(db)
  return rows.map(({ email, subscribed, type, value, radius }) => ({
    email,
    subscribed,
    query: { type, value, radius },
  }))
}
