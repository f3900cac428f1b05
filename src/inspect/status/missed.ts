/**
 * Counts users whom a push set out to serve and who got nothing: `status --check` alarms for them, and a report counts them among
 * the users of a week. A push with `--limit` sets out to serve only the users that it served.
 */
import { type RawBuilder, sql } from 'kysely'
import { leftDays } from '../../base/limits.ts'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { hasBegun, isPeriodOver } from '../../deliveries/runs.ts'
import {
  countUsersToServe,
  forcedPass,
  hasQueries,
  isClaimed,
  isOwedSubscription,
  isOwedWeekly,
  weeklyScope,
} from '../../push/users-to-serve.ts'

/** SQL: whether the run `r` was a push of all users, is over (also by a dead process), and is still known to have served whom. */
const isOver = sql<boolean>`(r.command in ('all', 'force') and r.resumable and ${hasBegun(sql`r`)}
  and not (r.pruned and ${isPeriodOver(sql`r.period`)})
  and not (r.outcome = 'running' and ${isLive(sql`r.worker_id`)}))`

/** SQL: whether the run `r` ended, or died, a day ago. The row of a dead process is kept for a day: a missing one is older. */
const isLeftForDays = sql<boolean>`(
  coalesce(r.ended_at, (select w.lease_end from workers w where w.id = r.worker_id), '-infinity')
    <= now() - ${leftDays} * interval '1 day')`

/** SQL: when the last such push of the period began: a user who was due by then was due at one of them. */
const lastBegun = (period: string, condition = sql<boolean>`true`) => sql<Date>`(
  select max(r.started_at) from runs r where r.period = ${period} and ${isOver} and ${condition})`

const hasDelivery = (period: RawBuilder<string>) => sql<boolean>`exists (
  select from deliveries d where d.user_id = u.id and d.period = ${period} offset 0)`

/** SQL: whether the user `u`, who was due in the period, got no delivery in it. The claim tells where deliveries are deleted. */
const gotNothing = (period: RawBuilder<string>) => sql<boolean>`
  not exists (select from claims c where c.scope = 'weekly:' || ${period} and c.email = u.email offset 0)
  and not ${hasDelivery(period)} and ${hasQueries}`

async function countForcedLeft(db: Database, period: string): Promise<number> {
  const { rows } = await sql<{ id: number }>`
    select id from runs r where r.period = ${period} and r.command = 'force' and not r.came_to_end and ${isOver} and ${isLeftForDays}
  `.execute(db)
  let users = 0
  for (const { id } of rows) users += (await countUsersToServe(db, forcedPass(period, id))).free
  return users
}

/** Users who have been owed a delivery for a day: the `weekly` one of the period, or another (subscription, forced). */
export async function countLeft(db: Database, period: string): Promise<{ weekly: number; others: number }> {
  const { rows } = await sql<{ weekly: number; subscriptions: number }>`
    select count(*) filter (where weekly) as weekly, count(*) filter (where not weekly) as subscriptions from (
      select true as weekly from users u
      where ${isOwedWeekly(period)} and u.due_since <= ${lastBegun(period, isLeftForDays)}
      union all
      select false from users u
      where ${isOwedSubscription} and u.subscription_owed_at <= now() - ${leftDays} * interval '1 day'
    ) left_behind
  `.execute(db)
  const { weekly = 0, subscriptions = 0 } = rows[0] ?? {}
  return { weekly, others: subscriptions + (await countForcedLeft(db, period)) }
}

/** Users who were due in the period before, got no delivery in it, and have none in this one. */
export async function countWithoutTwoPeriods(db: Database, before: string, period: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from users u where u.subscribed and u.due_since <= ${lastBegun(before)} and ${gotNothing(sql`${before}::text`)}
      and not ${isClaimed(weeklyScope(period))} and not ${hasDelivery(sql`${period}::text`)}
  `.execute(db)
  return rows[0]?.n ?? 0
}

/**
 * How many users of each period were due and got no delivery; periods without such a user are left out. It reads the users only
 * for periods with a push that left somebody, and for the last two, in case the database has lost confirmed rows.
 */
export async function countMissed(db: Database, periods: readonly string[]): Promise<Map<string, number>> {
  const { rows } = await sql<{ period: string; n: number }>`
    select p.period, (
      select count(*) from users u where u.subscribed and u.due_since <= p.begun and ${gotNothing(sql`p.period`)}
    ) as n
    from (
      select r.period, max(r.started_at) as begun from runs r where r.period = any (${periods}) and ${isOver} group by r.period
      having r.period = any (${periods.slice(-2)}) or bool_or(not r.came_to_end or r.held_users > 0)
    ) p
  `.execute(db)
  return new Map(rows.filter(({ n }) => n > 0).map(({ period, n }) => [period, n]))
}
