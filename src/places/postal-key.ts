/**
 * The key by which postal codes are compared, of a listing and of a query alike (contract 4.9). What is delivered stays as it
 * was imported; only matching looks at the key.
 */

const zip = /^\d{5}(?:\d{4})?$/
const zipWithoutZeros = /^\d{3,4}$/
/** The first letters that Canada uses, and the whole code or its first three characters. */
const canadian = /^[ABCEGHJ-NPRSTVXY]\d[A-Z](?:\d[A-Z]\d)?$/
const keyCharsMax = 100

/** `text` without spaces and hyphens (of any alphabet's kind) and in upper case. */
function compact(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/[\s\p{Pd}\p{Cc}\p{Cf}\u2212]+/gu, '')
    .toUpperCase()
}

/**
 * 5 digits for a ZIP (with or without +4, or without the zeros it began with), 3 characters for a Canadian code, any other
 * code compacted, 100 characters at most; undefined where nothing is left.
 */
export function postalKey(text: string): string | undefined {
  const code = compact(text)
  if (zip.test(code)) return code.slice(0, 5)
  if (zipWithoutZeros.test(code)) return code.padStart(5, '0')
  if (canadian.test(code)) return code.slice(0, 3)
  return [...code.slice(0, 2 * keyCharsMax)].slice(0, keyCharsMax).join('') || undefined
}
