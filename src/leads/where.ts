/** `--where FIELD=VALUE` and `FIELD!=VALUE` (contract 4.18): which records of a file are taken. */
import { LeadpushError } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { foldName, valueAt } from './columns.ts'
import { type LeadField, leadFields } from './lead.ts'

/** A condition on a field of a lead, or else on a column of the file. */
export interface Condition {
  /** As it was given. */
  text: string
  name: string
  /** In lower case. */
  value: string
  isNot: boolean
  field: LeadField | undefined
}

const fieldsByName = new Map(leadFields.map(({ name }) => [foldName(name), name as LeadField]))

/** Throws `usage`. */
export function parseConditions(entries: readonly string[]): Condition[] {
  return entries.map((text) => {
    const [, given = '', sign, value = ''] = /^([^=]*?)(!?=)(.*)$/s.exec(text) ?? []
    const name = given.trim()
    if (sign === undefined || name === '') {
      throw new LeadpushError('usage', `--where ${text}: must be FIELD=VALUE or FIELD!=VALUE, such as state=TX`)
    }
    return { text, name, value: foldName(value), isNot: sign === '!=', field: fieldsByName.get(foldName(name)) }
  })
}

/** A value as text without regard to case; a missing one is the empty text. */
function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  return foldName(typeof value === 'object' ? JSON.stringify(value) : String(value))
}

/** Whether a record is taken: `fields` are those of its lead, `columnOf` finds a column of the file. */
export function meets(
  conditions: readonly Condition[],
  fields: Readonly<Record<string, unknown>>,
  columnOf: (condition: Condition) => unknown,
): boolean {
  return conditions.every((condition) => {
    const { field, value, isNot } = condition
    return (textOf(field === undefined ? columnOf(condition) : fields[field]) === value) !== isNot
  })
}

/** The value of a key of a JSON record: its own, without regard to case, or one below. Undefined where there is none. */
export function findKey(record: Readonly<Record<string, unknown>>, name: string): { value: unknown } | undefined {
  if (Object.hasOwn(record, name)) return { value: record[name] }
  const folded = foldName(name)
  for (const key of Object.keys(record)) if (foldName(key) === folded) return { value: record[key] }
  const value = name.includes('.') ? valueAt(record, name.split('.')) : undefined
  return value === undefined ? undefined : { value }
}

/** Throws `usage` for a condition on a name that is neither a field of a lead nor one of `columns`. */
export function refuseUnknown({ text, name }: Condition, columns: Iterable<string>): never {
  const known = [...leadFields.map((field) => field.name as string), ...columns]
  const message = `--where ${text}: ${name} is no field of a lead and no column of the file${didYouMean(name, known)}`
  throw new LeadpushError('usage', message)
}
