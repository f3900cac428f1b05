/** The figures of each of the last weeks: how its deliveries ended, and how much was sent. */
import { sql } from 'kysely'
import { hasBegun } from '../../../deliveries/runs.ts'
import type { Ledger, Snapshot } from './reading.ts'

/** The figures of one week. */
export interface Week {
  /** `2026-W47` */
  period: string
  /** Its Monday, `2026-11-16`. */
  monday: string
  /** Deliveries. */
  delivered: number
  failed: number
  unknown: number
  /** Users who were due and got no delivery at all: the guard held them back, or the push did not reach them. */
  missed: number
  /** The sum of all deliveries of the week; null if the sample has none of them. */
  leads: number | null
  bytes: number | null
}

/** The sums of the deliveries of a week, or of those in a sample. */
interface Amount {
  period: string
  deliveries: number
  leads: number
  bytes: number
}

export const weeksShown = 13
/** A younger installation gets empty weeks before its first one, up to this many weeks in all. */
const weeksAtLeast = 6

/** The figures of a week from the index of ended deliveries and from the claims. */
export type EndedWeek = Pick<Week, 'period' | 'monday' | 'delivered' | 'failed' | 'unknown' | 'missed'>

type Ends = Pick<Week, 'period' | 'monday' | 'delivered' | 'failed' | 'unknown'> & { held: number }

/** Counts the deliveries of the last weeks, the oldest first, by reading nothing but the index of ended ones. */
export async function findEnds(snapshot: Snapshot, timeZone: string): Promise<Ends[]> {
  const { rows } = await sql<Ends>`
    with weeks as materialized (
      select to_char(monday, 'IYYY-"W"IW') as period, to_char(monday, 'YYYY-MM-DD') as monday
      from generate_series(date_trunc('week', now() at time zone ${timeZone}) - ${weeksShown - 1} * interval '1 week',
        date_trunc('week', now() at time zone ${timeZone}), interval '1 week') as monday
    ),
    ends as (
      select period, status, count(*) as n from deliveries
      where status in ('delivered', 'failed', 'unknown') and period >= (select min(period) from weeks) group by period, status
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
  `.execute(snapshot)
  return rows
}

/** The weeks to show, with the number of missed users. It includes weeks without a delivery, except those before the first delivery. */
export function showEnded(found: readonly Ends[], missed: ReadonlyMap<string, number>): EndedWeek[] {
  // after the claims of a week are deleted, only its runs tell
  const all = found.map(({ held, ...week }) => ({ ...week, missed: Math.max(held, missed.get(week.period) ?? 0) }))
  const first = all.findIndex(({ delivered, failed, unknown, missed }) => delivered + failed + unknown + missed > 0)
  return all.slice(Math.min(first < 0 ? weeksShown : first, weeksShown - weeksAtLeast))
}

/** Reads all deliveries from the period `since` on; periods without one are left out. */
export async function findAmounts(snapshot: Snapshot, { rows: ledger }: Ledger, since: string): Promise<Amount[]> {
  const { rows } = await sql<Amount>`
    select period, count(*) as deliveries, sum(leads)::bigint as leads, sum(bytes)::bigint as bytes
    from ${ledger} where period >= ${since} group by period
  `.execute(snapshot)
  return rows
}

/** The weeks with the amounts sent in each. `share`: the share of the ledger in which `amounts` were found. */
export function buildWeeks(ended: readonly EndedWeek[], amounts: readonly Amount[], share: number): Week[] {
  const byPeriod = new Map(amounts.map((amount) => [amount.period, amount]))
  return ended.map((week) => {
    const found = byPeriod.get(week.period)
    const deliveries = week.delivered + week.failed + week.unknown
    // a sample gives the amount of a delivery, the index the number of deliveries
    const scale = share === 1 ? 1 : deliveries / (found?.deliveries || 1)
    const amount = (sum: number | undefined) =>
      sum === undefined ? (deliveries === 0 ? 0 : null) : Math.round(sum * scale)
    return { ...week, leads: amount(found?.leads), bytes: amount(found?.bytes) }
  })
}
