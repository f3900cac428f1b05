/** Turns the issues of a schema into words for a person. Values are never quoted. */
import type * as z from 'zod'

export interface Issue {
  path: PropertyKey[]
  message: string
  code: z.core.$ZodIssue['code']
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, step) => (at as Record<PropertyKey, unknown> | null | undefined)?.[step], value)
}

/** The issues that a schema has with `value`, the first of each path. */
export function* describeIssues(issues: readonly z.core.$ZodIssue[], value: unknown): Generator<Issue> {
  const told = new Set<string>()
  for (const issue of issues) {
    const { code, path, message } = issue
    if (code === 'unrecognized_keys') {
      for (const key of issue.keys) yield { path: [...path, key], message: 'is not part of the interface', code }
      continue
    }
    const place = JSON.stringify(path)
    if (told.has(place)) continue
    told.add(place)
    // the schema's own message describes a value, and would mislead if the value is missing
    const isMissing = path.length > 0 && valueAt(value, path) === undefined
    yield { path, message: isMissing ? 'is missing' : message, code }
  }
}
