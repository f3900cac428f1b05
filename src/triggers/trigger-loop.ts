/**
 * The second half of `trigger`: sends due triggers. Takes a few hooks at a time, as long as there is room to send to more;
 * `HookLanes` decides how much each hook gets.
 */

import { setTimeout as delay } from 'node:timers/promises'
import { shareLateMsMax, triggerPausesMs } from '../base/limits.ts'
import { Sleeper } from '../base/sleeper.ts'
import { rideOut } from '../db/away.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { TriggerLine } from '../index.ts'
import type { HookHttp } from '../integrations/hook-http.ts'
import { LeadStore } from '../leads/lead-store.ts'
import { signingSecretsOf } from '../secrets/cipher.ts'
import { openIntact, type Vault } from '../secrets/vault.ts'
import { recordHookAnswers } from './hook-answers.ts'
import { HookLanes, type Lane, lanesMax } from './hook-lanes.ts'
import { HostPace } from './host-pace.ts'
import { leaveShare, takeShare } from './shares.ts'
import {
  buildTriggerRequest,
  damagedSecret,
  sendTrigger,
  type TriggerOutcome,
  type TriggerRequest,
} from './trigger-attempt.ts'
import {
  endTrigger,
  findLeadJson,
  recordTriggers,
  releaseHooks,
  setAside,
  type TakenTrigger,
  type TriggerToRecord,
  type TriggerWorker,
  takeHooks,
  takeTriggers,
} from './trigger-store.ts'

/** What the loop works with, and whom it tells. */
export interface TriggerLoopContext {
  db: Database
  http: HookHttp
  /** Opens the signing secrets. */
  vault: Vault
  worker: Worker
  leaseMs: number
  maxLeadAgeMs: number
  dueUntil: string
  keepAnswers: 'on' | 'off'
  timeoutMs: number
  /** Aborted: attempts under way are finished and recorded, none is begun, the rest is given back. */
  stop: AbortSignal
  onTrigger(line: TriggerLine, durationMs: number): void
  /** Called for each hook that was switched off. */
  onOff(hookId: string): void
  onAway(error: unknown): void
}

type Sent = TriggerToRecord & { lane: Lane; line: TriggerLine; durationMs: number }

const hooksPerTake = 32
const outcomesPerStatement = 128
const lookAgainMs = 1_000
/** So often a process looks how many others there are. */
const shareMs = 250
/**
 * Limits the leads under way, so that a large one is sent beside few others. In memory a lead takes several times its bytes.
 */
const bytesUnderWayMax = 16 * 1024 * 1024

/** Sends the triggers of one run. A failure of the database ends it: `run` then throws. */
export class TriggerLoop {
  /** Triggers that this process took in hand, and those that ended because their hook was gone. */
  due = 0

  private readonly context: TriggerLoopContext
  private readonly leads: LeadStore
  private readonly lanes = new HookLanes()
  private readonly pace: HostPace
  /** When to look for other processes again, by `performance.now()`. */
  private shareAtMs = 0
  /** Whether other processes have so many hooks that they will give some of them to this one. */
  private mayGetHooks = false
  private bytesUnderWay = 0
  private workerId: number
  private server: string
  private readonly outcomes: Sent[] = []
  private recording: Promise<void> | undefined
  /** When to look for hooks again, by `performance.now()`. */
  private lookAtMs = 0
  private readonly sleeper = new Sleeper()
  private failure: unknown

  constructor(context: TriggerLoopContext) {
    this.context = context
    this.leads = new LeadStore(context.db)
    this.pace = new HostPace(context.db, context.onAway)
    this.workerId = context.worker.id
    this.server = context.worker.server
  }

  /** Makes the loop look again: something may have become due. */
  lookAgain(): void {
    this.lookAtMs = 0
    this.sleeper.wake()
  }

  /** Sends until nothing is due and `found` has settled; until then more may become due. */
  async run(found: Promise<unknown>): Promise<void> {
    let foundAll = false
    const onFound = () => {
      foundAll = true
      this.lookAgain()
    }
    found.then(onFound, (error) => this.fail(error))
    const wake = () => this.sleeper.wake()
    this.context.stop.addEventListener('abort', wake)
    try {
      await this.fill(() => foundAll)
    } catch (error) {
      this.fail(error)
    }
    while (!this.lanes.isIdle || (this.recording && this.failure === undefined)) await this.sleeper.sleep(lookAgainMs)
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    // another process may send to them at once
    const paceMs = this.lanes.untilNextMs(performance.now())
    if (Number.isFinite(paceMs)) await delay(paceMs)
    await this.release(this.lanes.all())
    await rideOut(() => leaveShare(this.context.db, this.store), this.context.onAway)
    this.shareAtMs = 0
  }

  private get stopping(): boolean {
    return this.context.stop.aborted || this.failure !== undefined
  }

  private get store(): TriggerWorker {
    return { ids: this.context.worker.ids, dueUntil: this.context.dueUntil }
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.sleeper.wake()
  }

