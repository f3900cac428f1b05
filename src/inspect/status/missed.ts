/**
 * Users whom a push set out to serve and who are still without: what `status --check` calls somebody for, and what of a week's
 * 100 % a report would otherwise leave out. A push with `--limit` sets out to serve nobody but those whom it served.
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

/** SQL: whether `r` is a push of all users that has ended, or whose process is gone, and it is still known whom it served. */
const isOver = sql<boolean>`(r.command in ('all', 'force') and r.resumable and ${hasBegun(sql`r`)}
  and not (r.pruned and ${isPeriodOver(sql`r.period`)})
  and not (r.outcome = 'running' and ${isLive(sql`r.worker_id`)}))`

/** SQL: whether `r` left what it had not done a day ago. The row of a process that is gone stays for a day. */
const isLeftForDays = sql<boolean>`(
  coalesce(r.ended_at, (select w.lease_end from workers w where w.id = r.worker_id), '-infinity')
    <= now() - ${leftDays} * interval '1 day')`

/** SQL: when the last such push of the period began; who was due by then was so at one of them. */
const lastBegun = (period: string, condition = sql<boolean>`true`) => sql<Date>`(
  select max(r.started_at) from runs r where r.period = ${period} and ${isOver} and ${condition})`

const hasDelivery = (period: RawBuilder<string>) => sql<boolean>`exists (
  select from deliveries d where d.user_id = u.id and d.period = ${period} offset 0)`

/** SQL: whether the user `u`, who was due in the period, got no delivery in it at all. The claim tells where deliveries were deleted. */
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

/** Users whom a push of the period, or a subscription, set out to serve, and who have waited for theirs for a day. */
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
 * Of each of the periods how many users were due and got no delivery; those without one are left out. Users are looked through
 * for periods with a push that left somebody, and for the last two, where a database may have lost what it had confirmed.
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
