/**
 * Takes keys, e-mail addresses and phone numbers out of a text of the receiver, or of a hook (contract 4.16). The text may have them
 * encoded, so it is decoded first.
 */
import { decodeOnce, decodeRoundsMax } from './decode-once.ts'

/** Replaces the parts that were taken out. */
export const removed = '…'

const emailPartCharsMax = 254

/** Full-width letters become plain ones; invisible characters go, since they may split a key or an address. */
const flatten = (text: string) =>
  text
    .replace(/\p{Cf}/gu, '')
    .replace(/[\uff01-\uff5e]/g, (wide) => String.fromCharCode(wide.charCodeAt(0) - 0xfee0))
    .replaceAll('\ufe6b', '@')

/** The text after each round of decoding; the last form is fully decoded. */
function decode(text: string): string[] {
  const forms = [flatten(text)]
  for (let round = 0; round < decodeRoundsMax; round++) {
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
  for (let round = 0; round <= decodeRoundsMax; round++) {
    const next = withoutKeys(flatten(decodeOnce(withoutKeys(flatten(decoded)))))
    if (next === decoded) break
    decoded = next
  }
  return withoutKeys(decoded.replace(email, removed).replace(phone, removed)).replace(/…(?:\s?…)+/g, removed)
}
