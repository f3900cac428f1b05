/**
 * Decides which hooks may get another trigger now (contract 6.5): each at its own pace, few of one host at a time,
 * and hooks that may hang never take all of the room. Pure: times are passed in, in milliseconds of `performance.now()`.
 */
import { triggersAtOnceMax, triggersAtOncePerHookMax, triggersPerSecondMax } from '../base/limits.ts'
import { type HookEvent, type HookState, nextState } from './hook-state.ts'
import { hostOf } from './host-pace.ts'
import type { DueHook } from './trigger-store.ts'

/** A hook that the run knows. */
export interface Lane extends DueHook {
  host: string
  state: HookState
  /** Whether a trigger was taken that waits for its turn at the host. */
  isWaiting: boolean
  /** Triggers that were taken and whose outcome is not recorded yet. */
  underWay: number
  /** Whether it has answered in this run; until then, and after a failure, it gets one trigger at a time. */
  hasAnswered: boolean
  nextAtMs: number
}

export const lanesMax = 512
const unprovenLanesMax = 256
/** One host's hooks never take all lanes: its pace would be that of all others. */
const lanesPerHostMax = 64
/** A host that has a turn every 37 ms keeps busy with so many that wait, also where the database takes its time. */
const waitingPerHostMax = 8
/** This part of the room is kept for hooks that answered their last attempt; and triggers that wait for a host never take more. */
const roomPart = 0.25
const spacingMs = 1_000 / triggersPerSecondMax

/** All hooks of this process, in the order in which they had their turn. */
export class HookLanes {
  private readonly lanes = new Map<string, Lane>()
  private readonly waitingAt = new Map<string, number>()
  private onWire = 0
  private unprovenOnWire = 0

  get size(): number {
    return this.lanes.size
  }

  /** How many triggers more may be under way. */
  get room(): number {
    return triggersAtOnceMax - this.onWire
  }

  /** How many hooks more the run may know. */
  get hooksRoom(): number {
    return lanesMax - this.lanes.size
  }

  /** Whether nothing is being sent. */
  get isIdle(): boolean {
    return this.onWire === 0
  }

  /** The hosts of which the run may know no more hooks. */
  get fullHosts(): string[] {
    const counts = new Map<string, number>()
    for (const { host } of this.lanes.values()) counts.set(host, (counts.get(host) ?? 0) + 1)
    return [...counts].filter(([, count]) => count >= lanesPerHostMax).map(([host]) => host)
  }

  get hasRoomForUnproven(): boolean {
    let unproven = 0
    for (const { isUnproven } of this.lanes.values()) if (isUnproven) unproven++
    return unproven < unprovenLanesMax
  }

  add(hooks: readonly DueHook[]): void {
    for (const hook of hooks) {
      this.lanes.set(hook.id, {
        ...hook,
        host: hostOf(hook.url),
        state: nextState('idle', 'found'),
        isWaiting: false,
        underWay: 0,
        hasAnswered: false,
        nextAtMs: 0,
      })
    }
  }

  /** Takes the lane to its next state. */
  happen(lane: Lane, event: HookEvent): void {
    lane.state = nextState(lane.state, event)
  }

  get(hookId: string): Lane | undefined {
    return this.lanes.get(hookId)
  }

  all(): Lane[] {
    return [...this.lanes.values()]
  }

  /** The lanes that may get another trigger now, as many as there is room for; the one that has waited longest first. */
  findReady(nowMs: number): Lane[] {
    const ready: Lane[] = []
    const hosts = new Map(this.waitingAt)
    let unprovenRoom = triggersAtOnceMax - Math.floor(triggersAtOnceMax * roomPart) - this.unprovenOnWire
    for (const lane of this.lanes.values()) {
      if (ready.length >= this.room) break
      const atOnce = lane.hasAnswered && lane.failures === 0 ? triggersAtOncePerHookMax : 1
      if (lane.state !== 'due' || lane.isWaiting || lane.underWay >= atOnce || lane.nextAtMs > nowMs) continue
      const waiting = hosts.get(lane.host) ?? 0
      if (waiting >= waitingPerHostMax || (lane.isUnproven && unprovenRoom-- <= 0)) continue
      hosts.set(lane.host, waiting + 1)
      ready.push(lane)
    }
    return ready
  }

  /** The lanes to which nothing may be sent and nothing is under way, and whose pace is over: they may be let go. */
  findDone(nowMs: number): Lane[] {
    return this.all().filter(({ state, underWay, nextAtMs }) => state !== 'due' && underWay === 0 && nextAtMs <= nowMs)
  }

  /** Notes that a trigger was taken for `lane`; returns a function to call when it is no longer on the wire, or was given back. */
  begin(lane: Lane): () => void {
    // to the end of the line
    this.lanes.delete(lane.id)
    this.lanes.set(lane.id, lane)
    const { isUnproven } = lane
    lane.underWay++
    lane.isWaiting = true
    this.waitingAt.set(lane.host, (this.waitingAt.get(lane.host) ?? 0) + 1)
    this.onWire++
    if (isUnproven) this.unprovenOnWire++
    return () => {
      this.endWaiting(lane)
      this.onWire--
      if (isUnproven) this.unprovenOnWire--
    }
  }

  /** Notes that the attempt begins now. */
  send(lane: Lane, nowMs: number): void {
    this.endWaiting(lane)
    lane.nextAtMs = nowMs + spacingMs
  }

  private endWaiting(lane: Lane): void {
    if (!lane.isWaiting) return
    lane.isWaiting = false
    const waiting = (this.waitingAt.get(lane.host) ?? 0) - 1
    if (waiting > 0) this.waitingAt.set(lane.host, waiting)
    else this.waitingAt.delete(lane.host)
  }

  /** In how many milliseconds the pace allows another trigger to some lane; infinite where no lane waits for that. */
  untilNextMs(nowMs: number): number {
    let untilMs = Number.POSITIVE_INFINITY
    for (const { nextAtMs } of this.lanes.values()) {
      if (nextAtMs > nowMs) untilMs = Math.min(untilMs, nextAtMs - nowMs)
    }
    return untilMs
  }

  letGo(lanes: readonly Lane[]): void {
    for (const { id } of lanes) this.lanes.delete(id)
  }
}
