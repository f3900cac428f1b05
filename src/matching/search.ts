/**
 * Resolves what a query means (contract 4.9) once, when its user is imported: postal keys, words, or both. Queries with one
 * meaning, of any number of users, resolve to the same search.
 */
import { createHash } from 'node:crypto'
import { radiusMilesMax } from '../base/limits.ts'
import { isCityKey } from '../places/city-keys.ts'
import { centreOf, type Point } from '../places/distance.ts'
import { looksLikePlace, parsePlace, several } from '../places/parse-place.ts'
import { findCodesWithin, type Places } from '../places/places.ts'
import { keyAbroad, postalKey } from '../places/postal-key.ts'
import { queryWords } from './words.ts'

/** Raise it when the same query would resolve to something else: `migrate` then resolves stored queries again. */
export const resolverVersion = 2

export interface QueryToResolve {
  type: 'zipcode' | 'text'
  value: string
  /** Miles. */
  radius: number
}

/** The meaning of a query, as the table `searches` stores it. */
export interface ResolvedSearch {
  kind: 'place' | 'words' | 'both'
  /** Postal and city keys, sorted; null for words alone. */
  places: string[] | null
  /** Normalised, sorted; null for a place alone. */
  words: string | null
  /** sha256 of the three above. */
  meaningSha256: Buffer
  /** The first postal key of the place itself, empty for words. Places with similar keys are neighbours on the map. */
  homeKey: string
  /** Whether a text without a place has a radius, which does not change what it matches. */
  radiusIgnored: boolean
  /** Whether a text without a place looks like one, such as `Sandy Sprigs, GA`. */
  placeUnknown: boolean
}

/** A query that cannot match anything, with the reason. */
export interface RefusedSearch {
  refused: string
}

function build(
  places: string[] | null,
  words: string | null,
  place: string,
  { radiusIgnored = false, placeUnknown = false } = {},
): ResolvedSearch {
  const kind = places === null ? 'words' : words === null ? 'place' : 'both'
  const meaning = JSON.stringify([kind, places, words])
  const meaningSha256 = createHash('sha256').update(meaning).digest()
  return { kind, places, words, meaningSha256, homeKey: place, radiusIgnored, placeUnknown }
}

/** The place that a query names. */
export interface NamedPlace {
  /** Its own postal keys, or its city key. */
  codes: readonly string[]
  /** From where its radius is measured; undefined for a code that is in no table. */
  centre: Point | undefined
  /** The words of a text before its place, as they were written. */
  words: string
}

/** Undefined for a text without a place, which is all words, and for an empty postal code. */
export function findNamedPlace(places: Places, { type, value }: QueryToResolve): NamedPlace | undefined {
  if (type === 'text') {
    const found = parsePlace(places, value)
    return found && { codes: found.codes, centre: found.entries && centreOf(found.entries), words: found.words }
  }
  const key = postalKey(value)
  return key === undefined ? undefined : { codes: [key], centre: places.find(key), words: '' }
}

const milesNearby = 10

/** Its first postal key; of a place that no postal code is named after one nearby. */
function findHomeKey(places: Places, { codes, centre }: NamedPlace): string {
  const key = [...codes].sort()[0] ?? ''
  return centre && isCityKey(key) ? (findCodesWithin(places, centre, milesNearby)[0] ?? key) : key
}

/** Pure. Refuses a radius outside 0 to 100 miles, a text without a word to search for, a postal code without any character, several of them. */
export function resolveSearch(places: Places, query: QueryToResolve): ResolvedSearch | RefusedSearch {
  const { type, value, radius } = query
  if (!(radius >= 0 && radius <= radiusMilesMax)) {
    return { refused: `has a radius that is not from 0 to ${radiusMilesMax} miles` }
  }
  const held = several(places, value)
  if (held)
    return {
      refused: `holds several ${held}: write a query for each (in CSV a line a ${held === 'places' ? 'place' : 'code'})`,
    }
  const named = findNamedPlace(places, query)
  if (!named && type === 'zipcode') return { refused: 'has no postal code' }
  const words = queryWords(named ? named.words : value) || null
  if (named) {
    const around = named.centre && radius > 0 ? findCodesWithin(places, named.centre, radius) : []
    // a code in no table means that very code, also abroad
    const abroad = named.centre ? [] : named.codes.map(keyAbroad)
    const keys = [...new Set([...named.codes, ...around, ...abroad])].sort()
    return build(keys, words, findHomeKey(places, named))
  }
  if (words === null) return { refused: 'has no word to search for: only signs, or words like "the"' }
  return build(null, words, '', { radiusIgnored: radius > 0, placeUnknown: looksLikePlace(value) })
}
