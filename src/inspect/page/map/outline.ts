/** The outlines of the United States and the borders between the states, which `npm run outline` makes of public data. */
import outline from './outline.json' with { type: 'json' }

type Point = [longitude: number, latitude: number]

const [[scaleX = 0, scaleY = 0], [fromX = 0, fromY = 0]] = [outline.scale, outline.translate]

/** Shapes share lines, so that neighbours have one border. A line begins with a point; what follows are steps from point to point. */
const lines = outline.lines.map((steps) => {
  let [x, y] = [0, 0]
  return steps.map(([right = 0, up = 0]): Point => {
    x += right
    y += up
    return [x * scaleX + fromX, y * scaleY + fromY]
  })
})

/** A line by its number, or backwards by the complement of it. */
const lineOf = (number: number): Point[] => lines[number] ?? lines[~number]?.toReversed() ?? []

/** Lines that go on where the one before ends. */
const join = (numbers: readonly number[]): Point[] =>
  numbers.flatMap((number, at) => (at === 0 ? lineOf(number) : lineOf(number).slice(1)))

const shapeOf = (polygons: readonly number[][][]) => ({
  type: 'MultiPolygon' as const,
  coordinates: polygons.map((rings) => rings.map(join)),
})

export const land = shapeOf(outline.land)
export const borders = { type: 'MultiLineString' as const, coordinates: outline.borders.map(join) }
/** The states as shapes, each with its name. */
export const namedStates = outline.states.map(({ name, polygons }) => ({ name, shape: shapeOf(polygons) }))
