/** `--where` of an import (contract 4.18): a condition is on a field of a lead, or else on a column of the file. */
import { LeadpushError } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import { foldColumnName, valueAt } from '../records/columns.ts'
import { type LeadField, leadFields } from './lead.ts'
import { isNumberField, textOfObject } from './read-value.ts'
import { type Condition, holds } from './where.ts'

const fieldsByName = new Map(leadFields.map(({ name }) => [foldColumnName(name), name as LeadField]))

/** The field of a lead that a condition is on; undefined for a column. */
export const leadFieldOf = ({ field }: Condition): LeadField | undefined => fieldsByName.get(foldColumnName(field))

const textOf = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'object' ? textOfObject(value) : String(value)

/** Whether a record is taken: `fields` are those of its lead, `columnOf` finds a column of the file. */
export const isTaken = (
  conditions: readonly Condition[],
  fields: Readonly<Record<string, unknown>>,
  columnOf: (condition: Condition) => unknown,
): boolean =>
  conditions.every((condition) => {
    const field = leadFieldOf(condition)
    const value = field === undefined ? columnOf(condition) : fields[field]
    // an unknown number goes out as 0
    const isZero = field !== undefined && isNumberField(field) && textOf(value) === '' && condition.value === '0'
    return isZero ? !condition.negated : holds([condition], () => textOf(value))
  })

/** The value of a key of a JSON record: its own, without regard to case, or one below. Undefined if there is no such value. */
export function findField(record: Readonly<Record<string, unknown>>, name: string): { value: unknown } | undefined {
  if (Object.hasOwn(record, name)) return { value: record[name] }
  const folded = foldColumnName(name)
  for (const key of Object.keys(record)) if (foldColumnName(key) === folded) return { value: record[key] }
  const value = name.includes('.') ? valueAt(record, name.split('.')) : undefined
  return value === undefined ? undefined : { value }
}

/** Throws `usage` for a condition on a name that is neither a field of a lead nor one of `columns`. */
export function refuseUnknown({ field, value, negated }: Condition, columns: Iterable<string>): never {
  const known = [...leadFields.map(({ name }) => name as string), ...columns]
  const given = `--where ${field}${negated ? '!' : ''}=${value}`
  const nearest = didYouMean(field, known)
  throw new LeadpushError('usage', `${given}: ${field} is neither a field of a lead nor a column of the file${nearest}`)
}
