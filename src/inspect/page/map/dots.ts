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
/** The largest diameter, smaller where there are many dots; and that of a count of 1, unless the largest count needs it smaller. */
const few = { dotsMax: 150, largest: 24 }
const many = { largest: 15 }
const pixelsOfOne = 5
/** From this many dots on, those in one cell of a grid become one; a cell has this many units. */
const gridDotsMin = 1_500
const gridUnits = 6
/** Up to this many dots have a name each. */
export const namedDotsMax = 400

/** Many dots become one for each cell, at the mean of the counted points; few stay as they are. */
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

/** Returns a function from a count to the index of its size in `dotPixels`. */
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
