/**
 * The second half of `trigger`: sends what is due. Hooks are taken a few at a time, as long as there is room to send to more;
 * each gets its triggers one after the other, at its own pace (contract 6.5). Hooks that may hang cost the others nothing: those
 * that have not answered lately never have all the room between them.
 */
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { Worker } from '../deliveries/workers.ts'
import { LeadStore } from '../leads/lead-store.ts'
import {
  triggerPausesMs,
  triggersAtOnceMax,
  triggersAtOncePerHookMax,
  triggersPerSecondMax,
  triggerTimeoutMs,
} from '../limits.ts'
import type { HookHttp } from './hook-http.ts'
import { buildTriggerRequest, sendTrigger, type TriggerOutcome, type TriggerRequest } from './trigger-attempt.ts'
import {
  endTrigger,
  findLeadJson,
  recordTriggers,
  releaseHooks,
  type TakenHook,
  type TakenTrigger,
  type TriggerToRecord,
  type TriggerWorker,
  takeHooks,
  takeTriggers,
} from './trigger-store.ts'

export type TriggerStatus = 'delivered' | 'failed' | 'abandoned' | 'removed'

/** contract 3, `trigger --json`. */
export interface TriggerLine {
  type: 'trigger'
  integration: number
  hook: string
  href: string
  webhookId: string
  status: TriggerStatus
  attempts: number
  httpStatus: number | null
  error: string | null
}

export interface TriggerLoopContext {
  db: Database
  http: HookHttp
  worker: Worker
  leaseMs: number
  dueUntil: string
  /** Aborted: what is under way is finished and recorded, nothing is begun, the rest is given back. */
  stop: AbortSignal
  onTrigger(line: TriggerLine, durationMs: number): void
  onAway(error: unknown): void
}

/** A hook that this process has. */
interface Lane extends TakenHook {
  /** Taken and not recorded yet. */
  underWay: number
  /** It answered in this run: until then it gets one at a time. */
  hasAnswered: boolean
  /** By `performance.now()`. */
  nextAtMs: number
  /** Nothing is due for it any more. */
  isEmpty: boolean
}

type Sent = TriggerToRecord & { lane: Lane; line: TriggerLine; durationMs: number }

const hooksPerTake = 32
const lanesMax = 512
const unprovenLanesMax = 256
/** Of the room to send, so much is left to hooks that answer. */
const keptForOthers = 16
const lookAgainMs = 1_000
/** Leads that are larger than this are not sent beside each other: so much memory is not there 64 times. */
const bytesUnderWayMax = 32 * 1024 * 1024
const spacingMs = 1_000 / triggersPerSecondMax

export class TriggerLoop {
  /** Triggers that this process took in hand, and those that ended with a hook that is gone. */
  due = 0

  private readonly context: TriggerLoopContext
  private readonly leads: LeadStore
  private readonly lanes = new Map<string, Lane>()
  private onWire = 0
  private unprovenOnWire = 0
  private bytesUnderWay = 0
  private workerId: number
  private readonly outcomes: Sent[] = []
  private recording: Promise<void> | undefined
  /** When it is worth while to look for hooks again, by `performance.now()`. */
  private lookAtMs = 0
  private wakers: (() => void)[] = []
  private failure: unknown

  constructor(context: TriggerLoopContext) {
    this.context = context
    this.leads = new LeadStore(context.db)
    this.workerId = context.worker.id
  }

  /** There may be something due now that was not before. */
  lookAgain(): void {
    this.lookAtMs = 0
    this.wake()
  }

  /** Sends what is due until nothing is, once `found` has settled: until then more may come. */
  async run(found: Promise<unknown>): Promise<void> {
    let foundAll = false
    const onFound = () => {
      foundAll = true
      this.lookAgain()
    }
    found.then(onFound, (error) => this.fail(error))
    const wake = () => this.wake()
    this.context.stop.addEventListener('abort', wake)
    try {
      await this.fill(() => foundAll)
    } catch (error) {
      this.fail(error)
    }
    while (this.onWire > 0 || (this.recording && this.failure === undefined)) await this.sleep(lookAgainMs)
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    await this.release([...this.lanes.values()])
  }

  private get stopping(): boolean {
    return this.context.stop.aborted || this.failure !== undefined
  }

  private get store(): TriggerWorker {
    return { ids: this.context.worker.ids, dueUntil: this.context.dueUntil }
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.wake()
  }

  private wake(): void {
    const wakers = this.wakers
    this.wakers = []
    for (const waker of wakers) waker()
  }

