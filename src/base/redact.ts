/**
 * Takes keys, e-mail addresses and phone numbers out of a text of the receiver, or of a hook (contract 4.16). The text may have them
 * encoded, so it is decoded first.
 */

/** Replaces the parts that were taken out. */
export const removed = '…'

/** Texts are decoded so often at most: a JSON text within a JSON text within HTML. */
const roundsMax = 4
const emailPartCharsMax = 254

const entities: Readonly<Record<string, string>> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', commat: '@', period: '.', plus: '+', hyphen: '-', dash: '-',
  lpar: '(', rpar: ')', sol: '/', lowbar: '_', num: '#', equals: '=', colon: ':', comma: ',', percnt: '%', dollar: '$',
} // biome-ignore format: a table

const fromCode = (code: number, otherwise: string) =>
  code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : otherwise

/** Entities of HTML, escapes of JSON and of URLs, each once. */
function decodeOnce(text: string): string {
  return text
    .replace(/&#x([0-9a-f]{1,6});?/gi, (all, hex: string) => fromCode(Number.parseInt(hex, 16), all))
    .replace(/&#([0-9]{1,7});?/g, (all, digits: string) => fromCode(Number(digits), all))
    .replace(/&([a-z]{2,8});?/gi, (all, name: string) => entities[name.toLowerCase()] ?? all)
    .replace(/\\(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|x([0-9a-f]{2})|(["\\/@.+-]))/gi, decodeBackslash)
    .replace(/(?:%[0-9a-f]{2})+/gi, decodePercent)
}

function decodeBackslash(all: string, four?: string, braced?: string, two?: string, itself?: string): string {
  const hex = four ?? braced ?? two
  return hex === undefined ? (itself ?? all) : fromCode(Number.parseInt(hex, 16), all)
}

function decodePercent(escapes: string): string {
  try {
    return decodeURIComponent(escapes)
  } catch {
    return escapes
  }
}

/** Full-width letters become plain ones; invisible characters go, since they may split a key or an address. */
const flatten = (text: string) =>
  text
    .replace(/\p{Cf}/gu, '')
    .replace(/[\uff01-\uff5e]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .replaceAll('\ufe6b', '@')

/** The text after each round of decoding; the last form is fully decoded. */
function decode(text: string): string[] {
  const forms = [flatten(text)]
  for (let round = 0; round < roundsMax; round++) {
    const last = forms.at(-1) as string
    const next = flatten(decodeOnce(last))
    if (next === last) break
    forms.push(next)
  }
  return forms
}

const escapeRegExp = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

const localPart = `(?:"[^"@]{0,${emailPartCharsMax}}"|[^\\s@<>()\\[\\],;:"]{1,${emailPartCharsMax}})`
/** `@`, or the word in brackets, as people write it against collectors. */
const at = '(?:@|[(\\[{<]\\s{0,3}at\\s{0,3}[)\\]}>])'
const email = new RegExp(`${localPart}?\\s{0,3}${at}\\s{0,3}[\\p{L}\\p{N}._…-]{0,${emailPartCharsMax}}`, 'giu')
/** Seven digits or more, with the signs that people write between them. */
const phone = /[+(]{0,2}\p{Nd}(?:[^\p{L}\p{N},;:]{0,6}\p{Nd}){6,}/gu

/** A shorter text may be a word. */
const encodedCharsMin = 8

/** `secret` as hexadecimal digits, and as base64 has it within a longer text: it may begin there at each of three bytes. */
function encode(secret: string): string[] {
  const bytes = Buffer.from(secret)
  const base64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64url')
    // without the characters that depend on the neighbours
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
  })
  return [bytes.toString('hex'), ...base64].filter(({ length }) => length >= encodedCharsMin)
}

/** A pattern for an encoded secret: in base64 of either alphabet, with the characters beside it, which have bits of it. */
const encodedPattern = (text: string) => {
  const middle = [...text].map((each) => (each === '-' ? '[+-]' : each === '_' ? '[/_]' : each)).join('\\s*')
  return `[\\w+/-]{0,2}${middle}[\\w+/-]?={0,2}`
}

/** `secrets`: parts of the request that the receiver may repeat, such as the user's key; removed in upper and lower case. */
export function redact(text: string, secrets: readonly string[]): string {
  const forms = secrets.filter((secret) => secret !== '').flatMap((secret) => [secret, ...decode(secret)])
  // the longest first: one may be part of another
  const distinct = [...new Set(forms)].sort((a, b) => b.length - a.length)
  // a page may break a key over lines
  const spaced = distinct.map((secret) => [...secret].map(escapeRegExp).join('\\s*'))
  const encoded = [...new Set(distinct.flatMap(encode))].map(encodedPattern)
  const keys = distinct.length > 0 ? new RegExp([...spaced, ...encoded].join('|'), 'gi') : undefined
  const withoutKeys = (value: string) => (keys ? value.replace(keys, removed) : value)
  let decoded = withoutKeys(text)
  for (let round = 0; round <= roundsMax; round++) {
    const next = withoutKeys(flatten(decodeOnce(withoutKeys(flatten(decoded)))))
    if (next === decoded) break
    decoded = next
  }
  return withoutKeys(decoded.replace(email, removed).replace(phone, removed)).replace(/…(?:\s?…)+/g, removed)
}
