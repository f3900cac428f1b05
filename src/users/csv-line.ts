/**
 * Parses a line of a users file that is CSV (contract 4.18): one user with at most one query. `gather-lines.ts` makes one user
 * of the lines with one e-mail. No message holds a receiver key.
 */
import { LeadpushError } from '../base/errors.ts'
import { findTwice, refuseOtherHeader, renameOne } from '../records/columns.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import { looksLikeRecord, noHeader } from '../records/looks-like-record.ts'
import { type CsvHeader, findDoubtful } from '../records/record.ts'
import { emailSchema, type ParsedUser, parseUser } from './user.ts'

const columns = ['email', 'receiverApiKey', 'subscribed', 'type', 'value', 'radius'] as const
type Column = (typeof columns)[number]

const yes = new Set(['true', 't', 'yes', 'y', '1', 'on'])
const no = new Set(['false', 'f', 'no', 'n', '0', 'off'])

/** Undefined for a text that says neither. */
export function parseYesOrNo(text: string): boolean | undefined {
  const lower = text.toLowerCase()
  return yes.has(lower) ? true : no.has(lower) ? false : undefined
}

/** A radius as people write it: `25`, `2.5`, `25 mi`, `25 miles`; NaN for anything else. */
function parseRadius(text: string): number {
  const [, digits] = /^(\d{1,9}(?:\.\d*)?|\.\d+)\s*(?:mi|miles?)?$/i.exec(text) ?? []
  return digits === undefined ? Number.NaN : Number(digits)
}

/** A table that took postal codes for numbers writes `84321.0`. */
const trimDecimals = (code: string) => code.replace(/^(\d{3,5})\.0+$/, '$1')

/** The e-mail of a line, where it can be read, however bad the rest is. */
export type ParsedLine = ParsedUser & { email?: string | undefined }

/** Parses the lines of one file. Unknown columns are counted in `ignored`. */
export class LineParser {
  private readonly ignored: IgnoredFields
  private header: CsvHeader | undefined
  private fields: (Column | undefined)[] = []

  constructor(ignored: IgnoredFields) {
    this.ignored = ignored
  }

  /** Finds the columns, whatever their case. Throws `failed` where `email` is in none, or a column stands twice. */
  setHeader(header: CsvHeader): void {
    if (this.header === header) return
    this.header = header
    const keys = header.names.map((name) => name.trim().toLowerCase())
    this.fields = keys.map((key) => columns.find((column) => column.toLowerCase() === key))
    if (!this.fields.includes('email')) throw this.withoutEmail(header.names)
    const twice = findTwice(header.names)
    if (twice !== undefined) throw new LeadpushError('failed', twice, { hint: renameOne })
  }

  /** Shows names only where one of them is a column's beyond doubt: the others may be a user's receiver key. */
  private withoutEmail(names: readonly string[]): LeadpushError {
    if (looksLikeRecord(names)) {
      return new LeadpushError('failed', noHeader, { hint: `Put a header above it: ${columns.join(',')}` })
    }
    const isHeader = this.fields.some((field) => field !== undefined) || names.some((name) => /mail/i.test(name))
    const shown = isHeader ? `: it has ${names.slice(0, 20).join(', ')}` : ''
    return new LeadpushError(
      'failed',
      `its header has no column email${shown}; users have the columns ${columns.join(', ')}`,
    )
  }

  /** The e-mail of a line that cannot be read, so that it rejects the other lines of its user. */
  findEmail(cells: readonly string[]): string | undefined {
    const place = { at: this.fields.indexOf('email'), columns: this.fields.length }
    return findDoubtful(cells, place, (cell) => emailSchema.safeParse(cell).data)
  }

  /** `line` is where they stand. Throws `failed` where they are another header. */
  parse(cells: readonly string[], line = 0): ParsedLine {
    const given: Partial<Record<Column, string>> = {}
    for (const [at, cell] of cells.entries()) {
      const field = this.fields[at]
      if (field === undefined) this.ignored.addCell(this.header?.names[at] ?? '', cell)
      else if (cell.trim() !== '') given[field] = cell.trim()
    }
    const email = emailSchema.safeParse(given.email).data
    if (email === undefined) refuseOtherHeader(this.header?.names ?? [], cells, 'email', line)
    const parsed = parseUser(toRecord(given), this.ignored)
    if ('user' in parsed) return { ...parsed, email }
    const path = parsed.path.replace(/^queries\[0\]\.?/, '')
    const text = isShown(path, given) ? given[path as Column] : undefined
    return { path, message: text === undefined ? parsed.message : `${parsed.message}: ${show(text)}`, email }
  }
}

/** Whether no receiver key can be in the cell of a column, also where columns were swapped or cells run together. */
function isShown(path: string, { email = '', receiverApiKey = '' }: Partial<Record<Column, string>>): boolean {
  if (path === 'email') return /^[^\s,;|]*@[^\s,;|]*$/.test(email)
  const isOther = parseYesOrNo(receiverApiKey) !== undefined || /@|^(zipcode|text|[\d.]+)$/i.test(receiverApiKey)
  return path !== 'receiverApiKey' && !isOther
}

const shownCharsMax = 60
const show = (text: string) =>
  JSON.stringify(text.length > shownCharsMax ? `${text.slice(0, shownCharsMax)}…`.toWellFormed() : text)

/** A line as a record of JSON: what cannot be read stays a text, which no schema takes. */
function toRecord({ email, receiverApiKey, subscribed, type, value, radius }: Partial<Record<Column, string>>): object {
  const isZip = type?.toLowerCase() === 'zipcode'
  const miles = radius === undefined ? undefined : parseRadius(radius)
  const query = {
    type: type?.toLowerCase(),
    value: isZip && value !== undefined ? trimDecimals(value) : value,
    radius: Number.isNaN(miles) ? radius : miles,
  }
  const hasQuery = (type ?? value ?? radius) !== undefined
  return {
    email,
    receiverApiKey,
    subscribed: subscribed === undefined ? undefined : (parseYesOrNo(subscribed) ?? subscribed),
    ...(hasQuery && { queries: [query] }),
  }
}
