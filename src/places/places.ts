/**
 * Where postal codes lie and what their places are called, in memory: for resolving queries when users come in. Read from
 * `postal_codes` when first needed; about 20 MB, and gone with whoever asked for it.
 */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { aliases } from './aliases.ts'
import { distanceMiles, milesPerDegree, type Point } from './distance.ts'
import { foldName } from './fold.ts'

export interface PostalCode extends Point {
  code: string
  /** `TX`, `PR`, `QC`. */
  state: string
}

export interface Places {
  byCode: ReadonlyMap<string, PostalCode>
  /** By state and folded name: `TX austin`. */
  byName: ReadonlyMap<string, readonly PostalCode[]>
  /** From south to north. */
  byLatitude: readonly PostalCode[]
}

const nameKey = (state: string, name: string) => `${state} ${foldName(name)}`

function addAliases(byName: Map<string, PostalCode[]>, entries: readonly PostalCode[]): void {
  for (const { state, names, prefixes } of aliases) {
    const found = entries.filter(
      (entry) => entry.state === state && prefixes.some((prefix) => entry.code.startsWith(prefix)),
    )
    for (const name of names) {
      const key = nameKey(state, name)
      byName.set(key, [...new Set([...(byName.get(key) ?? []), ...found])])
    }
  }
}

/** Lines of `code, country, state, city, latitude, longitude` with tabs between; those that begin with # are skipped. */
export function buildPlaces(text: string): Places {
  const entries: PostalCode[] = []
  const byName = new Map<string, PostalCode[]>()
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const [code = '', , state = '', city = '', latitude, longitude] = line.split('\t')
    const entry = { code, state, latitude: Number(latitude), longitude: Number(longitude) }
    entries.push(entry)
    const key = nameKey(state, city)
    const named = byName.get(key)
    if (named) named.push(entry)
    else byName.set(key, [entry])
  }
  addAliases(byName, entries)
  const byCode = new Map(entries.map((entry) => [entry.code, entry]))
  return { byCode, byName, byLatitude: entries.sort((a, b) => a.latitude - b.latitude) }
}

/** All of `postal_codes`: one text is read several times faster than its rows. */
export async function findPlaces(db: Database): Promise<Places> {
  const { rows } = await sql<{ lines: string | null }>`
    select string_agg(concat_ws(E'\t', code, country, state, city, latitude, longitude), E'\n') as lines from postal_codes
  `.execute(db)
  return buildPlaces(rows[0]?.lines ?? '')
}

/** The codes of a city, in their order; undefined where the state has no place of that name. */
export function findPlace(places: Places, state: string, name: string): readonly PostalCode[] | undefined {
  return places.byName.get(nameKey(state, name))
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

/** The codes whose centre lies within `radiusMiles` of `point`, the limit included. */
export function findCodesWithin(places: Places, point: Point, radiusMiles: number): string[] {
  // a little wider than the radius, so that rounding here never decides
  const degrees = (radiusMiles / milesPerDegree) * 1.001 + 1e-9
  const farthest = Math.min(89.9, Math.abs(point.latitude) + degrees)
  const degreesAcross = degrees / Math.cos((farthest * Math.PI) / 180)
  const codes: string[] = []
  for (let at = firstFrom(places.byLatitude, point.latitude - degrees); at < places.byLatitude.length; at += 1) {
    const entry = places.byLatitude[at] as PostalCode
    if (entry.latitude > point.latitude + degrees) break
    const across = Math.abs(entry.longitude - point.longitude)
    // Alaska reaches over the date line
    if (Math.min(across, 360 - across) > degreesAcross) continue
    if (distanceMiles(point, entry) <= radiusMiles) codes.push(entry.code)
  }
  return codes
}
