/** Counts triggers and hooks by their state, for the metrics of `serve`. */
import { sql } from 'kysely'
import { leftDays } from '../base/limits.ts'
import type { Database } from '../db/open.ts'

/** Triggers are counted up to so many: a scrape must stay cheap after a large import. */
const countedMax = 100_000

/** Counts, except `oldestDueSeconds`. */
export interface TriggerFigures {
  /** Triggers that a run would send now, counted up to 100,000. */
  due: number
  /** How long the oldest due trigger has been due, after the last pause of its hook; 0 if none is. */
  oldestDueSeconds: number
  /** Triggers that failed and will be tried again, counted up to 100,000. */
  failing: number
  /** All triggers that were ever abandoned or dropped, for registered hooks. */
  abandoned: number
  dropped: number
  hooksDue: number
  /** Hooks all of whose attempts have failed lately. */
  hooksFailing: number
  hooksOff: number
  /** Hooks for which a trigger was given up, or a listing dropped, in the last day. */
  hooksAbandoned: number
  hooksDropped: number
}

/** Reads the figures by indexes, and at most the `countedMax` triggers that have been due longest. */
export async function findTriggerFigures(db: Database): Promise<TriggerFigures> {
  const lately = sql`now() - ${leftDays} * interval '1 day'`
  const { rows } = await sql<TriggerFigures>`
    with due as materialized (
      select h.id, greatest(t.due_at, h.paused_until) as due_at, n
      from (select hook_id, min(due_at) as due_at, count(*) as n from (
          select hook_id, due_at from triggers where due_at <= now() order by due_at limit ${countedMax}) o group by hook_id) t
        join hooks h on h.id = t.hook_id where h.paused_until is null or h.paused_until <= now()
    )
    select (select coalesce(sum(n), 0)::bigint from due) as due,
      (select coalesce(extract(epoch from now() - min(due_at)), 0)::double precision from due) as "oldestDueSeconds",
      (select count(*) from (select from triggers where attempts > 0 and due_at < 'infinity' limit ${countedMax}) f) as failing,
      (select coalesce(sum(abandoned), 0)::bigint from hooks where abandoned_at is not null) as abandoned,
      (select coalesce(sum(dropped), 0)::bigint from hooks where dropped_at is not null) as dropped,
      (select count(*) from due) as "hooksDue",
      (select count(*) from hooks where failing_since is not null) as "hooksFailing",
      (select count(*) from hooks where off_since is not null) as "hooksOff",
      (select count(*) from hooks where abandoned_at > ${lately}) as "hooksAbandoned",
      (select count(*) from hooks where dropped_at > ${lately}) as "hooksDropped"
  `.execute(db)
  return rows[0] as TriggerFigures
}
