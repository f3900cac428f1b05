/**
 * Finds what searches match during one push. Users share searches and searches share places, so the newest leads of a place
 * are read once, for all the searches around it, and merged in the process; texts are looked up one by one. Caches of bounded
 * size keep the results.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { leadsPerQueryMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import { splitPlaces } from './lies-in.ts'
import type { Live } from './listed.ts'
import { findMatches, findNewestByPlace, isTooSlow, type SearchToMatch, statementMsMax } from './match.ts'
import { mergeOverlapping, mergePlaces, type Newest, noIds } from './newest.ts'

const entryBytes = 200
const sizeOf = ({ ids, leftOut }: Newest) => entryBytes + ids.byteLength + leftOut.byteLength
const placeCacheBytesMax = 12 * 1024 * 1024
const searchCacheBytesMax = 4 * 1024 * 1024
const placesPerStatement = 1_000
/** Searches are read and matched in groups, since the places around one may be thousands. */
const searchesPerGroup = 100
/** After so many look-ups that took too long a shorter time is enough for the others: else all users would wait for a few. */
const slowMax = 10
const msMaxThen = 1_000

/** Matches searches for one push, with caches that users share. */
export class Matcher {
  private readonly db: Database
  private readonly live: Live
  private readonly places = new LRUCache<string, Newest>({ maxSize: placeCacheBytesMax, sizeCalculation: sizeOf })
  /** Ids of searches that took too long, or one of whose places did: they are not looked up again. */
  readonly slow = new Set<number>()
  private readonly slowPlaces = new Set<string>()
  private slowLookUps = 0
  private readonly searches = new LRUCache<number, Newest>({ maxSize: searchCacheBytesMax, sizeCalculation: sizeOf })

  constructor(db: Database, live: Live) {
    this.db = db
    this.live = live
  }

  /**
   * Maps each search to its newest 300 matches. A search that takes too long is left out and put
   * into `slow`.
   */
  async match(searchIds: Iterable<number>): Promise<Map<number, Newest>> {
    const matched = new Map<number, Newest>()
    const missing: number[] = []
    for (const id of searchIds) {
      const ids = this.searches.get(id)
      if (ids) matched.set(id, ids)
      else if (!this.slow.has(id)) missing.push(id)
    }
    for (let at = 0; at < missing.length; at += searchesPerGroup) {
      for (const [id, ids] of await this.matchGroup(missing.slice(at, at + searchesPerGroup))) {
        this.searches.set(id, ids)
        matched.set(id, ids)
      }
    }
    return matched
  }

  private async matchGroup(searchIds: number[]): Promise<Map<number, Newest>> {
    const searches = await this.db
      .selectFrom('searches')
      // an array in JSON is read many times faster than in PostgreSQL's own form
      .select(['id', 'kind', 'words', sql<string[] | null>`to_json(places)`.as('places')])
      .where('id', 'in', searchIds)
      .execute()
    const ofPlaces = searches.filter(({ kind }) => kind === 'place')
    const newest = await this.findPlaces(new Set(ofPlaces.flatMap(({ places }) => places ?? [])))
    const matched = new Map<number, Newest>()
    for (const search of searches) {
      if (search.kind === 'place') {
        if (search.places?.some((place) => this.slowPlaces.has(place))) {
          this.slow.add(search.id)
          continue
        }
        const found = splitPlaces(search.places ?? []).map(({ keys }) => {
          const ofKeys = keys.map((key) => newest.get(key)).filter((each) => each !== undefined)
          return mergePlaces(ofKeys, leadsPerQueryMax)
        })
        matched.set(search.id, mergeOverlapping(found, leadsPerQueryMax))
      } else {
        const ids = await this.findMatches(search)
        if (ids) matched.set(search.id, ids)
      }
    }
    return matched
  }

  private async findMatches(search: SearchToMatch & { id: number }): Promise<Newest | undefined> {
    const found = await this.lookUp((msMax) => findMatches(this.db, search, this.live, leadsPerQueryMax, msMax))
    if (found === undefined) this.slow.add(search.id)
    return found
  }

  /** Returns undefined where it takes too long. */
  private async lookUp<T>(find: (msMax: number) => Promise<T>): Promise<T | undefined> {
    try {
      return await find(this.slowLookUps < slowMax ? statementMsMax : msMaxThen)
    } catch (error) {
      if (!isTooSlow(error)) throw error
      this.slowLookUps++
      return undefined
    }
  }

  /** The newest leads of `places`, without those that take too long: these are found by halves. */
  private async findNewest(places: readonly string[]): Promise<ReadonlyMap<string, Newest>> {
    const found = await this.lookUp((msMax) => findNewestByPlace(this.db, places, this.live, msMax))
    if (found !== undefined) return found
    if (places.length === 1) for (const place of places) this.slowPlaces.add(place)
    if (places.length <= 1) return new Map()
    const half = places.length >> 1
    const first = await this.findNewest(places.slice(0, half))
    return new Map([...first, ...(await this.findNewest(places.slice(half)))])
  }

  private async findPlaces(places: Set<string>): Promise<Map<string, Newest>> {
    const found = new Map<string, Newest>()
    const missing: string[] = []
    for (const place of places) {
      const ids = this.places.get(place)
      if (ids) found.set(place, ids)
      else if (!this.slowPlaces.has(place)) missing.push(place)
    }
    for (let at = 0; at < missing.length; at += placesPerStatement) {
      const group = missing.slice(at, at + placesPerStatement)
      const newest = await this.findNewest(group)
      for (const place of group) {
        // most places have no listing: empty results are cached too
        if (this.slowPlaces.has(place)) continue
        const ofPlace = newest.get(place) ?? { ids: noIds, leftOut: noIds }
        this.places.set(place, ofPlace)
        found.set(place, ofPlace)
      }
    }
    return found
  }
}
