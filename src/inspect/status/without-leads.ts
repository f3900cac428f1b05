/**
 * Counts the subscribed users who would now get a delivery without a lead, matched with the code of a push. If there are many users, it
 * looks at a sample.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { Matcher } from '../../matching/matcher.ts'

export interface WithoutLeads {
  /** How many subscribed users with queries were looked at. */
  users: number
  /** How many of them have no match. */
  without: number
  isPart: boolean
}

/** Of more users so many are looked at, at random. */
const usersMax = 2_000
const usersPerGroup = 250
/** The check must not hold up the monitor: after this time the users counted so far are the answer. */
const lookMsMax = 10_000

/** The searches of subscribed users, in the order of a hash: the first ones are a random sample. Null: the user has no query. */
async function findSearches(db: Database): Promise<(number[] | null)[]> {
  const { rows } = await sql<{ searches: number[] | null }>`
    select (select json_agg(distinct q.search_id) from queries q where q.user_id = u.id) as searches
    from (select id from users where subscribed order by hashint8(id), id limit ${usersMax + 1}) u
  `.execute(db)
  return rows.map(({ searches }) => searches)
}

/**
 * Counts among all subscribed users, or in a sample. `seenSince` is that of a push now. Houses do not matter: one listing of a house is a
 * lead.
 */
export async function findWithoutLeads(db: Database, seenSince: Date): Promise<WithoutLeads> {
  const matcher = new Matcher(db, { seenSince, sameHouse: 'each' })
  const startedMs = performance.now()
  const all = await findSearches(db)
  const found: WithoutLeads = { users: 0, without: 0, isPart: all.length > usersMax }
  const asking = all.slice(0, usersMax).filter((searches) => searches !== null)
  for (let at = 0; at < asking.length; at += usersPerGroup) {
    if (performance.now() - startedMs > lookMsMax) return { ...found, isPart: true }
    const group = asking.slice(at, at + usersPerGroup)
    const matched = await matcher.match(new Set(group.flat()))
    found.users += group.length
    // a search that took too long is not in `matched`, and does not count as empty
    found.without += group.filter((ids) => ids.every((id) => matched.get(id)?.ids.length === 0)).length
  }
  return found
}
