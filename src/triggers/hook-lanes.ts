/**
 * Decides which hooks may get another trigger now (contract 6.5): each at its own pace, few of one host at a time. Hooks that may hang
 * never take all of the room. Pure: times are passed in, in milliseconds of `performance.now()`.
 */
import { triggersAtOnceMax, triggersAtOncePerHookMax, triggersPerSecondMax } from '../base/limits.ts'
import { type HookEvent, type HookState, nextState } from './hook-state.ts'
import { hostOf } from './host-pace.ts'

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
  /** The trigger among them that waits for its turn at the host. */
  waiting: string | null
  /** Whether it has answered in this run; until then, and after a failure, it gets one trigger at a time. */
  hasAnswered: boolean
  nextAtMs: number
}

const lanesMax = 512
/** The hooks of one host never take all lanes: otherwise its pace would bind all others. */
const lanesPerHostMax = 64
/** So many waiting triggers keep a host with a turn every 37 ms busy, even while the database is slow. */
const waitingPerHostMax = 8
/** Hooks that did not answer their last attempt get at most so much of the room: a quarter is kept for the others. */
const unprovenAtOnceMax = triggersAtOnceMax * 0.75
const spacingMs = 1_000 / triggersPerSecondMax

/** How many of the lanes each host has. */
function countHosts(lanes: Iterable<Lane>, counts: (lane: Lane) => boolean = () => true): Map<string, number> {
  const found = new Map<string, number>()
  for (const lane of lanes) if (counts(lane)) found.set(lane.host, (found.get(lane.host) ?? 0) + 1)
  return found
}

/** All hooks of this process, in the order in which they had their turn. */
export class HookLanes {
  private readonly lanes = new Map<string, Lane>()
  /** Hooks that were found and have no lane yet. */
  private queue: Lane[] = []
  private onWire = 0
  private unprovenOnWire = 0

  /** Whether the run knows no hook. */
  get isEmpty(): boolean {
    return this.lanes.size === 0 && this.queue.length === 0
  }

  /** The hooks that need not be found: one with nothing due may have something by now. */
  get knownIds(): string[] {
    return [...this.lanes.values(), ...this.queue].filter(({ state }) => state !== 'idle').map(({ id }) => id)
  }

  /** How many more triggers may be under way. */
  get room(): number {
    return triggersAtOnceMax - this.onWire
  }

  /** Whether more hooks would get a lane. */
  get hasHooksRoom(): boolean {
    return this.lanes.size < lanesMax
  }

  /** Whether nothing is being sent. */
  get isIdle(): boolean {
    return this.onWire === 0
  }

  /** The hosts whose further hooks get no lane. */
  get fullHosts(): string[] {
    return [...countHosts(this.lanes.values())].filter(([, count]) => count >= lanesPerHostMax).map(([host]) => host)
  }

  /** Adds hooks that were found. Each gets a lane as soon as there is one for it. */
  add(hooks: readonly DueHook[]): void {
    for (const hook of hooks) {
      const lane = this.lanes.get(hook.id)
      if (lane) {
        this.happen(lane, 'found')
        continue
      }
      const own = { inHand: new Set<string>(), waiting: null, hasAnswered: false, nextAtMs: 0 }
      this.queue.push({ ...hook, ...own, host: hostOf(hook.url), state: nextState('idle', 'found') })
    }
    this.admit()
  }

  private admit(): void {
    const ofHost = countHosts(this.lanes.values())
    const kept: Lane[] = []
    let at = 0
    for (; this.hasHooksRoom && at < this.queue.length; at++) {
      const lane = this.queue[at] as Lane
      const count = ofHost.get(lane.host) ?? 0
      if (count < lanesPerHostMax) this.lanes.set(lane.id, lane)
      else kept.push(lane)
      ofHost.set(lane.host, count + 1)
    }
    this.queue = [...kept, ...this.queue.slice(at)]
  }

  get(hookId: string): Lane | undefined {
    return this.lanes.get(hookId)
  }

  /** Takes the lane to its next state. */
  happen(lane: Lane, event: HookEvent): void {
    lane.state = nextState(lane.state, event)
  }

  /** The lanes that may get another trigger now, as many as there is room for; the one that has waited longest first. */
  findReady(nowMs: number): Lane[] {
    const ready: Lane[] = []
    const waiting = countHosts(this.lanes.values(), (lane) => lane.waiting !== null)
    let unprovenRoom = unprovenAtOnceMax - this.unprovenOnWire
    for (const lane of this.lanes.values()) {
      if (ready.length >= this.room) break
      const atOnce = lane.hasAnswered && lane.failures === 0 ? triggersAtOncePerHookMax : 1
      if (lane.state !== 'due' || lane.waiting !== null || lane.inHand.size >= atOnce || lane.nextAtMs > nowMs) continue
      const ofHost = waiting.get(lane.host) ?? 0
      if (ofHost >= waitingPerHostMax || (lane.isUnproven && unprovenRoom-- <= 0)) continue
      waiting.set(lane.host, ofHost + 1)
      ready.push(lane)
    }
    return ready
  }

  /** Drops lanes to which nothing may be sent, with nothing under way, and whose pace is over. */
  letGoDone(nowMs: number): void {
    const before = this.lanes.size
    for (const { id, state, inHand, nextAtMs } of this.lanes.values()) {
      if (state !== 'due' && inHand.size === 0 && nextAtMs <= nowMs) this.lanes.delete(id)
    }
    if (this.lanes.size < before) this.admit()
  }

  /** Notes that a trigger was taken for `lane`. Returns a function to call when it is no longer on the wire, or was given back. */
  begin(lane: Lane, trigger: string): () => void {
    // to the end of the line
    this.lanes.delete(lane.id)
    this.lanes.set(lane.id, lane)
    const unproven = Number(lane.isUnproven)
    lane.inHand.add(trigger)
    lane.waiting = trigger
    this.onWire++
    this.unprovenOnWire += unproven
    return () => {
      if (lane.waiting === trigger) lane.waiting = null
      this.onWire--
      this.unprovenOnWire -= unproven
    }
  }

  /** Notes that the attempt begins now. */
  send(lane: Lane, nowMs: number): void {
    lane.waiting = null
    lane.nextAtMs = nowMs + spacingMs
  }

  /** The milliseconds until the pace allows a lane another trigger, or the run to drop the lane; infinite if no lane waits for that. */
  untilNextMs(nowMs: number): number {
    let untilMs = Number.POSITIVE_INFINITY
    for (const { nextAtMs } of this.lanes.values()) if (nextAtMs > nowMs) untilMs = Math.min(untilMs, nextAtMs - nowMs)
    return untilMs
  }
}
