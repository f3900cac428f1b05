/**
 * Reads the figures of `status`: the current period, the last runs, users whom the guard holds back, hooks in trouble. Every statement
 * returns a bounded number of rows.
 */
import { type RawBuilder, sql } from 'kysely'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import {
  findInterruptedRuns,
  findPeriod,
  hasBegun,
  type OpenRun,
  type RunCommand,
  type RunOutcome,
} from '../../deliveries/runs.ts'
import { findTrouble } from '../../push/database/receivers.ts'
import { countUnclaimed, countUsersOfPass } from '../../push/database/users-left.ts'
import {
  hasQueries,
  isOwedBy,
  isOwedWeekly,
  isTheLastWord,
  owedSubscriptions,
} from '../../push/database/users-to-serve.ts'
import { resumedForcedPass, weeklyPass } from '../../push/whom/pass.ts'
import type { Troubles } from './advise-on.ts'
import { countHooksInTrouble, findHooksInTrouble, type HookInTrouble } from './hooks-in-trouble.ts'
import { findSourceReports, type SourceReport } from './sources.ts'

/** What began a run, as an operator knows it: `users subscribe` and `serve` begin subscription pushes. */
export const runNames: Readonly<Record<RunCommand, string>> = {
  all: 'push --all',
  force: 'push --all --force',
  resume: 'push --resume',
  failed: 'push --failed',
  user: 'push --user',
  owed: 'subscription pushes',
}

/** One run, as `status` lists it. */
export interface RunReport {
  command: RunCommand
  period: string
  startedAt: Date
  endedAt: Date | null
  /** `interrupted` if its process died, even before another process has recorded that. */
  outcome: RunOutcome
}

/**
 * The holds of the period: all users by the guard since its last weekly run, for the listings of its week or the time zone; all by the
 * answers of a run (contract 4.5); or a number of users.
 */
export type Held =
  | { by: 'week' | 'zone' | 'answers'; reason: string; users: number }
  | { by: 'users'; reason: null; users: number }

export interface Status {
  period: string
  /** Listings that no import had since this time are not delivered. */
  seenSince: Date
  subscribed: number
  /** Subscribed users without a query, who get nothing. */
  withoutQueries: number
  /** Deliveries of the period, by how they ended. */
  delivered: number
  failed: number
  unknown: number
  /** Deliveries of any period with an attempt left or under way. */
  pending: number
  /** Pending deliveries that no living process is working on. */
  stuck: number
  /** Users for whom `push --failed` would make a delivery anew, and those for whom `--unknown` and `--doubtful` would. */
  failedWithoutLater: number
  unknownWithoutLater: number
  doubtfulWithoutLater: number
  /** A run for all users left some, and `push --resume` goes on with it. */
  leftByRun: boolean
  /** A push of all users has a lease that is not over: it runs, or its process has just died. */
  isAtWork: boolean
  /** Users without their weekly delivery in the period, left by `--force`, with an owed subscription push, or with a pending delivery. */
  owed: number
  lastRun: RunReport | undefined
  held: Held | undefined
  /** The answer that the receiver gave to everybody, so that pushes are held (contract 4.12). */
  refused: { status: number; since: Date } | undefined
  /** Since when the receiver has been down, or with `asks` took nothing and asked for less, as far as pushes know. */
  down: { since: Date; asks: boolean } | undefined
  /** When a push found that the database lost records of it, if no push has finished since then (contract 4.7). */
  lost: { since: Date } | undefined
  hooksInTrouble: number
  sources: SourceReport[]
}

const runsShown = 5
const troublesShown = 20

async function countEnded(db: Database, period: string) {
  const { rows } = await sql<{ delivered: number; failed: number; unknown: number }>`
    select count(*) filter (where status = 'delivered') as delivered, count(*) filter (where status = 'failed') as failed,
      count(*) filter (where status = 'unknown') as unknown
    from deliveries where period = ${period} and status in ('delivered', 'failed', 'unknown')
  `.execute(db)
  return rows[0] ?? { delivered: 0, failed: 0, unknown: 0 }
}

