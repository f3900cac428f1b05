/**
 * Reads one value of a record for a field of a lead. CSV and JSON are read alike: a JSON number in a field of text is the text
 * that CSV would have, and a JSON text in a field of numbers is read as CSV's.
 */

import { leadNumberMax } from '../base/limits.ts'
import { spellOut } from '../base/printable.ts'
import { redact, removed } from '../base/redact.ts'
import { readPostalCode } from '../places/read-postal-code.ts'
import { isStorable, type LeadField, leadFields, type NumberField } from './lead.ts'
import { isPlaceholder } from './placeholders.ts'
import { readNumber } from './read-number.ts'

const isContact = (field: LeadField) => field.startsWith('contact')

/** The result of `readValue` for a value that cannot be read. */
export const unreadable = Symbol('unreadable')

/** A value that could not be read. */
export interface UnreadableValue {
  field: LeadField
  value: unknown
}

const numberFields: ReadonlySet<string> = new Set(
  leadFields.flatMap(({ name, kind }) => (kind === 'number' ? [name] : [])),
)
export const isNumberField = (field: LeadField): field is NumberField => numberFields.has(field)

/** For `--null`: texts are compared without blanks around them and without regard to case. */
const foldNull = (text: string) => text.trim().toLowerCase()
export const buildNulls = (texts: readonly string[]): ReadonlySet<string> => new Set(texts.map(foldNull))

/** Nobody names a longer text as a null, and folding it would be costly. */
const nullCharsMax = 100

export function isNull(value: unknown, nulls: ReadonlySet<string>): boolean {
  if (nulls.size === 0) return false
  if (typeof value === 'string') return value.length <= nullCharsMax && nulls.has(foldNull(value))
  return (typeof value === 'number' || typeof value === 'boolean') && nulls.has(String(value))
}

const digitsOnly = /^\d{1,13}$/

function readNumberValue(value: unknown, field: NumberField): number | undefined | typeof unreadable {
  let number = value
  if (typeof value === 'string') {
    // most are plain digits
    if (digitsOnly.test(value)) number = Number(value)
    else if (value.trim() === '') return undefined
    else number = readNumber(value, field)
  }
  if (typeof number !== 'number' || !(number >= 0 && number <= leadNumberMax)) return unreadable
  // contract 4.10: the one field whose 0 means unknown
  return field === 'yearBuilt' && number === 0 ? undefined : number
}

function readTextValue(value: unknown): string | typeof unreadable {
  if (typeof value === 'string') return isStorable(value) ? value : unreadable
  // beyond that JSON has lost digits
  return typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER ? String(value) : unreadable
}

const notBlank = /\S/

/** Exports write a list of phones as one text, as JSON or Python has it: the first number counts. */
const phoneList = /^\s*\[\s*\{.*?["']number["']\s*:\s*["']([^"']+)["']/s

/** What a spreadsheet makes of digits: a formula, so that they stay text; decimals; and a number of which only the first are left. */
const asFormula = /^\s*="([^"]*)"\s*$/
const phoneWithDecimals = /^\s*(\d{7,15})\.0+\s*$/
const scientific = /^\s*\d(?:\.\d+)?e\+?\d+\s*$/i
const digit = /\p{Nd}/u

function readDigits(given: string, field: LeadField): string | typeof unreadable {
  const text = asFormula.exec(given)?.[1] ?? given
  if (scientific.test(text)) return unreadable
  if (field === 'contactPhone') return phoneList.exec(text)?.[1] ?? phoneWithDecimals.exec(text)?.[1] ?? text
  return digit.test(text) ? readPostalCode(text) : unreadable
}

/** The value for `field`; undefined if it is unknown. `href` is kept as given, and checked elsewhere. */
export function readValue(value: unknown, field: LeadField, nulls: ReadonlySet<string>): unknown {
  if (value === null || value === '' || value === undefined || isNull(value, nulls)) return undefined
  if (field === 'href') return value
  if (isNumberField(field)) return readNumberValue(value, field)
  if (typeof value === 'string' && !notBlank.test(value)) return undefined
  if (isContact(field) && isPlaceholder(value)) return unreadable
  const text = readTextValue(value)
  const hasDigits = field === 'postalCode' || field === 'contactPhone'
  return hasDigits && text !== unreadable ? readDigits(text, field) : text
}

/** The words for a list or an object, which is never turned into text: it may have millions of parts. */
export const textOfObject = (value: object) => (Array.isArray(value) ? '[…]' : '{…}')

const shownCharsMax = 60

/** The text, unchanged if it has no contact. More of it is read than is shown: a cut could hide a contact. */
function redactText(text: string): string {
  const beginning = text.slice(0, 10 * shownCharsMax)
  const redacted = redact(beginning, [])
  return redacted.includes(removed) ? redacted : beginning
}

/**
 * The value for a message: in one line, escaped, at most 60 characters. Messages end up in mails and logs of cron: only the shape of a
 * contact is shown, and a contact in another column is taken out.
 */
export function showValue(value: unknown, field: LeadField): string {
  if (typeof value === 'object' && value !== null) return textOfObject(value)
  const text = typeof value === 'string' ? JSON.stringify(redactText(value).slice(0, shownCharsMax + 1)) : String(value)
  const characters = [...text.slice(0, 6 * shownCharsMax)]
  const whole = characters.slice(0, shownCharsMax).join('')
  const shown = spellOut(characters.length > shownCharsMax ? `${whole}…` : whole)
  return isContact(field) && !isPlaceholder(value) ? shown.replace(/[\p{L}\p{N}]/gu, 'x') : shown
}

/** The fault of an unreadable value, and the value for a message. */
export function describeUnreadable({ field, value }: UnreadableValue): { message: string; value: string } {
  const shown = showValue(value, field)
  return { message: `${problemOf(field, value)}: ${shown}`, value: shown }
}

function problemOf(field: LeadField, value: unknown): string {
  if (!isNumberField(field)) {
    if (isContact(field) && isPlaceholder(value)) return 'is no contact'
    if (typeof value === 'string' && scientific.test(value)) return 'is a number that has lost digits'
    if (typeof value === 'string' && isStorable(value)) return 'is not a postal code'
    return typeof value === 'string' ? 'holds a NUL character or half of a surrogate pair' : 'is no text'
  }
  const isNumber = typeof value === 'number' || (typeof value === 'string' && readNumber(value, field) !== undefined)
  return isNumber ? 'is not from 0 to 1000000000000' : 'cannot be read as a number without a guess'
}
