/**
 * The states of a hook in a run (contract 6.5). Pure: what happens to the hook takes it from one state to the next, by one table.
 *
 *   idle    nothing is due for it
 *   due     something is due, and may be sent
 *   paused  it asked for a pause, or got one: nothing more is sent in this run
 *   off     it used up the schedule of a trigger, and took nothing meanwhile
 *   gone    its platform has ended it
 */
import { failuresInARow, triggerPausesMs } from '../base/limits.ts'
import type { TriggerOutcome } from './trigger-attempt.ts'

export type HookState = 'idle' | 'due' | 'paused' | 'off' | 'gone'

/** `found`: something is due; `emptied`: nothing is; `failed`: this delays its trigger alone; `stalled`: this pauses the hook. */
export type HookEvent = 'found' | 'emptied' | 'delivered' | 'failed' | 'stalled' | 'used up' | 'ended'

/** If an event is not named, the state stays. Triggers that are found for a hook that is off come from `--again`. */
export const hookStates: Readonly<Record<HookState, Partial<Record<HookEvent, HookState>>>> = {
  idle: { found: 'due', stalled: 'paused', 'used up': 'off', ended: 'gone' },
  due: { emptied: 'idle', stalled: 'paused', 'used up': 'off', ended: 'gone' },
  paused: { 'used up': 'off', ended: 'gone' },
  off: { found: 'due', delivered: 'idle', ended: 'gone' },
  gone: {},
}

export const nextState = (state: HookState, event: HookEvent): HookState => hookStates[state][event] ?? state

/**
 * The pause of the hook after its `row`th failure in a row; null if the failure delays only its own trigger. After a timeout, or too many
 * failures in a row, it is the first pause of the schedule, unless the answer asks for a longer one.
 */
export function pauseAfter(
  { retryAfterMs, timedOut }: Pick<TriggerOutcome, 'retryAfterMs' | 'timedOut'>,
  row: number,
): number | null {
  const ownMs = timedOut || row >= failuresInARow ? triggerPausesMs[0] : null
  return retryAfterMs === null ? ownMs : Math.max(retryAfterMs, ownMs ?? 0)
}
