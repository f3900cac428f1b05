/**
 * Decides which of this process's hooks may get another trigger now (contract 6.5): each at its own pace, and hooks that may
 * hang never take all of the room. Pure: times are passed in, in milliseconds of `performance.now()`.
 */
import { triggersAtOnceMax, triggersAtOncePerHookMax, triggersPerSecondMax } from '../base/limits.ts'
import type { TakenHook } from './trigger-store.ts'

/** A hook in the hands of this process. */
export interface Lane extends TakenHook {
  /** Triggers that were taken and whose outcome is not recorded yet. */
  underWay: number
  /** Whether it has answered in this run; until then it gets one trigger at a time. */
  hasAnswered: boolean
  nextAtMs: number
  /** Whether nothing is due for it any more. */
  isEmpty: boolean
  /** Whether it failed or is gone; triggers that were taken for it and not sent yet are then given back too. */
  isClosed: boolean
}

const lanesMax = 512
const unprovenLanesMax = 256
/** This much of the room is kept for hooks that answered their last attempt. */
const keptForProven = 16
const spacingMs = 1_000 / triggersPerSecondMax

/** All hooks of this process, in the order in which they had their turn. */
export class HookLanes {
  private readonly lanes = new Map<string, Lane>()
  private onWire = 0
  private unprovenOnWire = 0

  get size(): number {
    return this.lanes.size
  }

  /** How many triggers more may be under way. */
  get room(): number {
    return triggersAtOnceMax - this.onWire
  }

  /** Whether nothing is being sent. */
  get isIdle(): boolean {
    return this.onWire === 0
  }

  /** Whether this process may take no more hooks. */
  get isFull(): boolean {
    return this.lanes.size >= lanesMax
  }

  get hasRoomForUnproven(): boolean {
    let unproven = 0
    for (const { isUnproven } of this.lanes.values()) if (isUnproven) unproven++
    return unproven < unprovenLanesMax
  }

  add(hooks: readonly TakenHook[]): void {
    for (const hook of hooks) {
      // lost and taken again while something is still under way to it: it is let go first
      if (this.lanes.has(hook.id)) continue
      this.lanes.set(hook.id, {
        ...hook,
        underWay: 0,
        hasAnswered: false,
        nextAtMs: 0,
        isEmpty: false,
        isClosed: false,
      })
    }
  }

  /** Ends the lane for this run: nothing more is sent to it. */
  close(lane: Lane): void {
    lane.isEmpty = true
    lane.isClosed = true
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
    let unprovenRoom = triggersAtOnceMax - keptForProven - this.unprovenOnWire
    for (const lane of this.lanes.values()) {
      if (ready.length >= this.room) break
      const atOnce = lane.hasAnswered ? triggersAtOncePerHookMax : 1
      if (lane.isEmpty || lane.underWay >= atOnce || lane.nextAtMs > nowMs) continue
      if (lane.isUnproven && unprovenRoom-- <= 0) continue
      ready.push(lane)
    }
    return ready
  }

  /** The lanes with nothing due and nothing under way: they may be let go. */
  findDone(): Lane[] {
    return this.all().filter(({ isEmpty, underWay }) => isEmpty && underWay === 0)
  }

  /** Notes that a trigger is about to be sent to `lane`; returns a function to call when it is no longer on the wire. */
  begin(lane: Lane, nowMs: number): () => void {
    // to the end of the line
    this.lanes.delete(lane.id)
    this.lanes.set(lane.id, lane)
    const { isUnproven } = lane
    lane.underWay++
    lane.nextAtMs = nowMs + spacingMs
    this.onWire++
    if (isUnproven) this.unprovenOnWire++
    return () => {
      this.onWire--
      if (isUnproven) this.unprovenOnWire--
    }
  }

  /** In how many milliseconds the pace allows another trigger to some lane; infinite where no lane waits for that. */
  untilNextMs(nowMs: number): number {
    let untilMs = Number.POSITIVE_INFINITY
    for (const { isEmpty, nextAtMs } of this.lanes.values()) {
      if (!isEmpty && nextAtMs > nowMs) untilMs = Math.min(untilMs, nextAtMs - nowMs)
    }
    return untilMs
  }

  letGo(lanes: readonly Lane[]): void {
    for (const { id } of lanes) this.lanes.delete(id)
  }

  /**
   * Notes that other processes may have the hooks: nothing more is sent to them, and lanes with something under way stay
   * until it ends.
   */
  lose(): void {
    for (const lane of this.lanes.values()) lane.isEmpty = true
    this.letGo(this.findDone())
  }
}
