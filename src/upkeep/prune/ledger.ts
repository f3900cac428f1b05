/**
 * Deletes what is old in the ledger and no longer needed: ended deliveries, claims of periods that are over, runs, lost triggers, and
 * rows of dead processes. Pending deliveries stay, and so does a claim as long as its loss could cause a second delivery.
 */
import { sql } from 'kysely'
import { comparedDays, comparedLeadsMin, frozenRunDays } from '../../base/limits.ts'
import { rideOut } from '../../db/away.ts'
import { isLive, isLongDead } from '../../db/leases.ts'
import { isPeriodOver, isUnderWay } from '../../deliveries/runs.ts'
import { forgetLost } from '../../triggers/lost-triggers.ts'
import { type PruneContext, sweepRows } from './sweep.ts'

/**
 * SQL: whether delivery `t` is still asked for. In a period that is not over, `push --failed` and monitors read failed
 * deliveries without a later success, and the deliveries that made up for failed ones.
 */
const isAskedFor = sql<boolean>`exists (select from users u where u.id = t.user_id) and case t.status
  when 'delivered' then exists (
    select from deliveries e where e.user_id = t.user_id and e.created_at < t.created_at and e.period = t.period
      and e.status <> 'delivered')
  else not exists (
    select from deliveries e where e.user_id = t.user_id and e.created_at > t.created_at and e.status = 'delivered') end`

/** SQL: whether the user of delivery `t` has a pending one: then the push can still tell what of it was sent. */
const hasPending = sql<boolean>`exists (select from deliveries e where e.status = 'pending' and e.user_id = t.user_id)`

/** Deletes ended deliveries. */
export function pruneDeliveries(context: PruneContext): Promise<number> {
  return sweepRows(
    context,
    'deliveries',
    sql`t.status <> 'pending' and t.created_at < ${context.before}::timestamptz
      and not (t.under_way and ${isLive(sql`t.worker_id`)}) and not ${hasPending}
      and (${isPeriodOver(sql`t.period`)} or not (${isAskedFor}))`,
  )
}

/**
 * The scopes whose period is over everywhere and that have no run under way: a run that began in the last minute of a period
 * may go on for long. A scope whose run is no longer known has none either.
 */
async function findScopesThatAreOver({ db, onAway }: PruneContext): Promise<string[]> {
  const { rows } = await rideOut(
    () =>
      sql<{ scope: string }>`
        with recursive scopes (scope) as (
          (select scope from claims order by scope limit 1)
          union all
          select (select c.scope from claims c where c.scope > s.scope order by c.scope limit 1)
          from scopes s where s.scope is not null
        ),
        of_periods as (
          select s.scope, coalesce(substring(s.scope from '^weekly:(.+)$'), r.period) as period
          from scopes s left join runs r on r.id = substring(s.scope from '^(?:forced|failed):([0-9]+)$')::bigint
          where s.scope is not null
        )
        select p.scope from of_periods p where p.period is null or (${isPeriodOver(sql`p.period`)}
          and not exists (select from runs r where r.period = p.period and ${isUnderWay(sql`r`)}))
      `.execute(db),
    onAway,
  )
  return rows.map(({ scope }) => scope)
}

/** SQL: whether the guard compares the next weekly delivery with claim `t`. */
const isCompared = sql<boolean>`(coalesce(t.leads, 0) >= ${comparedLeadsMin} and t.claimed_at >= now() - ${comparedDays} * interval '1 day')`

/** Deletes claims in scopes that are over. */
export async function pruneClaims(context: PruneContext): Promise<number> {
  const scopes = await findScopesThatAreOver(context)
  if (scopes.length === 0) return 0
  return await sweepRows(
    context,
    'claims',
    sql`t.claimed_at < ${context.before}::timestamptz and t.scope = any (${scopes}) and not ${isCompared}`,
  )
}

/** Marks old runs as pruned: which users they served is no longer known for sure. */
export async function noteRuns({ db, before, onAway }: PruneContext): Promise<void> {
  await rideOut(
    () => sql`update runs set pruned = true where started_at < ${before}::timestamptz and not pruned`.execute(db),
    onAway,
  )
}

/** Deletes triggers that were abandoned or dropped; `trigger --again` may ask for younger ones (contract 6.1). */
export async function pruneTriggers({ db, before, dryRun, onAway }: PruneContext): Promise<number> {
  return await rideOut(() => forgetLost(db, { before, dryRun }), onAway)
}

/** Deletes what hooks said; what was said of deliveries goes with them. */
export async function forgetHookAnswers({ db, before, onAway }: PruneContext): Promise<void> {
  await rideOut(() => sql`delete from hook_answers where said_at < ${before}::timestamptz`.execute(db), onAway)
}

/** Deletes ended runs, but for those with which later weeks are compared or that have a pending delivery. */
export function pruneRuns(context: PruneContext): Promise<number> {
  return sweepRows(
    context,
    'runs',
    sql`coalesce(t.ended_at, t.started_at + ${frozenRunDays} * interval '1 day')
        < least(${context.before}::timestamptz, now() - ${comparedDays} * interval '1 day')
      and not ${isUnderWay(sql`t`)} and not exists (select from deliveries d where d.status = 'pending' and d.run_id = t.id)`,
  )
}

/** Deletes the rows of processes that died long ago. */
export function pruneWorkers(context: PruneContext): Promise<number> {
  return sweepRows(context, 'workers', isLongDead(sql`t`))
}

/**
 * Deletes old keys of the reference receiver. They answer repeated deliveries, so a key stays as long as a sender may repeat
 * it.
 */
export function pruneReceiver(context: PruneContext): Promise<number> {
  return sweepRows(
    context,
    'receiver_deliveries',
    sql`t.first_at < least(${context.before}::timestamptz, now() - ${comparedDays} * interval '1 day')`,
  )
}
