/**
 * Decides which hooks may get another trigger now (contract 6.5): each at its own pace, few of one host at a time. Hooks that may hang
 * never take all of the room. Pure: times are passed in, in milliseconds of `performance.now()`.
 */
import { triggersAtOnceMax, triggersAtOncePerHookMax, triggersPerSecondMax } from '../base/limits.ts'
import { type HookEvent, type HookState, nextState, pauseAfter } from './hook-state.ts'
import { hostOf } from './host-pace.ts'
import type { TriggerOutcome } from './trigger-attempt.ts'

/** A hook for which something is due. */
export interface DueHook {
  id: string
  url: string
  integrationId: number
  /** Whether it was never called, or did not answer its last attempt. */
  isUnproven: boolean
  /** How many attempts in a row have failed. */
  failures: number
}

/** A hook that the run knows. */
export interface Lane extends DueHook {
  host: string
  state: HookState
  /** Triggers that were taken and whose outcome is not recorded yet, by their unique names. */
  inHand: Set<string>
  /** Until it has taken one in this run, and after a failure, it gets one trigger at a time. */
  atOnceMax: number
  nextAtMs: number
}

/** The run knows at most so many hooks of one host. They keep it busy, and leave the memory to those of others. */
export const hooksPerHostMax = 64
/** So many waiting triggers keep a host with a turn every 35 ms busy, even while the database is slow. */
const waitingPerHostMax = 8
/** Hooks that did not answer their last attempt get at most so much of the room: a quarter is kept for the others. */
const unprovenAtOnceMax = triggersAtOnceMax * 0.75
const spacingMs = 1_000 / triggersPerSecondMax

const startLane = (hook: DueHook): Lane => ({
  ...hook,
  host: hostOf(hook.url),
  state: nextState('idle', 'found'),
  inHand: new Set(),
  atOnceMax: 1,
  nextAtMs: 0,
})

/** How many of the lanes each host has. */
function countHosts(lanes: Iterable<Lane>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { host } of lanes) counts.set(host, (counts.get(host) ?? 0) + 1)
  return counts
}

/** All hooks that the run knows, in the order in which they had their turn. */
export class HookLanes {
  private readonly lanes = new Map<string, Lane>()
  /** Those with a trigger in hand that waits for its turn at the host. */
  private readonly waiting = new Set<Lane>()
  /** An object for each trigger under way. */
  private readonly onWire = new Set<{ isUnproven: boolean }>()

  /** How many hooks the run knows. */
  get size(): number {
    return this.lanes.size
  }

  /** The hooks that need not be found: one with nothing due may have something by now. */
  get knownIds(): string[] {
    return [...this.lanes.values()].filter(({ state }) => state !== 'idle').map(({ id }) => id)
  }

  /** How many more triggers may be under way. */
  get room(): number {
    return triggersAtOnceMax - this.onWire.size
  }

  /** Whether the run knows as many hooks of some host as it may: the host may have more of them. */
  get hasFullHost(): boolean {
    return [...countHosts(this.lanes.values()).values()].some((count) => count >= hooksPerHostMax)
  }

  /** Adds hooks that were found. */
  add(hooks: readonly DueHook[]): void {
    for (const hook of hooks) {
      const lane = this.lanes.get(hook.id)
      if (lane) this.happen(lane, 'found')
      else this.lanes.set(hook.id, startLane(hook))
    }
  }

  get(hookId: string): Lane | undefined {
    return this.lanes.get(hookId)
  }

  /** Takes the hook to its next state. */
  happen(lane: Lane, event: HookEvent): void {
    lane.state = nextState(lane.state, event)
  }

  /** The lanes that may get another trigger now, as many as there is room for; the one that has waited longest first. */
  findReady(nowMs: number): Lane[] {
    const ready: Lane[] = []
    const waiting = countHosts(this.waiting)
    let unprovenRoom = unprovenAtOnceMax - [...this.onWire].filter(({ isUnproven }) => isUnproven).length
    for (const lane of this.lanes.values()) {
      if (ready.length >= this.room) break
      if (lane.state !== 'due' || lane.nextAtMs > nowMs || (lane.isUnproven && unprovenRoom <= 0)) continue
      if (lane.inHand.size >= lane.atOnceMax || this.waiting.has(lane)) continue
      const ofHost = waiting.get(lane.host) ?? 0
      if (ofHost >= waitingPerHostMax) continue
      waiting.set(lane.host, ofHost + 1)
      if (lane.isUnproven) unprovenRoom--
      ready.push(lane)
    }
    return ready
  }

  /** Drops lanes to which nothing may be sent, with nothing under way, and whose pace is over. */
  letGoDone(nowMs: number): void {
    for (const { id, state, inHand, nextAtMs } of this.lanes.values()) {
      if (state !== 'due' && inHand.size === 0 && nextAtMs <= nowMs) this.lanes.delete(id)
    }
  }

  /** Notes that a trigger was taken for `lane`. Returns a function to call when it is no longer on the wire. */
  begin(lane: Lane, trigger: string): () => unknown {
    // to the end of the line
    this.lanes.delete(lane.id)
    this.lanes.set(lane.id, lane)
    lane.inHand.add(trigger)
    this.waiting.add(lane)
    const attempt = { isUnproven: lane.isUnproven }
    this.onWire.add(attempt)
    return () => this.onWire.delete(attempt)
  }

  /** Notes that the trigger waits no more: its attempt begins now, unless that must not be by now. */
  endWait(lane: Lane, nowMs: number): void {
    this.waiting.delete(lane)
    lane.nextAtMs = nowMs + spacingMs
  }

  /** Notes an outcome. Returns the pause that the hook gets; null: none. */
  note(lane: Lane, outcome: TriggerOutcome): number | null {
    const { ok, gone, httpStatus } = outcome
    lane.isUnproven = httpStatus === null
    lane.failures = ok ? 0 : lane.failures + 1
    lane.atOnceMax = ok ? triggersAtOncePerHookMax : 1
    const pauseMs = ok || gone ? null : pauseAfter(outcome, lane.failures)
    this.happen(lane, ok ? 'delivered' : gone ? 'ended' : pauseMs === null ? 'failed' : 'stalled')
    return pauseMs
  }

  /** The milliseconds until the pace allows a lane another trigger, or the run to drop the lane; infinite if no lane waits for that. */
  untilNextMs(nowMs: number): number {
    let untilMs = Number.POSITIVE_INFINITY
    for (const { nextAtMs } of this.lanes.values()) if (nextAtMs > nowMs) untilMs = Math.min(untilMs, nextAtMs - nowMs)
    return untilMs
  }
}
