/** Which listings are live, and which of a house's counts: the conditions that matching, triggers and counts share. */
import { type RawBuilder, sql } from 'kysely'

/** Which listings count at a moment. */
export interface Live {
  /** Listings that were last seen before this are too old. */
  seenSince: Date
  /** Whether each listing of a house counts, or one of them (contract 4.20). */
  sameHouse: 'each' | 'once'
}

/**
 * SQL: whether the listing in the row `seen` of `lead_seen` may be delivered: an import contained it at `seenSince` or later, and it is
 * not gone from all its sources (contract 4.18).
 */
export const isListed = (seen: RawBuilder<unknown>, seenSince: Date | RawBuilder<Date>) =>
  sql<boolean>`(${seen}.seen_at >= ${seenSince} and not ${seen}.gone)`

/**
 * SQL: the id of the live listing that counts instead of the one in `lead`, a row with `id` and `house`: of its house the one that was
 * imported first (contract 4.20); null where there is none. `matches`: a condition on `leads other` that it must meet too.
 */
export const findCounted = (
  lead: RawBuilder<unknown>,
  seenSince: Date | RawBuilder<Date>,
  matches: RawBuilder<boolean> = sql<boolean>`true`,
) => sql<number | null>`(
    select other.id from leads other join lead_seen other_seen on other_seen.lead_id = other.id
    where other.house = ${lead}.house and other.id < ${lead}.id and ${isListed(sql`other_seen`, seenSince)} and ${matches}
    order by other.id limit 1
  )`
