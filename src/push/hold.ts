/** Why a push holds back all users, or one: the reasons as values (contract 4.5, 4.12, 4.14), and their words in skip lines. */
import { span } from '../base/amounts.ts'
import { describeStatus } from '../deliveries/attempt.ts'
import type { WhyOver } from './receiver/health.ts'

export type Hold = WeekHold | UserHold | ReceiverHold

/** Too little was imported, in all or from one source: so many listings, or so many filled fields of these listings. */
export interface FewListings {
  by: 'week'
  fell: 'listings' | 'filledFields'
  listings: number
  filledFields: number | null
  before: number
  /** The weeks to compare with; `accepted`: the accepted figures of this week. */
  weeks: number | 'accepted'
  source: string | undefined
}

/** Reasons to hold a whole weekly run. */
export type WeekHold =
  | FewListings
  /** This machine's time zone differs from the last run's: its week may be another. `week`: what else `--accept` would accept. */
  | { by: 'zone'; timeZone: string; other: string; week: FewListings | undefined }

/** Reasons to hold one user. */
export type UserHold =
  /** Few leads, compared with their last weekly delivery. */
  | { by: 'user'; leads: number; before: number }
  /** A query took too long: a plan without it would look complete. */
  | { by: 'slowness'; query: string }

/**
 * Reasons to hold the rest of a run: the receiver refuses everybody alike, or its answers show nothing. A receiver that is down, or
 * that asks for less, is no such reason.
 */
export type ReceiverHold = Extract<WhyOver, { by: 'refusal' | 'answers' }>

/** The reason in a skip line. */
export function toReason(hold: Hold): string {
  switch (hold.by) {
    case 'week':
      return `held: ${describeWeek(hold)}`
    case 'zone': {
      const { timeZone, other, week } = hold
      const also = week ? `, which accepts this too: ${describeWeek(week)}` : ''
      return `held: LEADPUSH_TIME_ZONE is ${timeZone}, and the last run used ${other}: give all machines that share this database the same, or, if it is ${timeZone} from now on, use --accept${also}`
    }
    case 'user': {
      const { leads, before } = hold
      return `held: ${leads} ${leads === 1 ? 'lead' : 'leads'} instead of ${before} in the last weekly delivery with the same queries`
    }
    case 'slowness':
      return `a query takes too long to look up: ${hold.query}`
    case 'refusal': {
      const { status, untilNextMs } = hold
      const next = untilNextMs > 0 ? `a push that begins in ${formatWait(untilNextMs)} or later` : 'the next push'
      return `held: ${describeRefusal(status)}. Once that is mended ${next} begins with one attempt; --accept goes on regardless`
    }
    case 'answers':
      return `held: none of the last ${hold.inARow} answers shows that the receiver took a delivery (--accept goes on regardless); the last: ${hold.says}`
  }
}

function describeWeek({ fell, listings, filledFields, before, weeks, source }: FewListings): string {
  const ofSource = source === undefined ? '' : ` of the source ${source}`
  const when =
    weeks === 'accepted'
      ? 'when this week was accepted'
      : weeks === 1
        ? 'in the week before'
        : `in the median of ${weeks} weeks before`
  const what = fell === 'listings' ? '' : `${filledFields} filled fields in the `
  return `${what}${listings} listings${ofSource} imported since the last weekly run instead of ${Math.round(before)} ${when}`
}

/** `the receiver refuses every delivery alike: HTTP 401: …`: part of a sentence. */
export const describeRefusal = (status: number) =>
  `the receiver refuses every delivery alike: ${describeStatus(status)}`

/** The time to wait, rounded up, so that nobody comes too early. */
function formatWait(ms: number): string {
  const unitMs = ms > 3_600_000 ? 3_600_000 : 60_000
  return span((Math.ceil(ms / unitMs) * unitMs) / 1_000)
}
