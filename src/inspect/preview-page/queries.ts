/**
 * Finds the listings that each query brings to a planned push, and those that are left out: matches beyond its newest 300, repeats of an
 * earlier query, listings that are too old or too large. The plan has the sent ones; only the others are counted, for a bounded time.
 */

import { leadsPerQueryMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import type { PlannedDelivery } from '../../deliveries/plan.ts'
import type { Live } from '../../matching/listed.ts'
import { countMatches, type SearchToMatch } from '../../matching/match.ts'
import type { PlannedQuery, UserPlan } from '../../push/database/planner.ts'
import type { Query } from '../../users/query.ts'
import { findQueries } from '../explain/queries.ts'

/** A query of the user, with the numbers of listings that it brings and leaves out. */
export interface DryQuery extends Query {
  kind: 'place' | 'words' | 'both'
  /** The number of matching listings, without those that are too old; at most the number that was counted. */
  matching: number
  hasMore: boolean
  /** How many listings it brings into the requests. */
  sent: number
  /** How many of its newest 300 an earlier query brings. */
  repeats: number
  tooLarge: number
  /** Matches that were not seen for too long; null: not counted. */
  tooOld: number | null
}

/** Matches are counted up to here. */
export const countedMax = 10_000
/** A user may have very many queries: after this time, matches of the remaining ones beyond their 300 are not counted. */
const countingMsMax = 3_000

/** The query that brings each sent version (the first that matches it), and the fate of the matches of each query. */
export function shareOut(plan: {
  queries: readonly Pick<PlannedQuery, 'versionIds'>[]
  deliveries: readonly Pick<PlannedDelivery, 'contents'>[]
}) {
  const sent = new Set(plan.deliveries.flatMap(({ contents }) => contents.map(({ versionId }) => versionId)))
  const broughtBy = new Map<number, number>()
  const left = new Set<number>()
  const shares = plan.queries.map(({ versionIds }, query) => {
    const share = { sent: 0, repeats: 0, tooLarge: 0 }
    for (const id of Array.from(versionIds)) {
      if (broughtBy.has(id) || left.has(id)) share.repeats += 1
      else if (sent.has(id)) {
        broughtBy.set(id, query)
        share.sent += 1
      } else {
        left.add(id)
        share.tooLarge += 1
      }
    }
    return share
  })
  return { broughtBy, shares }
}

/** `taken`: how many of its newest 300 the query has. */
async function count(db: Database, search: SearchToMatch, taken: number, live: Live) {
  const countUpTo = (some: Live) => countMatches(db, search, some, countedMax + 1)
  const found = taken < leadsPerQueryMax ? taken : await countUpTo(live)
  if (found > countedMax) return { matching: countedMax, hasMore: true, tooOld: null }
  const all = await countUpTo({ ...live, seenSince: new Date(0) })
  return { matching: found, hasMore: false, tooOld: all > countedMax ? null : Math.max(0, all - found) }
}

/** The user's queries in their order, each with the numbers of listings that it brings and leaves out. */
export async function findDryQueries(db: Database, plan: UserPlan, live: Live): Promise<DryQuery[]> {
  const { shares } = shareOut(plan)
  const endAt = performance.now() + countingMsMax
  const queries: DryQuery[] = []
  for (const [at, row] of (await findQueries(db, plan.user.id)).entries()) {
    const { type, value, radius, kind } = row
    const taken = plan.queries[at]?.versionIds.length ?? 0
    const uncounted = { matching: taken, hasMore: taken === leadsPerQueryMax, tooOld: null }
    const counts = performance.now() < endAt ? await count(db, row, taken, live) : uncounted
    queries.push({ type, value, radius, kind, ...(shares[at] ?? { sent: 0, repeats: 0, tooLarge: 0 }), ...counts })
  }
  return queries
}
