/**
 * The key by which postal codes of listings and queries are compared (contract 4.9). Only matching uses it: deliveries keep
 * the imported code.
 */
import type { FsboLead } from '../index.ts'
import { isAbroad } from './abroad.ts'

const zip = /^\d{5}(?:\d{4})?$/
const zipWithoutZeros = /^\d{3,4}$/
/** A Canadian code, whole or only its first three characters; these are the letters that Canada uses first. */
const canadian = /^[ABCEGHJ-NPRSTVXY]\d[A-Z](?:\d[A-Z]\d)?$/
const keyCharsMax = 100

/** The text without spaces and hyphens (of any kind), in upper case. */
function compact(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/[\s\p{Pd}\p{Cc}\p{Cf}\u2212]+/gu, '')
    .toUpperCase()
}

/**
 * The key of a postal code: 5 digits for a ZIP (also one with +4, or without its leading zeros), 3 characters for a Canadian
 * code, else the compacted code, at most 100 characters; undefined where nothing is left.
 */
export function postalKey(text: string): string | undefined {
  const code = compact(text)
  if (zip.test(code)) return code.slice(0, 5)
  if (zipWithoutZeros.test(code)) return code.padStart(5, '0')
  if (canadian.test(code)) return code.slice(0, 3)
  return [...code.slice(0, 2 * keyCharsMax)].slice(0, keyCharsMax).join('') || undefined
}

const isOurs = (key: string) => zip.test(key) || (key.length === 3 && canadian.test(key))

/** The key of a code abroad that looks like one of the United States or Canada: a query for a code in no table means it too. */
export const keyAbroad = (key: string): string => (isOurs(key) ? `${key}*` : key)

export interface PostalCodeFields extends Pick<FsboLead, 'postalCode'>, Partial<Pick<FsboLead, 'state' | 'country'>> {}

/** The key of a listing's postal code. */
export function postalKeyOf({ postalCode, country, state }: PostalCodeFields): string | undefined {
  const key = postalKey(postalCode)
  return key !== undefined && isAbroad(country, state) ? keyAbroad(key) : key
}

/** Whether a text is a postal code and nothing else: a ZIP, also one with +4 or without its leading zeros, or a Canadian code. */
export const isPostalCode = (text: string): boolean =>
  [zip, zipWithoutZeros, canadian].some((pattern) => pattern.test(compact(text)))
