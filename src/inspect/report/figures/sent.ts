/**
 * What went out in the last weeks, how soon, and how long attempts took, from connecting to the end of the answer: one way through the
 * ledger.
 */
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

/** What the deliveries of a week come to. */
export interface Amount {
  period: string
  deliveries: number
  leads: number
  bytes: number
  /** Seconds from the start of its first weekly run that delivered, to its first and to its last weekly delivery. */
  firstSeconds: number | null
  lastSeconds: number | null
}

interface Found {
  amounts: Amount[] | null
  weeks: (Percentiles & { period: string | null; attempts: number })[] | null
  bars: { at: number; count: number }[] | null
}

const percentiles = sql`
  'p50', min(ms) filter (where upto >= 0.5 * total), 'p95', min(ms) filter (where upto >= 0.95 * total),
  'p99', min(ms) filter (where upto >= 0.99 * total), 'attempts', max(total)`

/** Reads all deliveries from the period `since` on in one statement; periods without one are left out of the amounts. */
export async function findSent(
  snapshot: Snapshot,
  { rows: ledger }: Ledger,
  since: string,
): Promise<{ amounts: Amount[]; latency: Latency }> {
  const { rows } = await sql<Found>`
    -- deliveries that agree in what is asked below: few, since most attempts take one of a few hundred times. They are grouped by columns
    -- as they are: an expression would be computed for each of them
    with alike as materialized (
      select period, kind, run_id, status, first_ms, second_ms, second_status, count(*) as n, sum(leads) as leads, sum(bytes) as bytes,
        min(first_at) as first_from, max(first_at) as first_to, min(second_at) as second_from, max(second_at) as second_to
      from ${ledger} where period >= ${since} group by 1, 2, 3, 4, 5, 6, 7
    ),
    came as (
      select period, case when kind = 'weekly' then run_id end as weekly_run_id, n, leads, bytes,
        case when by_second then second_from + second_ms * interval '1 millisecond'
          when not by_second then first_from + first_ms * interval '1 millisecond' end as came_from,
        case when by_second then second_to + second_ms * interval '1 millisecond'
          when not by_second then first_to + first_ms * interval '1 millisecond' end as came_to
      from alike cross join lateral (
        select case when status = 'delivered' then second_status between 200 and 299 is true end as by_second) how
    ),
    of_runs as (
      select period, weekly_run_id, sum(n) as deliveries, sum(leads) as leads, sum(bytes) as bytes,
        min(came_from) filter (where weekly_run_id is not null) as first_at,
        max(came_to) filter (where weekly_run_id is not null) as last_at
      from came group by 1, 2
    ),
    amounts as (
      select d.period, sum(d.deliveries) as deliveries, sum(d.leads) as leads, sum(d.bytes) as bytes,
        extract(epoch from min(d.first_at) - min(r.started_at))::double precision as "firstSeconds",
        extract(epoch from max(d.last_at) - min(r.started_at))::double precision as "lastSeconds"
      from of_runs d left join runs r on r.id = d.weekly_run_id group by d.period
    ),
    by_ms as materialized (
      select d.period, a.ms, sum(d.n)::bigint as n from alike d cross join lateral (values (d.first_ms), (d.second_ms)) a (ms)
      where a.ms is not null group by d.period, a.ms
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
    select (select json_agg(amounts) from amounts) as amounts, (select json_agg(week order by period) from of_weeks) as weeks,
      (select json_agg(json_build_object('at', at, 'count', n) order by at) from of_bars) as bars
  `.execute(snapshot)
  const { amounts, weeks, bars } = rows[0] ?? { amounts: null, weeks: null, bars: null }
  return { amounts: amounts ?? [], latency: buildLatency(weeks ?? [], bars ?? []) }
}

function buildLatency(weeks: NonNullable<Found['weeks']>, bars: NonNullable<Found['bars']>): Latency {
  const all = weeks.find(({ period }) => period === null)
  return {
    attempts: all?.attempts ?? 0,
    all: all && { p50: all.p50, p95: all.p95, p99: all.p99 },
    weeks: weeks.flatMap(({ period, ...week }) => (period === null ? [] : [{ period, ...week }])),
    bars: bars.map(({ at, count }) => ({
      fromMs: at === 0 ? 0 : beginOf(at),
      toMs: beginOf(at + 1),
      count,
    })),
  }
}
