/**
 * Decides which of this process's hooks may get another trigger now (contract 6.5): each at its own pace, few of one host at a time,
 * and hooks that may hang never take all of the room. Pure: times are passed in, in milliseconds of `performance.now()`.
 */
import { triggersAtOnceMax, triggersAtOncePerHookMax, triggersPerSecondMax } from '../base/limits.ts'
import { hostOf } from './host-pace.ts'
import type { TakenHook } from './trigger-store.ts'

/** A hook in the hands of this process. */
export interface Lane extends TakenHook {
  host: string
  /** Whether a trigger was taken that waits for its turn at the host. */
  isWaiting: boolean
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

export const lanesMax = 512
const unprovenLanesMax = 256
/** One host's hooks never take all lanes: its pace would be that of all others. */
const lanesPerHostMax = 64
/** A host that has a turn every 37 ms keeps busy with so many that wait. */
const waitingPerHostMax = 4
/** This part of the room is kept for hooks that answered their last attempt. */
const keptForProven = 0.25
const spacingMs = 1_000 / triggersPerSecondMax

/** All hooks of this process, in the order in which they had their turn. */
export class HookLanes {
  private readonly lanes = new Map<string, Lane>()
  private readonly waitingAt = new Map<string, number>()
  private onWire = 0
  private unprovenOnWire = 0
  /** The share of this process; see `Share`. */
  private atOnceMax = triggersAtOnceMax
  private hooksMax = lanesMax

  get size(): number {
    return this.lanes.size
  }

  /** How many triggers more may be under way. */
  get room(): number {
    return Math.max(0, this.atOnceMax - this.onWire)
  }

  /** How many triggers are under way, or wait for their turn. */
  get underWay(): number {
    return this.onWire
  }

  /** How many hooks more this process may take. */
  get hooksRoom(): number {
    return Math.max(0, this.hooksMax - this.lanes.size)
  }

  /** Whether nothing is being sent. */
  get isIdle(): boolean {
    return this.onWire === 0
  }

  /** The hosts of which this process may take no more hooks. */
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

  add(hooks: readonly TakenHook[]): void {
    for (const hook of hooks) {
      // lost and taken again while something is still under way to it: it is let go first
      if (this.lanes.has(hook.id)) continue
      this.lanes.set(hook.id, {
        ...hook,
        host: hostOf(hook.url),
        isWaiting: false,
        underWay: 0,
        hasAnswered: false,
        nextAtMs: 0,
        isEmpty: false,
        isClosed: false,
      })
    }
  }

  /**
   * Sets how much this process may do. Hooks beyond its share are to be let go, those with nothing under way first: another process
   * has nothing to do.
   */
  limit({ atOnce, hooks }: { atOnce: number; hooks: number }): void {
    this.atOnceMax = atOnce
    this.hooksMax = Math.min(hooks, lanesMax)
    const kept = this.all().filter(({ isEmpty }) => !isEmpty)
    kept.sort((a, b) => a.underWay - b.underWay)
    for (const lane of kept.slice(0, Math.max(0, kept.length - this.hooksMax))) lane.isEmpty = true
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
    const hosts = new Map(this.waitingAt)
    let unprovenRoom = this.atOnceMax - Math.floor(this.atOnceMax * keptForProven) - this.unprovenOnWire
    for (const lane of this.lanes.values()) {
      if (ready.length >= this.room) break
      const atOnce = lane.hasAnswered ? triggersAtOncePerHookMax : 1
      if (lane.isEmpty || lane.isWaiting || lane.underWay >= atOnce || lane.nextAtMs > nowMs) continue
      const waiting = hosts.get(lane.host) ?? 0
      if (waiting >= waitingPerHostMax || (lane.isUnproven && unprovenRoom-- <= 0)) continue
      hosts.set(lane.host, waiting + 1)
      ready.push(lane)
    }
    return ready
  }

  /**
   * The lanes with nothing due and nothing under way, whose pace allows another trigger: they may be let go, and another process may
   * send to them at once.
   */
  findDone(nowMs: number): Lane[] {
    return this.all().filter(({ isEmpty, underWay, nextAtMs }) => isEmpty && underWay === 0 && nextAtMs <= nowMs)
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

  /**
   * Notes that other processes may have the hooks: nothing more is sent to them, and lanes with something under way stay
   * until it ends.
   */
  lose(): void {
    for (const lane of this.lanes.values()) lane.isEmpty = true
    this.letGo(this.findDone(Number.POSITIVE_INFINITY))
  }
}
