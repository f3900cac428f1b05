/** Lays out tables on a terminal. */
import type { Cell, Table, Tone } from '../base/table.ts'
import { escapeControls, paint, type Style } from './painted.ts'

const styleOf: Record<Tone, Style> = { good: 'green', bad: 'red', doubtful: 'yellow', faint: 'dim' }

/** The text for printing, which decides the colour. */
function paintCell(cell: Cell): string {
  if (typeof cell === 'string') return cell
  return cell.tone ? paint(styleOf[cell.tone], cell.text) : cell.text
}

const gap = 3
const ascii = /^[ -~]*$/

/** The lines of a table in `room` characters, or in more if the narrow columns need more. */
export async function layOutTable(
  { columns, rows }: Table,
  { room = Number.POSITIVE_INFINITY, hasColours = false }: { room?: number | undefined; hasColours?: boolean },
): Promise<string> {
  const [{ default: stringWidth }, { default: cliTruncate }] = await Promise.all([
    import('string-width'),
    import('cli-truncate'),
  ])
  // most texts are ASCII, and there may be a million of them
  const widthOf = (text: string) => (ascii.test(text) ? text.length : stringWidth(text))
  const heads = columns.map(({ head }) => paint('dim', head))
  const cells = [heads, ...rows].map((row) =>
    columns.map((_, at) => {
      const text = escapeControls(paintCell(row[at] ?? ''), hasColours)
      return { text, width: widthOf(text) }
    }),
  )
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => row[at]?.width ?? 0)))
  const total = widths.reduce((sum, width) => sum + width + gap, 0)
  const wide = columns.flatMap((column, at) => (column.wide ? [at] : []))
  for (let over = total - room; over > 0 && wide.length > 0; over--) {
    const widest = wide.reduce((a, b) => ((widths[a] ?? 0) >= (widths[b] ?? 0) ? a : b))
    if ((widths[widest] ?? 0) <= 8) break
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  /** A wide character at the edge would stand out by one. */
  const cut = (text: string, most: number) => {
    const shown = cliTruncate(text, most)
    return widthOf(shown) > most ? cliTruncate(text, most - 1) : shown
  }
  const lines = cells.map((row) => {
    const fitted = row.map(({ text, width }, at) => {
      const most = widths[at] ?? 0
      const shown = width > most ? cut(text, most) : text
      const blanks = ' '.repeat(most - (width > most ? widthOf(shown) : width))
      return columns[at]?.isNumber ? blanks + shown : shown + blanks
    })
    return `${fitted.join(' '.repeat(gap)).replace(/[ \t]+$/, '')}\n`
  })
  return lines.join('')
}
