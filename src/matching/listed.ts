/** Which listings are live: the one condition that matching, triggers and counts share. */
import { type RawBuilder, sql } from 'kysely'

/**
 * SQL: whether the listing in the row `seen` of `lead_seen` may be delivered: an import contained it at `seenSince` or later, and it is
 * not gone from all its sources (contract 4.18).
 */
export const isListed = (seen: RawBuilder<unknown>, seenSince: Date | RawBuilder<Date>) =>
  sql<boolean>`(${seen}.seen_at >= ${seenSince} and not ${seen}.gone)`
