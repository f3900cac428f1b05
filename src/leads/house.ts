/**
 * The key that the listings of one house share (contract 4.20). It is made at import, from the postal code, the street address and the
 * unit, each in the spelling of Publication 28.
 */
import { hash } from 'node:crypto'
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { type PostalCodeFields, postalKeyOf } from '../places/postal-key.ts'
import type { Lead } from './lead.ts'
import {
  directions,
  loneUnitWords,
  namedUnitWords,
  suffixes,
  suffixNames,
  unitWords,
  wholeUnitWords,
} from './publication-28.ts'

/** A longer text is not an address: prose has no house. */
const addressCharsMax = 200
const keyBytes = 8

/** The word for the sign #, which may follow a word (`Apt #4`). */
const sign = 'unit'

const withoutMarks = (text: string) => text.normalize('NFKD').replace(/\p{M}+/gu, '')

/** Words in lower case. Punctuation separates them, except a hyphen between digits (`12-34 Bell Blvd`). */
function wordsOf(text: string): string[] {
  const plain = withoutMarks(withoutMarks(text).toLowerCase()).replaceAll('#', ` ${sign} `)
  return plain.match(/\d+(?:-\d+)+(?:[\p{L}\p{N}]*)|[\p{L}\p{N}]+/gu) ?? []
}

const isOrdinal = (word: string) => /^\d+(?:st|nd|rd|th)$/.test(word)
const withoutOrdinal = (word: string) => (isOrdinal(word) ? word.slice(0, -2) : word)
/** A number or letter of a unit: `4`, `4b`, `b`, `317-319`. */
const isUnitId = (word: string) => /^(?:\p{L}{0,3}\d[\p{L}\p{N}-]*|\p{L})$/u.test(word)

/** Whether an address can begin with it: `100`, `12b`, `12-34`, `n45w123`; neither `5th` nor the `0` of land without a number. */
const isHouseNumber = (word: string) => /^\p{L}{0,2}\d/u.test(word) && !isOrdinal(word) && /[1-9]/.test(word)

interface Tail {
  /** How many words it has. */
  words: number
  unit: string
}

/** A number or letter of a unit at the end of `words`, in one word or two (`A-4`). */
function readUnitId(words: readonly string[]): Tail | undefined {
  const [before, last] = [words.at(-2), words.at(-1)]
  if (last === undefined || !isUnitId(last)) return undefined
  // one of two words is a letter: 12 B, B-12
  const isPair = before !== undefined && isUnitId(before) && /^\p{L}$/u.test(before) !== /^\p{L}$/u.test(last)
  return isPair ? { words: 2, unit: before + last } : { words: 1, unit: last }
}

/** The unit at the end of `words`: its word with a number or letter, or a word that stands alone. */
function readUnit(words: readonly string[]): Tail | undefined {
  const last = words.at(-1) ?? ''
  const whole = wholeUnitWords.get(last)
  const counted = words.at(-2)
  // 2nd floor
  if (whole !== undefined && counted !== undefined && isOrdinal(counted))
    return { words: 2, unit: whole + withoutOrdinal(counted) }
  for (const id of [readUnitId(words), readUnitId(words.slice(-1))]) {
    if (id === undefined) continue
    let at = words.length - id.words - 1
    const word = words[at] ?? ''
    const part = wholeUnitWords.get(word)
    if (part !== undefined) return { words: id.words + 1, unit: part + id.unit }
    if (!unitWords.has(word) && !loneUnitWords.has(word)) continue
    // apt #4, unit ph 4
    while (unitWords.has(words[at - 1] ?? '')) at--
    return { words: words.length - at, unit: id.unit }
  }
  const lone = loneUnitWords.get(last)
  const before = words.at(-2) ?? ''
  if (lone !== undefined) return { words: unitWords.has(before) ? 2 : 1, unit: lone }
  return namedUnitWords.has(before) && !unitWords.has(last) ? { words: 2, unit: last } : undefined
}

const isStreet = (words: readonly string[]) =>
  words.length >= 2 && isHouseNumber(words[0] as string) && words.slice(1).some((word) => !directions.has(word))

