/**
 * What became of a listing's triggers, for each hook of a user: what is still due, what was lost, and what was delivered since it
 * became due. What was never due gets the reason.
 */
import { sql } from 'kysely'
import { lostKeptDays } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import type { TriggerKind } from '../../index.ts'

/** Why nothing was due. `not looked at`: the next run of `trigger` does; `not kept`: it is too long ago to tell. */
export type NotDue = 'before the hook' | 'not looked at' | 'unchanged' | 'not matching' | 'not kept'

/** A trigger of one kind that a hook asked for: the last one of the listing. */
export interface ExplainedTrigger {
  hook: string
  integration: number
  trigger: TriggerKind
  status: 'due' | 'failing' | 'delivered' | 'dropped' | 'abandoned' | 'not due'
  /** Null unless the status is `not due`. */
  reason: NotDue | null
  /** When it was found to be due, or lost; null where it was not, or that is not kept. */
  at: Date | null
  /** Attempts so far that failed, of one that is still due. */
  attempts: number
  /** Before this time it is not sent; null where it may be now, or nothing is due. */
  nextAt: Date | null
  /** What the last attempt came to, where it failed. */
  error: string | null
  /** Since when the hook is switched off. */
  offSince: Date | null
}

const hooksMax = 500

interface Found extends Omit<ExplainedTrigger, 'status' | 'reason' | 'at'> {
  isOpen: boolean
  dueAt: Date | null
  lostAt: Date | null
  dropped: boolean | null
  /** Whether the import that brought the listing, or its price, is known; whether it is older than the hook, or than what is kept. */
  isKnown: boolean
  isBefore: boolean
  isOld: boolean
  /** Whether it was not looked at for the hook, and brings it something. */
  isAhead: boolean
  bringsNothing: boolean
}

/** The newest hooks first, at most 500 of them. */
export async function explainTriggers(db: Database, userId: number, leadId: number): Promise<ExplainedTrigger[]> {
  const keptSince = sql`now() - ${lostKeptDays} * interval '1 day'`
  const { rows } = await sql<Found>`
    with hook as materialized (
      select h.*, i.id as integration from hooks h join integrations i on i.id = h.integration_id
      where i.user_id = ${userId} order by h.created_at desc, h.id limit ${hooksMax}
    )
    select h.id as hook, h.integration, k.kind as trigger, h.off_since as "offSince",
      t.hook_id is not null as "isOpen", coalesce(t.attempts, 0) as attempts, t.last_error as error,
      case when t.due_at < 'infinity' and greatest(t.due_at, h.paused_until) > now() then greatest(t.due_at, h.paused_until) end as "nextAt",
      d.at as "dueAt", lost.lost_at as "lostAt", lost.dropped,
      event.at is not null as "isKnown", coalesce(event.at, ${keptSince}) < h.created_at as "isBefore",
      coalesce(event.at, ${keptSince}) <= ${keptSince} as "isOld",
      coalesce(event.id > h.looked_import_id and event.brings, false) as "isAhead",
      coalesce(event.id > h.looked_import_id and not event.brings, false) as "bringsNothing"
    from hook h cross join unnest(h.triggers) as k (kind) join leads l on l.id = ${leadId}
      left join lateral (
        select i.id, i.started_at as at, true as brings from imports i where k.kind = 'new_lead' and i.id = l.first_import_id
        union all
        (select i.id, i.started_at,
            l.first_import_id <= h.looked_import_id and coalesce(c.price <> unseen.price, false)
          from price_changes c join imports i on i.id = c.import_id left join lateral (
            -- the price that the hook saw last
            select previous_price as price from price_changes where lead_id = l.id and import_id > h.looked_import_id
            order by version_id limit 1
          ) unseen on true
          where k.kind = 'price_change' and c.lead_id = l.id order by c.version_id desc limit 1)
      ) event on true
      left join lateral (
        select * from triggers t where t.hook_id = h.id and t.lead_id = l.id and t.kind = k.kind order by version_id desc limit 1
      ) t on true
      left join lateral (
        select at from became_due d where d.hook_id = h.id and d.kind = k.kind and d.lead_ids @> array[l.id]
        order by d.id desc limit 1
      ) d on true
      left join lateral (
        select lost_at, dropped from lost_triggers x where x.hook_id = h.id and x.lead_ids @> array[l.id]
          and (x.changes is null) = (k.kind = 'new_lead')
        order by x.id desc limit 1
      ) lost on true
    order by h.created_at desc, h.id, k.kind
  `.execute(db)
  return rows.map(judge)
}

function judge(found: Found): ExplainedTrigger {
  const { hook, integration, trigger, offSince, attempts, error, nextAt, dueAt, lostAt } = found
  const whose = { hook, integration, trigger }
  if (found.isOpen) {
    const status = attempts > 0 ? 'failing' : 'due'
    return { ...whose, status, reason: null, at: dueAt, attempts, nextAt, error, offSince }
  }
  const none = { attempts: 0, nextAt: null, error: null, offSince }
  // what was due once is said before why nothing is due now, but not before what is still to come
  if (!found.isAhead && lostAt !== null && lostAt >= (dueAt ?? lostAt))
    return { ...whose, status: found.dropped ? 'dropped' : 'abandoned', reason: null, at: lostAt, ...none }
  if (!found.isAhead && dueAt !== null) return { ...whose, status: 'delivered', reason: null, at: dueAt, ...none }
  return { ...whose, status: 'not due', reason: findReason(found), at: null, ...none }
}

function findReason({ trigger, isKnown, isBefore, isOld, isAhead, bringsNothing }: Found): NotDue {
  if (isAhead) return 'not looked at'
  if (trigger === 'price_change' && (!isKnown || isBefore || bringsNothing)) return 'unchanged'
  if (isBefore) return 'before the hook'
  return isOld ? 'not kept' : 'not matching'
}
