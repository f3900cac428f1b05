/**
 * Picks the fields of a lead from a record of an import: applies `--map`, parses numbers that CSV holds as text, drops unknown
 * values, and counts columns that are no field of a lead. The schema then checks the result.
 */
import { LeadpushError } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import type { CsvHeader, ReadRecord } from '../records/record.ts'
import { missing } from '../records/staged-rejects.ts'
import { FoldedNames, foldName, refuseTwice, valueAt } from './columns.ts'
import type { FieldMap } from './field-map.ts'
import { hrefSchema, type LeadField, type LeadPatch, leadFields, leadPatchSchema } from './lead.ts'
import { type Condition, findKey, meets, refuseUnknown } from './where.ts'

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

/** The fields that a column or key fills, by its folded name: those mapped to it, and its own unless it is read from elsewhere. */
function targetsOf(map: FieldMap): Map<string, Target[]> {
  const targets = new Map<string, Target[]>()
  for (const { name, kind } of leadFields) {
    const source = foldName(map.get(name)?.column ?? name)
    const target = { field: name, isNumber: kind === 'number' }
    targets.set(source, [...(targets.get(source) ?? []), target])
  }
  return targets
}

/** A field that is read from a key below others, as `address.postalCode`. */
interface PathTarget {
  target: Target
  column: string
  steps: string[]
}

function pathsOf(targets: ReadonlyMap<string, Target[]>, map: FieldMap): PathTarget[] {
  const paths: PathTarget[] = []
  for (const { column } of new Set(map.values())) {
    if (!column.includes('.')) continue
    for (const target of targets.get(foldName(column)) ?? []) {
      if (map.get(target.field)?.column === column) paths.push({ target, column, steps: column.split('.') })
    }
  }
  return paths
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

/** The fields of a record, or its problem, with the `href` if that can be read; or that `--where` does not take it. */
export type Picked =
  | { patch: LeadPatch & { href: string } }
  | { path: string; message: string; href?: string }
  | { filtered: true }

export interface PickOptions {
  map?: FieldMap | undefined
  where?: readonly Condition[] | undefined
}

/** Picks the fields of the records of one file; `ignored` counts columns that are no field. */
export class FieldPicker {
  readonly ignored = new IgnoredFields()
  private readonly map: FieldMap
  private readonly where: readonly Condition[]
  private readonly targets: Map<string, Target[]>
  private readonly targetsByKey: FoldedNames<Target[]>
  private readonly paths: readonly PathTarget[]
  /** Keys that paths lead through: they are not ignored, and no field of their own. */
  private readonly roots: ReadonlySet<string | undefined>
  private header: CsvHeader | undefined
  private columns: (Target[] | undefined)[] = []
  /** In CSV the place of each condition's column. */
  private places = new Map<Condition, number>()
  /** In JSON the conditions on columns that no record had so far. */
  private readonly unseen: Set<Condition>

  constructor({ map = new Map(), where = [] }: PickOptions = {}) {
    this.map = map
    this.where = where
    this.targets = targetsOf(map)
    this.targetsByKey = new FoldedNames(this.targets)
    this.paths = pathsOf(this.targets, map)
    this.roots = new Set(this.paths.map(({ steps }) => steps[0]))
    this.unseen = new Set(where.filter(({ field }) => field === undefined))
  }

  /**
   * The columns of a CSV file. Returns what of a map file the header lacks, as lines to tell. Throws `usage` where `--map` or
   * `--where` names a column that is not there, or one that is read stands there twice.
   */
  setHeader(header: CsvHeader): string[] {
    if (this.header === header) return []
    this.header = header
    const names = header.names.map(foldName)
    const lacking: string[] = []
    for (const [field, { column, told, mayLack }] of this.map) {
      if (names.includes(foldName(column))) continue
      const message = `its header has no column ${column}, which ${told} reads ${field} from`
      if (!mayLack) throw new LeadpushError('usage', `${message}${didYouMean(column, header.names)}`)
      lacking.push(message)
    }
    for (const condition of this.unseen) {
      const place = names.indexOf(foldName(condition.name))
      if (place < 0) refuseUnknown(condition, header.names)
      this.places.set(condition, place)
    }
    this.unseen.clear()
    this.columns = names.map((name) => this.targets.get(name))
    const conditions = new Set(this.where.map(({ name }) => foldName(name)))
    refuseTwice(header.names, (name) => this.targets.has(name) || conditions.has(name))
    return lacking
  }

  /** Throws `usage` where `--where` names what no record of the file had; after its last record. */
  finish(): void {
    const [condition] = this.unseen
    if (condition) refuseUnknown(condition, Object.keys(this.ignored.toObject()))
  }

  /** The fields of one record, or what is wrong with it. */
  pick(record: ReadRecord): Picked {
    if (record.error !== undefined) return { path: '', message: record.error }
    const patch = record.cells ? this.pickCells(record.cells) : this.pickKeys(record.value)
    if (!patch) return { path: '', message: 'is no JSON object' }
    if (this.where.length > 0 && !this.meets(patch, record)) return { filtered: true }
    const parsed = leadPatchSchema.safeParse(patch)
    if (parsed.success) return { patch: parsed.data }
    const issue = parsed.error.issues[0]
    const path = String(issue?.path[0] ?? '')
    const isMissing = path !== '' && patch[path] === undefined
    const href = hrefSchema.safeParse(patch.href).data
    return { path, message: isMissing ? missing : (issue?.message ?? 'is wrong'), ...(href && { href }) }
  }

  private meets(patch: Record<string, unknown>, { cells, value }: ReadRecord): boolean {
    if (cells) return meets(this.where, patch, (condition) => cells[this.places.get(condition) ?? -1])
    const columns = new Map<Condition, unknown>()
    for (const condition of this.where) {
      const found =
        condition.field === undefined ? findKey(value as Record<string, unknown>, condition.name) : undefined
      if (!found) continue
      this.unseen.delete(condition)
      columns.set(condition, found.value)
    }
    return meets(this.where, patch, (condition) => columns.get(condition))
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
      const found = (value as Record<string, unknown>)[key]
      if (typeof found === 'object' && this.roots.has(key)) continue
      const targets = this.targetsByKey.get(key)
      if (targets) for (const target of targets) put(patch, target, found, false)
      else this.ignored.add(key)
    }
    for (const { target, column, steps } of this.paths) {
      if (!Object.hasOwn(value, column)) put(patch, target, valueAt(value, steps), false)
    }
    return patch
  }
}
