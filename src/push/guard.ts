/**
 * The guard of the weekly push (contract 4.14): compares what was imported in a week with the weeks before, and the leads of a
 * user with those of their last weekly delivery with the same queries. A push and a preview ask it the same; it writes nothing.
 */
import { sql } from 'kysely'
import {
  comparedDays,
  comparedLeadsMin,
  comparedListingsMin,
  comparedWeeksMax,
  userFall,
  weekFall,
} from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { type Feed, hasBegun, type OpenRun } from '../deliveries/runs.ts'
import type { UserPlan } from './planner.ts'

export interface Week {
  feed: Feed
  /** What it is compared with, the newest first: up to 4 weeks before, or what was accepted in this one. */
  before: readonly Feed[]
  isAccepted: boolean
  /** Periods before this one that had a weekly run, the newest first. */
  earlier: readonly string[]
}

interface WeekRow extends Feed {
  period: string
  startedAt: Date
  isComparable: boolean
}

/**
 * Of each period before this one the first run that was not held, with what was imported in its week, and the first that was, or
 * that has no figures; of this one, the last that was accepted. A run with a limit comes after those without.
 */
async function findWeeks(db: Database, period: string): Promise<WeekRow[]> {
  const { rows } = await sql<WeekRow>`
    with weekly as (
      select id, period, started_at as "startedAt", listings, filled_fields as "filledFields", accepted,
        listings is not null and held is null as "isComparable", command <> 'resume' and not resumable as is_limited
      from runs
      where started_at >= now() - ${comparedDays} * interval '1 day' and ${hasBegun(sql`runs`)} and command in ('all', 'force', 'resume')
        and (command <> 'resume' or listings is not null)
    ),
    earlier as (
      select distinct on (period, "isComparable") period, "startedAt", listings, "filledFields", "isComparable"
      from weekly where period < ${period} order by period, "isComparable", is_limited, id
    ),
    accepted as (
      select period, "startedAt", listings, "filledFields", "isComparable"
      from weekly where period = ${period} and accepted and "isComparable" order by id desc limit 1
    )
    select * from (select * from earlier union all select * from accepted) found order by period desc
  `.execute(db)
  return rows
}

/** Each listing counts once, in the week in which it was seen last, with what was known of it then. */
async function findFeed(db: Database, since: Date | undefined): Promise<Feed> {
  const { rows } = await sql<Feed>`
    select count(*) as listings, case when count(filled) = count(*) then coalesce(sum(filled), 0)::bigint end as "filledFields"
    from lead_seen where seen_at >= coalesce(${since ?? null}::timestamptz, now() - interval '7 days')
  `.execute(db)
  return rows[0] ?? { listings: 0, filledFields: 0 }
}

/** The week of `period` so far: what was imported since the first weekly run of the last period that had one. */
async function findWeek(db: Database, period: string): Promise<Week> {
  const weeks = await rideOut(() => findWeeks(db, period))
  const accepted = weeks.find((week) => week.period === period)
  const earlier = weeks.filter((week) => week.period !== period)
  const beganAt = earlier
    .filter((week) => week.period === earlier[0]?.period)
    .map(({ startedAt }) => startedAt.getTime())
  const since = beganAt.length > 0 ? new Date(Math.min(...beganAt)) : undefined
  return {
    feed: await rideOut(() => findFeed(db, since)),
    before: accepted ? [accepted] : earlier.filter(({ isComparable }) => isComparable).slice(0, comparedWeeksMax),
    isAccepted: accepted !== undefined,
    earlier: [...new Set(earlier.map((week) => week.period))],
  }
}

function median(figures: readonly number[]): number | undefined {
  const sorted = figures.toSorted((a, b) => a - b)
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[Math.floor(sorted.length / 2)]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

/** Why all of a run is to be held back; undefined: it is not. */
export function judgeWeek({ feed, before, isAccepted }: Omit<Week, 'earlier'>): string | undefined {
  const listings = median(before.map((week) => week.listings))
  if (listings === undefined || listings < comparedListingsMin) return undefined
  const fields = median(before.flatMap(({ filledFields }) => filledFields ?? []))
  const when = isAccepted
    ? 'when this week was accepted'
    : before.length === 1
      ? 'in the week before'
      : `in the median of ${before.length} weeks before`
  const imported = 'imported since the last weekly run'
  if (feed.listings * weekFall <= listings)
    return `held: ${feed.listings} listings ${imported} instead of ${Math.round(listings)} ${when}`
  if (feed.filledFields !== null && fields !== undefined && fields > 0 && feed.filledFields * weekFall <= fields)
    return `held: ${feed.filledFields} filled fields in the ${feed.listings} listings ${imported} instead of ${Math.round(fields)} ${when}`
  return undefined
}

/** Whether it is the guard that a skip line speaks of. */
export const isHeldBack = (reason: string) => reason.startsWith('held: ')

/** Why a user who is to get so many leads is to be held back; undefined: they are not. */
export function judgeUser(leads: number, before: number | undefined): string | undefined {
  if (before === undefined || before < comparedLeadsMin || leads * userFall > before) return undefined
  return `held: ${leads} ${leads === 1 ? 'lead' : 'leads'} instead of ${before} in the last weekly delivery with the same queries`
}

/**
 * Why nothing of a plan is to be sent: half of what a user asked for would be taken for all of it. Only users whom a weekly pass
 * found have something to be compared with (contract 4.14).
 */
export function findReasonToHold({
  deliveries,
  tooSlow,
  leadsBefore,
}: Pick<UserPlan, 'deliveries' | 'tooSlow' | 'leadsBefore'>): string | undefined {
  if (tooSlow !== undefined) return `a query takes too long to look up: ${tooSlow}`
  if (deliveries.length === 0) return undefined
  return judgeUser(
    deliveries.reduce((sum, { leads }) => sum + leads, 0),
    leadsBefore,
  )
}

/** Why a weekly push of a machine with another time zone than the last run's is to be held: it may be for another week. */
const judgeZone = (timeZone: string, otherTimeZone: string | undefined) =>
  otherTimeZone &&
  `held: LEADPUSH_TIME_ZONE is ${timeZone}, and the last run used ${otherTimeZone}: give all machines that share this database the same, or, if it is ${timeZone} from now on, use --accept`

export interface Verdict {
  feed: Feed
  /** Why nothing is to be sent. */
  held: string | undefined
  guardsUsers: boolean
  /** What users are compared with. */
  earlier: readonly string[]
}

/** `interrupted`: what it goes on with; what of that was accepted need not be accepted again. */
export async function judge(
  db: Database,
  period: string,
  {
    guard,
    accept,
    interrupted,
    timeZone,
    otherTimeZone,
  }: {
    guard: 'on' | 'off'
    accept: boolean
    interrupted: readonly OpenRun[]
    timeZone: string
    otherTimeZone: string | undefined
  },
): Promise<Verdict> {
  const week = await findWeek(db, period)
  const guards = guard === 'on' && !accept
  const guardsUsers = guards && !interrupted.some(({ accepted }) => accepted)
  return {
    feed: week.feed,
    held: (accept ? undefined : judgeZone(timeZone, otherTimeZone)) ?? (guards ? judgeWeek(week) : undefined),
    guardsUsers,
    earlier: guardsUsers ? week.earlier : [],
  }
}