/** Splits an address into its street and the units at its end. */
function splitUnits(words: readonly string[]): { street: readonly string[]; units: string[] } {
  let street = words
  const units: string[] = []
  for (;;) {
    const found = readUnit(street)
    const rest = found && street.slice(0, -found.words)
    // the rest must be an address: 100 Front is one, of the street Front
    if (!found || !rest || !isStreet(rest)) return { street, units }
    units.push(found.unit)
    street = rest
  }
}

/** The units that the second line of an address names, without the words before them; other words as they stand. */
function readSecondAddress(text: string): string[] {
  let words: readonly string[] = wordsOf(text)
  const bare = readUnitId(words)
  if (bare?.words === words.length) return [bare.unit]
  const units: string[] = []
  for (let found = readUnit(words); found; found = readUnit(words)) {
    units.push(found.unit)
    words = words.slice(0, -found.words)
  }
  const other = words.filter((word) => !unitWords.has(word))
  return other.length > 0 ? [...units, other.join(' ')] : units
}

interface Direction {
  /** How many words it has: `n e` is `ne`. */
  words: number
  letters: string
}

/** The directions that `words` may be, the longer first. */
function readDirections([first, second]: readonly (string | undefined)[]): Direction[] {
  const one = directions.get(first ?? '')
  if (one === undefined) return []
  const two = directions.get(one + (directions.get(second ?? '') ?? ''))
  const found = [{ words: 1, letters: one }]
  return two !== undefined && two !== one ? [{ words: 2, letters: two }, ...found] : found
}

/** Whether `words` can be the name of a street, with its suffix or without one. */
const isName = (words: readonly string[]) => words.length > 1 || (words[0] !== undefined && !suffixes.has(words[0]))

/**
 * The street as Publication 28 writes it. A direction counts as one before the name or after it, not where it is the name (North
 * Street). All spellings of a suffix count where it ends the street, elsewhere only its name: Parks Avenue is not Park Avenue.
 */
function writeStreet([number = '', ...rest]: readonly string[]): string {
  let name = rest
  const before = readDirections(name).find(({ words }) => isName(name.slice(words)))
  name = name.slice(before?.words ?? 0)
  const end = name.length
  const after = [name.slice(-2), name.slice(-1)]
    .flatMap((words) => readDirections(words).filter((direction) => direction.words === words.length))
    .find(({ words }) => isName(name.slice(0, end - words)))
  name = name.slice(0, end - (after?.words ?? 0))
  const words = name.map((word, at) => {
    const isLast = at > 0 && at === name.length - 1
    return (isLast ? suffixes : suffixNames).get(word) ?? word
  })
  return [number, before?.letters ?? '', words.join(' '), after?.letters ?? ''].join('|')
}

/** The fields of a listing that say which house it is of. */
export type HouseFields = PostalCodeFields & Pick<Lead, 'address' | 'secondAddress'>

/** What listings of one house have in common, as text; undefined for one of no house: without a street address and a number in it. */
export function writeHouse(lead: HouseFields): string | undefined {
  const { address, secondAddress } = lead
  const place = postalKeyOf(lead)
  const second = secondAddress ?? ''
  if (!address || place === undefined || address.length > addressCharsMax || second.length > addressCharsMax)
    return undefined
  const { street, units } = splitUnits(wordsOf(address))
  if (!isStreet(street)) return undefined
  const unit = [...new Set([...units, ...readSecondAddress(second)])].sort().join(' ')
  return [place, writeStreet(street), unit].join('|')
}

/** The key of a listing's house, 8 bytes; undefined for one of no house. */
export function houseKey(lead: HouseFields): Buffer | undefined {
  const house = writeHouse(lead)
  return house === undefined ? undefined : hash('sha256', house, 'buffer').subarray(0, keyBytes)
}

/** The houses of those of `leads`, by id, that share theirs with another of them; a lead may stand there in several versions. */
export async function findRivals(
  db: Database,
  leads: readonly ({ leadId: number } | undefined)[],
): Promise<Map<number, string>> {
  const ids = [...new Set(leads.flatMap((lead) => (lead ? [lead.leadId] : [])))]
  const { rows } = await sql<{ id: number; house: string }>`
    select id, encode(house, 'hex') as house from (
      select id, house, count(*) over (partition by house) as listings from leads
      where id = any (${ids}) and house is not null
    ) l where listings > 1
  `.execute(db)
  return new Map(rows.map(({ id, house }) => [id, house]))
}
