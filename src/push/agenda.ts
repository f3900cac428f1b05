/**
 * What a run has to do, in its order: which users, with which kind of push, who is skipped and why, whether all of it is held. A
 * push does it and a preview lists it, both from here, so that neither does what the other does not tell. Writes nothing.
 */
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { findInterruptedRuns, type OpenRun } from '../deliveries/runs.ts'
import type { SkipLine } from '../index.ts'
import { judge, type Verdict } from './guard.ts'
import {
  countServed,
  countUsersToServe,
  failedPass,
  findUsersOwedSubscription,
  findUsersWithoutQueries,
  forcedPass,
  type Pass,
  type UserToServe,
  weeklyPass,
  weeklyScope,
} from './users-to-serve.ts'

export type AgendaRequest =
  | { what: 'all'; force: boolean }
  | { what: 'resume' }
  | { what: 'failed'; unknown: boolean }
  /** `owedOnly`: nothing but the subscription push that is owed, or what was left of one. */
  | { what: 'user'; user: UserToServe; owed: boolean; owedOnly?: boolean }

export interface AgendaContext {
  db: Database
  request: AgendaRequest
  period: string
  /** Of the run that does it; a preview has none. */
  runId: number | undefined
  timeZone: string
  /** Of the last run, where it is another one. */
  otherTimeZone: string | undefined
  guard: 'on' | 'off'
  /** Whether what the guard holds back is sent all the same. */
  accept: boolean
}

export type AgendaStep =
  /** These users, each by themselves. */
  | { users: readonly UserToServe[]; kind: 'subscription' | 'single' }
  /** Somebody who gets nothing. */
  | { skip: SkipLine }
  /** All users of a pass, which processes share. */
  | { pass: Pass }

export interface UsersLeft {
  /** Nobody has them in hand. */
  free: number
  /** Those of them who are not among the users counted before. */
  uncounted: number
  /** Another process has them in hand. */
  elsewhere: number
}

export const skipWithoutQueries = (user: string): SkipLine => ({ type: 'skip', user, reason: 'no queries' })

export class Agenda {
  /** Runs that this one goes on with. */
  interrupted: readonly OpenRun[] = []
  /** Of the guard, where it was asked: once, whatever is found later. */
  verdict: Verdict | undefined

  private readonly context: AgendaContext

  constructor(context: AgendaContext) {
    this.context = context
  }

  /** Finds out what other runs left, and asks the guard where weekly deliveries are to be made. May be done again. */
  async look(): Promise<void> {
    const { db, request, period, guard, accept, timeZone, otherTimeZone } = this.context
    if (request.what === 'user' || request.what === 'failed') return
    this.interrupted = await findInterruptedRuns(db, period)
    if (this.verdict || (request.what === 'resume' && this.interrupted.length === 0)) return
    const { interrupted } = this
    this.verdict = await judge(db, period, { guard, accept, interrupted, timeZone, otherTimeZone })
  }

  /** Why the guard holds back all of it, if there is anybody to hold back, or the time zone is another; `left` is what `count` found. */
  findReasonToHoldAll({ free, elsewhere }: UsersLeft): string | undefined {
    const isForNobody = free + elsewhere === 0 && this.context.otherTimeZone === undefined
    return isForNobody ? undefined : this.verdict?.held
  }

  /** The ways through the users, one after the other. */
  get passes(): Pass[] {
    const { request, period, runId } = this.context
    const { guardsUsers = false, earlier = [] } = this.verdict ?? {}
    if (request.what === 'user') return []
    if (request.what === 'failed')
      return [failedPass(period, runId ?? 0, request.unknown ? ['failed', 'unknown'] : ['failed'])]
    const forced = this.interrupted
      .filter(({ command }) => command === 'force')
      .map(({ id }) => forcedPass(period, id, guardsUsers))
    const weekly = weeklyPass(period, earlier)
    if (request.what === 'resume') return this.interrupted.length > 0 ? [weekly, ...forced] : []
    return [weekly, ...forced, ...(request.force ? [forcedPass(period, runId, guardsUsers)] : [])]
  }

  /**
   * The steps in their order, but for deliveries that were begun before, which come first or beside them; `isAgain`: the same run has
   * taken them before, and tells of nobody twice who gets nothing.
   */
  async *steps(isAgain = false): AsyncGenerator<AgendaStep> {
    const { db, request, period } = this.context
    if (request.what === 'user') {
      const { user, owed, owedOnly } = request
      if (owed || !owedOnly) yield { users: [user], kind: owed ? 'subscription' : 'single' }
      return
    }
    if (request.what !== 'failed')
      for await (const users of findUsersOwedSubscription(db)) yield { users, kind: 'subscription' }
    if (request.what === 'all' && !isAgain)
      for await (const email of findUsersWithoutQueries(db, weeklyScope(period)))
        yield { skip: skipWithoutQueries(email) }
    if (this.verdict?.held === undefined) for (const pass of this.passes) yield { pass }
  }

  /** The users whom its passes have left; not `except` are the processes that have them in hand, `counted` the users counted before. */
  async count(except: readonly number[] = [], counted: readonly number[] = []): Promise<UsersLeft> {
    const left: UsersLeft = { free: 0, uncounted: 0, elsewhere: 0 }
    for (const pass of this.passes) {
      const { free, uncounted, held } = await rideOut(() => countUsersToServe(this.context.db, pass, except, counted))
      left.free += free
      left.uncounted += uncounted
      left.elsewhere += held
    }
    return left
  }

  /** How many users had their weekly delivery before, where that is asked for. */
  async countAlready(): Promise<number> {
    const { db, request, period } = this.context
    return request.what === 'all' ? await rideOut(() => countServed(db, period)) : 0
  }
}
