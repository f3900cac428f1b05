/**
 * Folds names of places to one spelling: without case, accents, spaces and punctuation, and with common short forms written
 * out.
 */

const longForms: ReadonlyMap<string, string> = new Map([
  ['st', 'saint'],
  ['ste', 'sainte'],
  ['ft', 'fort'],
  ['mt', 'mount'],
  ['hts', 'heights'],
  ['spgs', 'springs'],
  ['bch', 'beach'],
  ['jct', 'junction'],
  ['twp', 'township'],
])

/** Only at the beginning, before a word: `N Las Vegas`, not `N.Y.`. */
const directions: ReadonlyMap<string, string> = new Map([
  ['n', 'north'],
  ['s', 'south'],
  ['e', 'east'],
  ['w', 'west'],
])

/** The text in lower case, without accents and other marks. */
function foldText(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase()
}

const plain = /^[A-Za-z ]*$/
const shortForm = /^ ?[nsew] |(?:^| )(?:ste?|[fm]t|hts|spgs|bch|jct|twp)(?: |$)/

/** `St. Louis` and `Saint Louis`, `O'Fallon` and `O Fallon`, `Mayagüez` and `Mayaguez` fold to the same text. */
export function foldPlaceName(text: string): string {
  if (plain.test(text)) {
    // a fast path for most of the forty thousand names that are read
    const lower = text.toLowerCase()
    if (!shortForm.test(lower)) return lower.replaceAll(' ', '')
  }
  const words = foldText(text)
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '')
  const isDirection = (words[1]?.length ?? 0) > 1
  return words
    .map((word, at) => (at === 0 && isDirection && directions.get(word)) || (longForms.get(word) ?? word))
    .join('')
}

/** A name within its state. */
export const nameKey = (state: string, name: string): string => `${state} ${foldPlaceName(name)}`

/** What `Township of Ewing`, `Ewing Twp.` and `The Woodlands` have around their name. */
const kind =
  /^(?:the )?(?:city|town|township|village|borough) of (?=\S)|^the (?=\S)|(?<=\S),? (?:township|twp|borough|boro)\.?$/gi

/** The value of a name within its state: as it is written, else without what stands around it, or with that. */
export function findByName<T>(values: ReadonlyMap<string, T>, state: string, name: string): T | undefined {
  const key = nameKey(state, name)
  const found = values.get(key)
  if (found !== undefined) return found
  const bare = name.trim().replace(kind, '')
  const bareKey = bare === name ? key : nameKey(state, bare)
  return values.get(bareKey) ?? values.get(`${bareKey}township`) ?? values.get(nameKey(state, `the ${bare}`))
}
