/**
 * The kinds of trouble that a receiver can be in as a whole (contract 4.12), what an attempt says of them, and what differs by kind: the
 * pauses between tries, and what shows that a try is worth while. The machine, the SQL, its model and `status` read this table.
 */
import { outagePauseMs, outagePauseMsMax, outageSecondMs, refusalSecondMs, refusalTryMs } from '../../base/limits.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import { asksForLess } from './pace.ts'

/** Trouble of the receiver as a whole. It outlives a run. */
export type Trouble =
  /** No answer is below 500. */
  | { is: 'down' }
  /** Every delivery gets this status. */
  | { is: 'refuses'; status: number }
  /** It takes nothing, and asks for less. */
  | { is: 'asks' }

/** A trouble in the receiver's row. Times count from now. */
export interface KnownTrouble {
  trouble: Trouble
  /** Attempts made since the trouble was found. */
  tries: number
  /** In how many milliseconds the next try may be made. */
  nextMs: number
  /** In how many milliseconds a second attempt may be made. */
  secondMs: number
}

/** What an outcome says of the receiver as a whole. */
export type Sign =
  /** A success. */
  | { is: 'well' }
  /** An answer that concerns one delivery alone. */
  | { is: 'answer' }
  /** An answer that says nothing: 415 to a compressed delivery (contract 4.17). */
  | { is: 'nothing' }
  | { is: 'asks' }
  /** `status`: of 500 or more; null: no answer came. `asks`: it also asks for less. */
  | { is: 'down'; status: number | null; asks: boolean; error: string | null }
  | { is: 'refuses'; status: number; error: string | null }
  /** A success that shows nothing (contract 4.5); `says` is a sentence. */
  | { is: 'empty'; says: string }

/** Signs that show trouble if everybody gets them. */
export type BadSign = Sign & { is: 'down' | 'refuses' | 'empty' }

/** Statuses that concern one delivery alone. */
const ofOneDelivery: readonly number[] = [408, 409, 425]

export function signOf(
  outcome: Pick<AttemptOutcome, 'httpStatus' | 'error' | 'emptySuccess'> & { retryAfterMs?: number | null },
  gzip = false,
): Sign {
  const { httpStatus, error, emptySuccess, retryAfterMs = null } = outcome
  if (emptySuccess !== undefined) return { is: 'empty', says: emptySuccess }
  const asks = asksForLess({ httpStatus, retryAfterMs })
  if (httpStatus === null || httpStatus >= 500) return { is: 'down', status: httpStatus, asks, error }
  if (httpStatus < 300) return { is: 'well' }
  if (asks) return { is: 'asks' }
  if (httpStatus === 415 && gzip) return { is: 'nothing' }
  return ofOneDelivery.includes(httpStatus) ? { is: 'answer' } : { is: 'refuses', status: httpStatus, error }
}

/** Whether two troubles, or a trouble and a sign, are the same. */
export const isAlike = (a: Trouble | Sign | undefined, b: Trouble | Sign) =>
  a?.is === b.is && (a.is !== 'refuses' || b.is !== 'refuses' || a.status === b.status)

/** Whether an attempt shows that the trouble is over, or is another one. Silence ends none. */
export function ends(trouble: Trouble, sign: Sign): boolean {
  if (sign.is === 'nothing') return trouble.is === 'down'
  if (sign.is !== 'down') return !isAlike(trouble, sign)
  return sign.status !== null && trouble.is !== 'down' && !(trouble.is === 'asks' && sign.asks)
}

interface TroubleRules {
  /** The pause before the next try, after so many. */
  pauseMs(tries: number): number
  pauseMsMax: number
  /** The pause between two second attempts. */
  secondPauseMs: number
  /** A push waits for the end of the trouble, until its patience is over. Otherwise it ends. */
  isWaitedFor: boolean
  /** A try needs a sign of life first. */
  needsLife: boolean
}

const waitedFor = {
  pauseMs: (tries: number) => Math.min(outagePauseMs * 2 ** tries, outagePauseMsMax),
  pauseMsMax: outagePauseMsMax,
  secondPauseMs: outageSecondMs,
  isWaitedFor: true,
}

export const troubleRules: Record<Trouble['is'], TroubleRules> = {
  down: { ...waitedFor, needsLife: true },
  asks: { ...waitedFor, needsLife: false },
  refuses: {
    // the push that comes next may try at once
    pauseMs: (tries) => (tries === 0 ? 0 : refusalTryMs),
    pauseMsMax: refusalTryMs,
    secondPauseMs: refusalSecondMs,
    isWaitedFor: false,
    needsLife: false,
  },
}
