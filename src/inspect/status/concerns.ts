/**
 * Finds the facts that a monitor checks besides the state of the period: whether users were left out, and whether listings and triggers
 * still flow. Each figure is one statement that uses an index or reads the users once.
 */
import { sql } from 'kysely'
import { leftDays, monitoredRunDays } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { countOwedForLong, countWithoutTwoPeriods } from './missed.ts'
import type { SourceReport } from './sources.ts'
import type { Status } from './status.ts'
import { findWithoutLeads, type WithoutLeads } from './without-leads.ts'

export interface Concerns {
  /** Users whom a push left owed a day ago or earlier, without those whom the guard holds back. */
  left: number
  /** Users who were due in the period before, and got nothing in it or in this one. */
  without: { period: string; users: number }
  /** Whether a whole `push --all` ever finished, and whether one did in the last `monitoredRunDays` days. */
  weekly: { ever: boolean; lately: boolean }
  withoutLeads: WithoutLeads
  hooks: HookConcerns
  /** When listings were last imported; undefined if that is not too long ago. */
  feed: { lastAt: Date; maxAgeMs: number } | undefined
  /** Sources that still have listings, and were not imported for too long, the longest absent first; undefined if there are none. */
  lateSources: { sources: readonly SourceReport[]; maxAgeMs: number } | undefined
}

/** Hooks by their trouble. */
interface HookConcerns {
  abandoned: Hooks
  dropped: Hooks
  /** Triggers have been due for a day, and no run of `trigger` looked for them or tried to send them. */
  waiting: Hooks
  /** The hook fails now, and has failed for a day. */
  failing: Hooks
}

/** `integrationId`: the integration of one of the hooks; null if there is none. */
interface Hooks {
  count: number
  /** How many of them are switched off. */
  off: number
  integrationId: number | null
}

export interface ConcernSettings {
  maxLeadAgeMs: number
  feedMaxAgeMs: number | undefined
}

/** The figures of `status` that concerns begin with. */
type Seen = Pick<Status, 'period' | 'seenSince' | 'held' | 'owed' | 'sources'>

const sinceDays = sql<Date>`(now() - ${leftDays} * interval '1 day')`

const hookConcerns = {
  abandoned: sql<boolean>`h.abandoned_at > ${sinceDays}`,
  dropped: sql<boolean>`h.dropped_at > ${sinceDays}`,
  // a run leaves a hook alone during the pause after its last attempt; the listings of an import wait until a run has matched them with
  // hooks
  waiting: sql<boolean>`(exists (select from triggers t where t.hook_id = h.id and t.due_at <= ${sinceDays})
      and case when h.last_at is null then '-infinity' else greatest(h.last_at, h.paused_until) end <= ${sinceDays}
    or h.looked_import_id < (select max(i.id) from imports i where i.inserted > 0 and i.started_at <= ${sinceDays}))`,
  failing: sql<boolean>`h.failing_since <= ${sinceDays} and (h.off_since is not null
    or exists (select from triggers t where t.hook_id = h.id and t.attempts > 0 and t.due_at < 'infinity'))`,
}

async function findHookConcerns(db: Database): Promise<HookConcerns> {
  const found = await Promise.all(
    Object.entries(hookConcerns).map(async ([name, condition]) => {
      const { rows } = await sql<Hooks>`
        select count(*) as count, count(h.off_since) as off, min(h.integration_id) as "integrationId" from hooks h where ${condition}
      `.execute(db)
      return [name, rows[0]]
    }),
  )
  return Object.fromEntries(found)
}

async function findWeekly(db: Database): Promise<Concerns['weekly']> {
  const { rows } = await sql<Concerns['weekly']>`
    select count(*) > 0 as ever, count(*) filter (where ended_at >= now() - ${monitoredRunDays} * interval '1 day') > 0 as lately
    from runs where came_to_end and command in ('all', 'force') and resumable and ended_at <= now()
  `.execute(db)
  return rows[0] ?? { ever: false, lately: false }
}

async function findFeed(db: Database, maxAgeMs: number | undefined): Promise<Concerns['feed']> {
  if (maxAgeMs === undefined) return undefined
  const { rows } = await sql<{ lastAt: Date }>`
    select started_at as "lastAt" from imports where id = (select max(id) from imports)
      and started_at < now() - ${maxAgeMs} * interval '1 millisecond'
  `.execute(db)
  return rows[0] && { ...rows[0], maxAgeMs }
}

function pickLate({ sources, seenSince }: Seen, settings: ConcernSettings): Concerns['lateSources'] {
  const { maxLeadAgeMs, feedMaxAgeMs: maxAgeMs } = settings
  if (maxAgeMs === undefined) return undefined
  const since = seenSince.getTime() + maxLeadAgeMs - maxAgeMs
  const late = sources.filter(({ importedAt, live, tooOld }) => importedAt.getTime() < since && live + tooOld > 0)
  if (late.length === 0) return undefined
  return { sources: late.sort((a, b) => a.importedAt.getTime() - b.importedAt.getTime()), maxAgeMs }
}

async function findPeriodBefore(db: Database, period: string): Promise<string> {
  const { rows } = await sql<{ before: string }>`
    select to_char(to_date(${period}, 'IYYY-"W"IW') - 7, 'IYYY-"W"IW') as before
  `.execute(db)
  return rows[0]?.before ?? ''
}

/** Reads the concerns of the period in `status`, and of the one before. */
export async function findConcerns(db: Database, status: Seen, settings: ConcernSettings): Promise<Concerns> {
  const { period, seenSince, held, owed } = status
  const before = await findPeriodBefore(db, period)
  const [left, users, weekly, hooks, feed] = await Promise.all([
    countOwedForLong(db, period, owed > 0),
    countWithoutTwoPeriods(db, before, period, owed > 0),
    findWeekly(db),
    findHookConcerns(db),
    findFeed(db, settings.feedMaxAgeMs),
  ])
  const heldUsers = held === undefined ? 0 : held.reason === null ? held.users : left.weekly
  return {
    left: Math.max(0, left.weekly - heldUsers) + left.others,
    without: { period: before, users },
    weekly,
    withoutLeads: await findWithoutLeads(db, seenSince),
    hooks,
    feed,
    lateSources: pickLate(status, settings),
  }
}
