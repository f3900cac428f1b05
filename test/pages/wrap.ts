/**
 * Wraps the prose of Markdown: paragraphs and items of lists. Headings, tables, blocks of code, quotes, comments and HTML stay as they are,
 * and words in backticks are not parted. (prettier would pad each table to its widest cell.)
 */

/**
 * What stays together: a word, or words in backticks with what touches them, and behind it what Markdown would read at the beginning of a
 * line as an item, a heading or a quote.
 */
const piecesOf = (text: string): string[] =>
  text.match(/(?:(`+)[^`]+\1|\S)+(?:\s+(?:[-+*>|]|#+|\d+[.)])(?!\S))*/g)?.map((piece) => piece.replace(/\s+/g, ' ')) ??
  []

function fill(pieces: readonly string[], indent: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const piece of pieces) {
    const longer = line === '' ? piece : `${line} ${piece}`
    if (line !== '' && indent.length + [...longer].length > width) {
      lines.push(indent + line)
      line = piece
    } else line = longer
  }
  return line === '' ? lines : [...lines, indent + line]
}

const itemStart = /^( *)((?:[-*+]|\d+[.)]) +)/
const isFixed = (line: string) => /^\s*(?:$|[|#>!<]|\[[^\]]+\]: )/.test(line)

export function wrapMarkdown(text: string, width: number): string {
  const wrapped: string[] = []
  /** The paragraph that is being read: its indent, the marker that its first line begins with, its text. */
  let open: { indent: string; marker: string; text: string } | undefined
  let isCode = false
  const close = () => {
    if (!open) return
    const lines = fill(piecesOf(open.text), open.indent + ' '.repeat(open.marker.length), width)
    const [first = '', ...rest] = lines
    wrapped.push(open.indent + open.marker + first.trimStart(), ...rest)
    open = undefined
  }
  for (const line of text.split('\n')) {
    const isFence = /^\s*```/.test(line)
    if (isFence) isCode = !isCode
    if (isFence || isCode || isFixed(line)) {
      close()
      wrapped.push(line)
      continue
    }
    const [start, indent = '', marker = ''] = itemStart.exec(line) ?? []
    if (start !== undefined) {
      close()
      open = { indent, marker, text: line.slice(start.length) }
    } else if (open) open.text += ` ${line.trim()}`
    else open = { indent: /^ */.exec(line)?.[0] ?? '', marker: '', text: line }
  }
  close()
  return wrapped.join('\n')
}
