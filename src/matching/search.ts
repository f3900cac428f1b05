/**
 * What a query means (contract 4.9), resolved once, when its user comes in: postal keys, words, or both. Queries of one
 * meaning, of any number of users, resolve to the same search.
 */
import { createHash } from 'node:crypto'
import { radiusMilesMax } from '../limits.ts'
import { centreOf, type Point } from '../places/distance.ts'
import { parsePlace } from '../places/parse-place.ts'
import { findCodesWithin, type Places } from '../places/places.ts'
import { postalKey } from '../places/postal-key.ts'
import { queryWords } from './words.ts'

/** Raise it when the same query would resolve to something else: `migrate` then resolves what is stored again. */
export const resolverVersion = 1

export interface QueryToResolve {
  type: 'zipcode' | 'text'
  value: string
  /** Miles. */
  radius: number
}

export interface ResolvedSearch {
  kind: 'place' | 'words' | 'both'
  /** Postal keys, sorted; null for words alone. */
  places: string[] | null
  /** Normalised, sorted; null for a place alone. */
  words: string | null
  /** sha256 of the three above. */
  meaningSha256: Buffer
  /** The postal key of the place, or the first of its own: neighbours on the map are neighbours in it. Empty for words. */
  place: string
  /** A text without a place has a radius, which means nothing for what it matches. */
  radiusIgnored: boolean
}

/** A query that cannot match anything, with the reason for whoever wrote it. */
export interface RefusedSearch {
  refused: string
}

function build(places: string[] | null, words: string | null, place: string, radiusIgnored = false): ResolvedSearch {
  const kind = places === null ? 'words' : words === null ? 'place' : 'both'
  const meaning = JSON.stringify([kind, places, words])
  const meaningSha256 = createHash('sha256').update(meaning).digest()
  return { kind, places, words, meaningSha256, place, radiusIgnored }
}

/** The place's own keys, and those within the radius of its centre. */
function keysOf(places: Places, own: readonly string[], centre: Point | undefined, radius: number): string[] {
  const around = centre && radius > 0 ? findCodesWithin(places, centre, radius) : []
  return [...new Set([...own, ...around])].sort()
}

function resolveZip(places: Places, { value, radius }: QueryToResolve): ResolvedSearch | RefusedSearch {
  const key = postalKey(value)
  if (key === undefined) return { refused: 'has no postal code' }
  return build(keysOf(places, [key], places.byCode.get(key), radius), null, key)
}

function resolveText(places: Places, { value, radius }: QueryToResolve): ResolvedSearch | RefusedSearch {
  const found = parsePlace(places, value)
  const words = queryWords(found ? found.words : value) || null
  if (found) {
    const centre = found.entries && centreOf(found.entries)
    return build(keysOf(places, found.codes, centre, radius), words, [...found.codes].sort()[0] ?? '')
  }
  if (words === null) return { refused: 'has no word to search for: only signs, or words like "the"' }
  return build(null, words, '', radius > 0)
}

/** Pure. Refuses a radius outside 0 to 100 miles, a text without a word to search for, a postal code without any character. */
export function resolveSearch(places: Places, query: QueryToResolve): ResolvedSearch | RefusedSearch {
  if (!(query.radius >= 0 && query.radius <= radiusMilesMax)) {
    return { refused: `has a radius that is not from 0 to ${radiusMilesMax} miles` }
  }
  return query.type === 'zipcode' ? resolveZip(places, query) : resolveText(places, query)
}
