/**
 * `prune`: deletes rows that are older than a duration and needed by nothing to come. Each part works through its table in
 * small transactions, so it may be stopped at any time, run again, and run beside pushes and imports.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import type { Tables } from '../../db/tables.ts'
import { forgetHookAnswers, ledgerParts, noteRuns, otherParts } from './ledger.ts'
import { listingParts, pruneSources } from './listings.ts'
import { type SweptPart, sweepPart } from './sweep.ts'

const parts = { ...ledgerParts, ...listingParts, ...otherParts }

/** The names of the parts, and the rows of each. */
export type PrunedPart = keyof typeof parts
export type PruneCounts = Record<PrunedPart, number>

/** The tables whose indexes lose entries with the rows of a part. A superseded version had its place in those of `leads` too. */
const tablesOf: Partial<Record<PrunedPart, readonly (keyof Tables)[]>> = {
  deliveries: ['deliveries'],
  claims: ['claims'],
  leads: ['leads', 'lead_seen', 'lead_sources'],
  versions: ['lead_versions', 'leads'],
  events: ['lead_events'],
}

/** How many rows of each table `counts` are; the entries of one table come from the part with the most. */
export function countDeleted(counts: PruneCounts): Partial<Record<keyof Tables, number>> {
  const deleted: Partial<Record<keyof Tables, number>> = {}
  for (const [part, tables] of Object.entries(tablesOf) as [PrunedPart, readonly (keyof Tables)[]][])
    for (const table of tables) deleted[table] = Math.max(deleted[table] ?? 0, counts[part])
  return deleted
}

/** What is old, and whom to tell. */
export interface PruneOptions {
  olderThanMs: number
  /** Listings seen within this time stay, however short `olderThanMs` is. */
  maxLeadAgeMs: number
  /** Deletes nothing, and counts what would be deleted. */
  dryRun?: boolean
  /** Aborted: ends after the batch under way. */
  stop: AbortSignal
  onPart?: (part: PrunedPart) => void
}

/**
 * Returns how many rows of each part it deleted, or would delete; fewer than there are if it was stopped. Throws `database`
 * where the database stays away.
 */
export async function prune(
  db: Database,
  { olderThanMs, maxLeadAgeMs, dryRun = false, stop, onPart }: PruneOptions,
): Promise<PruneCounts> {
  const { rows } = await sql<{
    before: string
  }>`select (now() - ${olderThanMs} * interval '1 millisecond')::text as before`.execute(db)
  const context = { db, before: rows[0]?.before ?? '', maxLeadAgeMs, dryRun, stop }
  if (!dryRun) {
    await noteRuns(context)
    await forgetHookAnswers(context)
  }
  const counts = {} as PruneCounts
  for (const [name, part] of Object.entries(parts) as [PrunedPart, SweptPart][]) {
    onPart?.(name)
    counts[name] = stop.aborted ? 0 : await sweepPart(context, part)
  }
  if (!dryRun) await pruneSources(context)
  return counts
}
