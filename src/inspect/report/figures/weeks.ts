/** The figures of each of the last weeks: how its deliveries ended, and who got none. */
import { sql } from 'kysely'
import type { Database } from '../../../db/open.ts'
import { hasBegun } from '../../../deliveries/runs.ts'
import { isTheLastWordOfPeriod } from '../../../push/database/users-to-serve.ts'
import { countMissed, findPeriodsToCount } from '../../status/missed.ts'
import type { Status } from '../../status/status.ts'

/** The figures of one week. */
export interface ReportedWeek {
  /** `2026-W47` */
  period: string
  /** Its Monday, `2026-11-16`. */
  monday: string
  /** Deliveries; `failed` and `unknown` without those that a later one of the week made good. */
  delivered: number
  failed: number
  unknown: number
  /** Users who were due and got no delivery at all: the guard held them back, or the push did not reach them. */
  missed: number
}

export const weeksShown = 13
/** A younger installation gets empty weeks before its first one, up to this many weeks in all. */
const weeksAtLeast = 6

/** A week, with the users whom a run of it held back. */
type Ends = Omit<ReportedWeek, 'missed'> & { held: number }

/** Counts the deliveries of the last weeks, the oldest first. Of delivered ones, the many, it reads nothing but the index. */
async function findEnds(db: Database, timeZone: string): Promise<Ends[]> {
  const { rows } = await sql<Ends>`
    with weeks as materialized (
      select to_char(monday, 'IYYY-"W"IW') as period, to_char(monday, 'YYYY-MM-DD') as monday
      from generate_series(date_trunc('week', now() at time zone ${timeZone}) - ${weeksShown - 1} * interval '1 week',
        date_trunc('week', now() at time zone ${timeZone}), interval '1 week') as monday
    ),
    ends as (
      select period, status, count(*) as n from deliveries
      where status = 'delivered' and period >= (select min(period) from weeks) group by period, status
      union all
      select d.period, d.status, count(*) as n from deliveries d
      where d.status in ('failed', 'unknown') and d.period >= (select min(period) from weeks) and ${isTheLastWordOfPeriod} group by d.period, d.status
    ),
    runs_of_all as (
      select period, held_users, resumable, id = first_value(id) over (partition by period order by started_at desc, id) as is_last from runs
      where command in ('all', 'force', 'resume') and listings is not null and ${hasBegun(sql`runs`)} and period >= (select min(period) from weeks)
    ),
    -- the users that a run held count until another run has resumed it; a run with a limit is never resumed
    held as (
      select period, coalesce(max(held_users) filter (where is_last or resumable), 0) as n from runs_of_all group by period
    )
    select w.period, w.monday, coalesce(max(e.n) filter (where e.status = 'delivered'), 0) as delivered,
      coalesce(max(e.n) filter (where e.status = 'failed'), 0) as failed,
      coalesce(max(e.n) filter (where e.status = 'unknown'), 0) as unknown, coalesce(max(h.n), 0) as held
    from weeks w left join ends e on e.period = w.period left join held h on h.period = w.period
    group by w.period, w.monday order by w.period
  `.execute(db)
  return rows
}

/** The last weeks, the oldest first. It includes weeks without a delivery, except those before the first delivery. */
export async function findWeeks(db: Database, timeZone: string, { period, owed }: Status): Promise<ReportedWeek[]> {
  const ends = await findEnds(db, timeZone)
  const periods = ends.map((week) => week.period)
  const missed = await countMissed(db, await findPeriodsToCount(db, periods, owed === 0 ? period : undefined))
  // after the claims of a week are deleted, only its runs tell
  const all = ends.map(({ held, ...week }) => ({ ...week, missed: Math.max(held, missed.get(week.period) ?? 0) }))
  const first = all.findIndex(({ delivered, failed, unknown, missed }) => delivered + failed + unknown + missed > 0)
  return all.slice(Math.min(first < 0 ? weeksShown : first, weeksShown - weeksAtLeast))
}
