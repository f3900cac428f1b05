/**
 * Finds out that a file can bring nothing, since no record of it has what a listing needs (contract 4.18): one message then says
 * why, with the `--map` options that would fit, instead of one for each record.
 */
import { LeadpushError } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
import { foldName } from '../records/columns.ts'
import { looksLikeRecord, noHeader } from '../records/looks-like-record.ts'
import type { RecordPage } from '../records/read-records.ts'
import type { ReadRecord } from '../records/record.ts'
import type { FieldMap } from './field-map.ts'
import type { LeadField } from './lead.ts'
import type { Picked } from './pick-fields.ts'
import { suggestMap } from './suggest-map.ts'

/** Why a file brings nothing, and the fields that its columns would fill. */
export interface Lack {
  message: string
  fits: ReadonlyMap<LeadField, string>
  /** Which of the two that a listing needs are in no column. */
  absent: readonly LeadField[]
  /** Its records lack a postal code alone: they may be of listings that are known. */
  mayBeKnown: boolean
  /** Where it is no file of listings at all. */
  hint?: string
}

const needed = ['href', 'postalCode'] as const
/** So many records are looked at, so many values a column and columns kept, of so many characters. */
const [recordsMax, valuesMax, columnsMax, valueCharsMax] = [200, 50, 500, 200]
/** Keys within keys of JSON, as `address.postalCode`. */
const depthMax = 3

/** The error of a lack. `command` is how the file was given, without the options that fit. */
export function lackError(lack: Lack, command: (fits: Lack['fits']) => string): LeadpushError {
  const hint = lack.hint ?? describeFits(lack, command)
  return new LeadpushError('failed', lack.message, hint === undefined ? {} : { hint })
}

function describeFits({ fits, absent }: Lack, command: (fits: Lack['fits']) => string): string | undefined {
  if (absent.length === 0 && fits.size === 0) return undefined
  const unfound = absent.filter((field) => !fits.has(field))
  if (fits.size === 0 || unfound.length === needed.length) {
    return 'Columns of other names are read with --map FIELD=COLUMN, such as --map href=property_url.'
  }
  const asked = unfound.map((field) => `No column looks like ${field}: add --map ${field}=COLUMN. `).join('')
  return `${asked}This would fit:\n${command(fits)}`
}

/** Samples the first records of a file, and counts what all of them lack. */
export class NeededFields {
  private readonly map: FieldMap
  private readonly samples = new Map<string, string[]>()
  private looked = 0
  private header: readonly string[] | undefined
  private usable = 0
  private withoutCode = 0
  private unreadable = 0
  private firstBad: { where: string; path: string; message: string } | undefined

  constructor(map: FieldMap = new Map()) {
    this.map = map
  }

  /** Looks at the records of a page. Returns a lack where the header tells it already, and there is something to go by. */
  look(page: RecordPage): Lack | undefined {
    this.header ??= page.header?.names
    for (const record of page.records) {
      if (this.looked >= recordsMax) break
      this.looked++
      if (record.cells) for (const [at, cell] of record.cells.entries()) this.sample(this.header?.[at] ?? '', cell)
      else this.sampleKeys(record.value, '', 1)
    }
    const isWithoutHref = this.header !== undefined && this.looked > 0 && !this.hasColumn('href')
    return isWithoutHref ? this.describe() : undefined
  }

  private sampleKeys(value: unknown, prefix: string, depth: number): void {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return
    for (const [key, below] of Object.entries(value)) {
      if (typeof below === 'object' && !Array.isArray(below) && depth < depthMax)
        this.sampleKeys(below, `${prefix}${key}.`, depth + 1)
      else if (typeof below === 'string' || typeof below === 'number') this.sample(prefix + key, String(below))
      else if (depth === 1) this.sample(key, '')
    }
  }

  private sample(column: string, value: string): void {
    let values = this.samples.get(column)
    if (!values) {
      if (column === '' || this.samples.size >= columnsMax) return
      values = []
      this.samples.set(column, values)
    }
    if (value.trim() !== '' && values.length < valuesMax) values.push(value.slice(0, valueCharsMax))
  }

  /** Counts what came of a record that `--where` takes. */
  count(picked: Exclude<Picked, { filtered: true }>, record: ReadRecord): void {
    if ('patch' in picked) {
      if (picked.patch.postalCode === undefined) this.withoutCode++
      else this.usable++
      return
    }
    const { path, message } = picked
    if (path === '') this.unreadable++
    // what is wrong with another field is told record by record
    if (path !== '' && path !== 'href' && path !== 'postalCode') this.usable++
    if (this.firstBad) return
    this.firstBad = { where: `line ${record.line}`, path, message }
  }

  private sourceOf(field: LeadField): string {
    return foldName(this.map.get(field)?.column ?? field)
  }

  private hasColumn(field: LeadField): boolean {
    const source = this.sourceOf(field)
    return (this.header ?? [...this.samples.keys()]).some((name) => foldName(name) === source)
  }

  /**
   * After the last record: why the file can bring nothing; undefined where it can, or where it has no record. Of the `filtered` ones
   * only the columns are known: what was not taken may have had values.
   */
  findLack(filtered = 0): Lack | undefined {
    if (this.usable > 0 || (this.withoutCode === 0 && !this.firstBad)) return undefined
    if (filtered > 0 && needed.every((field) => this.hasColumn(field))) return undefined
    return this.describe()
  }

  private describe(): Lack {
    const mayBeKnown = this.withoutCode > 0
    if (this.header && looksLikeRecord(this.header) && !this.hasColumn('href')) {
      const hint = 'Put a line with the names of the columns above it, such as href,postalCode,price.'
      return { message: noHeader, fits: new Map(), mayBeKnown, absent: [], hint }
    }
    const fits = suggestMap(this.samples, this.map)
    const [only, second] = this.header ?? []
    if (only !== undefined && second === undefined && /[^\w\s]/.test(only) && !this.hasColumn('href')) {
      const hint = 'Values are separated by , ; tab or |.'
      return {
        message: `its header is one column, ${show(only)}: no record has an href`,
        fits,
        mayBeKnown,
        absent: [],
        hint,
      }
    }
    if (this.looksLikeUsers()) {
      const message = 'it has users, not listings: it has an email and no href'
      return { message, fits, mayBeKnown, absent: [], hint: 'Import it with `leadpush users import`.' }
    }
    const absent = needed.filter((field) => !this.hasColumn(field))
    if (absent.length > 0 && (this.header || this.unreadable === 0)) {
      const what = this.header ? 'no column of its header is' : 'no record has'
      return { message: `${what} ${absent.join(' or ')}`, fits, mayBeKnown, absent }
    }
    const path = this.firstBad?.path as LeadField | '' | undefined
    const instead = path ? suggestMap(this.samples, this.map, [path]) : new Map()
    return {
      message: this.describeValues(),
      fits: path && instead.has(path) ? instead : new Map(),
      mayBeKnown,
      absent: [],
    }
  }

  private describeValues(): string {
    const bad = this.firstBad
    if (!bad) return 'no record has a postalCode'
    const { where, path, message } = bad
    if (path === '') return `no record can be read: ${where} ${message}`
    return `no record has an href and a postalCode that can be used: in ${where} ${path} ${message}`
  }

  private looksLikeUsers(): boolean {
    const names = new Set([...(this.header ?? this.samples.keys())].map(foldName))
    return names.has('email') && (names.has('receiverapikey') || names.has('queries')) && !this.hasColumn('href')
  }
}

const show = (text: string) => spellOut(JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text))
