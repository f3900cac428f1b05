/**
 * Finds a place at the end of a text (contract 4.9): `Austin, TX`, `Austin, Texas`, a ZIP, each also after other words. A
 * city needs its state: thousands of names exist in several, and house, pool, home and lake are towns.
 */
import { findPlace, type Places, type PostalCode } from './places.ts'
import { postalKey } from './postal-key.ts'
import { findStateCode } from './states.ts'

/** A place at the end of a text. */
export interface ParsedPlace {
  /** The text before the place, as it was written; empty for none. */
  words: string
  /** The postal keys of the place itself. */
  codes: readonly string[]
  /** The codes with their points; undefined for a ZIP that is in no table. */
  entries: readonly PostalCode[] | undefined
}

const wholeZip = /^(?:\d{5}(?:[- ]?\d{4})?|[a-z]\d[a-z](?:[- ]?\d[a-z]\d)?)$/i
const trailingZip = /^(.*\S)[\s,]+(\d{5}(?:-\d{4})?|[a-z]\d[a-z][- ]?\d[a-z]\d)$/i
const trailingCountry = /[\s,]+(?:usa|u\.s\.a\.|u\.s\.|us|united states(?: of america)?|canada)$/i
const cityWordsMax = 8
/** Waters that read like a town and its state. */
const notPlaces = new Set(['lake michigan', 'lake ontario'])

interface StateEnd {
  before: string
  state: string
  /** Whether a comma precedes the state. */
  comma: boolean
  /** Whether the state is given by its name. */
  named: boolean
}

/** Every way to read a state at the end of `text`, the surest first. */
function readStateEnds(text: string): StateEnd[] {
  const ends: StateEnd[] = []
  const comma = /^(.*?)\s*,\s*([^,]+)$/s.exec(text)
  const afterComma = findStateCode(comma?.[2] ?? '')
  if (comma && afterComma) {
    ends.push({ before: comma[1] ?? '', state: afterComma, comma: true, named: (comma[2] ?? '').length > 4 })
  }
  const words = [...text.matchAll(/\S+/g)]
  for (let count = Math.min(4, words.length - 1); count > 0; count -= 1) {
    const at = words[words.length - count]?.index ?? 0
    const before = text.slice(0, at).trimEnd()
    const state = findStateCode(text.slice(at))
    if (state && !before.endsWith(',')) ends.push({ before, state, comma: false, named: text.length - at > 4 })
  }
  return ends
}

/** The longest name at the end of `before` that is a place in `state`; a name does not reach over a comma. */
function readCity(places: Places, before: string, state: string): ParsedPlace | undefined {
  const words = [...before.matchAll(/[^\s,;]+/g)]
  const lastComma = Math.max(before.lastIndexOf(','), before.lastIndexOf(';'))
  for (const { index } of words.slice(-cityWordsMax)) {
    if (index < lastComma) continue
    const entries = findPlace(places, state, before.slice(index))
    if (!entries) continue
    const codes = entries.map(({ code }) => code)
    return { words: before.slice(0, index).replace(/[\s,;]+$/, ''), codes, entries }
  }
  return undefined
}

function parseNamed(places: Places, text: string): (ParsedPlace & { state: string }) | undefined {
  if (notPlaces.has(text.toLowerCase())) return undefined
  for (const { before, state, comma, named } of readStateEnds(text)) {
    const found = readCity(places, before, state)
    if (!found) continue
    // without a comma, the place must be the whole text or its state an upper case code: `pool Austin TX`
    const upperCase = /[A-Z]\.?[A-Z]\.?$/.test(text) && !named
    if (comma || found.words === '' || upperCase) return { ...found, state }
  }
  return undefined
}

function parseZipEnd(places: Places, text: string): ParsedPlace | undefined {
  const [, before = '', zip = ''] = trailingZip.exec(text) ?? []
  const entry = places.find(postalKey(zip) ?? '')
  if (!entry) return undefined
  const found = { codes: [entry.code], entries: [entry] }
  // `Austin, TX 78704` is the ZIP; so is `TX 78704`
  const named = parseNamed(places, before)
  if (named?.state === entry.state) return { ...found, words: named.words }
  const stateAlone = findStateCode(before) === entry.state
  return { ...found, words: stateAlone ? '' : before.replace(/[\s,;]+$/, '') }
}

const code = String.raw`(?:\d{5}(?:-\d{4}(?!\d))?|[a-z]\d[a-z](?: ?\d[a-z]\d)?)`
const between = String.raw`(?:\s*[,;/|&+–—-]\s*(?:and|or)?\s*|\s+(?:and\s+|or\s+|to\s+)?)`
const codesAtEnd = new RegExp(`(?:^|[\\s,;(])(${code}(?:${between}${code})+)$`, 'i')
const shortCodes = /^\d{3,5}(?:\s*[,;/|&+]\s*\d{3,5})+$/
const endOfOne = /(?:[\s,;/|&+]+|\s(?:and|or))+$/i
/** The state of a place that other words follow must be sure to be one: after a comma, or in upper case. */
const surelyState = /,\s*[^,]+$|[A-Z]\.?[A-Z]\.?$/

/**
 * What a value holds several of (contract 4.18): postal codes, or places with their states; undefined for one or none. Codes among words
 * count if they are in the table: other numbers have five digits too.
 */
export function several(places: Places, value: string): 'postal codes' | 'places' | undefined {
  const plain = toPlain(value)
  if (wholeZip.test(plain)) return undefined
  if (shortCodes.test(plain)) return 'postal codes'
  const [, codes = ''] = codesAtEnd.exec(plain) ?? []
  const keys = (codes.match(new RegExp(code, 'gi')) ?? []).map((found) => postalKey(found) ?? '')
  const isAll = codes === plain
  if (keys.length > 1 && (isAll || keys.every((key) => places.has(key)))) return 'postal codes'
  const last = parsePlace(places, value)
  const before = last?.words.replace(endOfOne, '') ?? ''
  const other = surelyState.test(before) || wholeZip.test(before) ? parsePlace(places, before) : undefined
  // `78704 Austin, TX` is one
  return other && !other.codes.some((found) => last?.codes.includes(found)) ? 'places' : undefined
}

/** Whether a text that names no known place reads like one: it ends with a state after a comma, or with its code after a few words. */
export function looksLikePlace(text: string): boolean {
  const plain = toPlain(text).replace(trailingCountry, '')
  return readStateEnds(plain).some(({ before, comma, named }) => {
    const words = before.split(' ').length
    return before !== '' && (comma || (!named && words <= 4 && /[A-Z]\.?[A-Z]\.?$/.test(plain)))
  })
}

const toPlain = (text: string) =>
  text
    .normalize('NFKC')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[\s,;]+$/, '')

/** The place at the end of `text`; undefined if the text ends with no place, so that the whole text is words. */
export function parsePlace(places: Places, text: string): ParsedPlace | undefined {
  const plain = toPlain(text)
  const key = wholeZip.test(plain) ? postalKey(plain) : undefined
  const entry = places.find(key ?? '')
  if (key && (entry || /^\d{5}/.test(plain))) return { words: '', codes: [key], entries: entry && [entry] }
  const domestic = plain.replace(trailingCountry, '')
  for (const candidate of new Set([plain, domestic])) {
    const found = parseZipEnd(places, candidate) ?? parseNamed(places, candidate)
    if (found) return found
  }
  return undefined
}
