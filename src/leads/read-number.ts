/**
 * Reads the numbers of a lead as people write them. docs/reference/values.md has the table of the forms, and a test compares this file with it. A
 * text with two readings is not guessed: it has no value.
 */
import type { NumberField } from './lead.ts'

/** A longer text is prose. This also bounds the cost of the patterns below. */
const charsMax = 64

interface Surroundings {
  before?: RegExp
  after?: RegExp
  /** Words that multiply the number. */
  scales?: RegExp
  /** No comma or space groups the digits of a small number: a dot in it, or a comma, begins its decimals. */
  isCount?: true
}

/** The words around a number, and the meaning of its signs, depend on the field. In lower case, one space at most between words. */
const surroundings: Record<NumberField, Surroundings> = {
  price: {
    before: /^(?:us ?\$|usd ?\$?|\$ ?(?:usd)?) ?/,
    after: /(?: ?(?:\$|usd|us dollars|dollars))?(?:,? \(?(?:o\.?b\.?o\.?|or best offer|firm|neg\.?|negotiable)\)?)?$/,
    scales: / ?(k|thousand|mm?|mil|million)$/,
  },
  sqft: { after: / ?(?:sq(?:uare)?\.? ?(?:ft|feet|foot)\.?|s\.?f\.?|ft(?:\^?2|²))$/, scales: / ?(k|thousand)$/ },
  bedrooms: { after: /[ -]?(?:bds?|brs?|bdrm?s?|beds?|bedrooms?)\.?$/, isCount: true },
  bathrooms: { after: /[ -]?(?:bas?|bths?|baths?|bathrooms?)\.?$/, isCount: true },
  yearBuilt: { before: /^built (?:in )?/ },
}

const vulgar: Readonly<Record<string, string>> = {
  '½': '.5', '¼': '.25', '¾': '.75', '⅛': '.125', '⅜': '.375', '⅝': '.625', '⅞': '.875',
} // biome-ignore format: a list

/**
 * Without invisible characters, and with one kind of each sign. It is no NFKC, which would make 32 of a 3 with a footnote's
 * superscript 2.
 */
function normalise(text: string): string {
  return text
    .replace(/[\u00ad\u200b-\u200f\u2060\ufeff]/g, '')
    .replace(/[\uff01-\uff5e]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .replace(/\s+/g, ' ')
    .replace(/(\d?) ?([½¼¾⅛⅜⅝⅞])/g, (_, digit: string, sign: string) => `${digit || '0'}${vulgar[sign]}`)
    .replace(/[\u2018\u2019]/g, "'")
    .replace(/\u2044/g, '/')
    .trim()
    .toLowerCase()
}

const plain = /^(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?$/
const groupedByCommas = /^[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$/
/** More groups may be two numbers: `350 000 425 000`. */
const groupedBySpaces = /^[1-9]\d{0,2}([ '])\d{3}(?:\1\d{3})?(?:[.,]\d{1,2})?$/
/** One group alone may be decimals: `1.850`. */
const groupedByDots = /^[1-9]\d{0,2}(?:(?:\.\d{3})+,\d{1,2}|(?:\.\d{3}){2,})$/
const oneDotGroup = /^[1-9]\d{0,2}\.\d{3}$/
/** Fewer digits before the comma may be a group that lost some: `350,00`. */
const commaDecimals = /^\d{4,},\d{1,2}$/
const fewCommaDecimals = /^\d{1,3},\d{1,2}$/
const mixed = /^(\d{1,2})[ -](\d)\/([248])$/

function readMixed(text: string): number | undefined {
  const [, whole, above, below] = mixed.exec(text)?.map(Number) ?? []
  if (whole === undefined || !above || !below || above >= below) return undefined
  return whole + above / below
}

/** What the signs in a number may mean. */
interface Signs {
  /** Nothing groups its digits. */
  isCount: boolean
  /** `1.850` is no 1,850: a dot before three digits may begin a group elsewhere. */
  dotBeginsDecimals: boolean
  /** `1,2` is 1.2: fewer than three digits behind a comma may be a group that lost some elsewhere. */
  commaBeginsDecimals: boolean
}

function readDigits(text: string, { isCount, dotBeginsDecimals, commaBeginsDecimals }: Signs): string | undefined {
  if (oneDotGroup.test(text) && !dotBeginsDecimals) return undefined
  if (plain.test(text)) return text
  if (fewCommaDecimals.test(text) && commaBeginsDecimals) return text.replace(',', '.')
  if (isCount) return undefined
  if (groupedByCommas.test(text)) return text.replaceAll(',', '')
  if (groupedBySpaces.test(text)) return text.replace(/[ ']/g, '').replace(',', '.')
  if (groupedByDots.test(text)) return text.replaceAll('.', '').replace(',', '.')
  return commaDecimals.test(text) ? text.replace(',', '.') : undefined
}

/** `350000K` and `1200M` are rather 350,000 and 1,200,000, written twice. */
const scaledMax: Readonly<Record<number, number>> = { 3: 10_000, 6: 1_000 }

/** The number in `text` for `field`, in the unit of the field; undefined if it is doubtful. Never throws. */
export function readNumber(text: string, field: NumberField): number | undefined {
  if (text.length > charsMax) return undefined
  const { before, after, scales, isCount = false } = surroundings[field]
  let rest = normalise(text)
  if (rest === 'studio' && field === 'bedrooms') return 0
  if (before) rest = rest.replace(before, '')
  if (after) rest = rest.replace(after, '')
  const word = scales?.exec(rest)
  if (word) rest = rest.slice(0, word.index)
  const scale = word ? (/^[kt]/.test(word[1] as string) ? 3 : 6) : 0
  if (isCount && rest.includes('/')) return readMixed(rest)
  // a count has no groups, and `1.250 million` is no 1,250 million
  const digits = readDigits(rest, {
    isCount,
    dotBeginsDecimals: isCount || scale === 6,
    commaBeginsDecimals: isCount || scale > 0,
  })
  if (digits === undefined) return undefined
  if (scale === 0) return Number(digits)
  if (digits.includes('e') || Number(digits) >= (scaledMax[scale] as number)) return undefined
  // shifts the point in the text: 1.1 * 1e6 is not 1,100,000
  return Number(`${digits}e${scale}`)
}
