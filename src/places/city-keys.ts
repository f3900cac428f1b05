/**
 * The keys of places that no postal code is named after (contract 4.9): `GA Sandy Springs`. A listing lies in such a place if its `city`
 * and `state` say so. The places are rows of `postal_codes`; a postal key has no space, so the two never meet.
 */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { findByName, nameKey } from './fold.ts'
import { findStateCode } from './states.ts'

export const isCityKey = (key: string): boolean => key[2] === ' '

/** Where a listing says that it lies. */
export interface CityAndState {
  city: string | null
  state: string | null
}

const charsMax = 100

/** Listings share their cities: so many spellings are remembered. */
const foundMax = 10_000

/** Finds the city keys of listings; some thousand places in memory. */
export class CityKeys {
  private readonly keys: ReadonlyMap<string, string>
  private readonly found = new Map<string, string | undefined>()

  constructor(keys: readonly string[]) {
    this.keys = new Map(keys.map((key) => [nameKey(key.slice(0, 2), key.slice(3)), key]))
  }

  /** Undefined for a place that postal codes are named after, or that is unknown. */
  find({ city, state }: CityAndState): string | undefined {
    if (!city || !state || Math.max(city.length, state.length) > charsMax) return undefined
    const spelling = `${state.length} ${state}${city}`
    if (this.found.has(spelling)) return this.found.get(spelling)
    const code = findStateCode(state)
    const key = code === undefined ? undefined : findByName(this.keys, code, city)
    if (this.found.size >= foundMax) this.found.clear()
    this.found.set(spelling, key)
    return key
  }
}

/** Reads them from `postal_codes`. */
export async function findCityKeys(db: Database): Promise<CityKeys> {
  const { rows } = await sql<{ keys: string | null }>`
    select string_agg(code, E'\n') as keys from postal_codes where code like '__ %'
  `.execute(db)
  return new CityKeys(rows[0]?.keys?.split('\n') ?? [])
}
