/**
 * Deletes what is old among the listings and no longer needed: listings that were not seen for long, superseded versions,
 * imports, searches without a query. Takes turns with imports, batch by batch.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { importDays, pruneRowsMax } from '../../base/limits.ts'
import { isLive } from '../../db/leases.ts'
import { locks } from '../../db/locks.ts'
import { rideOut } from '../../db/patience.ts'
import type { Tables } from '../../db/tables.ts'
import { isUnderWay } from '../../deliveries/runs.ts'
import type { PruneContext, SweptPart } from './sweep.ts'

const turnLookMs = 200

/**
 * Runs `work` in a transaction beside which no import with the lock `turn` runs. Waits for its turn between transactions, so
 * that a stop is heard. Undefined where it was stopped before its turn.
 */
async function inTurn<T>(
  { db, stop }: PruneContext,
  turn: number,
  work: (transaction: Transaction<Tables>) => Promise<T>,
): Promise<T | undefined> {
  while (!stop.aborted) {
    const done = await db.transaction().execute(async (transaction) => {
      const { rows } = await sql<{ mine: boolean }>`select pg_try_advisory_xact_lock(${turn}) as mine`.execute(
        transaction,
      )
      return rows[0]?.mine ? { result: await work(transaction) } : undefined
    })
    if (done) return done.result
    await sleep(turnLookMs, undefined, { signal: stop }).catch(() => {})
  }
  return undefined
}

/**
 * SQL: whether the listing in the row `seen` may still become a trigger, because some hook was not looked at since it came
 * in, or since something of it changed. The hooks are read once, not for each listing.
 */
const isNewToHook = (seen: RawBuilder<unknown>) => sql<boolean>`exists (
  select from leads l where l.id = ${seen}.lead_id and l.first_import_id > (select min(looked_import_id) from hooks)
  union all
  select from lead_events e where e.lead_id = ${seen}.lead_id and e.import_id > (select min(looked_import_id) from hooks))`

/**
 * SQL: whether the listing in the row `seen` of `lead_seen` was seen neither since `before` nor within the maximum age, and
 * no hook may still get it; triggers that were set aside do not wait for it any longer.
 */
const isStale = ({ before, maxLeadAgeMs }: PruneContext, seen: RawBuilder<unknown>) => sql<boolean>`(${seen}.seen_at
    < least(${before}::timestamptz, now() - ${maxLeadAgeMs} * interval '1 millisecond')
  and not ${isNewToHook(seen)} and not exists (select from triggers g where g.lead_id = ${seen}.lead_id and g.due_at < 'infinity'))`

/**
 * Stale listings. One that comes again is a new listing. The last version is marked as superseded and stays for now, for pushes that
 * planned with it a moment ago.
 */
const leads: SweptPart = {
  table: 'lead_seen',
  isOld: (context) => isStale(context, sql`t`),
  async deleteRows(context, isMeant) {
    const deleted = await inTurn(context, locks.leadsImport, async (transaction) => {
      const { rows } = await sql<{ found: number }>`
        with stale as materialized (select t.lead_id from lead_seen t where ${isMeant} limit ${pruneRowsMax}),
        unseen as (delete from lead_seen where lead_id = any (array(select lead_id from stale))),
        of_no_source as (delete from lead_sources where lead_id = any (array(select lead_id from stale))),
        gone as (delete from leads where id = any (array(select lead_id from stale)) returning version_id),
        left_behind as (
          update lead_versions set superseded_at = now() where id = any (array(select version_id from gone))
        )
        select count(*) as found from stale
      `.execute(transaction)
      return rows[0]?.found ?? 0
    })
    return deleted ?? 0
  },
}

/** Deletes sources whose last listing was pruned. */
export async function pruneSources(context: PruneContext): Promise<void> {
  const deleteUnused = (transaction: Transaction<Tables>) =>
    sql`
      delete from sources where imported_at < ${context.before}::timestamptz
        and id <> all (array(select distinct source_id from lead_sources))
    `.execute(transaction)
  await rideOut(context.db, () => inTurn(context, locks.leadsImport, deleteUnused))
}

/**
 * SQL: versions superseded before this time are in no delivery to come. A delivery names versions that were current when its
 * run began, or later; a superseded version bears the time at which its import's merge began, at most a day before the merge
 * is visible.
 */
const neededSince = sql<Date>`(select coalesce(least(
    (select min(r.started_at) from runs r where ${isUnderWay(sql`r`)}),
    (select min(coalesce(r.started_at, d.created_at)) from deliveries d left join runs r on r.id = d.run_id
      where d.status = 'pending')
  ) - interval '1 day', 'infinity'))`

/** Superseded versions that no delivery to come needs. */
const versions: SweptPart = {
  table: 'lead_versions',
  isOld: (context) => {
    const isGone = sql<boolean>`not exists (select from leads l where l.id = t.lead_id)`
    // in a dry run the listings that would go are still there
    const goes = sql<boolean>`exists (select from lead_seen s where s.lead_id = t.lead_id and ${isStale(context, sql`s`)})`
    const isOrphan = context.dryRun ? sql<boolean>`(${isGone} or ${goes})` : isGone
    const supersededAt = context.dryRun
      ? sql<Date>`coalesce(t.superseded_at, case when ${goes} then now() end)`
      : sql<Date>`t.superseded_at`
    return sql`${supersededAt} < ${neededSince} and (
      t.superseded_at < least(${context.before}::timestamptz, now() - interval '1 day') or ${isOrphan})`
  },
}

/** What imports changed, but for that for which a hook has not been looked at. */
const events: SweptPart = {
  table: 'lead_events',
  isOld: ({ before }) =>
    sql`t.import_id <= (select max(id) from imports where started_at < ${before}::timestamptz)
      and t.import_id <= coalesce((select min(looked_import_id) from hooks), t.import_id)`,
}

/**
 * Imports, but for the last one, and those whose listings a hook has not been looked at for. A listing whose import is gone is known to be
 * old.
 */
const imports: SweptPart = {
  table: 'imports',
  isOld: ({ before }) =>
    sql`t.started_at < least(${before}::timestamptz, now() - ${importDays} * interval '1 day')
      and t.id < (select max(id) from imports) and t.id <= coalesce((select min(looked_import_id) from hooks), t.id)`,
}

/** SQL: whether no query means search `t`, and no running push may have read such a query a moment ago. */
const isUnused = sql<boolean>`not exists (select from queries q where q.search_id = t.id)
  and not exists (select from runs r where r.outcome = 'running' and ${isLive(sql`r.worker_id`)})`

/** Searches that no query means. */
const searches: SweptPart = {
  table: 'searches',
  isOld: () => isUnused,
  async deleteRows(context, isMeant) {
    const deleted = await inTurn(context, locks.usersImport, async (transaction) => {
      const { numAffectedRows } = await sql`
        delete from searches where ctid = any (array(select t.ctid from searches t where ${isMeant} limit ${pruneRowsMax}))
      `.execute(transaction)
      return Number(numAffectedRows ?? 0)
    })
    return deleted ?? 0
  },
}

/** In this order: listings before their versions, and what an import brought before the import. */
export const listingParts = { leads, versions, events, imports, searches }
