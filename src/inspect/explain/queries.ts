/**
 * What each query of a user makes of one listing: what it means, whether it matches and by what, and how many newer
 * matches come before it. Matching itself is that of a push, only looked at more deeply.
 */
import { sql } from 'kysely'
import { leadsPerQueryMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { type FitWord, findFits } from '../../matching/fit.ts'
import { findMatches, type SearchToMatch } from '../../matching/match.ts'
import { findNamedPlace } from '../../matching/search.ts'
import { distanceMiles } from '../../places/distance.ts'
import { findPlaces, type Places } from '../../places/places.ts'
import type { PlannedQuery } from '../../push/planner.ts'
import type { Query } from '../../users/query.ts'
import type { ExplainedListing } from './listing.ts'

export interface ExplainedQuery extends Query {
  /** From 1, in the user's order. */
  number: number
  kind: 'place' | 'words' | 'both'
  /** How many postal codes it stands for; null for words alone. */
  places: number | null
  /** The code from which distance is measured; null where the place has several, and for words alone. */
  from: string | null
  /** Whether the listing's postal code is one of the place's own, so that no distance counts. */
  isOwn: boolean
  /** Whether the listing lies in one of the postal codes. */
  inPlace: boolean | null
  /** From the centre of the listing's postal code to that of the place; null where one of them is in no table. */
  distanceMiles: number | null
  words: FitWord[]
  /** Of whatever age the listing is, and however many newer ones match. */
  matches: boolean
  /** Among the matches, the newest with 1; null: it is none of them, or lies beyond the `counted` newest. */
  rank: number | null
  /** How many listings match; null: more than `counted`. */
  matching: number | null
  /** How far was counted. */
  counted: number
}

/** So far matches are counted beyond the 300 that a push looks at. */
const countedMax = 10_000
/** For a user with very many queries: those that come later are counted up to 300 only. */
const countingMsMax = 500

interface QueryRow extends Query, SearchToMatch {
  searchId: number
}

async function findQueries(db: Database, userId: number): Promise<QueryRow[]> {
  const { rows } = await sql<QueryRow>`
    select q.type, q.value, q.radius, q.search_id as "searchId", s.kind, s.places, s.words
    from queries q join searches s on s.id = q.search_id where q.user_id = ${userId} order by q.position
  `.execute(db)
  return rows
}

type Rank = Pick<ExplainedQuery, 'rank' | 'matching' | 'counted'>

const noRank: Rank = { rank: null, matching: null, counted: 0 }

function toRank(newest: ArrayLike<number>, versionId: number, counted: number): Rank {
  const at = Array.prototype.indexOf.call(newest, versionId)
  return { rank: at < 0 ? null : at + 1, matching: newest.length < counted ? newest.length : null, counted }
}

const nowhere = { from: null, isOwn: false, distanceMiles: null }

/** What the place of a query has to do with the listing's postal code. */
function measure(places: Places, query: Query, { postalKey }: ExplainedListing) {
  const named = findNamedPlace(places, query)
  const here = places.byCode.get(postalKey)
  const codes = named?.codes ?? []
  return {
    from: codes.length === 1 ? (codes[0] as string) : null,
    isOwn: codes.includes(postalKey),
    distanceMiles: named?.centre && here ? distanceMiles(named.centre, here) : null,
  }
}

/**
 * Each query of the user, in order. `planned` is what a push plans with: of each query its newest 300, of listings seen at
 * `seenSince` or later. A listing that was not has no rank.
 */
export async function explainQueries(
  db: Database,
  userId: number,
  listing: ExplainedListing,
  planned: readonly PlannedQuery[],
  seenSince: Date,
): Promise<ExplainedQuery[]> {
  const queries = await findQueries(db, userId)
  const searchIds = [...new Set(queries.map(({ searchId }) => searchId))]
  const fits = await findFits(db, listing.leadId, searchIds)
  const places = queries.some(({ kind }) => kind !== 'words') ? await findPlaces(db) : undefined
  const endAt = performance.now() + countingMsMax
  const explained: ExplainedQuery[] = []
  for (const [at, { searchId, type, value, radius, ...search }] of queries.entries()) {
    const query = { type, value, radius }
    const fit = fits.get(searchId)
    if (!fit) continue
    const { kind, inPlace, words, matches } = fit
    let rank = noRank
    if (matches && listing.seenAt >= seenSince) {
      rank = toRank(planned[at]?.versionIds ?? [], listing.versionId, leadsPerQueryMax)
      if (rank.matching === null && performance.now() < endAt) {
        rank = toRank(await findMatches(db, search, seenSince, countedMax), listing.versionId, countedMax)
      }
    }
    const where = places && kind !== 'words' ? measure(places, query, listing) : nowhere
    explained.push({
      number: at + 1, ...query, kind, places: fit.places, inPlace, ...where, words, matches, ...rank,
    }) // biome-ignore format: in the order in which it is printed
  }
  return explained
}
