/** Chooses the names on a map, the most important first, none over another: fewer where the map is small and its letters large. */
import { height, width } from './view.ts'

export interface Name {
  text: string
  x: number
  y: number
  isState: boolean
}

export interface Label extends Name {
  /** 0 is shown on every map, 1 not on the narrowest, 2 on a wide one alone. */
  level: number
}

/** For each level, the size of its letters in units, and the most names that it shows. */
const levels = [
  { letter: 30, namesMax: 4 },
  { letter: 20, namesMax: 9 },
  { letter: 13, namesMax: 16 },
]

const widthOf = ({ text, isState }: Name, letter: number) => text.length * letter * (isState ? 0.78 : 0.58)

function collide(a: Name, b: Name, letter: number): boolean {
  const across = (widthOf(a, letter) + widthOf(b, letter)) / 2 + letter * 0.6
  return Math.abs(a.x - b.x) < across && Math.abs(a.y - b.y) < letter * 1.5
}

/** `names`: the most important first. A name is centred below its point. */
export function placeLabels(names: readonly Name[]): Label[] {
  const placed: Label[] = []
  for (const [level, { letter, namesMax }] of levels.entries()) {
    for (const name of names) {
      if (placed.length >= namesMax) break
      const half = widthOf(name, letter) / 2 + 6
      if (name.x < half || name.x > width - half || name.y < letter || name.y > height - letter * 2.2) continue
      if (placed.some((other) => other.text === name.text || collide(other, name, letter))) continue
      placed.push({ ...name, level })
    }
  }
  return placed
}