  /** Until something happens, or `ms` have passed. */
  private async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(1, ms))
      this.wakers.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  private async fill(hasFoundAll: () => boolean): Promise<void> {
    while (!this.stopping) {
      this.dropLostLanes()
      const sureOfEnd = hasFoundAll()
      const ready = this.readyLanes()
      const wanted = triggersAtOnceMax - this.onWire - ready.length
      let taken = 0
      if (wanted > 0 && this.lanes.size < lanesMax && this.lookAtMs <= performance.now()) {
        taken = await this.takeHooks(Math.min(wanted, hooksPerTake))
      }
      if (ready.length > 0) await this.takeTriggers(ready)
      const empty = [...this.lanes.values()].filter(({ isEmpty, underWay }) => isEmpty && underWay === 0)
      if (empty.length > 0) await this.release(empty)
      if (ready.length > 0 || taken > 0) continue
      if (sureOfEnd && this.lanes.size === 0 && this.lookAtMs > performance.now() && (await this.isDone())) return
      await this.sleep(this.untilNext())
    }
  }

  /** A lease that was lost makes everything look as if nothing were due: only a process that has one may say so. */
  private async isDone(): Promise<boolean> {
    await rideOut(() => this.context.worker.renew(), this.context.onAway)
    if (this.context.worker.id === this.workerId) return true
    this.lookAtMs = 0
    return false
  }

  /** After the lease ran out others may have the hooks; one to which something is under way is let go when that is over. */
  private dropLostLanes(): void {
    if (this.context.worker.id === this.workerId) return
    this.workerId = this.context.worker.id
    for (const lane of this.lanes.values()) {
      if (lane.underWay === 0) this.lanes.delete(lane.id)
      lane.isEmpty = true
    }
    this.lookAtMs = 0
  }

  /** The lanes that may get another trigger now, for as much room as there is; the one that waited longest first. */
  private readyLanes(): Lane[] {
    const nowMs = performance.now()
    const ready: Lane[] = []
    let unprovenRoom = triggersAtOnceMax - keptForOthers - this.unprovenOnWire
    for (const lane of this.lanes.values()) {
      if (ready.length >= triggersAtOnceMax - this.onWire) break
      const atOnce = lane.hasAnswered ? triggersAtOncePerHookMax : 1
      if (lane.isEmpty || lane.underWay >= atOnce || lane.nextAtMs > nowMs) continue
      if (lane.isUnproven && unprovenRoom-- <= 0) continue
      ready.push(lane)
    }
    return ready
  }

  private untilNext(): number {
    const nowMs = performance.now()
    const hasRoom = this.onWire < triggersAtOnceMax && this.lanes.size < lanesMax
    let untilMs = hasRoom ? Math.max(0, this.lookAtMs - nowMs) : lookAgainMs
    for (const { isEmpty, nextAtMs } of this.lanes.values()) {
      if (!isEmpty && nextAtMs > nowMs) untilMs = Math.min(untilMs, nextAtMs - nowMs)
    }
    return untilMs
  }

  private async takeHooks(limit: number): Promise<number> {
    let unproven = 0
    for (const { isUnproven } of this.lanes.values()) if (isUnproven) unproven++
    const alsoUnproven = unproven < unprovenLanesMax
    // what is found from here on is worth another look
    this.lookAtMs = performance.now() + lookAgainMs
    const hooks = await rideOut(
      () => takeHooks(this.context.db, this.store, { limit, alsoUnproven }),
      this.context.onAway,
    )
    if (hooks.length === limit) this.lookAtMs = 0
    for (const hook of hooks) {
      if (this.lanes.has(hook.id)) continue
      this.lanes.set(hook.id, { ...hook, underWay: 0, hasAnswered: false, nextAtMs: 0, isEmpty: false })
    }
    return hooks.length
  }

  private async takeTriggers(ready: Lane[]): Promise<void> {
    const takenAtMs = performance.now()
    const ids = ready.map(({ id }) => id)
    const triggers = await rideOut(() => takeTriggers(this.context.db, this.store, ids), this.context.onAway)
    await rideOut(() => this.leads.find(triggers.map(({ versionId }) => versionId)), this.context.onAway)
    const taken = new Set(triggers.map(({ hookId }) => hookId))
    for (const lane of ready) if (!taken.has(lane.id)) lane.isEmpty = true
    for (const trigger of triggers) {
      const lane = this.lanes.get(trigger.hookId)
      if (lane) this.begin(lane, trigger, takenAtMs)
    }
  }

  private begin(lane: Lane, trigger: TakenTrigger, takenAtMs: number): void {
    // to the end of the line
    this.lanes.delete(lane.id)
    this.lanes.set(lane.id, lane)
    const { isUnproven } = lane
    this.due++
    lane.underWay++
    lane.nextAtMs = performance.now() + spacingMs
    this.onWire++
    if (isUnproven) this.unprovenOnWire++
    this.make(lane, trigger, takenAtMs)
      .catch((error) => this.fail(error))
      .finally(() => {
        this.onWire--
        if (isUnproven) this.unprovenOnWire--
        this.wake()
      })
  }

  private async make(lane: Lane, trigger: TakenTrigger, takenAtMs: number): Promise<void> {
    const { context } = this
    const request = trigger.hasLead ? await this.buildRequest(lane, trigger) : undefined
    if (request === undefined) {
      await rideOut(() => endTrigger(context.db, trigger), context.onAway)
      lane.underWay--
      return
    }
    const bytes = request.body.length
    while (this.bytesUnderWay > 0 && this.bytesUnderWay + bytes > bytesUnderWayMax && !this.stopping) {
      await this.sleep(lookAgainMs)
    }
    // a process that was frozen for so long has lost what it took; one that is stopped gives it back
    const waitedMs = performance.now() - takenAtMs
    if (this.stopping || waitedMs > Math.max(context.leaseMs - triggerTimeoutMs, context.leaseMs / 2)) {
      this.due--
      lane.underWay--
      lane.isEmpty = true
      return
    }
    this.bytesUnderWay += bytes
    const outcome = await sendTrigger(context.http, request, new Date(trigger.now.getTime() + waitedMs))
    this.bytesUnderWay -= bytes
    this.note(lane, trigger, request, outcome)
  }

  private async buildRequest(lane: Lane, trigger: TakenTrigger): Promise<TriggerRequest | undefined> {
    const { db, onAway } = this.context
    const pieces = await rideOut(() => this.leads.readJson([trigger.versionId]), onAway)
    // a version that was superseded long ago may be gone, and the lead still there
    const json = pieces?.[0]?.toString() ?? (await rideOut(() => findLeadJson(db, trigger.leadId), onAway))
    return json === undefined ? undefined : buildTriggerRequest(lane, json, trigger.occurredAt)
  }

  private note(lane: Lane, trigger: TakenTrigger, { href, webhookId }: TriggerRequest, outcome: TriggerOutcome): void {
    const { ok, gone, httpStatus, error, retryAfterMs, durationMs } = outcome
    lane.isUnproven = httpStatus === null
    lane.hasAnswered ||= httpStatus !== null
    // of its other triggers none is begun any more
    lane.isEmpty ||= gone
    const abandoned = !ok && !gone && trigger.attempts >= triggerPausesMs.length
    const status: TriggerStatus = ok ? 'delivered' : gone ? 'removed' : abandoned ? 'abandoned' : 'failed'
    const line: TriggerLine = {
      type: 'trigger', integration: lane.integrationId, hook: lane.id, href, webhookId, status,
      attempts: trigger.attempts + 1, httpStatus, error,
    } // biome-ignore format: in the order in which it is printed
    const { hookId, versionId } = trigger
    this.outcomes.push({
      hookId,
      versionId,
      ok,
      abandoned,
      gone,
      httpStatus,
      error,
      retryAfterMs,
      lane,
      line,
      durationMs,
    })
    this.recording ??= this.record().finally(() => {
      this.recording = undefined
      this.wake()
    })
  }

  private async record(): Promise<void> {
    const { db, onAway, onTrigger } = this.context
    try {
      while (this.outcomes.length > 0) {
        const batch = this.outcomes.slice(0, 2 * triggersAtOnceMax)
        const ended = await rideOut(() => recordTriggers(db, this.store, batch), onAway)
        this.due += ended
        this.outcomes.splice(0, batch.length)
        for (const { lane, line, durationMs } of batch) {
          lane.underWay--
          onTrigger(line, durationMs)
        }
        this.wake()
      }
    } catch (error) {
      this.fail(error)
    }
  }

  private async release(lanes: readonly Lane[]): Promise<void> {
    if (lanes.length === 0) return
    const ids = lanes.map(({ id }) => id)
    const isDue = await rideOut(() => releaseHooks(this.context.db, this.store, ids), this.context.onAway)
    for (const id of ids) this.lanes.delete(id)
    // what came in between, or was taken and not sent
    if (isDue) this.lookAtMs = 0
  }
}