  private async fill(hasFoundAll: () => boolean): Promise<void> {
    while (!this.stopping) {
      this.dropLostLanes()
      if (this.shareAtMs <= performance.now()) await this.takeShare()
      const ready = this.lanes.findReady(performance.now())
      const wanted = this.lanes.room - ready.length
      let taken = 0
      if (wanted > 0 && this.lanes.hooksRoom > 0 && this.lookAtMs <= performance.now()) {
        taken = await this.takeHooks(Math.min(wanted, this.lanes.hooksRoom, hooksPerTake))
      }
      if (ready.length > 0) await this.takeTriggers(ready)
      await this.release(this.lanes.findDone(performance.now()))
      if (ready.length > 0 || taken > 0) continue
      if (
        hasFoundAll() &&
        this.lanes.size === 0 &&
        !this.mayGetHooks &&
        this.lookAtMs > performance.now() &&
        (await this.isDone())
      )
        return
      await this.sleeper.sleep(this.untilNextMs())
    }
  }

  private async takeShare(): Promise<void> {
    const { db, onAway } = this.context
    this.shareAtMs = performance.now() + shareMs
    const now = { underWay: this.lanes.underWay, hooksMax: lanesMax }
    const { processes, atOnce, hooksDue } = await rideOut(() => takeShare(db, this.store, now), onAway)
    const isAlone = processes === 1
    this.lanes.limit({ atOnce, hooks: isAlone ? lanesMax : Math.max(1, Math.ceil(hooksDue / processes)) })
    this.mayGetHooks = !isAlone && hooksDue >= processes
    if (this.mayGetHooks && this.lanes.hooksRoom > 0) this.lookAtMs = 0
  }

  /** Whether this process still has its lease. Without one nothing seems due, so only then is an empty look believed. */
  private async isDone(): Promise<boolean> {
    await rideOut(() => this.context.worker.renew(), this.context.onAway)
    if (this.context.worker.id === this.workerId) return true
    this.lookAtMs = 0
    return false
  }

  private dropLostLanes(): void {
    const { worker } = this.context
    if (worker.server !== this.server) {
      // contract 4.7: the same ids may mean other listings on another server
      this.server = worker.server
      this.leads.clear()
    }
    if (worker.id === this.workerId) return
    this.workerId = worker.id
    this.lanes.lose()
    this.lookAtMs = 0
  }

  private untilNextMs(): number {
    const nowMs = performance.now()
    // a lane may have become ready during an earlier wait
    if (this.lanes.findReady(nowMs).length > 0 || this.lanes.findDone(nowMs).length > 0) return 0
    const mayTake = this.lanes.room > 0 && this.lanes.hooksRoom > 0
    const untilLookMs = mayTake ? Math.max(0, this.lookAtMs - nowMs) : lookAgainMs
    return Math.min(untilLookMs, Math.max(0, this.shareAtMs - nowMs), this.lanes.untilNextMs(nowMs))
  }

  private async takeHooks(limit: number): Promise<number> {
    const { db, onAway } = this.context
    const { hasRoomForUnproven: alsoUnproven, fullHosts } = this.lanes
    const which = { limit, alsoUnproven, fullHosts, known: this.lanes.all().map(({ id }) => id) }
    // set before the look: hooks that become due during it are worth another
    this.lookAtMs = performance.now() + lookAgainMs
    const hooks = await rideOut(() => takeHooks(db, this.store, which), onAway)
    if (hooks.length === limit) this.lookAtMs = 0
    this.lanes.add(hooks)
    return hooks.length
  }

  private async takeTriggers(ready: Lane[]): Promise<void> {
    const takenAtMs = performance.now()
    const ids = ready.map(({ id }) => id)
    const { db, maxLeadAgeMs, onAway } = this.context
    const triggers = await rideOut(() => takeTriggers(db, this.store, ids, maxLeadAgeMs), onAway)
    const versionIds = triggers.map(({ versionId }) => versionId)
    const leads = await rideOut(() => this.leads.findEach(versionIds), onAway)
    const taken = new Set(triggers.map(({ hookId }) => hookId))
    for (const lane of ready) if (!taken.has(lane.id)) lane.isEmpty = true
    for (const [at, trigger] of triggers.entries()) {
      const lane = this.lanes.get(trigger.hookId)
      if (lane) this.begin(lane, trigger, leads[at]?.bytes ?? 0, takenAtMs)
    }
  }

  private begin(lane: Lane, trigger: TakenTrigger, bytes: number, takenAtMs: number): void {
    const end = this.lanes.begin(lane)
    this.due++
    this.makeRoom(bytes)
      .then(() => this.make(lane, trigger, takenAtMs))
      .catch((error) => this.fail(error))
      .finally(() => {
        end()
        this.bytesUnderWay -= bytes
        this.sleeper.wake()
      })
  }

  /** Waits until there is memory for a lead of so many bytes. */
  private async makeRoom(bytes: number): Promise<void> {
    while (this.bytesUnderWay > 0 && this.bytesUnderWay + bytes > bytesUnderWayMax && !this.stopping) {
      await this.sleeper.sleep(lookAgainMs)
    }
    this.bytesUnderWay += bytes
  }

