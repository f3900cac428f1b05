/**
 * The steps of a run, in order: the users with their kinds of push, skipped users with their reasons, and whether the guard holds the
 * whole run. A push carries the steps out and a preview lists them, so the two cannot disagree. Writes nothing.
 */
import type { OpenRun } from '../../deliveries/runs.ts'
import type { SkipLine } from '../../index.ts'
import type { WeekHold } from '../hold.ts'
import type { Ledger } from '../ledger.ts'
import { type PushRequest, type Scope, scopeOf } from '../run/scope.ts'
import { type GuardSettings, judge, type Verdict } from './guard.ts'
import {
  failedPass,
  forcedPass,
  type Pass,
  resumedForcedPass,
  type UserToServe,
  weeklyPass,
  weeklyScope,
} from './pass.ts'

export interface AgendaContext extends GuardSettings {
  ledger: Ledger
  request: PushRequest
  period: string
  /** The run that carries the agenda out; a preview has none. */
  runId: number | undefined
  /** With `--force`: the run that opened its forced scope; a preview of a new one has none. */
  forcedBy: number | undefined
}

export type AgendaStep =
  /** Users who are planned by name, not found by a pass. */
  | { users: readonly UserToServe[]; kind: 'subscription' | 'single' }
  /** A skipped user. */
  | { skip: SkipLine }
  /** All users of a pass; several processes share them. */
  | { pass: Pass }

export interface UsersLeft {
  /** Users whom no process is working on. */
  free: number
  /** Free users whom the run has not counted yet. */
  uncounted: number
  /** Users whom another process is working on. */
  elsewhere: number
}

/** The users of the passes. */
export interface CountedUsers extends UsersLeft {
  /** Users of the weekly pass who had their delivery, and users without queries. */
  served: number
  withoutQueries: number
  /** The run that opened the forced scope in which no other process is at work. */
  forcedBy?: number | undefined
}

export const skipWithoutQueries = (user: string): SkipLine => ({ type: 'skip', user, reason: 'no queries' })

/** A user who was found and no longer exists. */
export const skipRemoved = (user: string): SkipLine => ({
  type: 'skip',
  user,
  reason: 'the user was removed meanwhile',
})

export class Agenda {
  /** The runs that this one resumes. */
  interrupted: readonly OpenRun[] = []
  /** The guard's verdict. The guard is asked once, even if `look` is called again. */
  verdict: Verdict | undefined

  private readonly context: AgendaContext
  private readonly scope: Scope

  constructor(context: AgendaContext) {
    this.context = context
    this.scope = scopeOf(context.request)
  }

  /** Finds the runs to resume, and asks the guard if weekly deliveries are to be made. May be called again. */
  async look(): Promise<void> {
    const { ledger, request, period } = this.context
    if (!this.scope.resumes) return
    this.interrupted = await ledger.runs.findInterrupted(period)
    if (this.verdict || (request.what === 'resume' && this.interrupted.length === 0)) return
    const { interrupted } = this
    this.verdict = judge(await ledger.runs.findWeek(period), { ...this.context, interrupted })
  }

  /** Why the guard holds the whole run: only if there are users to hold, or the time zone differs. Takes the result of `count`. */
  findHold({ free, elsewhere }: UsersLeft): WeekHold | undefined {
    const isForNobody = free + elsewhere === 0 && this.context.otherTimeZone === undefined
    return isForNobody ? undefined : this.verdict?.held
  }

  /** The passes over the subscribed users, in order. */
  get passes(): Pass[] {
    const { request, period, runId, forcedBy } = this.context
    const { guardsUsers = false, earlier = [] } = this.verdict ?? {}
    if (request.what === 'user' || request.what === 'owed') return []
    if (request.what === 'failed') return [failedPass(period, runId ?? 0, request.ends)]
    const { interrupted } = this
    if (request.what === 'resume' && interrupted.length === 0) return []
    const forced =
      request.what === 'all' && request.force
        ? forcedPass(period, forcedBy, guardsUsers)
        : resumedForcedPass(period, interrupted, guardsUsers)
    return [weeklyPass(period, earlier), ...(forced ? [forced] : [])]
  }

  /**
   * The steps in order, without deliveries that are already begun, which come first or alongside. `counted`: the result of `count`; a
   * pass for which it found nobody is not searched. `isAgain`: the same run has taken these steps before, and does not report skipped
   * users again.
   */
  async *steps({ free, elsewhere, withoutQueries }: CountedUsers, isAgain = false): AsyncGenerator<AgendaStep> {
    const { ledger, request, period } = this.context
    if (request.what === 'user') {
      const { user, further = [], owed, owedOnly } = request
      if (owed || !owedOnly) yield { users: [user, ...further], kind: owed ? 'subscription' : 'single' }
      return
    }
    const { owed } = this.scope
    if (owed !== 'none')
      for await (const users of ledger.users.findOwedSubscription(owed === 'untilNone'))
        yield { users, kind: 'subscription' }
    if (request.what === 'all' && !isAgain && withoutQueries > 0)
      for await (const email of ledger.users.findWithoutQueries(weeklyScope(period)))
        yield { skip: skipWithoutQueries(email) }
    // `push --all` counts once more before it ends
    const isNobodyLeft = request.what === 'all' && free + elsewhere === 0
    if (this.verdict?.held === undefined && !isNobodyLeft) for (const pass of this.passes) yield { pass }
  }

  /** Counts the users of the passes. Workers in `except` do not count as other processes; `counted` are user ids. */
  async count(except: readonly number[] = [], counted: readonly number[] = []): Promise<CountedUsers> {
    const sum: CountedUsers = { free: 0, uncounted: 0, elsewhere: 0, served: 0, withoutQueries: 0 }
    for (const pass of this.passes) {
      const found = await this.context.ledger.users.countOfPass(pass, except, counted)
      sum.free += found.free
      sum.uncounted += found.uncounted
      sum.elsewhere += found.elsewhere
      if (pass.meant.who === 'served' && found.elsewhere === 0) sum.forcedBy = pass.meant.before
      if (pass.kind !== 'weekly') continue
      // both figures of a page are of one moment: others begin users meanwhile
      sum.served += found.claimed - found.begun
      sum.withoutQueries += found.withoutQueries
    }
    return sum
  }
}
