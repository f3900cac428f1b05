/** Whether a listing lies in one of a search's places: by its postal key, or by its city key (contract 4.9). */
import { type RawBuilder, sql } from 'kysely'
import { isCityKey } from '../places/city-keys.ts'

/** The column of `leads` that has keys of one kind. */
export type PlaceColumn = 'postal_key' | 'city_key'

/** The places of a search by their columns. Most searches have no city key: they need not look at that column. */
export function splitPlaces(places: readonly string[]): { column: PlaceColumn; keys: readonly string[] }[] {
  const cities = places.filter(isCityKey)
  if (cities.length === 0) return [{ column: 'postal_key', keys: places }]
  return [
    { column: 'postal_key', keys: places.filter((key) => !isCityKey(key)) },
    { column: 'city_key', keys: cities },
  ]
}

/** SQL: whether `lead`, a row with both columns, lies in one of the places. */
export const liesIn = (lead: RawBuilder<unknown>, places: readonly string[]): RawBuilder<boolean> => {
  const columns = splitPlaces(places)
  const conditions = columns.map(({ column, keys }) => sql`${lead}.${sql.ref(column)} = any (${keys}::text[])`)
  return sql<boolean>`(${sql.join(conditions, sql` or `)})`
}

/** SQL: the same for the column `places` of a row of `searches`; null where that is null. */
export const liesInPlaces = (lead: RawBuilder<unknown>, places: RawBuilder<unknown>) =>
  sql<boolean>`(${lead}.postal_key = any (${places}) or coalesce(${lead}.city_key, '') = any (${places}))`
