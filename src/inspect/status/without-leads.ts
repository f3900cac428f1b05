/**
 * How many subscribed users would get a delivery without a lead now: matched as a push matches, so the answer is the push's. Of
 * many users a part is looked at, and a larger part where that leaves in doubt on which side of a half they are.
 */
import { sql } from 'kysely'
import { withoutLeadShare } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { Matcher } from '../../matching/matcher.ts'

export interface WithoutLeads {
  /** Those with queries, of the subscribed users that were looked at. */
  users: number
  /** Those of them for whom nothing was found. */
  without: number
  isPart: boolean
}

/** So many users are looked at: of the first part a share that is further from a half than this is certain. */
const partSizes = [1_000, 20_000] as const
const certainDistance = 0.1
const usersPerGroup = 250
/** Without an end of its own a check would hold up the monitor; what was looked at by then has to do. */
const lookMsMax = 10_000

/** The next of the subscribed users, in an order that has nothing to do with what they ask for. */
async function findGroup(db: Database, after: { mark: number; id: number } | undefined) {
  const { rows } = await sql<{ id: number; mark: number; searches: number[] | null }>`
    with next as materialized (
      select u.id, hashint8(u.id) as mark from users u
      where u.subscribed and ${after === undefined ? sql`true` : sql`(hashint8(u.id), u.id) > (${after.mark}, ${after.id})`}
      order by mark, u.id limit ${usersPerGroup}
    )
    select id, mark, (select json_agg(distinct q.search_id) from queries q where q.user_id = next.id) as searches
    from next order by mark, id
  `.execute(db)
  return rows
}

export async function findWithoutLeads(db: Database, seenSince: Date): Promise<WithoutLeads> {
  const matcher = new Matcher(db, seenSince)
  const startedMs = performance.now()
  const found: WithoutLeads = { users: 0, without: 0, isPart: false }
  let after: { mark: number; id: number } | undefined
  for (let looked = 0; ; ) {
    const rows = await findGroup(db, after)
    const asking = rows.flatMap(({ searches }) => (searches === null ? [] : [searches]))
    const matched = await matcher.match(new Set(asking.flat()))
    found.users += asking.length
    // what took too long to look up is not known to be nothing
    found.without += asking.filter((ids) => ids.every((id) => matched.get(id)?.length === 0)).length
    looked += rows.length
    if (rows.length < usersPerGroup) return found
    after = rows.at(-1)
    const isClear = Math.abs(found.without / Math.max(found.users, 1) - withoutLeadShare) > certainDistance
    if (looked < (isClear ? partSizes[0] : partSizes[1]) && performance.now() - startedMs < lookMsMax) continue
    return { ...found, isPart: true }
  }
}
