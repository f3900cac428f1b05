/** A query: its limits, its hash, and its JSON in `queryList`. Imports of users, deliveries and the receiver use it. */
import { hash } from 'node:crypto'
import * as z from 'zod'
import { queryValueCharsMax, radiusMilesMax } from '../base/limits.ts'
import type { Query } from '../index.ts'
import { textSchema } from '../leads/lead.ts'

export type { Query }

/** Counts characters as code points. */
function countChars(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

export const queryTypeSchema = z.enum(['zipcode', 'text'], { error: 'must be zipcode or text' })

export const queryValueSchema = textSchema
  .min(1, { error: 'must not be empty' })
  .refine((text) => text.length <= queryValueCharsMax || countChars(text) <= queryValueCharsMax, {
    error: `must have at most ${queryValueCharsMax} characters`,
  })
  .meta({ maxLength: queryValueCharsMax })

const radiusRule = { error: `must be a number from 0 to ${radiusMilesMax}` }

/** A radius in miles. */
export const radiusSchema = z.number(radiusRule).min(0, radiusRule).max(radiusMilesMax, radiusRule)

/** A query as it must stand in a delivery (contract 4.2): all three fields, no other. */
export const deliveredQuerySchema = z.strictObject(
  { type: queryTypeSchema, value: queryValueSchema, radius: radiusSchema },
  { error: 'must be an object with type, value and radius' },
)

/** The hash of a query (contract 1): the value followed by the radius as JSON writes it, without the type. */
export function queryHash(query: { value: string; radius: number }): string {
  return query.value + JSON.stringify(query.radius)
}

/** The JSON of a query as an element of `queryList`. */
export function serialiseQuery({ type, value, radius }: Query): string {
  return JSON.stringify({ type, value, radius })
}

/** A 32-bit mark of a set of queries (each as `serialiseQuery` gives it) that does not depend on their order. */
export function markQueries(serialised: readonly string[]): number {
  return hash('sha256', serialised.toSorted().join(), 'buffer').readInt32LE()
}

/**
 * The indexes of the first two queries that differ and have the same hash (contract 4.11); undefined for none. The same query
 * twice is no conflict: `foldQueries` makes one of it.
 */
export function findSameHash(queries: readonly Query[]): [number, number] | undefined {
  const seen = new Map<string, number>()
  for (const [at, query] of queries.entries()) {
    const hash = queryHash(query)
    const earlier = seen.get(hash)
    if (earlier === undefined) seen.set(hash, at)
    else if (!isSameQuery(queries[earlier] as Query, query)) return [earlier, at]
  }
  return undefined
}

/** Whether two queries with the same hash are one. */
export const isSameQuery = (one: Query, other: Query) => one.type === other.type && one.value === other.value

/** Each query once, where it stands first (contract 4.11). The queries have no two that differ and have the same hash. */
export function foldQueries(queries: readonly Query[]): Query[] {
  const seen = new Set<string>()
  return queries.filter((query) => seen.size !== seen.add(queryHash(query)).size)
}
