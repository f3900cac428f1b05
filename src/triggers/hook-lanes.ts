/**
 * Which of the hooks that this process has may get another trigger now (contract 6.5): each at its own pace, and those that
 * may hang never with all the room between them. Pure: the time comes in, as `performance.now()` has it.
 */
import { triggersAtOnceMax, triggersAtOncePerHookMax, triggersPerSecondMax } from '../base/limits.ts'
import type { TakenHook } from './trigger-store.ts'

/** A hook that this process has. */
export interface Lane extends TakenHook {
  /** Taken and not recorded yet. */
  underWay: number
  /** It answered in this run: until then it gets one at a time. */
  hasAnswered: boolean
  nextAtMs: number
  /** Nothing is due for it any more. */
  isEmpty: boolean
  /** It failed or is gone: what was taken for it and is not on the wire yet is given back, too. */
  isClosed: boolean
}

const lanesMax = 512
const unprovenLanesMax = 256
/** Of the room to send, so much is left to hooks that answered last. */
const keptForProven = 16
const spacingMs = 1_000 / triggersPerSecondMax

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

  get isIdle(): boolean {
    return this.onWire === 0
  }

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
      // it was lost and is had again, and something is still under way to it: it is let go first
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

  /** Nothing more is sent to it in this run. */
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

  /** Those that may get another trigger now, for as much room as there is; the one that waited longest first. */
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

  /** Those that may be let go. */
  findDone(): Lane[] {
    return this.all().filter(({ isEmpty, underWay }) => isEmpty && underWay === 0)
  }

  /** A trigger is about to be sent to `lane`; returns what to call when it is not on the wire any more. */
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

  /** In how many milliseconds one of them may get another trigger, as far as time alone decides that. */
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

  /** Others may have the hooks: nothing more is sent to them, and those to which something is under way wait for that. */
  lose(): void {
    for (const lane of this.lanes.values()) lane.isEmpty = true
    this.letGo(this.findDone())
  }
}
