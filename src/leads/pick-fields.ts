/**
 * Picks the fields of a lead from a record of an import: applies `--map`, parses numbers that CSV holds as text, drops unknown
 * values, and counts columns that are no field of a lead. The schema then checks the result.
 */
import { LeadpushError } from '../base/errors.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import type { CsvHeader, ReadRecord } from '../records/record.ts'
import { missing } from '../records/staged-rejects.ts'
import { hrefSchema, isLeadField, type LeadField, type LeadPatch, leadFields, leadPatchSchema } from './lead.ts'

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

const decimal = /^\$?\s*(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?(e[+-]?\d{1,3})?$/i

/** A number that CSV holds as text: `350000`, `350,000.50`, `$350,000`, `3.5e5`; NaN for anything else. */
export function parseNumberText(text: string): number {
  const trimmed = text.trim()
  if (!decimal.test(trimmed)) return Number.NaN
  const digits = trimmed.replace(/[$,\s]/g, '')
  return /^\.?(e|$)/i.test(digits) ? Number.NaN : Number(digits)
}

interface Target {
  field: LeadField
  isNumber: boolean
}

/** The fields that a column or key fills: those mapped to it, and its own unless `--map` reads that from elsewhere. */
function targetsOf(map: FieldMap): Map<string, Target[]> {
  const targets = new Map<string, Target[]>()
  for (const { name, kind } of leadFields) {
    const source = map.get(name) ?? name
    const target = { field: name, isNumber: kind === 'number' }
    targets.set(source, [...(targets.get(source) ?? []), target])
  }
  return targets
}

function put(patch: Record<string, unknown>, { field, isNumber }: Target, value: unknown, isText: boolean): void {
  if (value === null || value === '' || value === undefined) return
  let known = value
  if (isText && isNumber) {
    const text = value as string
    if (text.trim() === '') return
    known = parseNumberText(text)
  }
  // contract 4.10: the one field whose 0 means unknown
  if (field === 'yearBuilt' && known === 0) return
  patch[field] = known
}

/** The fields of a record, or its problem, with the `href` if that can be read. */
export type Picked = { patch: LeadPatch & { href: string } } | { path: string; message: string; href?: string }

/** Picks the fields of the records of one file; `ignored` counts columns that are no field. */
export class FieldPicker {
  readonly ignored = new IgnoredFields()
  private readonly map: FieldMap
  private readonly targets: Map<string, Target[]>
  private header: CsvHeader | undefined
  private columns: (Target[] | undefined)[] = []

  constructor(map: FieldMap = new Map()) {
    this.map = map
    this.targets = targetsOf(map)
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
    const patch = record.cells ? this.pickCells(record.cells) : this.pickKeys(record.value)
    if (!patch) return { path: '', message: 'is no JSON object' }
    const parsed = leadPatchSchema.safeParse(patch)
    if (parsed.success) return { patch: parsed.data }
    const issue = parsed.error.issues[0]
    const path = String(issue?.path[0] ?? '')
    const isMissing = path !== '' && patch[path] === undefined
    const href = hrefSchema.safeParse(patch.href).data
    return { path, message: isMissing ? missing : (issue?.message ?? 'is wrong'), ...(href && { href }) }
  }

  private pickCells(cells: readonly string[]): Record<string, unknown> {
    const patch: Record<string, unknown> = {}
    for (let at = 0; at < cells.length; at++) {
      const targets = this.columns[at]
      if (targets) for (const target of targets) put(patch, target, cells[at], true)
      else this.ignored.add(this.header?.names[at] ?? '')
    }
    return patch
  }

  private pickKeys(value: unknown): Record<string, unknown> | undefined {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    const patch: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const targets = this.targets.get(key)
      if (targets) for (const target of targets) put(patch, target, (value as Record<string, unknown>)[key], false)
      else this.ignored.add(key)
    }
    return patch
  }
}
