/**
 * Triggers that a hook did not get: abandoned ones, and those beyond the newest of a run. They are kept for `trigger --again` (contract
 * 6.1, 6.4), which makes them due again.
 */
import { sql } from 'kysely'
import { lostKeptDays } from '../base/limits.ts'
import type { Database } from '../db/open.ts'

/** The lost triggers to make due: of one hook or of all, lost within so many milliseconds; undefined: all that are kept. */
export interface LostToRenew {
  hookId: string | undefined
  sinceMs: number | undefined
}

/** Rows of `lost_triggers` in one statement; each may hold thousands of leads. */
const rowsPerStatement = 16

/** The columns of `lost_triggers` that `lostOf` fills. */
export const lostColumns = sql`hook_id, kind, lead_ids, version_ids, occurred_at, payloads`

/** SQL: those columns for rows of `triggers`, or similar ones, which the caller groups by hook and kind. */
export const lostOf = sql`hook_id, kind, array_agg(lead_id), array_agg(version_id), array_agg(occurred_at), array_agg(payload)`

/**
 * Makes lost triggers due, with their schedule from the beginning. A `webhook-id` follows from hook and event, so it is that of the
 * earlier attempts. Listings that were erased or pruned meanwhile are left out. A trigger for a listing that is gone waits, as always. A
 * run at the same time takes other rows.
 */
export async function renewLost(
  db: Database,
  { hookId, sinceMs = lostKeptDays * 86_400_000 }: LostToRenew,
): Promise<void> {
  for (let taken = 1; taken > 0; ) {
    const { rows } = await sql<{ n: number }>`
      with page as materialized (
        select id, hook_id from lost_triggers where lost_at >= now() - ${sinceMs} * interval '1 millisecond'
          ${hookId === undefined ? sql`` : sql`and hook_id = ${hookId}`}
          order by id limit ${rowsPerStatement}
      ),
      locked as materialized (select id from hooks where id in (select hook_id from page) order by id for update),
      taken as (
        delete from lost_triggers where id in (select id from page) and hook_id in (select id from locked)
        returning ${lostColumns}
      ),
      renewed as (
        insert into triggers (hook_id, version_id, kind, lead_id, payload, occurred_at, due_at)
        select t.hook_id, e.version_id, t.kind, l.id, e.payload, e.occurred_at, now()
        from taken t cross join unnest(t.lead_ids, t.version_ids, t.occurred_at, t.payloads)
            as e (lead_id, version_id, occurred_at, payload) join leads l on l.id = e.lead_id
        on conflict do nothing
      )
      select count(*) as n from page
    `.execute(db)
    taken = rows[0]?.n ?? 0
  }
}
