/** Where the leads are, and where users look for them: leads by squares of the map, queries by what many of them share. */
import { sql } from 'kysely'
import { findNamedPlace } from '../../../matching/search.ts'
import { findPlaces } from '../../../places/places.ts'
import { findTowns, type Town } from '../../../places/towns.ts'
import type { Snapshot } from './reading.ts'

export interface LeadsAt {
  latitude: number
  longitude: number
  count: number
}

export interface QueriesAt extends LeadsAt {
  radiusMiles: number
}

export interface WhereAll {
  leads: number
  /** Leads whose postal code is in no table. */
  unplaced: number
  points: LeadsAt[]
  /** For orientation. */
  towns: Town[]
  /** Queries for a place, and the searches that they share. */
  queries: number
  searches: number
  /** The places that most queries ask for. */
  circles: QueriesAt[]
  /** How many queries the circles stand for. */
  queriesShown: number
  /** Leads and users (by the first place that they ask for) by state, the most leads first. */
  states: { state: string; leads: number; users: number }[]
}

/** Degrees of a square: half of one is 35 miles from south to north. */
const squareDegrees = 0.5
const pointsMax = 4_000
const circlesMax = 400
const statesMax = 60

interface LeadsFound {
  total: number
  placed: number
  points: LeadsAt[] | null
  states: WhereAll['states'] | null
}

/** Reads the index of leads by postal code once. */
async function findLeads(snapshot: Snapshot) {
  const { rows } = await sql<LeadsFound>`
    with by_code as materialized (
      select l.n, p.state, p.latitude, p.longitude
      from (select postal_key, count(*) as n from leads group by postal_key) l left join postal_codes p on p.code = l.postal_key
    ),
    squares as (
      select sum(n * latitude) / sum(n) as latitude, sum(n * longitude) / sum(n) as longitude, sum(n) as count
      from by_code where state is not null
      group by floor(latitude / ${squareDegrees}), floor(longitude / ${squareDegrees}) order by count desc limit ${pointsMax}
    ),
    of_leads as (select state, sum(n) as leads from by_code where state is not null group by state),
    of_users as (
      select p.state, sum(u.n)::bigint as users from (select home_key, count(*) as n from users group by home_key) u
        join postal_codes p on p.code = u.home_key group by p.state
    ),
    states as (
      select state, coalesce(leads, 0) as leads, coalesce(users, 0) as users from of_leads full join of_users using (state)
      order by leads desc, users desc, state limit ${statesMax}
    )
    select (select coalesce(sum(n), 0)::bigint from by_code) as total, (select coalesce(sum(leads), 0)::bigint from of_leads) as placed,
      (select json_agg(squares) from squares) as points, (select json_agg(states) from states) as states
  `.execute(snapshot)
  const { total = 0, placed = 0, points, states } = rows[0] ?? {}
  return { leads: total, unplaced: total - placed, points: points ?? [], states: states ?? [] }
}

interface SharedQuery {
  type: 'zipcode' | 'text'
  value: string
  radius: number
  count: number
  queries: number
  searches: number
}

/** A query of each of the searches that most queries share, the most first. */
async function findSharedQueries(snapshot: Snapshot): Promise<SharedQuery[]> {
  const { rows } = await sql<SharedQuery>`
    with shared as materialized (
      select q.search_id, q.n from (select search_id, count(*) as n from queries group by search_id) q
      join searches s on s.id = q.search_id where s.kind <> 'words'
    )
    select q.type, q.value, q.radius, s.n as count, t.queries, t.searches
    from (select * from shared order by n desc, search_id limit ${circlesMax}) s
      cross join (select sum(n)::bigint as queries, count(*) as searches from shared) t
      cross join lateral (select type, value, radius from queries where search_id = s.search_id limit 1) q
  `.execute(snapshot)
  return rows
}

/** All places of a report: bounded numbers of points, circles, towns and states. */
export async function findWhereAll(snapshot: Snapshot): Promise<WhereAll> {
  const found = await findLeads(snapshot)
  const shared = await findSharedQueries(snapshot)
  const places = shared.length > 0 ? await findPlaces(snapshot) : undefined
  const circles = shared.flatMap((query) => {
    // by the code that resolves queries for a push
    const centre = places && findNamedPlace(places, query)?.centre
    if (!centre) return []
    const { latitude, longitude } = centre
    return [{ latitude, longitude, radiusMiles: query.radius, count: query.count }]
  })
  return {
    ...found,
    queries: shared[0]?.queries ?? 0,
    searches: shared[0]?.searches ?? 0,
    circles,
    towns: found.points.length + circles.length > 0 ? await findTowns(snapshot, [...found.points, ...circles]) : [],
    queriesShown: circles.reduce((sum, { count }) => sum + count, 0),
  }
}
