/**
 * What of the ledger is old and needed no more: ended deliveries, the claims of periods that are over, runs, and the rows of
 * processes that are gone. What is pending stays, and so does a claim as long as a second delivery could come of its loss.
 */
import { sql } from 'kysely'
import { comparedDays, comparedLeadsMin, frozenRunDays } from '../../base/limits.ts'
import { rideOut } from '../../db/away.ts'
import { isLive, isLongDead } from '../../db/leases.ts'
import { isPeriodOver, isUnderWay } from '../../deliveries/runs.ts'
import { type PruneContext, sweepRows } from './sweep.ts'

/**
 * In a period that is not over, `push --failed` and a monitor go by what failed and was not made good, and by what made
 * good what failed: both stay.
 */
const isAskedFor = sql<boolean>`exists (select from users u where u.id = t.user_id) and case t.status
  when 'delivered' then exists (
    select from deliveries e where e.user_id = t.user_id and e.created_at < t.created_at and e.period = t.period
      and e.status <> 'delivered')
  else not exists (
    select from deliveries e where e.user_id = t.user_id and e.created_at > t.created_at and e.status = 'delivered') end`

/** Of what was sent of a push it is told whether the rest of it may still be. */
const hasPending = sql<boolean>`exists (select from deliveries e where e.status = 'pending' and e.user_id = t.user_id)`

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
 * The scopes whose period is over everywhere, and in which no run is under way: one that began in its last minute may go on
 * for long. A scope of a run that is no more has nobody either.
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

/** The guard compares the next weekly delivery with it. */
const isCompared = sql<boolean>`(coalesce(t.leads, 0) >= ${comparedLeadsMin} and t.claimed_at >= now() - ${comparedDays} * interval '1 day')`

export async function pruneClaims(context: PruneContext): Promise<number> {
  const scopes = await findScopesThatAreOver(context)
  if (scopes.length === 0) return 0
  return await sweepRows(
    context,
    'claims',
    sql`t.claimed_at < ${context.before}::timestamptz and t.scope = any (${scopes}) and not ${isCompared}`,
  )
}

/** Whom a run of that age served is not known for sure from now on. */
export async function noteRuns({ db, before, onAway }: PruneContext): Promise<void> {
  await rideOut(
    () => sql`update runs set pruned = true where started_at < ${before}::timestamptz and not pruned`.execute(db),
    onAway,
  )
}

/** Not those that later weeks are compared with, nor any that has a delivery to come. */
export function pruneRuns(context: PruneContext): Promise<number> {
  return sweepRows(
    context,
    'runs',
    sql`coalesce(t.ended_at, t.started_at + ${frozenRunDays} * interval '1 day')
        < least(${context.before}::timestamptz, now() - ${comparedDays} * interval '1 day')
      and not ${isUnderWay(sql`t`)} and not exists (select from deliveries d where d.status = 'pending' and d.run_id = t.id)`,
  )
}

export function pruneWorkers(context: PruneContext): Promise<number> {
  return sweepRows(context, 'workers', isLongDead(sql`t`))
}

/** What the reference receiver answers repeated keys by: a sender may come with one for as long as it has it to send. */
export function pruneReceiver(context: PruneContext): Promise<number> {
  return sweepRows(
    context,
    'receiver_deliveries',
    sql`t.first_at < least(${context.before}::timestamptz, now() - ${comparedDays} * interval '1 day')`,
  )
}
