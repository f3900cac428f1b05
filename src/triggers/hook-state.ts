/**
 * The states of a hook, as a run has them (contract 6.5). Pure: what happens to the hook takes it from one state to the next, by one
 * table.
 *
 *   idle    nothing is due for it
 *   due     something is due, and may be sent
 *   paused  it asked for a pause, or got one: nothing is sent until that is over
 *   off     it used up the schedule of a trigger, and took nothing meanwhile
 *   gone    its platform has ended it
 */
import { failuresInARow, triggerPausesMs } from '../base/limits.ts'

export type HookState = 'idle' | 'due' | 'paused' | 'off' | 'gone'

/**
 * `found`: something is due; `emptied`: nothing is; `rested`: the pause is over; `failed`: an attempt failed, which delays its trigger
 * alone; `stalled`: one failed that pauses the hook; `used up`: one was the last of a schedule, with nothing delivered meanwhile.
 */
export type HookEvent =
  | 'found'
  | 'emptied'
  | 'rested'
  | 'delivered'
  | 'failed'
  | 'stalled'
  | 'used up'
  | 'subscribed'
  | 'ended'

/** Where an event is not named, the state stays. What is found for a hook that is off was asked for by `--again`. */
export const hookStates: Readonly<Record<HookState, Partial<Record<HookEvent, HookState>>>> = {
  idle: { found: 'due', stalled: 'paused', 'used up': 'off', ended: 'gone' },
  due: { emptied: 'idle', stalled: 'paused', 'used up': 'off', ended: 'gone' },
  paused: { rested: 'due', 'used up': 'off', ended: 'gone' },
  off: { found: 'due', subscribed: 'idle', delivered: 'idle', ended: 'gone' },
  gone: {},
}

export const nextState = (state: HookState, event: HookEvent): HookState => hookStates[state][event] ?? state

/** A failed attempt, as far as the hook's pause depends on it. */
export interface HookFailure {
  /** How long the answer asks to wait; null where it does not say. */
  retryAfterMs: number | null
  timedOut: boolean
}

/**
 * The pause of the hook after a failure, which is the `row`th in a row; null where it delays its own trigger alone. After a timeout, or
 * too many in a row, it is the first of the schedule, unless a longer one is asked for.
 */
export function pauseAfter({ retryAfterMs, timedOut }: HookFailure, row: number): number | null {
  const ownMs = timedOut || row >= failuresInARow ? triggerPausesMs[0] : null
  return retryAfterMs === null ? ownMs : Math.max(retryAfterMs, ownMs ?? 0)
}
