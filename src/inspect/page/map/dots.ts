/** Points as dots whose area shows their count; very many of them as the dots of a grid, so that a page stays small. */

export interface Dot {
  x: number
  y: number
  count: number
  /** What it is called where the pointer rests on it. */
  name?: string | undefined
}

/** The diameters that there are, in pixels of the screen: a dot of size `n` has the class `s` and `n`. */
export const dotPixels = [5, 7, 9, 12, 15, 19, 24] as const
/** The largest one, smaller where there are many; and that of a count of 1 where the largest count leaves room for it. */
const few = { dotsMax: 150, largest: 24 }
const many = { largest: 15 }
const pixelsOfOne = 5
/** From so many dots on they are put into a grid, of cells of so many units. */
const gridDotsMin = 1_500
const gridUnits = 6
/** So many dots have a name each. */
export const namedDotsMax = 400

/** The dots of one cell become one, in the middle of what they count. */
export function gatherDots(dots: readonly Dot[]): Dot[] {
  if (dots.length < gridDotsMin) return [...dots]
  const cells = new Map<number, { x: number; y: number; count: number }>()
  for (const { x, y, count } of dots) {
    const key = Math.floor(y / gridUnits) * 10_000 + Math.floor(x / gridUnits)
    const cell = cells.get(key) ?? { x: 0, y: 0, count: 0 }
    cells.set(key, { x: cell.x + x * count, y: cell.y + y * count, count: cell.count + count })
  }
  return [...cells.values()].map(({ x, y, count }) => ({ x: x / count, y: y / count, count }))
}

/** From a count to the number of a size. */
export function buildSizes(dots: readonly Dot[]): (count: number) => number {
  const { largest } = dots.length > few.dotsMax ? many : few
  const unit = Math.min(pixelsOfOne, largest / Math.sqrt(findMost(dots)))
  return (count) => {
    const pixels = unit * Math.sqrt(count)
    const isNearer = (a: number, b: number) => Math.abs(a - pixels) < Math.abs(b - pixels)
    return dotPixels.indexOf(dotPixels.reduce((nearest, size) => (isNearer(size, nearest) ? size : nearest)))
  }
}

/** The largest count, 1 at least. */
export const findMost = (dots: readonly Dot[]) => dots.reduce((most, { count }) => Math.max(most, count), 1)
