/**
 * Finds contacts, e-mail addresses and phone numbers, anywhere in the contact fields of a listing, in the one form in which they
 * are compared: e-mail in lower case, phone by its digits without a prefix for calls abroad and a leading 1.
 */
import { contactFields, type Lead } from './lead.ts'
import { normalText } from './normal-text.ts'

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

/** The text is normal; one with several `@` in a row has an address around each. */
function findEmailsBetween(text: string, between: RegExp, before: RegExp): string[] {
  return text.split(between).flatMap((token) => {
    // nobody has so many addresses
    const parts = token.split('@', 1_000)
    return parts.slice(1).flatMap((after, at) => {
      const local = (parts[at] as string).replace(before, '')
      const [domain = ''] = domainOf.exec(after) ?? []
      // only from the beginning of a run: trying each character of a long run takes forever
      const cut = domain.replace(/(?<![._-])[._-]+$/, '')
      return local === '' || cut === '' ? [] : [`${local}@${cut}`]
    })
  })
}

const findPlainEmails = (text: string) => findEmailsBetween(text, betweenEmails, /^['.]+/)

/** An address may contain signs that also stand around addresses, such as `&`: it is found with them and without. */
function findEmails(text: string): string[] {
  if (!text.includes('@')) return []
  return [...findPlainEmails(text), ...findEmailsBetween(text, aroundEmails, /^['._%+-]+/)]
}

const digitsOf = (text: string) => text.replace(/\D/g, '')
/** Without what is dialled for a call abroad, and the 1 of North America. */
const numberOf = (digits: string) => digits.replace(/^(?:011|00)(?=\d{7})/, '').replace(/^1/, '')
/** Digits and the signs between those of one number. A space or a slash among them may also separate two numbers. */
const plainRun = /^[\d /().\p{Pd}\u2212-]+$/u
const betweenPlainRuns = /[^\d /().\p{Pd}\u2212-]+/u
/** Of a longer row of signs, or a comma with a blank, nobody reads the digits around it as one number. */
const gap = '(?:[,;|]|[^\\p{L}\\p{N},;|]{0,5})'
const runs = new RegExp(`\\d(?:${gap}\\d)*`, 'gu')
/** A North American number with its digits in their usual groups; other digits may stand around it. */
const groupedNumbers = new RegExp(`(?<!\\d)[2-9]\\d\\d(?:(?!\\d)${gap}\\d{3}${gap}|\\d{3})\\d{4}(?!\\d)`, 'gu')

/** Cuts a run that is too long for one number into numbers of North American length. */
function cutRun(digits: string): string[] {
  const cut = digits.match(/1\d{10}|\d{10}|\d+/g) ?? []
  return cut.filter(({ length }) => length >= digitsMin)
}

function findPhonesInRun(run: string): string[] {
  const digits = digitsOf(run)
  if (digits.length < digitsMin) return []
  const number = numberOf(digits)
  if (number.length === localDigits) return [number]
  const pieces = run.split(/[\s/]+/).map(digitsOf)
  const found = pieces.filter(isNumberLong)
  const grouped = (run.match(groupedNumbers) ?? []).map(digitsOf)
  return [...(isNumberLong(digits) ? [digits] : cutRun(digits)), ...found, ...grouped].map(numberOf)
}

function findPhones(text: string): string[] {
  return (text.match(runs) ?? []).flatMap((run) => {
    const plain = plainRun.test(run) ? [] : run.split(betweenPlainRuns)
    return [run, ...plain].flatMap(findPhonesInRun)
  })
}

/** The contacts in a text of a listing. One that may be read in two ways is found in both. */
export function findContacts(text: string): string[] {
  const normal = normalText(text)
  return [...new Set([...findEmails(normal), ...findPhones(normal)])]
}

function isNumberLong(digits: string): boolean {
  return digits.length >= digitsMin && digits.replace(/^(?:011|00)/, '').length <= digitsMax
}

/** The contacts in all contact fields, each once. All digits of the phone number are one too, with anything between them. */
export function findContactsOf({ contactName, contactPhone, contactEmail }: ContactFields): string[] {
  const found = [contactName, contactPhone, contactEmail].flatMap((text) => (text ? findContacts(text) : []))
  const whole = digitsOf(normalText(contactPhone ?? ''))
  return [...new Set(isNumberLong(whole) ? [...found, numberOf(whole)] : found)]
}

const wrapped = /^(?:[^<>@]*<([^<>]*)>|"([^"]*)"|'([^']*)'|“([^“”]*)”)$/
const extension = /\s*(?:ext(?:ension)?|x|#)\.?\s*\d{1,6}$/

/** The contact in `text`, if it is an e-mail address or a phone number with or without an extension; undefined for any other text. */
export function parseContact(text: string): string | undefined {
  const normal = normalText(text).trim()
  const inside =
    wrapped
      .exec(normal)
      ?.slice(1)
      .find((found) => found !== undefined) ?? normal
  const given = inside.trim().replace(/^(?:mailto|tel|sms|callto):\s*/, '')
  if (given.includes('@')) {
    const address = given.replace(/\?.*$/s, '').replace(/\.$/, '')
    const [email, ...others] = findPlainEmails(address)
    return others.length === 0 && email === address ? email : undefined
  }
  const number = given.replace(extension, '').replace(/^\+/, '')
  const digits = digitsOf(number)
  if (!isNumberLong(digits)) return undefined
  const isOne = plainRun.test(number) || (!/\p{L}/u.test(number) && numberOf(digits).length === localDigits)
  return isOne ? numberOf(digits) : undefined
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
