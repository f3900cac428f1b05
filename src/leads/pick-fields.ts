/**
 * Picks the fields of a lead from a record of an import: applies `--map`, drops values that are unknown or cannot be read, and
 * counts columns that are no field of a lead. `read-value.ts` reads the values.
 */
import { LeadpushError } from '../base/errors.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import type { CsvHeader, ReadRecord } from '../records/record.ts'
import { missing } from '../records/staged-rejects.ts'
import { hrefSchema, importedHrefSchema, isLeadField, type LeadField, type LeadPatch, leadFields } from './lead.ts'
import { describeUnreadable, readValue, showValue, type UnreadableValue, unreadable } from './read-value.ts'

/** Fields and the column or key that each is read from. */
export type FieldMap = ReadonlyMap<LeadField, string>

/** contract 3: `FIELD=COLUMN`, repeated. Throws `usage`. */
export function parseFieldMap(entries: readonly string[]): FieldMap {
  const map = new Map<LeadField, string>()
  for (const entry of entries) {
    const at = entry.indexOf('=')
    const field = entry.slice(0, Math.max(at, 0)).trim()
    const column = entry.slice(at + 1).trim()
    if (at < 1 || column === '') {
      throw new LeadpushError('usage', `--map ${entry}: must be FIELD=COLUMN, such as price=list_price`)
    }
    if (!isLeadField(field)) {
      const hint = `The fields are ${leadFields.map(({ name }) => name).join(', ')}.`
      throw new LeadpushError('usage', `--map ${entry}: a lead has no field ${field}`, { hint })
    }
    if (map.has(field)) throw new LeadpushError('usage', `--map ${entry}: ${field} is mapped twice`)
    map.set(field, column)
  }
  return map
}

/** How the values of a file are read. */
export interface ReadOptions {
  /** What means unknown, as `buildNulls` makes them. */
  nulls?: ReadonlySet<string> | undefined
  /** An optional value that cannot be read rejects its record. */
  strict?: boolean | undefined
}

/** The fields that a column or key fills: those mapped to it, and its own unless `--map` reads that from elsewhere. */
function targetsOf(map: FieldMap): Map<string, LeadField[]> {
  const targets = new Map<string, LeadField[]>()
  for (const { name } of leadFields) {
    const source = map.get(name) ?? name
    targets.set(source, [...(targets.get(source) ?? []), name])
  }
  return targets
}

/** The fields of a record, with what of it cannot be read; or its problem, with the `href` if that can be read. */
export type Picked =
  | { patch: LeadPatch & { href: string }; unread?: readonly UnreadableValue[] }
  | { path: string; message: string; href?: string }

const none: ReadonlySet<string> = new Set()

/** Picks the fields of the records of one file; `ignored` counts columns that are no field. */
export class FieldPicker {
  readonly ignored = new IgnoredFields()
  private readonly map: FieldMap
  private readonly targets: Map<string, LeadField[]>
  private readonly nulls: ReadonlySet<string>
  private readonly strict: boolean
  private header: CsvHeader | undefined
  private columns: (LeadField[] | undefined)[] = []
  /** Of the record under way. */
  private unread: UnreadableValue[] = []

  constructor(map: FieldMap = new Map(), { nulls = none, strict = false }: ReadOptions = {}) {
    this.map = map
    this.targets = targetsOf(map)
    this.nulls = nulls
    this.strict = strict
  }

  /** The columns of a CSV file. Throws `usage` where `--map` names one that is not there, or a field stands there twice. */
  setHeader(header: CsvHeader): void {
    if (this.header === header) return
    this.header = header
    for (const [field, column] of this.map) {
      if (header.names.includes(column)) continue
      throw new LeadpushError('usage', `its header has no column ${column}, which --map reads ${field} from`)
    }
    this.columns = header.names.map((name) => this.targets.get(name))
    const twice = header.names.find((name, at) => this.columns[at] && header.names.indexOf(name) !== at)
    if (twice !== undefined) throw new LeadpushError('usage', `its header has the column ${twice} twice`)
  }

  /** The fields of one record, or what is wrong with it. */
  pick(record: ReadRecord): Picked {
    if (record.error !== undefined) return { path: '', message: record.error }
    this.unread = []
    const patch = record.cells ? this.pickCells(record.cells) : this.pickKeys(record.value)
    if (!patch) return { path: '', message: 'is no JSON object' }
    if (patch.href === undefined) return { path: 'href', message: missing }
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

  private put(patch: Record<string, unknown>, field: LeadField, value: unknown): void {
    const known = readValue(value, field, this.nulls)
    if (known === unreadable) this.unread.push({ field, value })
    else if (known !== undefined) patch[field] = known
  }

  private pickCells(cells: readonly string[]): Record<string, unknown> {
    const patch: Record<string, unknown> = {}
    for (let at = 0; at < cells.length; at++) {
      const targets = this.columns[at]
      if (targets) for (const field of targets) this.put(patch, field, cells[at])
      else this.ignored.add(this.header?.names[at] ?? '')
    }
    return patch
  }

  private pickKeys(value: unknown): Record<string, unknown> | undefined {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const patch: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const targets = this.targets.get(key)
      if (targets) for (const field of targets) this.put(patch, field, (value as Record<string, unknown>)[key])
      else this.ignored.add(key)
    }
    return patch
  }
}