  private async make(lane: Lane, trigger: TakenTrigger, takenAtMs: number): Promise<void> {
    const { db, http, onAway } = this.context
    if (this.giveUp(lane, takenAtMs)) return
    if (trigger.fate === 'wait') {
      await rideOut(() => setAside(db, this.store, trigger), onAway)
      this.due--
      lane.underWay--
      return
    }
    const opened = await this.openSecrets(trigger)
    const request = trigger.fate === 'send' ? await this.buildRequest(lane, opened ?? trigger) : undefined
    if (request === undefined) {
      await rideOut(() => endTrigger(db, trigger), onAway)
      lane.underWay--
      return
    }
    if (this.giveUp(lane, takenAtMs)) return
    await this.pace.waitForTurn(lane.host)
    if (this.giveUp(lane, takenAtMs)) return
    this.lanes.send(lane, performance.now())
    this.sleeper.wake()
    const now = new Date(trigger.now.getTime() + performance.now() - takenAtMs)
    this.note(lane, trigger, request, opened ? await sendTrigger(http, request, now, this.context) : damagedSecret)
  }

  /** With those of its signing secrets that can be decrypted; undefined where none can. Throws `usage` as `Vault.open` does. */
  private async openSecrets(trigger: TakenTrigger): Promise<TakenTrigger | undefined> {
    const place = signingSecretsOf(trigger.userId)
    const stored = trigger.signingSecrets.map((each) => openIntact(this.context.vault, each, place))
    // a rotation mends a damaged secret at once, not only when their overlap is over
    const signingSecrets = (await Promise.all(stored)).filter((secret) => secret !== undefined)
    return signingSecrets.length > 0 ? { ...trigger, signingSecrets } : undefined
  }

  /**
   * Whether to give the trigger back instead of sending it: this process stops, the hook failed, or so much time has passed
   * since it was taken that another process may have it, or since the share was that another may have that.
   */
  private giveUp(lane: Lane, takenAtMs: number): boolean {
    const { leaseMs, timeoutMs } = this.context
    const nowMs = performance.now()
    const isLate =
      nowMs - takenAtMs > Math.max(leaseMs - timeoutMs, leaseMs / 2) || nowMs > this.shareAtMs + shareLateMsMax
    if (!this.stopping && !lane.isClosed && !isLate) return false
    this.due--
    lane.underWay--
    lane.isEmpty = true
    return true
  }

  private async buildRequest(lane: Lane, trigger: TakenTrigger): Promise<TriggerRequest | undefined> {
    const { db, onAway } = this.context
    // a version may be gone while the cache has it and the lead still exists
    const found = trigger.hasVersion ? await rideOut(() => this.leads.readJson([trigger]), onAway) : undefined
    const json = found?.[0]?.json.toString() ?? (await rideOut(() => findLeadJson(db, trigger.leadId), onAway))
    return json === undefined ? undefined : buildTriggerRequest(lane, trigger.signingSecrets, json, trigger)
  }

  private note(lane: Lane, trigger: TakenTrigger, { href, webhookId }: TriggerRequest, outcome: TriggerOutcome): void {
    const { ok, gone, httpStatus, error, retryAfterMs, durationMs, answer } = outcome
    lane.isUnproven = httpStatus === null
    lane.hasAnswered ||= httpStatus !== null
    if (!ok) this.lanes.close(lane)
    const abandoned = !ok && !gone && trigger.attempts >= triggerPausesMs.length
    const status: TriggerLine['status'] = ok ? 'delivered' : gone ? 'removed' : abandoned ? 'abandoned' : 'failed'
    const line: TriggerLine = {
      type: 'trigger',
      trigger: trigger.kind,
      integration: lane.integrationId,
      hook: lane.id,
      href,
      webhookId,
      status,
      attempts: trigger.attempts + 1,
      httpStatus,
      error,
    }
    const { hookId, versionId, kind, leadId } = trigger
    this.outcomes.push({
      hookId,
      versionId,
      kind,
      leadId,
      answer,
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
      this.sleeper.wake()
    })
  }

  private async record(): Promise<void> {
    const { db, onAway, onTrigger, onOff } = this.context
    try {
      while (this.outcomes.length > 0) {
        const batch = this.outcomes.slice(0, outcomesPerStatement)
        const { ended, offIds } = await rideOut(() => recordTriggers(db, this.store, batch), onAway)
        await rideOut(() => recordHookAnswers(db, batch), onAway)
        this.due += ended
        for (const id of offIds) onOff(id)
        this.outcomes.splice(0, batch.length)
        for (const { lane, line, durationMs } of batch) {
          lane.underWay--
          onTrigger(line, durationMs)
        }
        this.sleeper.wake()
      }
    } catch (error) {
      this.fail(error)
    }
  }

  private async release(lanes: readonly Lane[]): Promise<void> {
    if (lanes.length === 0) return
    const isDue = await rideOut(() => releaseHooks(this.context.db, this.store, lanes), this.context.onAway)
    this.lanes.letGo(lanes)
    // became due meanwhile, or was taken and not sent
    if (isDue) this.lookAtMs = 0
  }
}
