/** `--map` and `--map-file` (contract 3, 4.18): which column or key each field of a listing is read from. */
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { readSmallFile } from '../base/small-file.ts'
import { isLeadField, type LeadField, leadFields } from './lead.ts'

/** Where a field is read from, and who says so: `--map`, or a line of a map file such as `mls.map:3`. */
export interface MappedColumn {
  column: string
  told: string
  /** From a map file: many exports share one, and need not have all its columns. */
  mayLack: boolean
}

export type FieldMap = ReadonlyMap<LeadField, MappedColumn>

const fieldNames = leadFields.map(({ name }) => name as string)

/** Adds `FIELD=COLUMN` to `map`. Throws `usage` with `where` before it. */
function addEntry(map: Map<LeadField, MappedColumn>, entry: string, where: string, from: Omit<MappedColumn, 'column'>) {
  const at = entry.indexOf('=')
  const field = entry.slice(0, Math.max(at, 0)).trim()
  const column = entry.slice(at + 1).trim()
  if (at < 1 || column === '') {
    throw new LeadpushError('usage', `${where}: must be FIELD=COLUMN, such as price=list_price`)
  }
  if (!isLeadField(field)) {
    const hint = `The fields are ${fieldNames.join(', ')}.`
    throw new LeadpushError('usage', `${where}: a lead has no field ${field}${didYouMean(field, fieldNames)}`, { hint })
  }
  if (map.has(field)) throw new LeadpushError('usage', `${where}: ${field} is mapped twice`)
  map.set(field, { column, ...from })
}

/** contract 3: `FIELD=COLUMN`, repeated. Throws `usage`. */
export function parseFieldMap(entries: readonly string[]): FieldMap {
  const map = new Map<LeadField, MappedColumn>()
  for (const entry of entries) addEntry(map, entry, `--map ${entry}`, { told: '--map', mayLack: false })
  return map
}

/** A line without its comment, which begins at `#` at the beginning or after white space; in quotes it is an ordinary character. */
function withoutComment(line: string): string {
  const quoted = /^([^="]*=\s*)"([^"]*)"\s*(?:#.*)?$/.exec(line)
  return quoted ? `${quoted[1]}${quoted[2]}` : line.replace(/(^|\s)#.*$/, '')
}

/** Parses the text of a map file, a line `FIELD=COLUMN` each. Throws `usage` with the file and the line. */
export function parseMapFile(name: string, text: string): FieldMap {
  const map = new Map<LeadField, MappedColumn>()
  for (const [at, line] of text.split(/\r\n|\n|\r/).entries()) {
    const entry = withoutComment(line).trim()
    const told = `${name}:${at + 1}`
    if (entry !== '') addEntry(map, entry, `--map-file ${told}`, { told, mayLack: true })
  }
  return map
}

/** The map file `name`. Throws `usage` where it cannot be read or is wrong. */
export function readMapFile(name: string): FieldMap {
  let text: string
  try {
    text = readSmallFile(name)
  } catch (error) {
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : `it cannot be read (${messageOf(error)})`
    throw new LeadpushError('usage', `--map-file ${name}: ${why}`)
  }
  return parseMapFile(name, text)
}

/** The options of a command as one map: `--map` wins over `--map-file`. Throws `usage`. */
export function readFieldMap(options: { map?: readonly string[]; mapFile?: string }): FieldMap {
  const file: FieldMap = options.mapFile === undefined ? new Map() : readMapFile(options.mapFile)
  return new Map([...file, ...parseFieldMap(options.map ?? [])])
}
