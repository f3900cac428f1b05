/**
 * Picks the fields of a lead from a record of an import: applies `--map`, drops values that are unknown or cannot be read, and
 * counts columns that are no field of a lead. `read-value.ts` reads the values.
 */
import { LeadpushError } from '../base/errors.ts'
import { FoldedNames, findTwice, foldColumnName, refuseOtherHeader, renameOne, valueAt } from '../records/columns.ts'
import { describeUnmet, refuseLacking } from '../records/field-map.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import { looksLikeRecord } from '../records/looks-like-record.ts'
import { type CsvHeader, findDoubtfulKey, findShifted, hasTwice, type ReadRecord } from '../records/record.ts'
import { missing } from '../records/staged-rejects.ts'
import type { LeadMap } from './field-map.ts'
import { hrefSchema, importedHrefSchema, type LeadField, type LeadPatch, leadFields } from './lead.ts'
import { isPlaceholder, Placeholders } from './placeholders.ts'
import { describeUnreadable, readValue, showValue, type UnreadableValue, unreadable } from './read-value.ts'
import { findField, isTaken, leadFieldOf, refuseUnknown } from './record-filter.ts'
import type { Condition } from './where.ts'

/** How the values of a file are read. */
export interface ReadOptions {
  /** What means unknown, as `buildNulls` makes them. */
  nulls?: ReadonlySet<string> | undefined
  /** An optional value that cannot be read rejects its record. */
  strict?: boolean | undefined
  /** Which records are taken. */
  where?: readonly Condition[] | undefined
}

/** The fields that a column or key fills, by its folded name: those mapped to it, and its own unless it is read from elsewhere. */
function targetsOf(map: LeadMap): Map<string, LeadField[]> {
  const targets = new Map<string, LeadField[]>()
  for (const { name } of leadFields) {
    const source = foldColumnName(map.get(name)?.column ?? name)
    targets.set(source, [...(targets.get(source) ?? []), name])
  }
  return targets
}

/** A field that is read from a key below others, as `address.postalCode`. */
interface PathTarget {
  field: LeadField
  column: string
  steps: string[]
}

const pathsOf = (map: LeadMap): PathTarget[] =>
  [...map].flatMap(([field, { column }]) => (column.includes('.') ? [{ field, column, steps: column.split('.') }] : []))

/** The fields of a record, with what of it cannot be read; or its problem, with the `href` if that can be read. */
export type Picked =
  | { patch: LeadPatch & { href: string }; unread?: readonly UnreadableValue[] }
  | { path: string; message: string; href?: string }
  /** `--where` does not take it. `href` is absent where it cannot be read. */
  | { filtered: true; href?: string }

const none: ReadonlySet<string> = new Set()

const isUrl = (href: unknown) => typeof href === 'string' && /^https?:/i.test(href)

/** Picks the fields of the records of one file; `ignored` counts columns that are no field. */
export class FieldPicker {
  readonly ignored = new IgnoredFields()
  private readonly map: LeadMap
  private readonly where: readonly Condition[]
  private readonly targets: Map<string, LeadField[]>
  private readonly targetsByKey: FoldedNames<LeadField[]>
  private readonly paths: readonly PathTarget[]
  /** Keys that paths lead through: they are not ignored, and no field of their own. */
  private readonly roots: ReadonlySet<string | undefined>
  private readonly hrefColumn: string
  private readonly nulls: ReadonlySet<string>
  private readonly strict: boolean
  private header: CsvHeader | undefined
  private columns: (LeadField[] | undefined)[] = []
  /** In CSV the place of each condition's column. */
  private places = new Map<Condition, number>()
  /** In JSON the conditions on columns that no record had so far. */
  private readonly unseen: Set<Condition>
  /** In JSON the mapped fields whose key no record had so far. */
  private readonly unmet: Set<LeadField>
  private hasKeys = false
  /** In JSON the name of `href`, as the last record spells it. */
  private hrefKey = 'href'
  /** Of the record under way. */
  private unread: UnreadableValue[] = []
  private readonly placeholders = new Placeholders()

  constructor(map: LeadMap = new Map(), { nulls = none, strict = false, where = [] }: ReadOptions = {}) {
    this.map = map
    this.where = where
    this.targets = targetsOf(map)
    this.targetsByKey = new FoldedNames(this.targets)
    this.paths = pathsOf(map)
    this.roots = new Set(this.paths.map(({ steps }) => steps[0]))
    this.unseen = new Set(where.filter((condition) => leadFieldOf(condition) === undefined))
    this.unmet = new Set(map.keys())
    this.hrefColumn = foldColumnName(map.get('href')?.column ?? 'href')
    this.nulls = nulls
    this.strict = strict
  }

  /**
   * The columns of a CSV file. Throws `failed` where the map names a column that is not there, `usage` where `--where` does, or one stands
   * there twice.
   */
  setHeader(header: CsvHeader): void {
    if (this.header === header) return
    this.header = header
    const names = header.names.map(foldColumnName)
    const shown = looksLikeRecord(header.names) ? [] : header.names
    refuseLacking(this.map, header.names, shown)
    for (const condition of this.unseen) {
      const place = names.indexOf(foldColumnName(condition.field))
      if (place < 0) refuseUnknown(condition, shown)
      this.places.set(condition, place)
    }
    this.unseen.clear()
    this.columns = names.map((name) => this.targets.get(name))
    // without an href it may be a record, whose texts no message shows
    const twice = this.placeOf('href') >= 0 ? findTwice(header.names) : undefined
    if (twice !== undefined) throw new LeadpushError('usage', twice, { hint: renameOne })
  }

