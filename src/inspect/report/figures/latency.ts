/** How long attempts took, from connecting to the end of the answer, of the last weeks. */
import { sql } from 'kysely'
import type { Ledger, Snapshot } from './reading.ts'

export interface Percentiles {
  p50: number
  p95: number
  p99: number
}

/** The durations of attempts, in milliseconds. */
export interface Latency {
  attempts: number
  /** Milliseconds; undefined without an attempt. */
  all: Percentiles | undefined
  /** The oldest first; weeks without an attempt are left out. */
  weeks: (Percentiles & { period: string; attempts: number })[]
  /** Bars of a logarithmic axis, ten a decade: how many attempts took `fromMs` or longer, and less than `toMs`. */
  bars: { fromMs: number; toMs: number; count: number }[]
}

const barsPerDecade = 10

/** Where the bar with the index `at` begins; bar 0 holds attempts of less than 1 ms. */
const beginOf = (at: number) => 10 ** ((at - 1) / barsPerDecade)

interface Found {
  weeks: (Percentiles & { period: string | null; attempts: number })[] | null
  bars: { at: number; count: number }[] | null
}

const percentiles = sql`
  'p50', min(ms) filter (where upto >= 0.5 * total), 'p95', min(ms) filter (where upto >= 0.95 * total),
  'p99', min(ms) filter (where upto >= 0.99 * total), 'attempts', max(total)`

/** Reads all attempts from the period `since` on in one statement. */
export async function findLatency(snapshot: Snapshot, { rows: ledger }: Ledger, since: string): Promise<Latency> {
  const { rows } = await sql<Found>`
    with by_ms as materialized (
      select d.period, a.ms, count(*) as n from ${ledger} cross join lateral (values (d.first_ms), (d.second_ms)) a (ms)
      where d.period >= ${since} and a.ms is not null group by d.period, a.ms
    ),
    -- of each week, and of all together
    totals as (
      select period, ms, sum(n) over (partition by period order by ms) as upto, sum(n) over (partition by period) as total
      from (select period, ms, n from by_ms union all select null, ms, sum(n) from by_ms group by ms) counted
    ),
    of_weeks as (select period, json_build_object('period', period, ${percentiles}) as week from totals group by period),
    of_bars as (
      select case when ms < 1 then 0 else floor(log(ms::numeric) * ${barsPerDecade}::integer)::integer + 1 end as at, sum(n) as n
      from by_ms group by 1
    )
    select (select json_agg(week order by period) from of_weeks) as weeks,
      (select json_agg(json_build_object('at', at, 'count', n) order by at) from of_bars) as bars
  `.execute(snapshot)
  const { weeks, bars } = rows[0] ?? { weeks: null, bars: null }
  const all = weeks?.find(({ period }) => period === null)
  return {
    attempts: all?.attempts ?? 0,
    all: all && { p50: all.p50, p95: all.p95, p99: all.p99 },
    weeks: (weeks ?? []).flatMap(({ period, ...week }) => (period === null ? [] : [{ period, ...week }])),
    bars: (bars ?? []).map(({ at, count }) => ({
      fromMs: at === 0 ? 0 : beginOf(at),
      toMs: beginOf(at + 1),
      count,
    })),
  }
}
