/** Reads a postal code out of what exports write in its place: a number with decimals, or a code beside its state. */
import { findStateCode } from './states.ts'

const withDecimals = /^(\d{3,9})\.0+$/
/** A ZIP, ZIP+4 or Canadian code. */
const code = String.raw`\d{5}(?:-\d{4})?|[A-Z]\d[A-Z] ?\d[A-Z]\d`
const afterState = new RegExp(String.raw`^(\D*?)[\s,]+(${code})$`, 'i')
const beforeState = new RegExp(String.raw`^(${code})[\s,]+(\D+)$`, 'i')
/** Longer texts are no code. */
const charsMax = 100

/** `TX`, `Texas`, or a town before a comma: `Austin, TX`. */
const endsWithState = (text: string) => findStateCode(text.slice(text.lastIndexOf(',') + 1)) !== undefined

/**
 * `84321` for `84321.0`, `02138` for `MA 02138`, `02138, MA` and `Cambridge, MA 02138`; any other text as it is. Leading zeros that
 * a spreadsheet took away are not given back here: matching knows them (contract 4.9).
 */
export function readPostalCode(text: string): string {
  // most are a plain code
  if (text.length <= 5 || text.length > charsMax) return text
  const trimmed = text.trim()
  const [, digits] = withDecimals.exec(trimmed) ?? []
  if (digits !== undefined) return digits
  const [, before, codeAfter] = afterState.exec(trimmed) ?? []
  if (before !== undefined && codeAfter !== undefined && endsWithState(before)) return codeAfter
  const [, codeBefore, after] = beforeState.exec(trimmed) ?? []
  return codeBefore !== undefined && after !== undefined && findStateCode(after) !== undefined ? codeBefore : text
}
