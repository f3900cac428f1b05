/** The numbers of listings, and of users who look for some, by state. */
import { sql } from 'kysely'
import type { Snapshot } from './reading.ts'

export interface Places {
  leads: number
  /** Leads with an unknown postal code. */
  unplaced: number
  /** Leads and users (by the first place that they ask for) by state, the most leads first. */
  states: { state: string; leads: number; users: number }[]
}

const statesMax = 60

/** Reads the index of leads by postal code once. */
export async function findPlaces(snapshot: Snapshot): Promise<Places> {
  const { rows } = await sql<Places>`
    with of_leads as materialized (
      select p.state, sum(l.n)::bigint as leads from (select postal_key, count(*) as n from leads group by postal_key) l
        left join postal_codes p on p.code = l.postal_key group by p.state
    ),
    of_users as (
      select p.state, sum(u.n)::bigint as users from (select home_key, count(*) as n from users group by home_key) u
        join postal_codes p on p.code = u.home_key group by p.state
    ),
    states as (
      select state, coalesce(leads, 0) as leads, coalesce(users, 0) as users
      from (select * from of_leads where state is not null) l full join of_users using (state)
      order by leads desc, users desc, state limit ${statesMax}
    )
    select (select coalesce(sum(leads), 0)::bigint from of_leads) as leads,
      (select coalesce(sum(leads), 0)::bigint from of_leads where state is null) as unplaced,
      coalesce((select json_agg(states) from states), '[]') as states
  `.execute(snapshot)
  return rows[0] ?? { leads: 0, unplaced: 0, states: [] }
}
