/**
 * Postal codes in memory, with their points and the names of their places, and the places that no code is named after, for resolving
 * queries. Read from `postal_codes` when first needed; about 20 MB, freed with the caller that asked for it.
 */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { aliases } from './aliases.ts'
import { isCityKey } from './city-keys.ts'
import { distanceMiles, milesPerDegree, type Point } from './distance.ts'
import { findByName, nameKey } from './fold.ts'

/** A postal code, or a place that none is named after, and the point at its centre. */
export interface PostalCode extends Point {
  /** Of a place its city key. */
  code: string
  /** `TX`, `PR`, `QC`. */
  state: string
}

/**
 * The postal codes by code, by name and by latitude. Lines are parsed, and the last two built, when first asked for: looking up
 * a few codes needs little of either.
 */
export class Places {
  private readonly text: string
  /** Where the line of a code begins. */
  private readonly starts: ReadonlyMap<string, number>
  private parsed: readonly NamedCode[] | undefined
  private builtByName: ReadonlyMap<string, readonly PostalCode[]> | undefined
  private builtByLatitude: readonly PostalCode[] | undefined

  constructor(text: string, starts: ReadonlyMap<string, number>) {
    this.text = text
    this.starts = starts
  }

  /** Undefined for a code that is in no table. */
  find(code: string): PostalCode | undefined {
    const start = this.starts.get(code)
    return start === undefined ? undefined : parseLine(this.text, start)
  }

  has(code: string): boolean {
    return this.starts.has(code)
  }

  get all(): readonly NamedCode[] {
    this.parsed ??= Array.from(this.starts.values(), (start) => parseLine(this.text, start))
    return this.parsed
  }

  /** Codes by state and folded name: `TX austin`. */
  get byName(): ReadonlyMap<string, readonly PostalCode[]> {
    this.builtByName ??= buildNames(this.all)
    return this.builtByName
  }

  /** All postal codes, from south to north. */
  get byLatitude(): readonly PostalCode[] {
    this.builtByLatitude ??= this.all.filter(({ code }) => !isCityKey(code)).sort((a, b) => a.latitude - b.latitude)
    return this.builtByLatitude
  }
}

interface NamedCode extends PostalCode {
  city: string
}

function buildNames(entries: readonly NamedCode[]): Map<string, PostalCode[]> {
  const byName = new Map<string, PostalCode[]>()
  for (const entry of entries) {
    const key = nameKey(entry.state, entry.city)
    const named = byName.get(key)
    if (named) named.push(entry)
    else byName.set(key, [entry])
  }
  for (const { state, names, prefixes } of aliases) {
    const found = entries.filter(
      (entry) => entry.state === state && prefixes.some((prefix) => entry.code.startsWith(prefix)),
    )
    for (const name of names) {
      const key = nameKey(state, name)
      byName.set(key, [...new Set([...(byName.get(key) ?? []), ...found])])
    }
  }
  return byName
}

function parseLine(text: string, start: number): NamedCode {
  const end = text.indexOf('\n', start)
  const cells = text.slice(start, end < 0 ? text.length : end).split('\t')
  const [code = '', state = '', city = ''] = [cells[0], cells[2], cells[3]]
  return { code, state, city, latitude: Number(cells[4]), longitude: Number(cells[5]) }
}

/** Parses lines of `code, country, state, city, latitude, longitude`, separated by tabs; skips lines that begin with #. */
export function buildPlaces(text: string): Places {
  const starts = new Map<string, number>()
  for (let start = 0; start < text.length; ) {
    if (text[start] !== '#' && text[start] !== '\n') starts.set(text.slice(start, text.indexOf('\t', start)), start)
    const end = text.indexOf('\n', start)
    start = end < 0 ? text.length : end + 1
  }
  return new Places(text, starts)
}

/** Reads all of `postal_codes`, as one text, which is several times faster than as rows. */
export async function findPlaces(db: Database): Promise<Places> {
  const { rows } = await sql<{ lines: string | null }>`
    select string_agg(concat_ws(E'\t', code, country, state, city, latitude, longitude), E'\n') as lines from postal_codes
  `.execute(db)
  return buildPlaces(rows[0]?.lines ?? '')
}

/** The codes of a city, in order; undefined where the state has no place with that name. */
export function findPlace(places: Places, state: string, name: string): readonly PostalCode[] | undefined {
  return findByName(places.byName, state, name)
}

function firstFrom(entries: readonly PostalCode[], latitude: number): number {
  let [low, high] = [0, entries.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((entries[middle]?.latitude ?? 0) < latitude) low = middle + 1
    else high = middle
  }
  return low
}

/** The codes whose centre is within `radiusMiles` of `point`, or exactly at the limit. */
export function findCodesWithin(places: Places, point: Point, radiusMiles: number): string[] {
  // a little wider than the radius, so that rounding never decides here
  const degrees = (radiusMiles / milesPerDegree) * 1.001 + 1e-9
  const farthest = Math.min(89.9, Math.abs(point.latitude) + degrees)
  const degreesAcross = degrees / Math.cos((farthest * Math.PI) / 180)
  const codes: string[] = []
  for (let at = firstFrom(places.byLatitude, point.latitude - degrees); at < places.byLatitude.length; at += 1) {
    const entry = places.byLatitude[at] as PostalCode
    if (entry.latitude > point.latitude + degrees) break
    const across = Math.abs(entry.longitude - point.longitude)
    // Alaska crosses the date line
    if (Math.min(across, 360 - across) > degreesAcross) continue
    if (distanceMiles(point, entry) <= radiusMiles) codes.push(entry.code)
  }
  return codes
}
