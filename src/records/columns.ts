/** Names of columns as people compare them (contract 4.18): trimmed, without regard to case; `a.b` reads a key within another. */
import { LeadpushError } from '../base/errors.ts'

export const foldColumnName = (name: string): string => name.trim().toLowerCase()

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
    const found = this.byName.get(foldColumnName(name))
    if (this.bySpelling.size < spellingsMax) this.bySpelling.set(name, found)
    return found
  }
}

/** The value below `value` that `a.b.0` names: keys, and numbers in lists; undefined if there is no such value. */
export function valueAt(value: unknown, steps: readonly string[]): unknown {
  let at = value
  for (const step of steps) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined
    at = (at as Record<string, unknown>)[step]
  }
  return at
}

/**
 * What is said of a header with a column that stands twice (contract 4.18), read or not; undefined where none does. Spreadsheets write
 * any number of columns without a name.
 */
export function findTwice(names: readonly string[]): string | undefined {
  const places = new Map<string, number>()
  for (const [at, name] of names.entries()) {
    const folded = foldColumnName(name)
    const earlier = places.get(folded)
    if (earlier !== undefined) {
      const other = names[earlier] === name ? '' : ` (as ${names[earlier]})`
      return `its header has the column ${name} twice: it is column ${earlier + 1}${other} and column ${at + 1}`
    }
    if (folded !== '') places.set(folded, at)
  }
  return undefined
}

/** What to do about it. */
export const renameOne = 'Rename one of them, or take it out.'

/**
 * Refuses `cells`, the record on `line`, where they are another header: their file stands behind this one, and what is in its columns
 * would be taken for something else. Throws `failed`. `key` is the folded name of a column that every header has; of the cells at least
 * half are names of columns, as one may be by chance.
 */
export function refuseOtherHeader(
  names: readonly string[],
  cells: readonly string[],
  { key, fields, line }: { key: string; fields: readonly string[]; line: number },
): void {
  const folded = cells.map(foldColumnName)
  if (!folded.includes(key) || folded.every((cell, at) => cell === foldColumnName(names[at] ?? ''))) return
  const known = new Set([...names, ...fields].map(foldColumnName).filter((name) => name !== ''))
  if (2 * folded.filter((cell) => known.has(cell)).length < cells.length) return
  throw new LeadpushError('failed', `its line ${line} is another header: it is several files put together`, {
    hint: 'Import each of them by itself.',
  })
}
