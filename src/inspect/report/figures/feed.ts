/** The listings that imports brought, day by day. */
import { sql } from 'kysely'
import type { Database } from '../../../db/open.ts'

export interface FeedDay {
  /** `2026-11-21`, in the time zone. */
  day: string
  imports: number
  inserted: number
  updated: number
  rejected: number
}

const daysShown = 42

/** The last days, the oldest first; days without an import are among them. */
export async function findFeedDays(db: Database, timeZone: string): Promise<FeedDay[]> {
  const { rows } = await sql<FeedDay>`
    with days as (
      select (date_trunc('day', now() at time zone ${timeZone}) - back * interval '1 day')::date as day
      from generate_series(0, ${daysShown - 1}::integer) as back
    ),
    of_days as (
      select (started_at at time zone ${timeZone})::date as day, count(*) as imports, sum(inserted)::bigint as inserted,
        sum(updated)::bigint as updated, sum(rejected)::bigint as rejected
      from imports where started_at >= now() - ${daysShown} * interval '1 day' group by 1
    )
    select to_char(d.day, 'YYYY-MM-DD') as day, coalesce(imports, 0) as imports, coalesce(inserted, 0) as inserted,
      coalesce(updated, 0) as updated, coalesce(rejected, 0) as rejected
    from days d left join of_days o on o.day = d.day order by d.day
  `.execute(db)
  return rows
}
