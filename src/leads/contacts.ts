/**
 * What a contact is: an e-mail address or a phone number, wherever one stands in the contact fields of a listing, in the one
 * form in which two of them are compared: e-mail in lower case, phone by its digits without a leading 1.
 */
import type { Lead } from './lead.ts'

/** The fields that are looked at: names with a number beside them are common in what is collected. */
export type ContactFields = Pick<Lead, 'contactName' | 'contactPhone' | 'contactEmail'>

const digitsMin = 7
/** E.164 */
const digitsMax = 15
/** Of a number of North America. */
const localDigits = 10

const betweenEmails = /[\s,;|<>()[\]"\\/:]+/
const domainOf = /^[\p{L}\p{N}._-]+/u

function findEmails(text: string): string[] {
  if (!text.includes('@')) return []
  return text.split(betweenEmails).flatMap((token) => {
    const at = token.indexOf('@')
    const local = token.slice(0, Math.max(0, at)).replace(/^['.]+/, '')
    const [domain = ''] = domainOf.exec(token.slice(at + 1)) ?? []
    // from where such a run begins alone: to try each place in it takes forever with a long one
    const cut = domain.replace(/(?<![._-])[._-]+$/, '')
    return at < 1 || local === '' || cut === '' ? [] : [`${local}@${cut}`.toLowerCase()]
  })
}

const digitsOf = (text: string) => text.replace(/\D/g, '')
const withoutOne = (digits: string) => digits.replace(/^1/, '')
/** Digits with what may stand between those of one number: also a space or a slash, which may as well part two. */
const runs = /\d[\d /().\u00a0\u2010-\u2015\u2212-]*/g

/** Of a run that is too long for one number: in the lengths of North America. */
function cutRun(digits: string): string[] {
  const cut = digits.match(/1\d{10}|\d{10}|\d+/g) ?? []
  return cut.filter(({ length }) => length >= digitsMin)
}

function findPhones(text: string): string[] {
  return (text.match(runs) ?? []).flatMap((run) => {
    const digits = digitsOf(run)
    if (digits.length < digitsMin) return []
    if (withoutOne(digits).length === localDigits) return [withoutOne(digits)]
    const pieces = run.split(/[ /\u00a0]+/).map(digitsOf)
    const found = pieces.filter(({ length }) => length >= digitsMin && length <= digitsMax)
    return [...(digits.length <= digitsMax ? [digits] : cutRun(digits)), ...found].map(withoutOne)
  })
}

/** The contacts in a text of a listing. One that may be read in two ways is found in both. */
export function findContacts(text: string): string[] {
  return [...new Set([...findEmails(text), ...findPhones(text)])]
}

export function findContactsOf({ contactName, contactPhone, contactEmail }: ContactFields): string[] {
  return [...new Set([contactName, contactPhone, contactEmail].flatMap((text) => (text ? findContacts(text) : [])))]
}

/** What `text` says if it is one e-mail address or one phone number, with or without an extension; undefined otherwise. */
export function parseContact(text: string): string | undefined {
  const given = text.trim().replace(/^(?:mailto|tel):/i, '')
  if (given.includes('@')) {
    const [email, ...others] = findEmails(given)
    return others.length === 0 && email === given.toLowerCase() ? email : undefined
  }
  const number = given.replace(/\s*(?:ext(?:ension)?|x|#)\.?\s*\d{1,6}$/i, '').replace(/^\+/, '')
  const digits = digitsOf(number)
  const isNumber = /^[\d /().\u00a0\u2010-\u2015\u2212-]+$/.test(number)
  return isNumber && digits.length >= digitsMin && digits.length <= digitsMax ? withoutOne(digits) : undefined
}

/**
 * SQL: the contact fields within a lead's JSON, as `readContactFields` takes them. They stand together, as `leadFields` has
 * them; to parse a million texts for them would take minutes.
 */
export const contactFieldsOf = (json: string) =>
  `split_part(split_part(${json}, ',"contactName":', 2), ',"address":', 1)`

/** SQL: what `contactFieldsOf` makes of a lead without a contact begins so. */
export const noContact = `'null,"contactPhone":null,"contactEmail":null%'`

export function readContactFields(json: string): ContactFields {
  return JSON.parse(`{"contactName":${json}}`)
}
