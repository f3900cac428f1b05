/**
 * Parses a line of a users file that is CSV (contract 4.18): one user with at most one query. `gather-lines.ts` makes one user
 * of the lines with one e-mail. No message holds a receiver key.
 */
import { LeadpushError } from '../base/errors.ts'
import { findTwice, foldColumnName, refuseOtherHeader, renameOne } from '../records/columns.ts'
import { refuseLacking } from '../records/field-map.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import { looksLikeRecord, noHeader } from '../records/looks-like-record.ts'
import { type CsvHeader, findShifted } from '../records/record.ts'
import { suggestMap } from '../records/suggest-map.ts'
import { type UserColumn, type UserMap, userColumns, userVocabulary } from './field-map.ts'
import { parseRadius, parseYesOrNo } from './read-text.ts'
import { emailSchema, type ParsedUser, parseUser, typeOf } from './user.ts'

type Given = Partial<Record<UserColumn, string>>

/** A table that took postal codes for numbers writes `84321.0`. */
const trimDecimals = (code: string) => code.replace(/^(\d{3,5})\.0+$/, '$1')

/** Whether one of the names is a column's beyond doubt: otherwise they may be a user's receiver key, and are not shown. */
const isHeader = (names: readonly string[]): boolean =>
  !looksLikeRecord(names) &&
  names.some(
    (name) => /mail/i.test(name) || suggestMap(userVocabulary, new Map([[name, []]])).size > 0 || isColumn(name),
  )

const isColumn = (name: string) => userColumns.some((column) => foldColumnName(column) === foldColumnName(name))

/** What is said of a header without an e-mail. */
export function describeNames(names: readonly string[]): string {
  const shown = isHeader(names) ? `: it has ${names.slice(0, 20).join(', ')}` : ''
  return `its header has no column email${shown}; users have the columns ${userColumns.join(', ')}`
}

/** The e-mail of a line, where it can be read, however bad the rest is. */
export type ParsedLine = ParsedUser & { email?: string | undefined }

/** Parses the lines of one file. Unknown columns are counted in `ignored`. */
export class LineParser {
  private readonly ignored: IgnoredFields
  private readonly map: UserMap
  private header: CsvHeader | undefined
  private fields: (UserColumn | undefined)[] = []

  constructor(ignored: IgnoredFields, map: UserMap = new Map()) {
    this.ignored = ignored
    this.map = map
  }

  /**
   * Finds the columns, in any case. Throws `failed` where `email` is in none, a column stands twice, one of the map is not there, or the
   * map has `queries`.
   */
  setHeader(header: CsvHeader): void {
    if (this.header === header) return
    this.header = header
    const list = this.map.get('queries')
    if (list) {
      const hint = 'A line of CSV has one query, in the columns type, value and radius: map these.'
      throw new LeadpushError('failed', `${list.told} reads queries from ${list.column}, and CSV has no lists`, {
        hint,
      })
    }
    refuseLacking(this.map, header.names, isHeader(header.names) ? header.names : [])
    const sources = userColumns.map(
      (column) => [foldColumnName(this.map.get(column)?.column ?? column), column] as const,
    )
    this.fields = header.names.map((name) => sources.find(([source]) => source === foldColumnName(name))?.[1])
    if (!this.fields.includes('email')) throw this.withoutEmail(header.names)
    const twice = findTwice(header.names)
    if (twice !== undefined) throw new LeadpushError('failed', twice, { hint: renameOne })
  }

  private withoutEmail(names: readonly string[]): LeadpushError {
    if (looksLikeRecord(names)) {
      return new LeadpushError('failed', noHeader, { hint: `Put a header above it: ${userColumns.join(',')}` })
    }
    return new LeadpushError('failed', describeNames(names))
  }

  /** The e-mail of a line that cannot be read, so that it rejects the other lines of its user. */
  findEmail(cells: readonly string[]): string | undefined {
    const place = { at: this.fields.indexOf('email'), columns: this.fields.length }
    return findShifted(cells, place, (cell) => emailSchema.safeParse(cell).data)
  }

  /** `line` is where they stand. Throws `failed` where they are another header. */
  parse(cells: readonly string[], line = 0): ParsedLine {
    const given: Given = {}
    for (const [at, cell] of cells.entries()) {
      const field = this.fields[at]
      if (field === undefined) this.ignored.addCell(this.header?.names[at] ?? '', cell)
      else if (cell.trim() !== '') given[field] = cell.trim()
    }
    const email = emailSchema.safeParse(given.email).data
    if (email === undefined)
      refuseOtherHeader(this.header?.names ?? [], cells, { key: 'email', fields: userColumns, line })
    const parsed = parseUser(toRecord(given), this.ignored)
    if ('user' in parsed) return { ...parsed, email }
    const path = parsed.path.replace(/^queries\[0\]\.?/, '')
    const text = isShown(path, given) ? given[path as UserColumn] : undefined
    return { path, message: text === undefined ? parsed.message : `${parsed.message}: ${show(text)}`, email }
  }
}

/** Whether no receiver key can be in the cell of a column, also where columns were swapped or cells run together. */
function isShown(path: string, { email = '', receiverApiKey = '' }: Given): boolean {
  if (path === 'email') return /^[^\s,;|]*@[^\s,;|]*$/.test(email)
  const isOther = parseYesOrNo(receiverApiKey) !== undefined || /@|^(zipcode|text|[\d.]+)$/i.test(receiverApiKey)
  return path !== 'receiverApiKey' && !isOther
}

const shownCharsMax = 60
const show = (text: string) =>
  JSON.stringify(text.length > shownCharsMax ? `${text.slice(0, shownCharsMax)}…`.toWellFormed() : text)

/** A line as a record of JSON: what cannot be read stays a text, which no schema takes. */
export function toRecord({ email, receiverApiKey, subscribed, type, value, radius }: Given): object {
  const miles = radius === undefined ? undefined : parseRadius(radius)
  const code = trimDecimals(value ?? '')
  const isCode = type === undefined ? typeOf(code) === 'zipcode' : type.toLowerCase() === 'zipcode'
  const query = {
    type: type?.toLowerCase(),
    value: isCode ? code || undefined : value,
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
