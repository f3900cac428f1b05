/** What `validate` finds: where it is, what is wrong there, and what to do about it. */
import type { z } from 'zod'

export interface Finding {
  /** A note is worth knowing, and nothing is wrong. */
  type: 'problem' | 'note'
  /** `settings`, `user a@example.com`, `lead https://…`, a file, or a file with a line: `leads.csv:17`. */
  where: string
  /** The setting or field: `fsbos[3].price`; empty for the whole. */
  path: string
  message: string
  /** What to do, a sentence. */
  hint?: string
}

export type Findings = AsyncGenerator<Finding, void, undefined>

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, step) => (at as Record<PropertyKey, unknown> | null | undefined)?.[step], value)
}

/** The issues that a schema has with `value`, the first of each path; values are never quoted. */
export function describeIssues(
  issues: readonly z.core.$ZodIssue[],
  value: unknown,
): { path: PropertyKey[]; message: string }[] {
  const told = new Set<string>()
  return issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'is not part of the interface' }))
    }
    const place = JSON.stringify(issue.path)
    if (told.has(place)) return []
    told.add(place)
    // a schema says what a value must be; of one that is not there that would mislead
    const isMissing = issue.path.length > 0 && valueAt(value, issue.path) === undefined
    return [{ path: issue.path, message: isMissing ? 'is missing' : issue.message }]
  })
}
