/**
 * The normal form of a text in which contacts are looked for (contract 4.19): two spellings that a person reads as one contact have the
 * same. Erasures, consumer deletion lists and redactions read all contacts through it.
 */
import { decodeOnce, decodeRoundsMax } from '../base/decode-once.ts'

const mayBeEncoded = /[&%\\]/
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Me}]+/gu
const otherDigits = /(?![0-9])\p{Nd}/gu
const isDigit = (code: number) => /\p{Nd}/u.test(String.fromCodePoint(code))
/** A run of blanks is consumed whole, or each of its characters is tried as its beginning. */
const blanksAroundAt = /\s+@?|@\s+/g
/** The three below in one look, since few texts have any. */
const isSpelled = /[([{<]\s{0,3}(?:at|dot|\.|0)\s{0,3}[)\]}>]/
const spelledAt = /[([{<]\s{0,3}at\s{0,3}[)\]}>]/g
const spelledDot = /\s{0,3}[([{<]\s{0,3}(?:dot|\.)\s{0,3}[)\]}>]\s{0,3}/g
/** `+44 (0)20`: the zero is not dialled. */
const trunkZero = /\(\s{0,3}0\s{0,3}\)/g

/** Each script has its ten digits in a row; two scripts may stand next to each other. */
function toAsciiDigit(digit: string): string {
  const code = digit.codePointAt(0) as number
  let first = code
  while (isDigit(first - 1)) first--
  return String((code - first) % 10)
}

function decodeAll(text: string): string {
  let decoded = text
  for (let round = 0; round < decodeRoundsMax && mayBeEncoded.test(decoded); round++) decoded = decodeOnce(decoded)
  return decoded
}

/** In lower case, with plain letters, digits and `@`, without invisible characters; what is encoded for HTML, JSON or a URL is decoded. */
export function normalText(text: string): string {
  const plain = mayBeEncoded.test(text) ? decodeAll(text) : text
  const folded = /[^\0-\x7f]/.test(plain)
    ? plain.normalize('NFKC').replace(invisible, '').replace(otherDigits, toAsciiDigit)
    : plain
  const cased = folded.toLowerCase()
  const lower = isSpelled.test(cased)
    ? cased.replace(spelledAt, '@').replace(spelledDot, '.').replace(trunkZero, '')
    : cased
  return lower.includes('@')
    ? lower.replace(blanksAroundAt, (found) => (found.includes('@') ? '@' : found)).replace(/@\s+/g, '@')
    : lower
}
