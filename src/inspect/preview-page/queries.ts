/**
 * Finds what each query brings to a planned push, and what it leaves out: matches beyond its newest 300, repeats of an earlier
 * query, listings too old or too large. The plan tells what is sent; only the rest is looked up, for a bounded time.
 */

import { sql } from 'kysely'
import { leadsPerQueryMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import type { PlannedDelivery } from '../../deliveries/plan.ts'
import type { Live } from '../../matching/listed.ts'
import { countMatches, findMatches, type SearchToMatch } from '../../matching/match.ts'
import { findNamedPlace } from '../../matching/search.ts'
import type { Point } from '../../places/distance.ts'
import { findPlaces } from '../../places/places.ts'
import type { PlannedQuery, UserPlan } from '../../push/database/planner.ts'
import type { Query } from '../../users/query.ts'

/** A query of the user, with what it brings and leaves out. */
export interface DryQuery extends Query {
  /** From 1, in the user's order. */
  number: number
  kind: 'place' | 'words' | 'both'
  /** From where distances are measured; null for words alone, and for a postal code that is in no table. */
  centre: Point | null
  /** How many listings match, too old ones aside; null: more than `counted`, or not counted. */
  matching: number | null
  /** Up to how many matches were counted; 300: no further than a push looks. */
  counted: number
  /** How many listings it brings into the requests. */
  sent: number
  /** How many of its newest 300 an earlier query brings. */
  repeats: number
  tooLarge: number
  /** Matches that were not seen for too long; null: not counted. */
  tooOld: number | null
  /** When the newest and the oldest of its 300 came or changed; null: it has none. */
  taken: Span | null
  /** What lies beyond the 300; null: nothing does. */
  cut: (Span & { count: number | null }) | null
}

/** Times of imports. */
export interface Span {
  newestAt: Date | null
  oldestAt: Date | null
}

/** Matches are counted up to here. */
export const countedMax = 10_000
/** A user may have very many queries: after this time, matches of the remaining ones beyond their 300 are not counted. */
const countingMsMax = 3_000

interface QueryRow extends Query, SearchToMatch {}

async function findQueries(db: Database, userId: number): Promise<QueryRow[]> {
  const { rows } = await sql<QueryRow>`
    select q.type, q.value, q.radius, s.kind, s.places, s.words
    from queries q join searches s on s.id = q.search_id where q.user_id = ${userId} order by q.position
  `.execute(db)
  return rows
}

/** SQL: when the version with this id was imported. Imports take turns, so the ids of a later import are higher. */
export const versionTime = (id: string) =>
  sql<Date | null>`(select started_at from imports where base_version_id < ${sql.ref(id)} order by id desc limit 1)`

async function findTimes(db: Database, versionIds: readonly number[]): Promise<Map<number, Date | null>> {
  const { rows } = await sql<{ id: number; at: Date | null }>`
    select v.id, ${versionTime('v.id')} as at from unnest(${[...new Set(versionIds)]}::bigint[]) as v (id)
  `.execute(db)
  return new Map(rows.map(({ id, at }) => [id, at]))
}

/** Which query brings each version that is sent (the first that matches it), and how the matches of each query fare. */
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

interface Counted {
  matching: number | null
  counted: number
  beyond: Float64Array
  tooOld: number | null
}

async function count(db: Database, search: SearchToMatch, taken: number, live: Live): Promise<Counted> {
  const newest = taken < leadsPerQueryMax ? undefined : (await findMatches(db, search, live, countedMax + 1)).ids
  const found = newest?.length ?? taken
  const matching = found > countedMax ? null : found
  const all =
    matching === null ? undefined : await countMatches(db, search, { ...live, seenSince: new Date(0) }, countedMax + 1)
  return {
    matching,
    counted: countedMax,
    beyond: newest?.subarray(leadsPerQueryMax, countedMax) ?? new Float64Array(),
    tooOld: matching === null || all === undefined || all > countedMax ? null : Math.max(0, all - matching),
  }
}

/** The user's queries in their order, each with what it brings and leaves out. */
export async function findDryQueries(db: Database, plan: UserPlan, live: Live): Promise<DryQuery[]> {
  const rows = await findQueries(db, plan.user.id)
  const places = rows.some(({ kind }) => kind !== 'words') ? await findPlaces(db) : undefined
  const { shares } = shareOut(plan)
  const endAt = performance.now() + countingMsMax
  const looked: { row: QueryRow; taken: ArrayLike<number>; counted: Counted }[] = []
  for (const [at, row] of rows.entries()) {
    const taken = plan.queries[at]?.versionIds ?? []
    const isFull = taken.length >= leadsPerQueryMax
    const counted =
      performance.now() < endAt
        ? await count(db, row, taken.length, live)
        : {
            matching: isFull ? null : taken.length,
            counted: leadsPerQueryMax,
            beyond: new Float64Array(),
            tooOld: null,
          }
    looked.push({ row, taken, counted })
  }
  const ends = looked.flatMap(({ taken, counted: { beyond } }) =>
    [taken, beyond].flatMap((ids) => [ids[0], ids[ids.length - 1]]),
  )
  const times = await findTimes(
    db,
    ends.filter((id) => id !== undefined),
  )
  const spanOf = (ids: ArrayLike<number>): Span => {
    const timeOf = (id: number | undefined) => (id === undefined ? null : (times.get(id) ?? null))
    return { newestAt: timeOf(ids[0]), oldestAt: timeOf(ids[ids.length - 1]) }
  }
  return looked.map(({ row: { type, value, radius, kind }, taken, counted: { beyond, ...counted } }, at) => ({
    number: at + 1,
    ...{ type, value, radius, kind, ...counted },
    ...(shares[at] ?? { sent: 0, repeats: 0, tooLarge: 0 }),
    centre: (places && kind !== 'words' && findNamedPlace(places, { type, value, radius })?.centre) || null,
    taken: taken.length > 0 ? spanOf(taken) : null,
    cut:
      taken.length < leadsPerQueryMax || (counted.matching !== null && counted.matching <= leadsPerQueryMax)
        ? null
        : { ...spanOf(beyond), count: counted.matching === null ? null : counted.matching - leadsPerQueryMax },
  }))
}
