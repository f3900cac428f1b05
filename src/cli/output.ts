/**
 * Writes results to standard output, as JSON lines or text, and copes with a reader that is slow or has gone. Decides for all
 * commands whether something may move on the terminal.
 */
import { once } from 'node:events'
import { codeOf } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
import { isPlain } from '../base/terminal.ts'
import { gather } from './gather.ts'
import { escapeControls, lineBreak, paint, seenLength, spellUnsealed } from './painted.ts'

/**
 * Whether something may move on standard error. Not on a terminal that says it has no columns (one that `script` or a
 * container made): ora would clear lines without end.
 */
export const isLively = () => process.stderr.isTTY === true && process.stderr.columns > 0 && !isPlain()

let isUnread = false

/** The reader has gone: later output is dropped. */
export function stopWriting(): void {
  isUnread = true
}

let loss: string | undefined

/** For output that cannot be had again: `told` is said where it cannot be written, also where the reader has gone, with exit code 1. */
export function noteLoss(told: string): void {
  loss = told
}

/** What is lost with output that cannot be written; undefined for nothing. */
export const findLoss = (): string | undefined => loss

/** Writes to standard output; waits where the reader is behind. */
export async function write(text: string | Uint8Array): Promise<void> {
  if (writeNow(text)) return
  // the only error is a reader that has gone
  await once(process.stdout, 'drain').catch(() => {})
}

const lines = gather((text) => void writeOut(text))

/** Writes with the other output of this moment, before any later write. */
export const writeSoon = lines.add

/** Writes without waiting; returns whether there is room for more. */
export function writeNow(text: string | Uint8Array): boolean {
  lines.flush()
  return writeOut(text)
}

function writeOut(text: string | Uint8Array): boolean {
  if (isUnread) return true
  try {
    return process.stdout.write(text)
  } catch (error) {
    if (codeOf(error) === undefined) throw error
    // where standard output is a file, Node.js 20 throws; for a pipe or a terminal it emits an event
    process.stdout.emit('error', error)
    return true
  }
}

const toText = (lines: readonly string[]) => lines.map((line) => `${escapeControls(line)}\n`).join('')

export async function writeLine(...texts: string[]): Promise<void> {
  await write(toText(texts))
}

/** What `writeSoon` is for lines. */
export const writeLineSoon = (...texts: string[]): void => writeSoon(toText(texts))

export const writeLineNow = (...texts: string[]): void => void writeNow(toText(texts))

/** An object as one line, with control characters escaped for terminals. */
export const toJsonLine = (value: object): string => `${spellOut(JSON.stringify(value))}\n`

export async function writeJson(value: object): Promise<void> {
  await write(toJsonLine(value))
}

/** Text, painted or not, in lines that fit the terminal, if there is one; the second and further ones are indented by `indent` spaces. */
export function wrap(text: string, indent: number): string {
  const room = process.stdout.isTTY && process.stdout.columns > 0 ? process.stdout.columns : Number.POSITIVE_INFINITY
  const lines = ['']
  for (const word of spellUnsealed(text).split(' ')) {
    const line = lines.at(-1) ?? ''
    const more = line === '' ? word : `${line} ${word}`
    if (line !== '' && indent + seenLength(more) > room) lines.push(word)
    else lines[lines.length - 1] = more
  }
  return lines.join(`${lineBreak}${' '.repeat(indent)}`)
}

export interface Column {
  head: string
  align?: 'right'
  /** Shrinks first where the terminal is narrow. */
  wide?: boolean
}

const gap = 3
const ascii = /^[ -~]*$/

/** A table that fits the terminal: wide columns cut long texts with an ellipsis. */
export async function writeTable(columns: readonly Column[], rows: readonly (readonly string[])[]): Promise<void> {
  await write(await layOutTable(columns, rows, process.stdout.columns || Number.POSITIVE_INFINITY))
}

/** The lines of a table in `room` characters, or more where the columns that are not wide need more. */
export async function layOutTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  room: number,
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
      const text = escapeControls(row[at] ?? '')
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
      return columns[at]?.align === 'right' ? blanks + shown : shown + blanks
    })
    return `${fitted.join(' '.repeat(gap)).replace(/[ \t]+$/, '')}\n`
  })
  return lines.join('')
}

/** Two columns: names and values. */
export async function writeFacts(facts: readonly (readonly [string, string])[]): Promise<void> {
  const width = Math.max(...facts.map(([name]) => name.length))
  for (const [name, value] of facts) await writeLine(`${paint('dim', name.padEnd(width))}  ${value}`)
}
