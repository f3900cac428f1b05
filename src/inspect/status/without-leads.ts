/**
 * Counts the subscribed users who would now get a delivery without a lead, matched with the code of a push. If there are many users, it
 * looks at a sample, and at a larger one if the first is too close to a half.
 */
import { sql } from 'kysely'
import { withoutLeadShare } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { Matcher } from '../../matching/matcher.ts'

export interface WithoutLeads {
  /** How many subscribed users with queries were looked at. */
  users: number
  /** How many of them have no match. */
  without: number
  isPart: boolean
}

/** The sizes of the two samples. The first decides if its share is further from a half than `certainDistance`. */
const partSizes = [1_000, 20_000] as const
const certainDistance = 0.1
const usersPerGroup = 250
/** All users are read for a page. */
const usersPerPage = 1_000
/** The check must not hold up the monitor: after this time the users counted so far are the answer. */
const lookMsMax = 10_000

/** The next subscribed users, in the order of a hash: the first ones are a random sample. */
async function findPage(db: Database, after: { mark: number; id: number } | undefined) {
  const { rows } = await sql<{ id: number; mark: number; searches: number[] | null }>`
    with next as materialized (
      select u.id, hashint8(u.id) as mark from users u
      where u.subscribed and ${after === undefined ? sql`true` : sql`(hashint8(u.id), u.id) > (${after.mark}, ${after.id})`}
      order by mark, u.id limit ${usersPerPage}
    )
    select id, mark, (select json_agg(distinct q.search_id) from queries q where q.user_id = next.id) as searches
    from next order by mark, id
  `.execute(db)
  return rows
}

/** All subscribed users in that order; only the last group may have fewer than `usersPerGroup`. */
async function* readGroups(db: Database) {
  let after: { mark: number; id: number } | undefined
  do {
    const page = await findPage(db, after)
    for (let at = 0; at < page.length; at += usersPerGroup) yield page.slice(at, at + usersPerGroup)
    after = page[usersPerPage - 1]
  } while (after)
}

/**
 * Counts among all subscribed users, or in a sample. `seenSince` is that of a push now. Houses do not matter: one listing of a house is a
 * lead.
 */
export async function findWithoutLeads(db: Database, seenSince: Date): Promise<WithoutLeads> {
  const matcher = new Matcher(db, { seenSince, sameHouse: 'each' })
  const startedMs = performance.now()
  const found: WithoutLeads = { users: 0, without: 0, isPart: false }
  let looked = 0
  for await (const group of readGroups(db)) {
    const asking = group.flatMap(({ searches }) => (searches === null ? [] : [searches]))
    const matched = await matcher.match(new Set(asking.flat()))
    found.users += asking.length
    // a search that took too long is not in `matched`, and does not count as empty
    found.without += asking.filter((ids) => ids.every((id) => matched.get(id)?.ids.length === 0)).length
    looked += group.length
    if (group.length < usersPerGroup) return found
    const isClear = Math.abs(found.without / Math.max(found.users, 1) - withoutLeadShare) > certainDistance
    if (looked < (isClear ? partSizes[0] : partSizes[1]) && performance.now() - startedMs < lookMsMax) continue
    return { ...found, isPart: true }
  }
  return found
}
