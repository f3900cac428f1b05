/** Finds the towns of a region, as names on a map. */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { milesPerDegree, type Point } from './distance.ts'

/** A town with its centre. */
export interface Town extends Point {
  name: string
}

const townsMax = 120
/** How far around the points a map reaches at least. */
const milesAroundMin = 20

/** The towns around `points`, each point with its radius; towns with the most postal codes first, then the nearest. */
export async function findTowns(db: Database, points: readonly (Point & { radiusMiles?: number })[]): Promise<Town[]> {
  let [south, west, north, east] = [90, 180, -90, -180]
  for (const { latitude, longitude, radiusMiles = 0 } of points) {
    const high = radiusMiles / milesPerDegree
    const wide = high / Math.max(0.2, Math.cos((latitude * Math.PI) / 180))
    south = Math.min(south, latitude - high)
    north = Math.max(north, latitude + high)
    west = Math.min(west, longitude - wide)
    east = Math.max(east, longitude + wide)
  }
  const around = Math.max(milesAroundMin / milesPerDegree, north - south, (east - west) / 2)
  const { rows } = await sql<Town>`
    select city as name, avg(latitude) as latitude, avg(longitude) as longitude from postal_codes
    where latitude between ${south - around} and ${north + around} and longitude between ${west - around} and ${east + around}
    group by state, city order by count(*) desc, abs(avg(latitude) - ${(south + north) / 2}) + abs(avg(longitude) - ${(west + east) / 2}) limit ${townsMax}
  `.execute(db)
  return rows
}
