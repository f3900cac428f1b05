/** `--map` and `--map-file` (contract 3, 4.18): which column or key each field of a listing or a user is read from. */
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { readSmallFile } from '../base/small-file.ts'
import { foldColumnName } from './columns.ts'

/** Where a field is read from, and who says so: `--map`, or a line of a map file such as `mls.map:3`. */
export interface MappedColumn {
  column: string
  told: string
}

export type FieldMap<Field extends string = string> = ReadonlyMap<Field, MappedColumn>

/** Parses maps of the fields that a kind of record has; `of` names it, such as `a lead`. */
export class FieldMaps<Field extends string> {
  private readonly of: string
  private readonly fields: readonly Field[]

  constructor(of: string, fields: readonly Field[]) {
    this.of = of
    this.fields = fields
  }

  /** Adds `FIELD=COLUMN` to `map`. Throws `usage` with `where` before it. */
  private add(map: Map<Field, MappedColumn>, entry: string, where: string, told: string): void {
    const at = entry.indexOf('=')
    const name = entry.slice(0, Math.max(at, 0)).trim()
    const column = entry.slice(at + 1).trim()
    if (at < 1 || column === '') {
      throw new LeadpushError('usage', `${where}: must be FIELD=COLUMN, such as ${this.fields[0]}=column_name`)
    }
    const field = this.fields.find((each) => each === name)
    if (field === undefined) {
      const hint = `The fields are ${this.fields.join(', ')}.`
      throw new LeadpushError('usage', `${where}: ${this.of} has no field ${name}${didYouMean(name, this.fields)}`, {
        hint,
      })
    }
    if (map.has(field)) throw new LeadpushError('usage', `${where}: ${field} is mapped twice`)
    map.set(field, { column, told })
  }

  /** contract 3: `FIELD=COLUMN`, repeated. Throws `usage`. */
  parse(entries: readonly string[]): FieldMap<Field> {
    const map = new Map<Field, MappedColumn>()
    for (const entry of entries) this.add(map, entry, `--map ${entry}`, '--map')
    return map
  }

  /** Parses the text of a map file, a line `FIELD=COLUMN` each; options are passed over. Throws `usage` with the file and the line. */
  parseFile(name: string, text: string): FieldMap<Field> {
    const map = new Map<Field, MappedColumn>()
    for (const { entry, told } of entriesOf(name, text))
      if (!entry.startsWith('--')) this.add(map, entry, `--map-file ${told}`, told)
    return map
  }

  /** The map file `name`. Throws `usage` where it cannot be read or is wrong. */
  readFile(name: string): FieldMap<Field> {
    return this.parseFile(name, readMapFile(name))
  }

  /** The options of a command as one map: `--map` wins over `--map-file`. Throws `usage`. */
  read(options: { map?: readonly string[]; mapFile?: string }): FieldMap<Field> {
    const file: FieldMap<Field> = options.mapFile === undefined ? new Map() : this.readFile(options.mapFile)
    return new Map([...file, ...this.parse(options.map ?? [])])
  }
}

function readMapFile(name: string): string {
  try {
    return readSmallFile(name)
  } catch (error) {
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : `it cannot be read (${messageOf(error)})`
    throw new LeadpushError('usage', `--map-file ${name}: ${why}`)
  }
}

/** The lines of a map file that say something, each with where it stands. */
const entriesOf = (name: string, text: string): { entry: string; told: string }[] =>
  text.split(/\r\n|\n|\r/).flatMap((line, at) => {
    const entry = withoutComment(line).trim()
    return entry === '' ? [] : [{ entry, told: `${name}:${at + 1}` }]
  })

/** The options in the map file `name`, such as `--null N/A`: pairs of an option and its value. Throws `usage` for one not in `allowed`. */
export function readFiledOptions<Name extends string>(name: string, allowed: readonly Name[]): [Name, string][] {
  const found: [Name, string][] = []
  for (const { entry, told } of entriesOf(name, readMapFile(name))) {
    if (!entry.startsWith('--')) continue
    const [, given = '', quoted, bare = ''] = /^--([\w-]*)(?:(?:\s+|=)(?:"([^"]*)"|(.*)))?$/.exec(entry) ?? []
    const option = allowed.find((one) => one === given)
    const value = quoted ?? bare
    if (option === undefined || value === '') {
      const what =
        option === undefined ? `a map file has no --${given}${didYouMean(given, allowed)}` : 'it needs a value'
      const hint = `A line is FIELD=COLUMN, or one of ${allowed.map((one) => `--${one}`).join(', ')} with its value.`
      throw new LeadpushError('usage', `--map-file ${told}: ${what}`, { hint })
    }
    found.push([option, value])
  }
  return found
}

/**
 * Throws `failed` where the header of a CSV file lacks a column of `map`: its field would be taken as unknown, or 0. `shown` are the names
 * that the message may show.
 */
export function refuseLacking(map: FieldMap, header: readonly string[], shown: readonly string[]): void {
  const names = header.map(foldColumnName)
  for (const [field, { column, told }] of map) {
    if (names.includes(foldColumnName(column))) continue
    const message = `its header has no column ${column}, which ${told} reads ${field} from`
    throw new LeadpushError('failed', `${message}${didYouMean(column, shown)}`)
  }
}

/** What no record of JSON had of the fields `unmet`, as lines to tell; `known` are the keys that records had. */
export const describeUnmet = <Field extends string>(
  map: FieldMap<Field>,
  unmet: Iterable<Field>,
  known: readonly string[],
): string[] =>
  [...unmet].flatMap((field) => {
    const mapped = map.get(field)
    if (!mapped) return []
    const { column, told } = mapped
    return `no record has a key ${column}, which ${told} reads ${field} from${didYouMean(column, known)}`
  })

/** A line without its comment, which begins at `#` at the beginning or after white space; in quotes it is an ordinary character. */
function withoutComment(line: string): string {
  const quoted = /^([^="]*=\s*)"([^"]*)"\s*(?:#.*)?$/.exec(line)
  return quoted ? `${quoted[1]}${quoted[2]}` : line.replace(/(^|\s)#.*$/, '')
}
