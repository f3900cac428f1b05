/**
 * Conditions on records and listings: `FIELD=VALUE` and `FIELD!=VALUE`, all of which must hold (contract 4.18). Values are
 * compared as text without regard to case; a missing one is the empty text.
 */
import { LeadpushError } from '../base/errors.ts'

export interface Condition {
  /** A field of a lead, or a column of a file. */
  field: string
  /** In lower case. */
  value: string
  negated: boolean
}

/** Parses the values of `--where`. Throws `usage`, also where `isField` takes no such field. */
export function parseWhere(entries: readonly string[], isField: (field: string) => boolean = () => true): Condition[] {
  return entries.map((entry) => {
    const at = entry.indexOf('=')
    const negated = entry[at - 1] === '!'
    const field = entry.slice(0, Math.max(0, negated ? at - 1 : at)).trim()
    if (field === '') {
      throw new LeadpushError('usage', `--where ${entry}: must be FIELD=VALUE or FIELD!=VALUE, such as city=Austin`)
    }
    if (!isField(field)) throw new LeadpushError('usage', `--where ${entry}: a lead has no field ${field}`)
    return {
      field,
      value: entry
        .slice(at + 1)
        .trim()
        .toLowerCase(),
      negated,
    }
  })
}

/** Whether all conditions hold; `read` gives the value of a field: text, a number, or nothing. */
export const holds = (
  conditions: readonly Condition[],
  read: (field: string) => string | number | null | undefined,
): boolean =>
  conditions.every(({ field, value, negated }) => {
    const text = String(read(field) ?? '').trim()
    return (text.toLowerCase() === value) !== negated
  })
