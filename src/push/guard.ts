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
import { hasBegun, type ImportVolume, type OpenRun } from '../deliveries/runs.ts'
import type { UserPlan } from './planner.ts'

export interface Week {
  importVolume: ImportVolume
  /** The weeks to compare with, the newest first: up to 4 earlier ones, or the accepted figures of this week. */
  before: readonly ImportVolume[]
  isAccepted: boolean
  /** Periods before this one that had a weekly run, the newest first. */
  earlier: readonly string[]
}

interface WeekRow extends ImportVolume {
  period: string
  startedAt: Date
  isComparable: boolean
}

/**
 * For each earlier period: the first run that was not held, with its import figures, and the first run that was held or has no
 * figures. For this period: the last accepted run. Runs with a limit come after runs without one.
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

/** Each listing counts once, in the week in which it was last seen, with the fields that it had then. */
async function findImportVolume(db: Database, since: Date | undefined): Promise<ImportVolume> {
  const { rows } = await sql<ImportVolume>`
    select count(*) as listings, case when count(filled) = count(*) then coalesce(sum(filled), 0)::bigint end as "filledFields"
    from lead_seen where not gone and seen_at >= coalesce(${since ?? null}::timestamptz, now() - interval '7 days')
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
    importVolume: await rideOut(() => findImportVolume(db, since)),
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

/** The reason to hold the whole run; undefined: there is none. */
export function judgeWeek({ importVolume: feed, before, isAccepted }: Omit<Week, 'earlier'>): string | undefined {
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

/** Whether the reason of a skip line is the guard's. */
export const isHeldBack = (reason: string) => reason.startsWith('held: ')

/** The reason to hold back a user who would get `leads` leads; undefined: there is none. */
export function judgeUser(leads: number, before: number | undefined): string | undefined {
  if (before === undefined || before < comparedLeadsMin || leads * userFall > before) return undefined
  return `held: ${leads} ${leads === 1 ? 'lead' : 'leads'} instead of ${before} in the last weekly delivery with the same queries`
}

/**
 * The reason to send nothing of a plan; undefined: there is none. A plan without a query that was too slow would be taken for the
 * whole. Only plans of a weekly pass have an earlier delivery to compare with (contract 4.14).
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

/** The reason to hold a weekly push if this machine's time zone differs from the last run's: its week may be another. */
const judgeZone = (timeZone: string, otherTimeZone: string | undefined) =>
  otherTimeZone &&
  `held: LEADPUSH_TIME_ZONE is ${timeZone}, and the last run used ${otherTimeZone}: give all machines that share this database the same, or, if it is ${timeZone} from now on, use --accept`

export interface Verdict {
  importVolume: ImportVolume
  /** Why the whole run is held; undefined: it is not. */
  held: string | undefined
  guardsUsers: boolean
  /** The periods whose deliveries each user's is compared with. */
  earlier: readonly string[]
}

/** `interrupted`: the runs that are resumed. If one of them was accepted, no user is held back. */
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
    importVolume: week.importVolume,
    held: (accept ? undefined : judgeZone(timeZone, otherTimeZone)) ?? (guards ? judgeWeek(week) : undefined),
    guardsUsers,
    earlier: guardsUsers ? week.earlier : [],
  }
}
