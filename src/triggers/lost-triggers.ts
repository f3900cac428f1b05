/**
 * Triggers that a hook did not get: abandoned ones, and those beyond the newest of a run. They are kept for `trigger --again`
 * (contract 6.1, 6.4), which makes them due anew.
 */
import { sql } from 'kysely'
import { idCharsMin } from '../base/amounts.ts'
import { lostKeptDays } from '../base/limits.ts'
import type { Database } from '../db/open.ts'

/** Which lost triggers to make due: of one hook or of all, lost in so many milliseconds; undefined: all that are kept. */
export interface LostToRenew {
  hookId: string | undefined
  sinceMs: number | undefined
}

/** Rows of `lost_triggers` in one statement; each may hold thousands of leads. */
const rowsPerStatement = 16
const daysMs = 86_400_000

/** SQL: what `lost_triggers` keeps of the changes of prices among rows of `triggers`, or the like; null where there is none. */
export const lostChanges = sql`jsonb_agg(jsonb_build_object('lead_id', lead_id, 'version_id', version_id,
  'previous_price', previous_price, 'price', price, 'occurred_at', occurred_at)) filter (where previous_price is not null)`

/**
 * Makes lost triggers due, with their schedule from the beginning. A `webhook-id` follows from hook and event, so it is that of
 * the earlier attempts. Listings that were erased or pruned meanwhile are left out; what is due for one
 * that is gone waits, as any trigger does. A run at the same time takes other rows.
 */
export async function renewLost(db: Database, { hookId, sinceMs = lostKeptDays * daysMs }: LostToRenew): Promise<void> {
  const { rows: start } = await sql<{ upTo: number | null; since: string }>`
    select max(id) as "upTo", (now() - ${sinceMs} * interval '1 millisecond')::text as since from lost_triggers
  `.execute(db)
  const { upTo = null, since = '' } = start[0] ?? {}
  for (let last = 0; upTo !== null; ) {
    const { rows } = await sql<{ last: number | null }>`
      with page as materialized (
        select id, hook_id from lost_triggers where id > ${last} and id <= ${upTo} and lost_at >= ${since}::timestamptz
          ${hookId === undefined ? sql`` : sql`and hook_id = ${hookId}`}
        order by id limit ${rowsPerStatement}
      ),
      locked as materialized (select id from hooks where id in (select hook_id from page) order by id for update),
      taken as (
        delete from lost_triggers where id in (select id from page) and hook_id in (select id from locked)
        returning hook_id, lead_ids, changes
      ),
      renewed as (
        insert into triggers (hook_id, version_id, lead_id, previous_price, price, occurred_at, due_at)
        select distinct on (t.hook_id, l.version_id) t.hook_id, l.version_id, l.id, null::float8, null::float8, i.started_at, now()
        from taken t cross join unnest(t.lead_ids) as lost (lead_id) join leads l on l.id = lost.lead_id
          join imports i on i.id = l.first_import_id
        where t.changes is null
        union all
        select t.hook_id, c.version_id, l.id, c.previous_price, c.price, c.occurred_at, now()
        from taken t cross join jsonb_to_recordset(t.changes) as c (lead_id bigint, version_id bigint,
            previous_price float8, price float8, occurred_at timestamptz) join leads l on l.id = c.lead_id
        on conflict do nothing returning hook_id, kind, lead_id
      ),
      noted as (
        insert into became_due (hook_id, kind, lead_ids)
        select hook_id, kind, array_agg(lead_id) from renewed group by hook_id, kind
      ),
      woken as (
        update hooks set due_at = least(due_at, now()) where id in (select hook_id from renewed)
      )
      select max(id) as last from page
    `.execute(db)
    const reached = rows[0]?.last ?? null
    if (reached === null) return
    last = reached
  }
}

/** Deletes what was lost, or became due, too long ago. */
export async function forgetLost(db: Database): Promise<void> {
  const since = sql`now() - ${lostKeptDays} * interval '1 day'`
  // first: what is in it alone counts as delivered
  await sql`delete from became_due where at < ${since}`.execute(db)
  await sql`delete from lost_triggers where lost_at < ${since}`.execute(db)
}

/** The first two hooks whose ids begin with `text`, which may be anything; one of fewer than `idCharsMin` characters names none. */
export async function findHookIds(db: Database, text: string): Promise<string[]> {
  if (text.length < idCharsMin) return []
  const { rows } = await sql<{ id: string }>`
    select id from hooks where starts_with(id::text, ${text.toLowerCase()}) limit 2`.execute(db)
  return rows.map(({ id }) => id)
}
