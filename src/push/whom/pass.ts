/** The users whom a run has to serve, as values; `users-to-serve.ts` turns these into SQL. */
import { createHash } from 'node:crypto'
import type { OpenRun } from '../../deliveries/runs.ts'

export interface UserToServe {
  id: number
  email: string
}

/** The position of a user in the order in which users are served. */
export interface Cursor {
  homeKey: string
  id: number
}

/** Which subscribed users belong to a pass. */
export type Meant =
  | { who: 'everybody' }
  /** Users who had their weekly delivery before the run `before` began (or without it, before now). */
  | { who: 'served'; before: number | undefined }
  /** Users with a delivery of the period that ended in one of `ends`, and no later one that is pending, or delivered without doubt. */
  | { who: 'failed'; ends: readonly BadEnd[] }

/** How a delivery ended, if it may have to be made anew; `doubtful`: delivered with an answer that shows nothing. */
export type BadEnd = 'failed' | 'unknown' | 'doubtful'

/** The ends that `push --failed` makes anew. */
export const badEnds = ({ unknown, doubtful }: { unknown?: boolean; doubtful?: boolean }): BadEnd[] => [
  'failed',
  ...(unknown ? (['unknown'] as const) : []),
  ...(doubtful ? (['doubtful'] as const) : []),
]

/** One way through the subscribed users: those who have no claim in its scope yet. */
export interface Pass {
  kind: 'weekly' | 'forced'
  period: string
  /** The scope in which its pushes claim their users. */
  scope: string
  meant: Meant
  /** The scopes in which the guard finds a user's earlier delivery, the newest first; if empty, it holds nobody back. */
  compared: readonly string[]
}

/**
 * The scope of the ranges of a pass. A range keeps other processes away from its users, so it may only bind passes with the same users:
 * the scope follows from the users of the pass.
 */
export function rangeScopeOf({ kind, period, meant }: Pass): string {
  const hash = createHash('sha256').update(JSON.stringify(meant)).digest('hex')
  return `${kind}:${period}:${hash.slice(0, 16)}`
}

export const weeklyScope = (period: string) => `weekly:${period}`

/** `earlier`: the periods whose deliveries this one is compared with. */
export function weeklyPass(period: string, earlier: readonly string[] = []): Pass {
  const compared = earlier.map(weeklyScope)
  return { kind: 'weekly', period, scope: weeklyScope(period), meant: { who: 'everybody' }, compared }
}

/**
 * A further delivery for users who had theirs before the run `forcedBy` opened the scope (or without it, before now). `guarded`: the
 * guard compares the two.
 */
export const forcedPass = (period: string, forcedBy: number | undefined, guarded = false): Pass => ({
  kind: 'forced',
  period,
  scope: `forced:${forcedBy}`,
  meant: { who: 'served', before: forcedBy },
  compared: guarded ? [weeklyScope(period)] : [],
})

/** The pass that goes on with interrupted `--force` runs; undefined: there are none. */
export function resumedForcedPass(period: string, interrupted: readonly OpenRun[], guarded = false): Pass | undefined {
  const forcedBy = interrupted.find((run) => run.forcedBy !== null)?.forcedBy
  return forcedBy == null ? undefined : forcedPass(period, forcedBy, guarded)
}

/** A further delivery for users with a delivery of the period that ended in one of `ends`. */
export function failedPass(period: string, runId: number, ends: readonly BadEnd[]): Pass {
  return { kind: 'forced', period, scope: `failed:${runId}`, meant: { who: 'failed', ends }, compared: [] }
}
