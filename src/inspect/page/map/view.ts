/**
 * Chooses the part of the world that a map shows, and its projection: the United States with Alaska and Hawaii in insets, or,
 * where everything lies close together, that region alone, least distorted in its middle.
 */
import {
  type GeoPermissibleObjects,
  type GeoProjection,
  geoAlbersUsa,
  geoAzimuthalEqualArea,
  geoCentroid,
  geoCircle,
  geoDistance,
  geoPath,
  geoTransform,
} from 'd3-geo'

/** The size of a map in units of its own; it is scaled to the room that there is. */
export const width = 960
export const height = 600

export interface Point {
  latitude: number
  longitude: number
}

const earthRadiusMiles = 3958.7613
const milesPerDegree = (earthRadiusMiles * Math.PI) / 180

/** A region is shown if nothing lies farther from the middle than this. */
const regionMilesMax = 750
/** A region is no smaller, or a single place would fill the map. */
const regionMilesMin = 10
const paddingOf = { nation: 10, region: 48 }

/** A projection from the earth to the units of the map. */
export interface View {
  kind: 'nation' | 'region'
  /** The point in units of the map; undefined where it is not on the map. */
  project(point: Point): [x: number, y: number] | undefined
  /** The `d` of a path; empty where it is not on the map. `outline` leaves out invisible detail, `rough` rounds to whole units. */
  draw(shape: GeoPermissibleObjects, as?: 'outline' | 'rough'): string
  /** The visible part of the shape: its share of the map, and its middle. */
  look(shape: GeoPermissibleObjects): { share: number; middle: [x: number, y: number] }
  /** On a map of the nation, that of the lower 48 states. */
  milesPerUnit: number
}

export interface Circle extends Point {
  radiusMiles: number
}

const toPosition = ({ latitude, longitude }: Point): [number, number] => [longitude, latitude]

const milesBetween = (a: Point, b: Point) => geoDistance(toPosition(a), toPosition(b)) * earthRadiusMiles

/** A circle on the earth, not on the map: everything within `radiusMiles`, as a polygon with about `corners` corners. */
export function buildCircle(circle: Circle, corners = 60) {
  const degrees = Math.max(circle.radiusMiles, 0.01) / milesPerDegree
  const step = 360 / corners
  return geoCircle().center(toPosition(circle)).radius(degrees).precision(step)()
}

function findRegion(points: readonly Point[], circles: readonly Circle[]): Circle | undefined {
  const all = [...points.map((point) => ({ ...point, radiusMiles: 0 })), ...circles]
  if (all.length === 0) return undefined
  const [longitude, latitude] = geoCentroid({ type: 'MultiPoint', coordinates: all.map(toPosition) })
  const centre = { latitude, longitude }
  // opposite ends of the earth have no middle
  if (!Number.isFinite(latitude)) return undefined
  let radiusMiles = regionMilesMin
  for (const one of all) radiusMiles = Math.max(radiusMiles, milesBetween(centre, one) + one.radiusMiles)
  return radiusMiles > regionMilesMax ? undefined : { ...centre, radiusMiles }
}

function fitRegion(region: Circle, points: readonly Point[], circles: readonly Circle[]): GeoProjection {
  const projection = geoAzimuthalEqualArea().rotate([-region.longitude, -region.latitude]).clipAngle(60)
  const padding = paddingOf.region
  const corners: [number, number][] = [...points, { ...region, radiusMiles: 0 }].map(toPosition)
  const least = { ...region, radiusMiles: regionMilesMin }
  for (const circle of [least, ...circles])
    corners.push(...(buildCircle(circle, 24).coordinates[0] as [number, number][]))
  const box: [[number, number], [number, number]] = [
    [padding, padding],
    [width - padding, height - padding],
  ]
  projection.fitExtent(box, { type: 'MultiPoint', coordinates: corners })
  return projection.clipExtent([
    [-2, -2],
    [width + 2, height + 2],
  ])
}

/** A stream that leaves out points too near to the last one to be told from it. */
function thinOut(projection: GeoProjection, unitsMin: number) {
  const thin = () => {
    let last: [x: number, y: number] | undefined
    return geoTransform({
      point(x, y) {
        if (last && Math.abs(last[0] - x) < unitsMin && Math.abs(last[1] - y) < unitsMin) return
        last = [x, y]
        this.stream.point(x, y)
      },
      lineStart() {
        last = undefined
        this.stream.lineStart()
      },
    })
  }
  return { stream: (output: Parameters<GeoProjection['stream']>[0]) => projection.stream(thin().stream(output)) }
}

/** Chooses the view for the points and circles. A map of the nation is fitted to `land`. */
export function buildView(points: readonly Point[], circles: readonly Circle[], land: GeoPermissibleObjects): View {
  const region = findRegion(points, circles)
  const nation = geoAlbersUsa()
  const padding = paddingOf.nation
  const projection = region
    ? fitRegion(region, points, circles)
    : nation.fitExtent(
        [
          [padding, padding],
          [width - padding, height - padding],
        ],
        land as Parameters<typeof nation.fitExtent>[1],
      )
  const fine = geoPath(projection).digits(1)
  const outline = geoPath(thinOut(projection, 1)).digits(1)
  const rough = geoPath(projection).digits(0)
  const centre = region ?? { latitude: 39, longitude: -97 }
  const north = { latitude: centre.latitude + 0.1, longitude: centre.longitude }
  const [[, y0], [, y1]] = [projection(toPosition(centre)) ?? [0, 0], projection(toPosition(north)) ?? [0, 1]]
  return {
    kind: region ? 'region' : 'nation',
    project: (point) => projection(toPosition(point)) ?? undefined,
    draw: (shape, as) => (as === 'outline' ? outline : as === 'rough' ? rough : fine)(shape) ?? '',
    look: (shape) => ({ share: fine.area(shape) / (width * height), middle: fine.centroid(shape) }),
    milesPerUnit: (0.1 * milesPerDegree) / Math.abs(y1 - y0),
  }
}