async function countPending(db: Database) {
  const { rows } = await sql<{ pending: number; stuck: number; isAtWork: boolean }>`
    select count(*) as pending, count(*) filter (where not ${isLive(sql`d.worker_id`)}) as stuck,
      exists (select from runs r where r.outcome = 'running' and r.command in ('all', 'force', 'resume')
        and ${isLive(sql`r.worker_id`)}) as "isAtWork"
    from deliveries d where d.status = 'pending'
  `.execute(db)
  return rows[0] ?? { pending: 0, stuck: 0, isAtWork: false }
}

type WithoutLater = Pick<Status, 'failedWithoutLater' | 'unknownWithoutLater' | 'doubtfulWithoutLater'>

/** The users for whom `push --failed` would make a delivery of `period` anew, by how theirs ended. */
export async function countWithoutLater(db: Database, period: string): Promise<WithoutLater> {
  // each is a look into an index of its own
  const usersWith = (isSo: RawBuilder<boolean>) => sql`(
    select count(distinct d.user_id) from deliveries d join users u on u.id = d.user_id
    where d.period = ${period} and ${isSo} and u.subscribed and ${hasQueries} and ${isTheLastWord})`
  const { rows } = await sql<WithoutLater>`
    select ${usersWith(sql`d.status = 'failed'`)} as "failedWithoutLater", ${usersWith(sql`d.status = 'unknown'`)} as "unknownWithoutLater",
      ${usersWith(sql`d.doubtful`)} as "doubtfulWithoutLater"
  `.execute(db)
  return rows[0] as WithoutLater
}

/** Users who are owed another delivery than the weekly one of the period, including those whom interrupted `--force` runs left. */
async function countOwedOthers(db: Database, period: string, interrupted: readonly OpenRun[]): Promise<number> {
  const forced = resumedForcedPass(period, interrupted)
  const { rows } = await sql<{ others: number }>`
    select count(*) as others from users u where not ${isOwedWeekly(period)} and not ${forced ? isOwedBy(forced) : sql`false`} and u.id in (
      select u.id from ${owedSubscriptions}
      union
      select u.id from deliveries d join users u on u.id = d.user_id where d.status = 'pending'
    )
  `.execute(db)
  return (rows[0]?.others ?? 0) + (forced ? await countUnclaimed(db, forced) : 0)
}

async function countUsers(db: Database, period: string) {
  const interrupted = await findInterruptedRuns(db, period)
  const [{ free, elsewhere, claimed, withoutQueries }, others] = await Promise.all([
    countUsersOfPass(db, weeklyPass(period)),
    countOwedOthers(db, period, interrupted),
  ])
  const leftByRun = interrupted.some(({ cameToEnd }) => !cameToEnd)
  return {
    subscribed: free + elsewhere + claimed + withoutQueries,
    withoutQueries,
    owed: free + elsewhere + others,
    leftByRun,
  }
}

/** Why its answers held a run for all users that none has finished since. What they were to others is doubtful, which says enough. */
async function findHeldByAnswers(db: Database, period: string): Promise<string | null> {
  const { rows } = await sql<{ reason: string }>`
    select h.held_by_answers as reason from runs h
    where h.period = ${period} and h.held_by_answers is not null and h.resumable and not h.came_to_end and ${hasBegun(sql`h`)}
    order by h.started_at desc limit 1
  `.execute(db)
  return rows[0]?.reason ?? null
}

async function findHeld(db: Database, period: string): Promise<Held | undefined> {
  // the users whom a run held count until another run has resumed it; a run with a limit is never resumed
  const { rows } = await sql<{ by: 'week' | 'zone' | null; reason: string | null; users: number }>`
    select max(held_by) filter (where is_last and not came_to_end) as by,
      max(held) filter (where is_last and not came_to_end) as reason,
      coalesce(max(held_users) filter (where is_last or resumable), 0) as users
    from (
      select *, id = first_value(id) over (order by started_at desc, id) as is_last from runs
      where period = ${period} and command in ('all', 'force', 'resume') and listings is not null and ${hasBegun(sql`runs`)}
    ) weekly
  `.execute(db)
  const { by = null, reason = null, users = 0 } = rows[0] ?? {}
  if (by !== null && reason !== null) return { by, reason, users }
  const answers = await findHeldByAnswers(db, period)
  if (answers !== null) return { by: 'answers', reason: answers, users }
  return users > 0 ? { by: 'users', reason: null, users } : undefined
}