  /**
   * After the last record. Returns lines to tell: texts for which there is `--null`, and what of the map no record of JSON had. Throws
   * `usage` where `--where` names what none had.
   */
  finish(): string[] {
    const known = Object.keys(this.ignored.toObject())
    const [condition] = this.unseen
    if (condition) refuseUnknown(condition, known)
    const unmet = this.hasKeys ? describeUnmet(this.map, this.unmet, known) : []
    return [...this.placeholders.notes, ...unmet]
  }

  /** The fields of one record, or what is wrong with it. */
  pick(record: ReadRecord): Picked {
    if (record.error !== undefined) {
      const href = this.findHref(record)
      return { path: '', message: record.error, ...(href !== undefined && { href }) }
    }
    this.unread = []
    const patch = record.cells ? this.pickCells(record.cells) : this.pickKeys(record.value)
    if (!patch) return { path: '', message: 'is no JSON object' }
    if (typeof patch.href === 'string') patch.href = patch.href.trim()
    if (record.cells && !isUrl(patch.href))
      refuseOtherHeader(this.header?.names ?? [], record.cells, {
        key: this.hrefColumn,
        fields: leadFields.map(({ name }) => name),
        line: record.line,
      })
    if (this.where.length > 0 && !this.isTaken(patch, record)) {
      const href = hrefSchema.safeParse(patch.href).data
      return { filtered: true, ...(href !== undefined && { href }) }
    }
    if (patch.href === undefined) return { path: 'href', message: missing }
    if (!record.cells && hasTwice(record.raw, this.hrefKey)) return { path: 'href', message: 'stands there twice' }
    const href = importedHrefSchema.safeParse(patch.href)
    if (!href.success) {
      const message = `${href.error.issues[0]?.message ?? 'is wrong'}: ${showValue(patch.href, 'href')}`
      const plain = hrefSchema.safeParse(patch.href).data
      return { path: 'href', message, ...(plain && { href: plain }) }
    }
    const picked = { patch: patch as LeadPatch & { href: string } }
    if (this.unread.length === 0) return picked
    const fatal = this.unread.find(({ field }) => this.strict || field === 'postalCode')
    if (fatal) return { path: fatal.field, message: describeUnreadable(fatal).message, href: href.data }
    return { ...picked, unread: this.unread }
  }

  private placeOf(field: LeadField): number {
    return this.columns.findIndex((fields) => fields?.includes(field))
  }

  /** The `href` of a record that cannot be read: its listing stands in the file too. */
  private findHref({ doubtfulCells, raw }: ReadRecord): string | undefined {
    const read = (text: string) => hrefSchema.safeParse(text).data
    if (!doubtfulCells) return findDoubtfulKey(raw, this.hrefColumn, read)
    return findShifted(doubtfulCells, { at: this.placeOf('href'), columns: this.columns.length }, read)
  }

  private isTaken(patch: Record<string, unknown>, { cells, value }: ReadRecord): boolean {
    if (cells) return isTaken(this.where, patch, (condition) => cells[this.places.get(condition) ?? -1])
    const columns = new Map<Condition, unknown>()
    for (const condition of this.where) {
      const found =
        leadFieldOf(condition) === undefined ? findField(value as Record<string, unknown>, condition.field) : undefined
      if (!found) continue
      this.unseen.delete(condition)
      columns.set(condition, found.value)
    }
    return isTaken(this.where, patch, (condition) => columns.get(condition))
  }

  private put(patch: Record<string, unknown>, field: LeadField, value: unknown): void {
    const known = readValue(value, field, this.nulls)
    if (known !== undefined && isPlaceholder(value)) this.placeholders.add(value)
    if (known === unreadable) this.unread.push({ field, value })
    else if (known !== undefined) patch[field] = known
  }

  private pickCells(cells: readonly string[]): Record<string, unknown> {
    const patch: Record<string, unknown> = {}
    for (let at = 0; at < cells.length; at++) {
      const targets = this.columns[at]
      if (targets) for (const field of targets) this.put(patch, field, cells[at])
      else this.ignored.addCell(this.header?.names[at] ?? '', cells[at] ?? '')
    }
    return patch
  }

  private pickKeys(value: unknown): Record<string, unknown> | undefined {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const patch: Record<string, unknown> = {}
    this.hasKeys = true
    for (const key of Object.keys(value)) {
      const found = (value as Record<string, unknown>)[key]
      if (typeof found === 'object' && this.roots.has(key)) continue
      const targets = this.targetsByKey.get(key)
      if (targets && this.unmet.size > 0) for (const field of targets) this.unmet.delete(field)
      if (targets) for (const field of targets) this.put(patch, field, found)
      else this.ignored.add(key)
      if (targets?.includes('href')) this.hrefKey = key
    }
    for (const { field, column, steps } of this.paths) {
      if (Object.hasOwn(value, column)) continue
      const found = valueAt(value, steps)
      if (found !== undefined) this.unmet.delete(field)
      this.put(patch, field, found)
    }
    return patch
  }
}
