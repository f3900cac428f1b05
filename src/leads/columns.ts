/** Names of columns as people compare them (contract 4.18): trimmed, without regard to case; `a.b` reads a key within another. */
import { LeadpushError } from '../base/errors.ts'

export const foldName = (name: string): string => name.trim().toLowerCase()

/** So many spellings of names are remembered: a file of JSON may have any number of keys. */
const spellingsMax = 10_000

/** Looks names up without regard to case, and remembers the spellings of the file. */
export class FoldedNames<T> {
  private readonly bySpelling = new Map<string, T | undefined>()
  private readonly byName: ReadonlyMap<string, T>

  /** The names in `byName` are folded. */
  constructor(byName: ReadonlyMap<string, T>) {
    this.byName = byName
  }

  get(name: string): T | undefined {
    const known = this.bySpelling.get(name)
    if (known !== undefined || this.bySpelling.has(name)) return known
    const found = this.byName.get(foldName(name))
    if (this.bySpelling.size < spellingsMax) this.bySpelling.set(name, found)
    return found
  }
}

/** The value below `value` that `a.b.0` names: keys, and numbers in lists; undefined where there is none. */
export function valueAt(value: unknown, steps: readonly string[]): unknown {
  let at = value
  for (const step of steps) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined
    at = (at as Record<string, unknown>)[step]
  }
  return at
}

/** Throws `usage` where a column that is `read` stands twice in the header, with both places. */
export function refuseTwice(names: readonly string[], isRead: (name: string) => boolean): void {
  const places = new Map<string, number>()
  for (const [at, name] of names.entries()) {
    const folded = foldName(name)
    const earlier = places.get(folded)
    if (earlier !== undefined && isRead(folded)) {
      const other = names[earlier] === name ? '' : ` (as ${names[earlier]})`
      const message = `its header has the column ${name} twice: it is column ${earlier + 1}${other} and column ${at + 1}`
      throw new LeadpushError('usage', message, { hint: 'Rename one of them, or take it out.' })
    }
    places.set(folded, at)
  }
}