/** A run for some users says nothing of what others are owed: only a run for all ends the alarm. */
async function findLost(db: Database): Promise<Status['lost']> {
  const { rows } = await sql<{ since: Date }>`
    select l.ended_at as since from runs l
    where l.outcome = 'lost' and not l.came_to_end and ${hasBegun(sql`l`)} and not exists (
      select from runs r where r.started_at > l.started_at and ${hasBegun(sql`r`)} and r.came_to_end
        and r.command in ('all', 'force', 'resume') and (r.command = 'resume' or r.resumable))
    order by l.started_at desc limit 1
  `.execute(db)
  return rows[0]
}

/** The last runs, the newest first. */
export async function findLastRuns(db: Database, limit: number = runsShown): Promise<RunReport[]> {
  const { rows } = await sql<RunReport>`
      select command, period, started_at as "startedAt", ended_at as "endedAt",
        case when outcome = 'running' and not ${isLive(sql`r.worker_id`)} then 'interrupted' else outcome end as outcome
      from runs r where ${hasBegun(sql`r`)} order by started_at desc, id desc limit ${limit}
    `.execute(db)
  return rows
}

/** The state of the current period, by the database's clock. Throws `usage` for a time zone that the database does not know. */
export async function findStatus(db: Database, settings: { timeZone: string; maxLeadAgeMs: number }): Promise<Status> {
  const { period, seenSince } = await findPeriod(db, settings)
  const [ended, pending, withoutLater, users, held, trouble, lost, [lastRun], hooksInTrouble, sources] =
    await Promise.all([
      countEnded(db, period),
      countPending(db),
      countWithoutLater(db, period),
      countUsers(db, period),
      findHeld(db, period),
      findTrouble(db),
      findLost(db),
      findLastRuns(db, 1),
      countHooksInTrouble(db),
      findSourceReports(db, seenSince),
    ])
  return {
    period,
    seenSince,
    ...users,
    ...ended,
    ...pending,
    ...withoutLater,
    held,
    refused: trouble?.trouble.is === 'refuses' ? { status: trouble.trouble.status, since: trouble.since } : undefined,
    down:
      trouble && trouble.trouble.is !== 'refuses'
        ? { since: trouble.since, asks: trouble.trouble.is === 'asks' }
        : undefined,
    lost,
    lastRun,
    hooksInTrouble,
    sources,
  }
}

/** Hooks whose triggers fail, or were abandoned lately. */
export function findTroubledHooks(
  db: Database,
  keepAnswers: 'on' | 'off',
  limit = troublesShown,
): Promise<HookInTrouble[]> {
  return findHooksInTrouble(db, limit, keepAnswers)
}

/** `the weekly run (800 listings …)`, `3 users`; for answers `none of the last 20 answers …`. */
function describeHeld({ by, reason, users }: Held): string {
  if (by === 'users') return users === 1 ? '1 user' : `${users} users`
  const why = reason.replace(/^held: /, '')
  return by === 'answers' ? why : `the weekly run (${why})`
}

/** A sentence without its full stop; `when`: ` in 2026-W47`. */
export const tellHeld = (held: Held, when = ''): string =>
  held.by === 'answers'
    ? `A push was held${when}, as ${describeHeld(held)}`
    : `The guard holds back ${describeHeld(held)}${when}`

/** `concerned`: an alarm says that users wait for a push. */
export function troublesIn(status: Status, concerned = false): Troubles {
  const { held, refused, down, lost, stuck, leftByRun, isAtWork, owed, lastRun } = status
  const { failedWithoutLater: failed, unknownWithoutLater: unknown, doubtfulWithoutLater: doubtful } = status
  const isConcerned = concerned || (owed > 0 && lastRun?.outcome !== 'running')
  return {
    receiver: refused
      ? { is: 'refuses', status: refused.status }
      : down
        ? { is: down.asks ? 'asks' : 'down' }
        : held?.by === 'answers'
          ? { is: 'empty' }
          : undefined,
    held: held && held.by !== 'answers' ? held.by : undefined,
    // `push --all` leaves users to a dead process until its lease is over; `push --resume` waits for that
    waits: stuck > 0 || leftByRun || lost !== undefined || (isAtWork && isConcerned),
    owed: isConcerned,
    ...{ failed, unknown, doubtful },
  }
}
