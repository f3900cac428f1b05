/** Cuts a line of CSV (RFC 4180), or several within quotes, into cells. `split-csv.ts` finds out which lines are one record. */

const quote = 34

/** A text cut at its separators. */
export interface Cut {
  /** At most as many as were asked for. */
  cells: string[]
  /** Of all cells. */
  count: number
  /** Whether a cell beyond those that were asked for has something in it. */
  hasMore: boolean
  /** The text ends within quotes. */
  isOpen: boolean
  /** Where the last cell begins. */
  lastFrom: number
  /** Something stands between a closing quote and the next separator. */
  isBad: boolean
}

export interface CutOptions {
  separator: string
  cellsMax: number
  /** `\"` within quotes is a quote, as MySQL writes it. */
  escapes?: boolean
  /** The text begins within quotes. */
  isWithin?: boolean
}

function isEscaped(text: string, at: number, from: number): boolean {
  let before = at
  while (before > from && text[before - 1] === '\\') before--
  return (at - before) % 2 === 1
}

/** Where the quotes that opened before `from` are closed; -1 where they are not. */
function findClose(text: string, from: number, escapes: boolean): number {
  let at = text.indexOf('"', from)
  while (at >= 0) {
    if (escapes && isEscaped(text, at, from)) at = text.indexOf('"', at + 1)
    else if (text.charCodeAt(at + 1) === quote) at = text.indexOf('"', at + 2)
    else return at
  }
  return -1
}

/** The value of what stands within quotes. */
function unquote(text: string, escapes: boolean): string {
  if (escapes && text.includes('\\"')) return text.replace(/\\\\|\\"|""/g, (pair) => (pair === '\\\\' ? pair : '"'))
  return text.includes('"') ? text.replaceAll('""', '"') : text
}

/** A quote in the middle of an unquoted cell is an ordinary character. */
export function cutCells(text: string, options: CutOptions): Cut {
  const { separator, cellsMax, escapes = false } = options
  const separates = separator.charCodeAt(0)
  const cut: Cut = { cells: [], count: 0, hasMore: false, isOpen: false, lastFrom: 0, isBad: false }
  let from = 0
  let within = options.isWithin ?? false
  for (;;) {
    let cell: string
    let next: number
    if (within || text.charCodeAt(from) === quote) {
      const begin = within ? from : from + 1
      const close = findClose(text, begin, escapes)
      cut.isOpen = close < 0
      cell = unquote(text.slice(begin, cut.isOpen ? undefined : close), escapes)
      next = cut.isOpen ? text.length : close + 1
      if (next < text.length && text.charCodeAt(next) !== separates) {
        cut.isBad = true
        next = text.indexOf(separator, next)
      }
    } else {
      next = text.indexOf(separator, from)
      cell = text.slice(from, next < 0 ? undefined : next)
    }
    within = false
    cut.lastFrom = from
    cut.count++
    if (cut.count <= cellsMax) cut.cells.push(cell)
    else if (cell.trim() !== '') cut.hasMore = true
    if (next < 0 || next >= text.length) return cut
    from = next + 1
  }
}

/** How well a cut fits `columns`: exactly, as a record, as the beginning of one, or not. */
const fitOf = ({ count, isOpen, isBad, hasMore }: Cut, columns: number) =>
  isBad || (hasMore && !isOpen) ? 0 : isOpen ? 1 : count === columns ? 3 : 2

/**
 * As `cutCells`, with `\"` as a quote, or as a backslash and the end of the quotes (`"C:\"`): the one that fits the columns.
 */
export function cutRecord(text: string, options: Omit<CutOptions, 'escapes'>): Cut {
  const plain = cutCells(text, options)
  if (!text.includes('\\"')) return plain
  const escaped = cutCells(text, { ...options, escapes: true })
  return fitOf(plain, options.cellsMax) > fitOf(escaped, options.cellsMax) ? plain : escaped
}
