/**
 * All problems of a delivery body by contract 4, each in words and with its clause, for `validate FILE.json` and the reference
 * receiver. A generator: a body with millions of problems takes no memory.
 */
import { isUtf8 } from 'node:buffer'
import * as z from 'zod'
import { formatPath } from '../../base/errors.ts'
import { describeIssues, type Issue } from '../../base/issues.ts'
import { deliveredLeadSchema } from '../../leads/lead.ts'
import { deliveredQuerySchema } from '../../users/query.ts'
import { buildBodySchema, findBodyConflicts } from './body-schema.ts'

export interface BodyProblem {
  /** The clause of the contract: `4.2`. */
  clause: string
  /** `fsbos[3].price`; empty for the body as a whole. */
  path: string
  message: string
}

/** A path has names that the sender chose, of any length. */
const pathCharsMax = 200

/** The JSON value of a body, or the problem if it has none. */
export function parseBody(bytes: Buffer): { value: unknown } | { problem: BodyProblem } {
  const refuse = (message: string) => ({ problem: { clause: '4.2', path: '', message } })
  if (!isUtf8(bytes)) return refuse('is no valid UTF-8')
  const text = bytes.toString('utf8')
  if (text.startsWith('\ufeff')) return refuse('begins with a byte order mark, which JSON does not allow')
  if (text.trim() === '') return refuse('is empty: must be JSON')
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1]
    const from = position === undefined ? '' : ` (from its character ${Number(position) + 1} on)`
    return refuse(`is no valid JSON${from}`)
  }
}

/** The schema of a body that does not look at list entries. */
const outerSchema = buildBodySchema(z.unknown(), z.unknown())

/** The clause of an issue: shapes are in 4.2; counts, lengths and radii have clauses of their own. */
function clauseOf({ code, path, message }: Issue): string {
  if (message === 'is missing' || !['custom', 'too_small', 'too_big'].includes(code)) return '4.2'
  if (path[0] === 'fsbos' || message.startsWith('holds')) return '4.10'
  return path.at(-1) === 'radius' ? '4.9' : '4.11'
}

function toProblem(issue: Issue, within: PropertyKey[] = []): BodyProblem {
  const path = formatPath([...within, ...issue.path])
  const shown = path.length > pathCharsMax ? `${path.slice(0, pathCharsMax)}…` : path
  return { clause: clauseOf({ ...issue, path: [...within, ...issue.path] }), path: shown, message: issue.message }
}

const asObject = (value: unknown) => (typeof value === 'object' && value !== null ? value : {})

/** The problems of a body's JSON value: of its outline, then of each query and lead, then conflicts between entries. */
export function* findBodyProblems(value: unknown): Generator<BodyProblem, void, undefined> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    yield { clause: '4.2', path: '', message: 'must be an object with queryList and fsbos' }
    return
  }
  const outer = outerSchema.safeParse(value)
  if (!outer.success) for (const issue of describeIssues(outer.error.issues, value)) yield toProblem(issue)
  const lists = value as Partial<Record<'queryList' | 'fsbos', unknown>>
  for (const [name, schema] of [
    ['queryList', deliveredQuerySchema],
    ['fsbos', deliveredLeadSchema],
  ] as const) {
    const list = lists[name]
    if (!Array.isArray(list)) continue
    for (const [at, entry] of list.entries()) {
      const parsed = schema.safeParse(entry)
      if (parsed.success) continue
      for (const issue of describeIssues(parsed.error.issues, entry)) yield toProblem(issue, [name, at])
    }
  }
  const { queryList, fsbos } = lists
  if (!Array.isArray(queryList) || !Array.isArray(fsbos)) return
  const conflicts = findBodyConflicts({ queryList: queryList.map(asObject), fsbos: fsbos.map(asObject) })
  for (const { path, message } of conflicts) {
    yield { clause: path[0] === 'fsbos' ? '4.3' : '4.11', path: formatPath(path), message }
  }
}
