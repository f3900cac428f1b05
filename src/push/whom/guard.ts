/**
 * The guard of the weekly push (contract 4.14): compares the imports of a week with the weeks before, and the leads of a user with those
 * of their last weekly delivery with the same queries. A push and a preview both ask it. Pure.
 */
import { comparedLeadsMin, comparedListingsMin, userFall, weekFall } from '../../base/limits.ts'
import { sumLeads } from '../../deliveries/plan.ts'
import type { ImportVolume, OpenRun, SourceVolume } from '../../deliveries/runs.ts'
import type { UserPlan } from '../database/planner.ts'
import type { FewListings, UserHold, WeekHold } from '../hold.ts'

export interface Week {
  importVolume: ImportVolume
  /** The weeks to compare with, the newest first: up to 4 earlier ones, or the accepted figures of this week. */
  before: readonly ImportVolume[]
  isAccepted: boolean
  sources: readonly SourceWeek[]
  /** Periods before this one that had a weekly run, the newest first. */
  earlier: readonly string[]
}

/** The week of a source that has listings. */
interface SourceWeek {
  volume: SourceVolume
  /** Its figures in the same weeks, except those before its first import. */
  before: readonly ImportVolume[]
}

function median(figures: readonly number[]): number | undefined {
  const sorted = figures.toSorted((a, b) => a - b)
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[Math.floor(sorted.length / 2)]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

/** Why the whole run is held: because of all imports together, or those of one source; undefined: it is not. */
export function judgeWeek(week: Omit<Week, 'earlier'>): FewListings | undefined {
  const { importVolume, before, isAccepted } = week
  const sources = week.sources.map(({ volume, before }) => ({ volume, before, source: volume.name }))
  for (const { volume, before: earlier, source } of [{ volume: importVolume, before, source: undefined }, ...sources]) {
    const hold = judgeVolume(volume, earlier)
    if (hold) return { by: 'week', ...hold, weeks: isAccepted ? 'accepted' : earlier.length, source }
  }
  return undefined
}

type Fall = Pick<FewListings, 'fell' | 'listings' | 'filledFields' | 'before'>

function judgeVolume({ listings, filledFields }: ImportVolume, before: readonly ImportVolume[]): Fall | undefined {
  const listingsBefore = median(before.map((week) => week.listings))
  if (listingsBefore === undefined || listingsBefore < comparedListingsMin) return undefined
  const fieldsBefore = median(before.flatMap((week) => week.filledFields ?? [])) ?? 0
  if (listings * weekFall <= listingsBefore) return { fell: 'listings', listings, filledFields, before: listingsBefore }
  if (filledFields !== null && fieldsBefore > 0 && filledFields * weekFall <= fieldsBefore)
    return { fell: 'filledFields', listings, filledFields, before: fieldsBefore }
  return undefined
}

/** Why a user is held back who would get `leads` leads; undefined: they are not. */
export function judgeUser(leads: number, before: number | undefined): UserHold | undefined {
  if (before === undefined || before < comparedLeadsMin || leads * userFall > before) return undefined
  return { by: 'user', leads, before }
}

/**
 * Why nothing of a plan is sent; undefined: it is. Only plans of a weekly pass have an earlier delivery to compare with
 * (contract 4.14).
 */
export function judgePlan({ deliveries, tooSlow, leadsBefore }: UserPlan): UserHold | undefined {
  if (tooSlow !== undefined) return { by: 'slowness', query: tooSlow }
  return deliveries.length === 0 ? undefined : judgeUser(sumLeads(deliveries), leadsBefore)
}

export interface GuardSettings {
  guard: 'on' | 'off'
  /** Whether the guard is overruled. */
  accept: boolean
  timeZone: string
  /** The time zone of the last run, if it differs. */
  otherTimeZone: string | undefined
}

export interface Verdict {
  importVolume: ImportVolume
  sources: readonly SourceVolume[]
  /** Why the whole run is held; undefined: it is not. */
  held: WeekHold | undefined
  guardsUsers: boolean
  /** The periods whose deliveries each user's is compared with. */
  earlier: readonly string[]
}

/** `interrupted`: the runs that are resumed. If one of them was accepted, no user is held back. */
export function judge(week: Week, of: GuardSettings & { interrupted: readonly OpenRun[] }): Verdict {
  const { guard, accept, interrupted, timeZone, otherTimeZone } = of
  const guards = guard === 'on' && !accept
  const guardsUsers = guards && !interrupted.some(({ accepted }) => accepted)
  const held = guards ? judgeWeek(week) : undefined
  return {
    importVolume: week.importVolume,
    sources: week.sources.map(({ volume }) => volume),
    held: !accept && otherTimeZone !== undefined ? { by: 'zone', timeZone, other: otherTimeZone, week: held } : held,
    guardsUsers,
    earlier: guardsUsers ? week.earlier : [],
  }
}
