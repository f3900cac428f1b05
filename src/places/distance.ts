/** Distances on the earth, and the middle of a place. */

/** A point on the earth, in degrees. */
export interface Point {
  latitude: number
  longitude: number
}

const earthRadiusMiles = 3958.7613
const radians = (degrees: number) => (degrees * Math.PI) / 180

/** Miles per degree of latitude, or of longitude at the equator. */
export const milesPerDegree = radians(1) * earthRadiusMiles

/** The great circle distance in miles (haversine). */
export function distanceMiles(a: Point, b: Point): number {
  const half = Math.sin(radians(b.latitude - a.latitude) / 2) ** 2
  const across = Math.sin(radians(b.longitude - a.longitude) / 2) ** 2
  const sum = half + Math.cos(radians(a.latitude)) * Math.cos(radians(b.latitude)) * across
  return 2 * earthRadiusMiles * Math.asin(Math.min(1, Math.sqrt(sum)))
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** The medians of latitude and longitude: one distant post office box does not move a city. `points` must not be empty. */
export function centreOf(points: readonly Point[]): Point {
  return {
    latitude: median(points.map(({ latitude }) => latitude)),
    longitude: median(points.map(({ longitude }) => longitude)),
  }
}
