/**
 * Normalises text, alike for queries and listings, into plain words: PostgreSQL's `english` parser then finds no hosts, paths,
 * signs or compounds in it (contract 4.9).
 */
import { searchedDescriptionCharsMax } from '../base/limits.ts'
import { findStateCode, findStateName } from '../places/states.ts'

/** No query value is longer, so nothing could find a longer word. PostgreSQL takes 2,046 bytes. */
const wordCharsMax = 500
/** A tsvector holds less than 1 MiB; that of a text this long stays below, in every script. */
const listingCharsMax = 200_000
const fieldCharsMax = 10_000

/** The words of PostgreSQL's `english.stop`, and the halves into which apostrophes fall here. */
const stopWords: ReadonlySet<string> = new Set(
  `i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its
  itself they them their theirs themselves what which who whom this that these those am is are was were be been being have
  has had having do does did doing a an the and but if or because as until while of at by for with about against between
  into through during before after above below to from up down in out on off over under again further then once here there
  when where why how all any both each few more most other some such no nor not only own same so than too very s t can will
  just don should now`.split(/\s+/),
)

const splitBy = (separators: RegExp, text: string) =>
  text.split(separators).filter((word) => word !== '' && word.length <= wordCharsMax)

function normalise(text: string): string[] {
  // ASCII, as most text is, has no marks
  if (!/[^\0-\x7f]/.test(text)) return splitBy(/[^a-z0-9]+/, text.toLowerCase())
  const withoutMarks = (marked: string) => marked.normalize('NFKD').replace(/\p{M}+/gu, '')
  // lower case may add marks (İ); composing again keeps Korean as short as it was
  const plain = withoutMarks(withoutMarks(text).toLowerCase()).normalize('NFC')
  return splitBy(/[^\p{L}\p{N}]+/u, plain)
}

/** The words of `text` as they are searched, with a space between; empty where it has none. */
export function searchWords(text: string): string {
  return normalise(text).join(' ')
}

/** The words that a query asks for: without stop words and repeats, sorted, so that queries of one meaning are equal. */
export function queryWords(text: string): string {
  return [...new Set(normalise(text))]
    .filter((word) => !stopWords.has(word))
    .sort()
    .join(' ')
}

/** The fields of a lead in which words are searched. */
export interface SearchedFields {
  address: string | null
  secondAddress: string | null
  fullAddress?: string | null | undefined
  city: string | null
  state: string | null
  propertyType: string | null
  description: string | null
}

/** The first `charsMax` characters, without splitting a surrogate pair. */
function firstCharacters(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  let units = 0
  for (let chars = 0; chars < charsMax && units < text.length; chars += 1) {
    units += (text.codePointAt(units) ?? 0) > 0xffff ? 2 : 1
  }
  return text.slice(0, units)
}

/** The text of a lead in which words are searched; its state is there as a code and by name. */
function searchedText(lead: SearchedFields): string {
  const code = findStateCode(lead.state ?? '')
  const state = code ? `${lead.state} ${code} ${findStateName(code)}` : lead.state
  const fields = [lead.address, lead.secondAddress, lead.fullAddress, lead.city, state, lead.propertyType]
  const short = fields.map((field) => firstCharacters(field ?? '', fieldCharsMax))
  const description = firstCharacters(lead.description ?? '', searchedDescriptionCharsMax)
  return [...short, description].join(' ')
}

function listingWordsIn(text: string): string {
  const words = searchWords(text)
  if (words.length <= listingCharsMax) return words
  return words.slice(0, words.lastIndexOf(' ', listingCharsMax))
}

/** The searched words of a lead, normalised for `to_tsvector`. */
export const listingWords = (lead: SearchedFields): string => listingWordsIn(searchedText(lead))

/** The same of a lead that has changed; undefined where it had the same words. Most changes are of a price, and leave the text alone. */
export function changedWords(lead: SearchedFields, before: SearchedFields): string | undefined {
  const [text, earlier] = [searchedText(lead), searchedText(before)]
  if (text === earlier) return undefined
  const words = listingWordsIn(text)
  return words === listingWordsIn(earlier) ? undefined : words
}
