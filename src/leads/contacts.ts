/**
 * Finds contacts, e-mail addresses and phone numbers, anywhere in the contact fields of a listing, in the one form in which they
 * are compared: e-mail in lower case, phone by its digits without a leading 1.
 */
import { contactFields, type Lead } from './lead.ts'

/** The fields that are searched: collected names often have a phone number beside them. */
export type ContactFields = Pick<Lead, 'contactName' | 'contactPhone' | 'contactEmail'>

const digitsMin = 7
/** E.164 */
const digitsMax = 15
/** The digits of a North American number without its leading 1. */
const localDigits = 10

const betweenEmails = /[\s,;|<>()[\]"\\/:]+/
/** Signs that few addresses have, and that often stand around one. */
const aroundEmails = /[^\p{L}\p{M}\p{N}@._%+'-]+/u
const domainOf = /^[\p{L}\p{N}._-]+/u

function findEmailsBetween(text: string, between: RegExp, before: RegExp): string[] {
  return text.split(between).flatMap((token) => {
    const at = token.indexOf('@')
    const local = token.slice(0, Math.max(0, at)).replace(before, '')
    const [domain = ''] = domainOf.exec(token.slice(at + 1)) ?? []
    // only from the beginning of a run: trying each character of a long run takes forever
    const cut = domain.replace(/(?<![._-])[._-]+$/, '')
    return at < 1 || local === '' || cut === '' ? [] : [`${local}@${cut}`.toLowerCase()]
  })
}

const findPlainEmails = (text: string) => findEmailsBetween(text, betweenEmails, /^['.]+/)

/** An address may contain signs that also stand around addresses, such as `&`: it is found with them and without. */
function findEmails(text: string): string[] {
  if (!text.includes('@')) return []
  return [...findPlainEmails(text), ...findEmailsBetween(text, aroundEmails, /^['._%+-]+/)]
}

const digitsOf = (text: string) => text.replace(/\D/g, '')
const withoutOne = (digits: string) => digits.replace(/^1/, '')
/** Digits and the signs between those of one number. A space or a slash among them may also separate two numbers. */
const plainRun = /^[\d /().\u00a0\u2010-\u2015\u2212-]+$/
const plainSigns = ' /().\\u00a0\\u2010-\\u2015\\u2212-'
/** Signs that are rare in a number, and may as well separate it from other text: line ends, tabs, bullets. */
const signs = `\\s\\u200b-\\u200d\\u2060\\u00b7\\u2022\\u2027\\u2043\\u2219\\u22c5\\\\_~${plainSigns}`
const runs = new RegExp(`\\d[\\d${signs}]*`, 'g')
const betweenPlainRuns = new RegExp(`[^\\d${plainSigns}]+`)
/** A North American number with its digits in their usual groups; other digits may stand around it. */
const groupedNumbers = new RegExp(
  `(?<!\\d)[2-9]\\d\\d(?:[${signs}]{1,5}\\d{3}[${signs}]{0,5}|\\d{3})\\d{4}(?!\\d)`,
  'g',
)

/** Cuts a run that is too long for one number into numbers of North American length. */
function cutRun(digits: string): string[] {
  const cut = digits.match(/1\d{10}|\d{10}|\d+/g) ?? []
  return cut.filter(({ length }) => length >= digitsMin)
}

function findPhonesInRun(run: string): string[] {
  const digits = digitsOf(run)
  if (digits.length < digitsMin) return []
  if (withoutOne(digits).length === localDigits) return [withoutOne(digits)]
  const pieces = run.split(/[\s/]+/).map(digitsOf)
  const found = pieces.filter(isNumberLong)
  const grouped = (run.match(groupedNumbers) ?? []).map(digitsOf)
  return [...(digits.length <= digitsMax ? [digits] : cutRun(digits)), ...found, ...grouped].map(withoutOne)
}

function findPhones(text: string): string[] {
  return (text.match(runs) ?? []).flatMap((run) => {
    const plain = plainRun.test(run) ? [] : run.split(betweenPlainRuns)
    return [run, ...plain].flatMap(findPhonesInRun)
  })
}

/** The contacts in a text of a listing. One that may be read in two ways is found in both. */
export function findContacts(text: string): string[] {
  return [...new Set([...findEmails(text), ...findPhones(text)])]
}

const isNumberLong = ({ length }: string) => length >= digitsMin && length <= digitsMax

/** The contacts in all contact fields, each once. All digits of the phone number are one too, with anything between them. */
export function findContactsOf({ contactName, contactPhone, contactEmail }: ContactFields): string[] {
  const found = [contactName, contactPhone, contactEmail].flatMap((text) => (text ? findContacts(text) : []))
  const whole = digitsOf(contactPhone ?? '')
  return [...new Set(isNumberLong(whole) ? [...found, withoutOne(whole)] : found)]
}

/** The contact in `text`, if it is an e-mail address or a phone number with or without an extension; undefined for any other text. */
export function parseContact(text: string): string | undefined {
  const given = text.trim().replace(/^(?:mailto|tel):/i, '')
  if (given.includes('@')) {
    const [email, ...others] = findPlainEmails(given)
    return others.length === 0 && email === given.toLowerCase() ? email : undefined
  }
  const number = given.replace(/\s*(?:ext(?:ension)?|x|#)\.?\s*\d{1,6}$/i, '').replace(/^\+/, '')
  const digits = digitsOf(number)
  return plainRun.test(number) && isNumberLong(digits) ? withoutOne(digits) : undefined
}

/** The columns with the contacts, in `lead_versions` and in the tables of an import, in the order of `contactFields`. */
export const contactColumns = ['contact_name', 'contact_phone', 'contact_email'] as const

/** A row with these columns. */
export type ContactRow = Record<(typeof contactColumns)[number], string | null>

export const contactsOf = (row: ContactRow): ContactFields => ({
  contactName: row.contact_name,
  contactPhone: row.contact_phone,
  contactEmail: row.contact_email,
})

const columnsOf = (table: string) => contactColumns.map((name) => `${table}.${name}`).join(', ')

/** SQL: whether a row of `table` has a contact. */
export const hasContact = (table: string) => `num_nonnulls(${columnsOf(table)}) > 0`

/** SQL: the contacts of a row of `table`, a line each. */
export const contactText = (table: string) => `concat_ws(e'\n', ${columnsOf(table)})`

/** SQL: the contact columns of `table`, null where they have more than `bytesMax` together, and whether they have no more (`small`). */
export const boundedContacts = (table: string, bytesMax: number) => {
  const isSmall = `octet_length(${contactText(table)}) <= ${bytesMax}`
  return `${isSmall} as small, ${contactColumns.map((name) => `case when ${isSmall} then ${table}.${name} end as ${name}`).join(', ')}`
}

/** SQL: a lead's JSON with null for its contacts, and otherwise as it was, byte for byte. */
export const withoutContacts = (json: string) =>
  `(select '{' || string_agg(to_json(f.key)::text || ':' || case when f.key in (${contactFields.map((name) => `'${name}'`).join(', ')})
      then 'null' else f.value::text end, ',' order by f.at) || '}'
    from json_each(${json}::json) with ordinality f (key, value, at))`
