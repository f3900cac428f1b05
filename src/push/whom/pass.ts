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
  /**
   * Users who had their weekly delivery before the run `before` began (or without it, before now). Left out are users whose forced
   * delivery of one of the runs `notGoingOn` is pending, and users with a claim in one of `notIn`.
   */
  | { who: 'served'; before: number | undefined; notGoingOn: readonly number[]; notIn: readonly string[] }
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
const forcedScope = (runId: number | undefined) => `forced:${runId}`

/** `earlier`: the periods whose deliveries this one is compared with. */
export function weeklyPass(period: string, earlier: readonly string[] = []): Pass {
  const compared = earlier.map(weeklyScope)
  return { kind: 'weekly', period, scope: weeklyScope(period), meant: { who: 'everybody' }, compared }
}

export const isForced = ({ command }: Pick<OpenRun, 'command'>): boolean => command === 'force'

/**
 * A further delivery for users who had theirs before the run `forcedRunId` began (or without it, before now). `guarded`: the guard
 * compares the two. `interrupted`: earlier runs; a user with a pending forced delivery of these gets no other one.
 */
export function forcedPass(
  period: string,
  forcedRunId?: number,
  guarded = false,
  interrupted: readonly Pick<OpenRun, 'id'>[] = [],
): Pass {
  return {
    kind: 'forced',
    period,
    scope: forcedScope(forcedRunId),
    meant: { who: 'served', before: forcedRunId, notGoingOn: interrupted.map(({ id }) => id), notIn: [] },
    compared: guarded ? [weeklyScope(period)] : [],
  }
}

/**
 * The pass that goes on with interrupted `--force` runs, the oldest first; undefined: there are none. They count as one run, since each
 * repeats the one before: a user whom one of them served gets nothing further. A run that finished, except for users who were held back,
 * has served the others: it counts only together with later runs.
 */
export function resumedForcedPass(period: string, interrupted: readonly OpenRun[], guarded = false): Pass | undefined {
  const forced = interrupted.filter(isForced)
  // if all finished, the last one remains
  const [first, ...later] = forced.slice(forced.findIndex(({ cameToEnd }) => !cameToEnd))
  if (first === undefined) return undefined
  const notIn = later.map(({ id }) => forcedScope(id))
  const meant = { who: 'served', before: first.id, notGoingOn: [], notIn } as const
  return { ...forcedPass(period, first.id, guarded), meant }
}

/** A further delivery for users with a delivery of the period that ended in one of `ends`. */
export function failedPass(period: string, runId: number, ends: readonly BadEnd[]): Pass {
  return { kind: 'forced', period, scope: `failed:${runId}`, meant: { who: 'failed', ends }, compared: [] }
}
