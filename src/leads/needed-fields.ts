/**
 * Finds out that a file can bring nothing, since no record of it has what a listing needs (contract 4.18): one message then says
 * why, with the `--map` options that would fit, instead of one for each record.
 */
import { spellOut } from '../base/printable.ts'
import { ColumnSampler } from '../records/column-samples.ts'
import { foldColumnName } from '../records/columns.ts'
import type { Lack } from '../records/lack.ts'
import { looksLikeRecord, noHeader } from '../records/looks-like-record.ts'
import type { RecordPage } from '../records/read-records.ts'
import type { ReadRecord } from '../records/record.ts'
import { suggestMap } from '../records/suggest-map.ts'
import type { LeadMap } from './field-map.ts'
import type { LeadField } from './lead.ts'
import type { Picked } from './pick-fields.ts'
import { leadVocabulary } from './usual-names.ts'

const needed = ['href', 'postalCode'] as const
const example = 'href=property_url'

/** Samples the first records of a file, and counts what all of them lack. */
export class NeededFields {
  private readonly map: LeadMap
  private readonly sampler = new ColumnSampler()
  private usable = 0
  private withoutCode = 0
  private unreadable = 0
  private firstBad: { where: string; path: string; message: string } | undefined

  constructor(map: LeadMap = new Map()) {
    this.map = map
  }

  /** Looks at the records of a page. Returns a lack where the header tells it already, and there is something to go by. */
  look(page: RecordPage): Lack | undefined {
    this.sampler.look(page)
    const isWithoutHref = this.sampler.header !== undefined && this.sampler.looked > 0 && !this.hasColumn('href')
    return isWithoutHref ? this.describe() : undefined
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
    return foldColumnName(this.map.get(field)?.column ?? field)
  }

  private hasColumn(field: LeadField): boolean {
    const source = this.sourceOf(field)
    return this.sampler.names.some((name) => foldColumnName(name) === source)
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
    return { mayBeKnown: this.withoutCode > 0, example, ...this.explain() }
  }

  private explain(): Omit<Lack, 'mayBeKnown' | 'example'> {
    const { header, samples } = this.sampler
    if (header && looksLikeRecord(header) && !this.hasColumn('href')) {
      const hint = 'Put a line with the names of the columns above it, such as href,postalCode,price.'
      return { message: noHeader, fits: new Map(), absent: [], hint }
    }
    const fits = suggestMap(leadVocabulary, samples, this.map)
    const [only, second] = header ?? []
    if (only !== undefined && second === undefined && /[^\w\s]/.test(only) && !this.hasColumn('href')) {
      const hint = 'Values are separated by , ; tab or |.'
      return {
        message: `its header is one column, ${show(only)}: no record has an href`,
        fits,
        absent: [],
        hint,
      }
    }
    if (this.looksLikeUsers()) {
      const message = 'it has users, not listings: it has an email and no href'
      return { message, fits, absent: [], hint: 'Import it with `leadpush users import`.' }
    }
    const absent = needed.filter((field) => !this.hasColumn(field))
    if (absent.length > 0 && (header || this.unreadable === 0)) {
      const what = header ? 'no column of its header is' : 'no record has'
      return { message: `${what} ${absent.join(' or ')}`, fits, absent }
    }
    const path = this.firstBad?.path as LeadField | '' | undefined
    const instead = path ? suggestMap(leadVocabulary, samples, this.map, [path]) : new Map()
    return {
      message: this.describeValues(),
      fits: path && instead.has(path) ? instead : new Map(),
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
    const names = new Set(this.sampler.names.map(foldColumnName))
    const isOfUser = (name: string) => name === 'queries' || /key$/.test(name)
    return names.has('email') && [...names].some(isOfUser) && !this.hasColumn('href')
  }
}

const show = (text: string) => spellOut(JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text))
