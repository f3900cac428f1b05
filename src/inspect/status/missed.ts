/**
 * Counts users whom a push set out to serve and who got nothing. `status --check` alarms for them, and a report counts them for their
 * week. A push with `--limit` sets out to serve only the users that it served.
 */
import { type RawBuilder, sql } from 'kysely'
import { leftDays } from '../../base/limits.ts'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { findInterruptedRuns, hasBegun, isPeriodOver } from '../../deliveries/runs.ts'
import { countUnclaimed } from '../../push/database/users-left.ts'
import { isClaimed, owedSubscriptions } from '../../push/database/users-to-serve.ts'
import { resumedForcedPass, weeklyPass, weeklyScope } from '../../push/whom/pass.ts'

/** SQL: whether the run `r` was a push of all users, is over (or its process is dead), and still has its claims. */
const isOver = sql<boolean>`(r.command in ('all', 'force') and r.resumable and ${hasBegun(sql`r`)}
  and not (r.pruned and ${isPeriodOver(sql`r.period`)})
  and not (r.outcome = 'running' and ${isLive(sql`r.worker_id`)}))`

/** SQL: whether the run `r` ended, or died, a day ago. The row of a dead process is kept for a day: a missing one is older. */
const isLeftForDays = sql<boolean>`(
  coalesce(r.ended_at, (select w.lease_end from workers w where w.id = r.worker_id), '-infinity')
    <= now() - ${leftDays} * interval '1 day')`

/** When the last such push of the period began: a user who was due by then was due at one of them. Null: there was no such push. */
async function findLastBegun(db: Database, period: string, condition = sql<boolean>`true`): Promise<string | null> {
  // as text: a JavaScript date has no microseconds
  const { rows } = await sql<{ begun: string | null }>`
    select max(r.started_at)::text as begun from runs r where r.period = ${period} and ${isOver} and ${condition}
  `.execute(db)
  return rows[0]?.begun ?? null
}

const hasDelivery = (period: string) => sql<boolean>`exists (
  select from deliveries d where d.user_id = u.id and d.period = ${period} offset 0)`

/** Counts the users who were due when a push of the period began, and who have no claim in it. */
async function countDue(
  db: Database,
  period: string,
  begun: string | null,
  only: RawBuilder<boolean>,
): Promise<number> {
  if (begun === null) return 0
  return await countUnclaimed(db, { ...weeklyPass(period), only: sql`u.due_since <= ${begun} and ${only}` })
}

/** Users whom interrupted `--force` runs left, the first of which ended or died a day ago. */
async function countForcedLeft(db: Database, period: string): Promise<number> {
  const interrupted = (await findInterruptedRuns(db, period)).filter((run) => run.forcedBy !== null && !run.cameToEnd)
  const pass = resumedForcedPass(period, interrupted)
  const { rows } = await sql`
    select from runs r where r.id = ${interrupted[0]?.id ?? null} and ${isOver} and ${isLeftForDays}
  `.execute(db)
  return pass && rows.length > 0 ? await countUnclaimed(db, pass) : 0
}

/**
 * Users who have been owed a delivery for a day: the `weekly` one of the period, or another (subscription, forced). `isAnyOwed`: whether
 * `status` found any owed user; if not, the users need not be read for the weekly one.
 */
export async function countOwedForLong(
  db: Database,
  period: string,
  isAnyOwed: boolean,
): Promise<{ weekly: number; others: number }> {
  const weekly = isAnyOwed ? await countDue(db, period, await findLastBegun(db, period, isLeftForDays), sql`true`) : 0
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from ${owedSubscriptions} where o.owed_at <= now() - ${leftDays} * interval '1 day'
  `.execute(db)
  return { weekly, others: (rows[0]?.n ?? 0) + (await countForcedLeft(db, period)) }
}

/** Users who were due in the period before, got no delivery in it, and have none in this one: each of them is owed one (`isAnyOwed`). */
export async function countWithoutTwoPeriods(
  db: Database,
  before: string,
  period: string,
  isAnyOwed: boolean,
): Promise<number> {
  if (!isAnyOwed) return 0
  const hasNothing = sql<boolean>`not ${hasDelivery(before)} and not ${isClaimed(weeklyScope(period))} and not ${hasDelivery(period)}`
  return await countDue(db, before, await findLastBegun(db, before), hasNothing)
}

/**
 * The periods whose users `countMissed` has to read: those with a push that left users, and the last two of `periods`, in case the
 * database has lost confirmed rows. The period `served`, in which nobody is owed a delivery, is left out.
 */
export async function findPeriodsToCount(db: Database, periods: readonly string[], served?: string): Promise<string[]> {
  const { rows } = await sql<{ period: string }>`
    select r.period from runs r where r.period = any (${periods}) and r.period is distinct from ${served ?? null} and ${isOver}
    group by r.period
    having r.period = any (${periods.slice(-2)}) or bool_or(not r.came_to_end or r.held_users > 0)
  `.execute(db)
  return rows.map(({ period }) => period)
}

/** How many users of each period were due and got no delivery; periods without such a user are left out. */
export async function countMissed(db: Database, periods: readonly string[]): Promise<Map<string, number>> {
  const missed = new Map<string, number>()
  for (const period of periods) {
    const users = await countDue(db, period, await findLastBegun(db, period), sql`not ${hasDelivery(period)}`)
    if (users > 0) missed.set(period, users)
  }
  return missed
}
