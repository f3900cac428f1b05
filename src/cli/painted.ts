/**
 * Colours and line breaks of text for people. Text may come from a file, a request or an answer, and must not steer a terminal:
 * marks made here carry a seal until they are written, and all other control characters are spelt out.
 */
import { randomInt } from 'node:crypto'
import { spell, unprintable } from '../base/printable.ts'

const styles = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39] } as const

export type Style = keyof typeof styles

// text from elsewhere cannot guess it
const seal = randomInt(2 ** 47)
const mark = (code: number) => `\u001b[${code};${seal}m`
const breakCode = 0

/** A line break within one line of output. */
export const lineBreak = mark(breakCode)

/** Marks `text`; the writer decides whether the mark becomes a colour. */
export function paint(style: Style, text: string): string {
  const [on, off] = styles[style]
  return `${mark(on)}${text}${mark(off)}`
}

const marks = new RegExp(`\\u001b\\[(\\d+);${seal}m|${unprintable.source}`, 'gu')

/** The text for output: sealed marks become colour codes, or nothing without colours; other control characters are spelt out. */
export const escapeControls = (text: string, hasColours: boolean): string =>
  text.replace(marks, (found, code: string | undefined) => {
    if (code === undefined) return spell(found)
    if (Number(code) === breakCode) return '\n'
    return hasColours ? `\u001b[${code}m` : ''
  })

/** The text with its control characters spelt out and with sealed marks, which `escapeControls` turns into codes. */
export const spellUnsealed = (text: string): string =>
  text.replace(marks, (found, code: string | undefined) => (code === undefined ? spell(found) : found))

/** The number of visible characters of a text that was spelt out. */
export const seenLength = (text: string): number => [...text.replace(marks, '')].length

const statusStyles: Partial<Record<string, Style>> = { delivered: 'green', complete: 'green', failed: 'red' }

/** The status of a delivery or a run, in its colour. */
export const paintStatus = (status: string): string => paint(statusStyles[status] ?? 'yellow', status)
