/**
 * How each query of a user relates to one listing: whether and why it matches, and how many newer matches come before the listing. It
 * matches with the code of a push, and counts further back than a push.
 */

import { sql } from 'kysely'
import { leadsPerQueryMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { type FitWord, findFits } from '../../matching/fit.ts'
import type { Live } from '../../matching/listed.ts'
import { findMatches, type SearchToMatch } from '../../matching/match.ts'
import { findNamedPlace } from '../../matching/search.ts'
import { isCityKey } from '../../places/city-keys.ts'
import { distanceMiles } from '../../places/distance.ts'
import { findPlaces, type Places } from '../../places/places.ts'
import type { PlannedQuery } from '../../push/database/planner.ts'
import type { Query } from '../../users/query.ts'
import type { ExplainedListing } from './listing.ts'

/** A query of the user, compared with the listing. */
export interface ExplainedQuery extends Query {
  /** From 1, in the user's order. */
  number: number
  kind: 'place' | 'words' | 'both'
  /** How many postal codes the query covers; null for words alone. */
  places: number | null
  /** The postal code from which distance is measured; null where the place has several, and for words alone. */
  from: string | null
  /** Whether the listing's postal code is one of the place's own, or its city is the place, so that no distance counts. */
  isOwn: boolean
  /** Whether it is the city. */
  byCity: boolean
  /** Whether the listing lies in one of the query's postal codes; null for words alone. */
  inPlace: boolean | null
  /** From the centre of the listing's postal code to that of the place; null if one of them is unknown. */
  distanceMiles: number | null
  words: FitWord[]
  /** Whether the query matches, regardless of the age and the rank of the listing. */
  matches: boolean
  /** Its rank among the matches, 1 for the newest; null: it does not match, or is not among the `counted` newest. */
  rank: number | null
  /** How many listings match; null: more than `counted`. */
  matching: number | null
  /** Up to how many matches were counted. */
  counted: number
}

/** Matches are counted up to here, beyond the 300 that a push takes. */
const countedMax = 10_000
/** A user may have very many queries: after this time the remaining ones are counted up to 300 only. */
const countingMsMax = 500

interface QueryRow extends Query, SearchToMatch {
  searchId: number
}

/** The user's queries in their order, with what matching reads of them. */
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

const nowhere = { from: null, isOwn: false, byCity: false, distanceMiles: null }

/** The position of the listing's postal code relative to the place of a query. */
function measure(places: Places, query: Query, { postalKey, cityKey }: ExplainedListing) {
  const named = findNamedPlace(places, query)
  const here = places.find(postalKey)
  const codes = named?.codes ?? []
  const [code = ''] = codes
  const byCity = cityKey !== null && codes.includes(cityKey)
  return {
    from: codes.length === 1 && !isCityKey(code) ? code : null,
    isOwn: byCity || codes.includes(postalKey),
    byCity,
    distanceMiles: named?.centre && here ? distanceMiles(named.centre, here) : null,
  }
}

/**
 * Each query of the user, in order. `planned` has the newest 300 live matches of each query; a listing that is too old has no rank.
 */
export async function explainQueries(
  db: Database,
  userId: number,
  listing: ExplainedListing,
  planned: readonly PlannedQuery[],
  live: Live,
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
    if (matches && listing.seenAt >= live.seenSince && !listing.gone) {
      rank = toRank(planned[at]?.versionIds ?? [], listing.versionId, leadsPerQueryMax)
      if (rank.matching === null && performance.now() < endAt) {
        const { ids } = await findMatches(db, search, live, countedMax)
        rank = toRank(ids, listing.versionId, countedMax)
      }
    }
    const where = places && kind !== 'words' ? measure(places, query, listing) : nowhere
    explained.push({
      number: at + 1,
      ...query,
      kind,
      places: fit.places,
      inPlace,
      ...where,
      words,
      matches,
      ...rank,
    })
  }
  return explained
}
