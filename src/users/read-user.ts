/** Reads the records of one users file, of any format: with `--map`, and what the file as a whole lacks. Imports and `validate` use it. */
import type { LeadpushError } from '../base/errors.ts'
import { leadVocabulary } from '../leads/usual-names.ts'
import { ColumnSampler } from '../records/column-samples.ts'
import { foldColumnName, valueAt } from '../records/columns.ts'
import { describeUnmet } from '../records/field-map.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import { type CommandThatFits, fitting, type Lack, lackError } from '../records/lack.ts'
import { looksLikeRecord } from '../records/looks-like-record.ts'
import type { RecordPage } from '../records/read-records.ts'
import { findDoubtfulKey, hasTwice, type ReadRecord } from '../records/record.ts'
import { suggestMap } from '../records/suggest-map.ts'
import { describeNames, LineParser, type ParsedLine, toRecord } from './csv-line.ts'
import { type UserColumn, type UserField, type UserMap, userVocabulary } from './field-map.ts'
import { emailSchema, parseUser } from './user.ts'

export interface UserReadOptions {
  map?: UserMap | undefined
  /** The command with the `--map` options that fit a file whose columns have other names. */
  commandThatFits?: CommandThatFits | undefined
}

const example = 'email=login'

export class UserReader {
  readonly ignored = new IgnoredFields()
  private readonly map: UserMap
  private readonly commandThatFits: CommandThatFits
  private readonly lines: LineParser
  private readonly sampler = new ColumnSampler()
  /** In JSON the mapped fields whose key no record had so far. */
  private readonly unmet: Set<UserField>
  private hasEmail = false

  constructor({ map = new Map(), commandThatFits = fitting('leadpush users import FILE') }: UserReadOptions = {}) {
    this.map = map
    this.commandThatFits = commandThatFits
    this.lines = new LineParser(this.ignored, map)
    this.unmet = new Set(map.keys())
  }

  /** Throws `failed` where the header has no e-mail, or lacks a column of the map. */
  look(page: Pick<RecordPage, 'records' | 'header' | 'foreign'>): void {
    this.sampler.look(page)
    const { header } = page
    if (!header || page.records.length === 0) return
    if (!this.hasColumn('email') && !looksLikeRecord(header.names))
      throw page.foreign ?? this.errorOf(this.lackOf('email'))
    this.lines.setHeader(header)
  }

  read(record: ReadRecord): ParsedLine {
    if (record.error !== undefined) return { path: '', message: record.error, email: this.findEmail(record) }
    if (record.cells) return this.lines.parse(record.cells, record.line)
    if (hasTwice(record.raw, this.emailKey)) return { path: 'email', message: 'stands there twice' }
    const value = this.applyMap(record.value)
    const email = emailSchema.safeParse((value as { email?: unknown } | null)?.email).data
    if (email !== undefined) this.hasEmail = true
    const parsed = parseUser(value, this.ignored)
    return 'user' in parsed ? parsed : { ...parsed, email }
  }

  /** The e-mail of a record that cannot be read: its user stands in the file too. */
  private findEmail({ doubtfulCells, raw }: ReadRecord): string | undefined {
    if (doubtfulCells) return this.lines.findEmail(doubtfulCells)
    return findDoubtfulKey(raw, this.emailKey, (text) => emailSchema.safeParse(text).data)
  }

  /** After the last record: what no record of JSON had, as lines to tell. Throws `failed` where none has an e-mail, and a key looks like it. */
  finish(): string[] {
    if (this.sampler.header || this.sampler.looked === 0) return []
    const lack = this.hasEmail || this.hasColumn('email') ? undefined : this.lackOf('email')
    if (lack?.hint !== undefined || lack?.fits.has('email')) throw this.errorOf(lack)
    return describeUnmet(this.map, this.unmet, Object.keys(this.ignored.toObject()))
  }

  /** The error of a file without receiver keys whose columns have one of another name; only where none of its users is known. */
  get withoutKeys(): LeadpushError | undefined {
    if (this.hasColumn('receiverApiKey')) return undefined
    const lack = this.lackOf('receiverApiKey')
    return lack.fits.has('receiverApiKey') ? this.errorOf(lack) : undefined
  }

  private get emailKey(): string {
    return this.map.get('email')?.column ?? 'email'
  }

  private errorOf = (lack: Lack) => lackError(lack, this.commandThatFits)

  private hasColumn(field: UserColumn): boolean {
    const source = foldColumnName(this.map.get(field)?.column ?? field)
    return this.sampler.names.some((name) => foldColumnName(name) === source)
  }

  private lackOf(field: 'email' | 'receiverApiKey'): Lack {
    const { header, samples, names } = this.sampler
    const what = header ? 'no column of its header is' : 'no record has'
    const message = header && field === 'email' ? describeNames(names) : `${what} ${field}, which a new user needs`
    const map = this.map as ReadonlyMap<UserColumn, never>
    const fits = suggestMap(userVocabulary, samples, map)
    if (field === 'email' && this.looksLikeListings(fits)) {
      const what = 'it has listings, not users: it has an href and no email'
      return {
        message: what,
        fits,
        absent: [],
        mayBeKnown: false,
        example,
        hint: 'Import it with `leadpush leads import`.',
      }
    }
    return {
      message,
      fits,
      absent: [field],
      mayBeKnown: field !== 'email',
      example,
    }
  }

  /** A column for the URL of a listing, and none for the key of a user. */
  private looksLikeListings(fits: ReadonlyMap<UserColumn, string>): boolean {
    if (this.map.size > 0 || this.hasColumn('receiverApiKey') || fits.has('receiverApiKey')) return false
    const { names, samples } = this.sampler
    return names.some((name) => foldColumnName(name) === 'href') || suggestMap(leadVocabulary, samples).has('href')
  }

  /** A record of JSON with the fields of the map read from their keys. */
  private applyMap(value: unknown): unknown {
    if (this.map.size === 0 || typeof value !== 'object' || value === null || Array.isArray(value)) return value
    const rest: Record<string, unknown> = { ...value }
    for (const field of this.map.keys()) delete rest[field]
    const given: Partial<Record<UserColumn, string>> = {}
    for (const [field, { column }] of this.map) {
      const found = findKey(value as Record<string, unknown>, column)
      if (!found) continue
      this.unmet.delete(field)
      delete rest[found.key]
      if (field === 'queries') rest.queries = found.value
      else if (found.value !== null && found.value !== '') given[field] = textOf(found.value)
    }
    const fields = Object.entries(toRecord(given)).filter(([, each]) => each !== undefined)
    return { ...rest, ...Object.fromEntries(fields) }
  }
}

const textOf = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : String(value).trim())

/** The value of a key in any case, or of one within others as `a.b`; with the key of the record that has it. */
function findKey(record: Readonly<Record<string, unknown>>, name: string): { key: string; value: unknown } | undefined {
  const keys = Object.keys(record)
  const key = keys.includes(name) ? name : keys.find((each) => foldColumnName(each) === foldColumnName(name))
  if (key !== undefined) return { key, value: record[key] }
  const steps = name.split('.')
  const value = steps.length > 1 ? valueAt(record, steps) : undefined
  return value === undefined ? undefined : { key: steps[0] ?? '', value }
}
