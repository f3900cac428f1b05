/**
 * `status`: what the ledger says of the current period and of the last runs, and whether a monitor should call somebody. It
 * reads, and writes nothing; every statement is bounded in what it returns.
 */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { findPeriod, type RunCommand, type RunOutcome } from '../deliveries/runs.ts'
import { isLive } from '../deliveries/workers.ts'
import { countHooksInTrouble, findHooksInTrouble, type HookInTrouble } from '../integrations/hooks-in-trouble.ts'
import { monitoredRunDays } from '../limits.ts'
import { isClaimed, weeklyScope } from '../push/users-to-serve.ts'

export interface RunReport {
  command: RunCommand
  period: string
  startedAt: Date
  endedAt: Date | null
  /** `interrupted` where its process died, whether anybody has noted that or not. */
  outcome: RunOutcome
}

export interface Status {
  period: string
  subscribed: number
  /** Deliveries of the period, by how they ended. */
  delivered: number
  failed: number
  unknown: number
  /** Deliveries of any period that are to get an attempt, or are getting one. */
  pending: number
  /** Those of them that no living process has in hand. */
  stuck: number
  /** Deliveries of the period that failed, of users who exist and got none since. */
  failedWithoutLater: number
  /** Users: without their weekly delivery in the period, with a subscription push to come, or with a delivery pending. */
  owed: number
  lastRun: RunReport | undefined
  /** What the guard holds back in the period, since its last weekly run: all, with the reason, or so many users. */
  held: { reason: string | null; users: number } | undefined
  /** Whether a `push --all` came to its end so lately that a monitor can rest. */
  ranLately: boolean
  hooksInTrouble: number
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
  const { rows } = await sql<{ pending: number; stuck: number }>`
    select count(*) as pending, count(*) filter (where not ${isLive(sql`d.worker_id`)}) as stuck
    from deliveries d where d.status = 'pending'
  `.execute(db)
  return rows[0] ?? { pending: 0, stuck: 0 }
}

async function countFailedWithoutLater(db: Database, period: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from deliveries d
    where d.period = ${period} and d.status = 'failed' and exists (select from users u where u.id = d.user_id)
      and not exists (
        select from deliveries e where e.user_id = d.user_id and e.created_at > d.created_at and e.status = 'delivered'
      )
  `.execute(db)
  return rows[0]?.n ?? 0
}

async function countUsers(db: Database, period: string) {
  const { rows } = await sql<{ subscribed: number; owed: number }>`
    select (select count(*) from users where subscribed) as subscribed, count(*) as owed from (
      select u.id from users u
      where u.subscribed and not ${isClaimed(weeklyScope(period))}
        and exists (select from queries q where q.user_id = u.id)
      union
      select u.id from users u
      where u.subscription_owed_at is not null and exists (select from queries q where q.user_id = u.id)
      union
      select u.id from deliveries d join users u on u.id = d.user_id where d.status = 'pending'
    ) owed
  `.execute(db)
  return rows[0] ?? { subscribed: 0, owed: 0 }
}

async function hasRunLately(db: Database): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    select exists (
      select from runs where command in ('all', 'force') and came_to_end
        and ended_at >= now() - ${monitoredRunDays} * interval '1 day'
    ) as found
  `.execute(db)
  return rows[0]?.found ?? false
}

async function findHeld(db: Database, period: string): Promise<Status['held']> {
  // what users it held stands with a run until another has gone on with it, which none does with a limit
  const { rows } = await sql<{ reason: string | null; users: number }>`
    select max(held) filter (where is_last and not came_to_end) as reason,
      coalesce(max(held_users) filter (where is_last or resumable), 0) as users
    from (
      select *, id = max(id) over () as is_last from runs
      where period = ${period} and command in ('all', 'force', 'resume') and listings is not null
    ) weekly
  `.execute(db)
  const [found] = rows
  return found && (found.reason !== null || found.users > 0) ? found : undefined
}

/** The last runs, the newest first. */
export async function findLastRuns(db: Database, limit: number = runsShown): Promise<RunReport[]> {
  const { rows } = await rideOut(() =>
    sql<RunReport>`
      select command, period, started_at as "startedAt", ended_at as "endedAt",
        case when outcome = 'running' and not ${isLive(sql`r.worker_id`)} then 'interrupted' else outcome end as outcome
      from runs r order by started_at desc, id desc limit ${limit}
    `.execute(db),
  )
  return rows
}

/** The state of the period that the database's clock says, in the time zone. Throws `usage` for one it does not know. */
export async function findStatus(db: Database, settings: { timeZone: string; maxLeadAgeMs: number }): Promise<Status> {
  const { period } = await findPeriod(db, settings)
  const [ended, pending, failedWithoutLater, users, held, ranLately, [lastRun], hooksInTrouble] = await rideOut(() =>
    Promise.all([
      countEnded(db, period),
      countPending(db),
      countFailedWithoutLater(db, period),
      countUsers(db, period),
      findHeld(db, period),
      hasRunLately(db),
      findLastRuns(db, 1),
      countHooksInTrouble(db),
    ]),
  )
  return { period, ...users, ...ended, ...pending, failedWithoutLater, held, lastRun, ranLately, hooksInTrouble }
}

/** Hooks whose triggers fail, or were given up lately. */
export function findTroubledHooks(db: Database, limit = troublesShown): Promise<HookInTrouble[]> {
  return rideOut(() => findHooksInTrouble(db, limit))
}

/** `the weekly run (800 listings …)`, `3 users`. */
export function describeHeld({ reason, users }: NonNullable<Status['held']>): string {
  if (reason !== null) return `the weekly run (${reason.replace(/^held: /, '')})`
  return users === 1 ? '1 user' : `${users} users`
}

/** What a monitor should call somebody for, and what to do; none: all is well. */
export function listAlarms(status: Status): { what: string; toDo: string }[] {
  const { stuck, failedWithoutLater, period, subscribed, held, ranLately } = status
  const alarms: { what: string; toDo: string }[] = []
  const of = (count: number) => `${count} ${count === 1 ? 'delivery' : 'deliveries'}`
  if (stuck > 0) {
    const what = `${of(stuck)} ${stuck === 1 ? 'waits' : 'wait'} for an attempt in the hands of no living process`
    alarms.push({ what, toDo: 'run `leadpush push --resume`.' })
  }
  if (failedWithoutLater > 0) {
    const what = `${of(failedWithoutLater)} of ${period} failed, and nothing later was delivered`
    alarms.push({ what, toDo: 'mend the cause, then run `leadpush push --failed`.' })
  }
  if (held) {
    const what = `The guard holds back ${describeHeld(held)} in ${period}`
    const toDo =
      'ask `leadpush preview` why, mend what was imported and run `leadpush push --all`, or send it all the same with `leadpush push --all --accept`.'
    alarms.push({ what, toDo })
  }
  if (subscribed > 0 && !ranLately) {
    const what = `No \`push --all\` came to its end in the last ${monitoredRunDays} days`
    alarms.push({ what, toDo: 'check that cron runs it once a week.' })
  }
  return alarms
}

/** A sentence each. */
export const findAlarms = (status: Status): string[] => listAlarms(status).map(({ what, toDo }) => `${what}: ${toDo}`)
