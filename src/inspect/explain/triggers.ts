/**
 * The state of a listing's triggers, for each hook of a user: due, or lost. If it is neither, there is a reason; a delivered trigger
 * leaves no record.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import type { TriggerKind } from '../../index.ts'
import { isOfLead } from '../../triggers/kinds/kinds.ts'

/**
 * Why nothing is due. `not looked at`: the next run of `trigger` looks; `nothing new`: nothing of the kind came since the hook was
 * registered; `done`: it was delivered, or not due at the look.
 */
export type NotDue = 'not looked at' | 'nothing new' | 'done'

/** The listing's last trigger of a kind that a hook asked for. */
export interface ExplainedTrigger {
  hook: string
  integration: number
  trigger: TriggerKind
  status: 'due' | 'failing' | 'dropped' | 'abandoned' | 'not due'
  /** Null unless the status is `not due`. */
  reason: NotDue | null
  /** When it was lost; null if it was not. */
  at: Date | null
  /** The number of failed attempts, if it is still due. */
  attempts: number
  /** The next attempt is not before this time; null: now, or nothing is due. */
  nextAt: Date | null
  /** The error of the last attempt, if it failed. */
  error: string | null
  /** Since when the hook is switched off. */
  offSince: Date | null
}

const hooksMax = 500

/** The newest hooks first, at most 500 of them. */
export async function explainTriggers(db: Database, userId: number, leadId: number): Promise<ExplainedTrigger[]> {
  const { rows } = await sql<ExplainedTrigger>`
    with hook as materialized (
      select h.*, i.id as integration from hooks h join integrations i on i.id = h.integration_id
      where i.user_id = ${userId} order by h.created_at desc, h.id limit ${hooksMax}
    ),
    judged as (
      select h.*, k.kind, coalesce(t.attempts, 0) as attempts, t.last_error as error, lost.lost_at,
        case when t.due_at < 'infinity' then nullif(greatest(t.due_at, h.paused_until, now()), now()) end as next_at,
        case when t.attempts > 0 then 'failing' when t.attempts = 0 then 'due'
          -- what is still to come is said before what was lost once
          when lost.lost_at is not null and event.import_id <= h.looked_import_id
            then case when lost.dropped then 'dropped' else 'abandoned' end
          else 'not due' end as status,
        case when event.import_id > h.looked_import_id then 'not looked at'
          when event.import_id is null or i.started_at < h.created_at then 'nothing new' else 'done' end as reason
      from hook h cross join unnest(h.triggers) as k (kind) join leads l on l.id = ${leadId}
        left join lateral (
          select l.first_import_id as import_id where ${isOfLead(sql`k.kind`)}
          union all
          (select import_id from lead_events where lead_id = l.id and kind = k.kind order by version_id desc limit 1)
        ) event on true
        left join imports i on i.id = event.import_id
        left join lateral (
          select * from triggers t where t.hook_id = h.id and t.lead_id = l.id and t.kind = k.kind order by version_id desc limit 1
        ) t on true
        left join lateral (
          select lost_at, dropped from lost_triggers x
          where x.hook_id = h.id and x.kind = k.kind and x.lead_ids @> array[l.id] order by x.id desc limit 1
        ) lost on true
    )
    select id as hook, integration, kind as trigger, status, case when status = 'not due' then reason end as reason,
      case when status in ('dropped', 'abandoned') then lost_at end as at, attempts, next_at as "nextAt", error, off_since as "offSince"
    from judged order by created_at desc, id, kind
  `.execute(db)
  return rows
}
