/**
 * Deletes what is old in the ledger and no longer needed: ended deliveries, claims of periods that are over, runs, lost triggers, and
 * rows of dead processes. Pending deliveries stay, and so does a claim as long as its loss could cause a second delivery.
 */

import { sql } from 'kysely'
import { comparedDays, comparedLeadsMin, frozenRunDays, lostKeptDays } from '../../base/limits.ts'
import { repeatable } from '../../db/dialect.ts'
import { isLive, isLongDead } from '../../db/leases.ts'
import { isPeriodOver, isUnderWay } from '../../deliveries/runs.ts'
import type { PruneContext, SweptPart } from './sweep.ts'

/**
 * SQL: whether delivery `t` is still asked for. In a period that is not over, `push --failed` and monitors read failed and doubtful
 * deliveries without a later success, and the deliveries that made up for such.
 */
const isAskedFor = sql<boolean>`exists (select from users u where u.id = t.user_id) and case
  when t.status = 'delivered' and not t.doubtful then exists (
    select from deliveries e where e.user_id = t.user_id and e.created_at < t.created_at and e.period = t.period
      and (e.status <> 'delivered' or e.doubtful))
  else not exists (
    select from deliveries e where e.user_id = t.user_id and e.created_at > t.created_at and e.status = 'delivered'
      and not e.doubtful) end`

/** SQL: whether the user of delivery `t` has a pending one: then the push can still tell what of it was sent. */
const hasPending = sql<boolean>`exists (select from deliveries e where e.status = 'pending' and e.user_id = t.user_id)`

/** Ended deliveries. */
const deliveries: SweptPart = {
  table: 'deliveries',
  isOld: ({ before }) =>
    sql`t.status <> 'pending' and t.created_at < ${before}::timestamptz
      and not (t.under_way and ${isLive(sql`t.worker_id`)}) and not ${hasPending}
      and (${isPeriodOver(sql`t.period`)} or not (${isAskedFor}))`,
}

/** SQL: the scopes that have claims, each found by one look into the index. */
export const scopesOfClaims = sql<{ scope: string }>`
  with recursive scopes (scope) as (
    (select scope from claims order by scope limit 1)
    union all
    select (select c.scope from claims c where c.scope > s.scope order by c.scope limit 1)
    from scopes s where s.scope is not null
  )
  select scope from scopes where scope is not null`

/**
 * The scopes whose period is over everywhere and that have no run under way: a run that began in the last minute of a period
 * may go on for long. A scope whose run is no longer known has none either.
 */
async function findScopesThatAreOver({ db }: PruneContext): Promise<string[]> {
  const { rows } = await sql<{ scope: string }>`
        with of_periods as (
          select s.scope, coalesce(substring(s.scope from '^weekly:(.+)$'), r.period) as period
          from (${scopesOfClaims}) s left join runs r on r.id = substring(s.scope from '^(?:forced|failed):([0-9]+)$')::bigint
        )
        select p.scope from of_periods p where p.period is null or (${isPeriodOver(sql`p.period`)}
          and not exists (select from runs r where r.period = p.period and ${isUnderWay(sql`r`)}))
      `.execute(db)
  return rows.map(({ scope }) => scope)
}

/** SQL: whether the guard compares the next weekly delivery with claim `t`. */
const isCompared = sql<boolean>`(coalesce(t.leads, 0) >= ${comparedLeadsMin} and t.claimed_at >= now() - ${comparedDays} * interval '1 day')`

/** Claims in scopes that are over. */
const claims: SweptPart = {
  table: 'claims',
  isOld: async (context) => {
    const scopes = await findScopesThatAreOver(context)
    if (scopes.length === 0) return undefined
    return sql`t.claimed_at < ${context.before}::timestamptz and t.scope = any (${scopes}) and not ${isCompared}`
  },
}

/** Marks old runs as pruned: which users they served is no longer known for sure. */
export async function noteRuns({ db, before }: PruneContext): Promise<void> {
  await sql`${repeatable('it sets the same')} update runs set pruned = true where started_at < ${before}::timestamptz and not pruned`.execute(
    db,
  )
}

/** Triggers that were abandoned or dropped, a row for many; `trigger --again` may ask for younger ones (contract 6.1). */
const triggers: SweptPart = {
  table: 'lost_triggers',
  units: sql`cardinality(t.lead_ids)`,
  isOld: async ({ db, before }) => {
    const { rows } = await sql<{ since: string }>`
        select least(${before}::timestamptz, now() - ${lostKeptDays} * interval '1 day')::text as since
      `.execute(db)
    return sql`t.lost_at < ${rows[0]?.since}::timestamptz`
  },
}

/** Deletes what hooks said; what was said of deliveries goes with them. */
export async function forgetHookAnswers({ db, before }: PruneContext): Promise<void> {
  await sql`${repeatable('it finds none any more')} delete from hook_answers where said_at < ${before}::timestamptz`.execute(
    db,
  )
}

/** Ended runs, but for those with which later weeks are compared or that have a pending delivery. */
const runs: SweptPart = {
  table: 'runs',
  isOld: ({ before }) =>
    sql`coalesce(t.ended_at, t.started_at + ${frozenRunDays} * interval '1 day')
        < least(${before}::timestamptz, now() - ${comparedDays} * interval '1 day')
      and not ${isUnderWay(sql`t`)} and not exists (select from deliveries d where d.status = 'pending' and d.run_id = t.id)`,
}

/** Processes that died long ago. */
const workers: SweptPart = { table: 'workers', isOld: () => isLongDead(sql`t`) }

/** Keys of the reference receiver. They answer repeated deliveries, so a key stays as long as a sender may repeat it. */
const receiverDeliveries: SweptPart = {
  table: 'receiver_deliveries',
  isOld: ({ before }) => sql`t.first_at < least(${before}::timestamptz, now() - ${comparedDays} * interval '1 day')`,
}

/** In this order: claims before the runs that name their scopes. */
export const ledgerParts = { deliveries, claims, runs, workers }
export const otherParts = { triggers, receiverDeliveries }
