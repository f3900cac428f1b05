/**
 * The second half of `trigger`: sends due triggers. It knows a few hundred hooks at a time, and finds more as long as there is room;
 * `HookLanes` decides how much each hook gets.
 */
import { triggerPausesMs } from '../base/limits.ts'
import { Sleeper } from '../base/sleeper.ts'
import { rideOut } from '../db/away.ts'
import { type AtWork, hearAsked, leaveDuty, takeDuty } from '../db/duties.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { TriggerLine } from '../index.ts'
import type { HookHttp } from '../integrations/hook-http.ts'
import { LeadStore } from '../leads/lead-store.ts'
import { signingSecretsOf } from '../secrets/cipher.ts'
import { openIntact, type Vault } from '../secrets/vault.ts'
import { recordHookAnswers } from './hook-answers.ts'
import { HookLanes, type Lane } from './hook-lanes.ts'
import { pauseAfter } from './hook-state.ts'
import { HostPace } from './host-pace.ts'
import {
  buildTriggerRequest,
  damagedSecret,
  sendTrigger,
  type TriggerOutcome,
  type TriggerRequest,
} from './trigger-attempt.ts'
import {
  endTrigger,
  findDueHooks,
  findLeadJson,
  recordTriggers,
  releaseTriggers,
  setAside,
  type TakenTrigger,
  type TriggerToRecord,
  type TriggerWorker,
  takeTriggers,
  triggerDuty,
} from './trigger-store.ts'

/** What the loop works with, and whom it tells. */
export interface TriggerLoopContext {
  db: Database
  http: HookHttp
  /** Opens the signing secrets. */
  vault: Vault
  /** Has the duty. */
  worker: Worker
  leaseMs: number
  maxLeadAgeMs: number
  /** Begins to look for what is due, at first, and again where another run asked for it. `found` settles when all is found. */
  beginRound(): Promise<{ dueUntil: string; found: Promise<unknown> }>
  /** Lets the loop wait. */
  sleeper?: Sleeper
  keepAnswers: 'on' | 'off'
  timeoutMs: number
  /** Aborted: attempts under way are finished and recorded, none is begun, the rest is given back. */
  stop: AbortSignal
  onTrigger(line: TriggerLine, durationMs: number): void
  /** Called for each hook that was switched off. */
  onOff(hookId: string): void
  onAway(error: unknown): void
  /** Called where the lease ran out and another process took over: it sends the rest. */
  onLost(atWork: AtWork): void
}

type Sent = TriggerToRecord & { lane: Lane; line: TriggerLine; durationMs: number }

const outcomesPerStatement = 128
const lookAgainMs = 1_000
/**
 * Limits the leads under way, so that a large one is sent beside few others. In memory a lead takes several times its bytes.
 */
const bytesUnderWayMax = 16 * 1024 * 1024

/** Sends the triggers of one run. A failure of the database ends it: `run` then throws. */
export class TriggerLoop {
  /** Triggers that were taken in hand; and those that ended without an attempt: their lead or hook is no more, or is as it was again. */
  due = 0
  ended = 0
  /** Until when triggers must be due for the latest round, as `timestamptz`. */
  dueUntil = '-infinity'

  private readonly context: TriggerLoopContext
  private readonly leads: LeadStore
  private readonly lanes = new HookLanes()
  private readonly pace = new HostPace()
  private bytesUnderWay = 0
  private workerId: number
  private server: string
  private readonly outcomes: Sent[] = []
  private recording: Promise<void> | undefined
  /** Rounds that have not found all yet. */
  private looking = 0
  /** When to look for hooks again, by `performance.now()`. */
  private lookAtMs = 0
  private heardAtMs = performance.now()
  private readonly sleeper: Sleeper
  private failure: unknown

  constructor(context: TriggerLoopContext) {
    this.context = context
    this.leads = new LeadStore(context.db)
    this.sleeper = context.sleeper ?? new Sleeper()
    this.workerId = context.worker.id
    this.server = context.worker.server
  }

  /** Makes the loop look again: something may have become due. */
  lookAgain(): void {
    this.lookAtMs = 0
    this.sleeper.wake()
  }

  /** Sends until nothing is due and nobody asked for another round. The duty is given back then. */
  async run(): Promise<void> {
    const wake = () => this.sleeper.wake()
    this.context.stop.addEventListener('abort', wake)
    try {
      await this.beginRound()
      await this.fill()
    } catch (error) {
      this.fail(error)
    }
    while (!this.lanes.isIdle || (this.recording && this.failure === undefined)) await this.sleeper.sleep(lookAgainMs)
    this.context.stop.removeEventListener('abort', wake)
    if (this.failure !== undefined) throw this.failure
    await this.letGo(this.lanes.all())
  }

  private get stopping(): boolean {
    return this.context.stop.aborted || this.failure !== undefined
  }

  private get store(): TriggerWorker {
    return { ids: this.context.worker.ids, dueUntil: this.dueUntil }
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.sleeper.wake()
  }

  private async beginRound(): Promise<void> {
    this.looking++
    const { dueUntil, found } = await this.context.beginRound()
    this.dueUntil = dueUntil
    this.lookAgain()
    const onFound = () => {
      this.looking--
      this.lookAgain()
    }
    found.then(onFound, (error) => this.fail(error))
  }

  private async fill(): Promise<void> {
    while (!this.stopping) {
      this.followServer()
      const ready = this.lanes.findReady(performance.now())
      let found = 0
      if (this.lanes.room > ready.length && this.lanes.hooksRoom > 0 && this.lookAtMs <= performance.now()) {
        found = await this.findHooks()
      }
      if (ready.length > 0) await this.takeTriggers(ready)
      await this.letGo(this.lanes.findDone(performance.now()))
      await this.hear()
      if (ready.length > 0 || found > 0) continue
      const isDone = this.looking === 0 && this.lanes.size === 0 && this.lookAtMs > performance.now()
      if (isDone && (await this.end())) return
      const waitMs = isDone ? 0 : this.untilNextMs()
      if (waitMs > 0) await this.sleeper.sleep(waitMs)
    }
  }

  /** Begins another round where another run asked for it. */
  private async hear(): Promise<void> {
    if (this.looking > 0 || performance.now() < this.heardAtMs + lookAgainMs) return
    const { db, worker, onAway } = this.context
    this.heardAtMs = performance.now()
    if (await rideOut(() => hearAsked(db, triggerDuty, worker), onAway)) await this.beginRound()
  }

  /**
   * Whether the run is over. A process that lost its lease found nothing to take, so only one that still has the duty may believe that
   * nothing is due.
   */
  private async end(): Promise<boolean> {
    const { db, worker, onAway, onLost } = this.context
    await this.pace.rest()
    await rideOut(() => worker.renew(), onAway)
    const duty = await rideOut(() => takeDuty(db, triggerDuty, worker), onAway)
    if (typeof duty === 'object') {
      onLost(duty)
      return true
    }
    const isSure = duty === 'kept' && worker.id === this.workerId
    this.workerId = worker.id
    this.lookAtMs = 0
    if (!isSure) return false
    if (await rideOut(() => leaveDuty(db, triggerDuty, worker), onAway)) return true
    await this.beginRound()
    return false
  }

  private followServer(): void {
    const { server } = this.context.worker
    if (server === this.server) return
    // contract 4.7: the same ids may mean other listings on another server
    this.server = server
    this.leads.clear()
  }

  private untilNextMs(): number {
    const nowMs = performance.now()
    // a lane may have become ready during an earlier wait
    if (this.lanes.findReady(nowMs).length > 0 || this.lanes.findDone(nowMs).length > 0) return 0
    const mayFind = this.lanes.room > 0 && this.lanes.hooksRoom > 0
    return Math.min(mayFind ? Math.max(0, this.lookAtMs - nowMs) : lookAgainMs, this.lanes.untilNextMs(nowMs))
  }

  private async findHooks(): Promise<number> {
    const { db, onAway } = this.context
    const { hasRoomForUnproven: alsoUnproven, fullHosts, hooksRoom: limit } = this.lanes
    const which = { limit, alsoUnproven, fullHosts, known: this.lanes.all().map(({ id }) => id) }
    // set before the look: hooks that become due during it are worth another
    this.lookAtMs = performance.now() + lookAgainMs
    const hooks = await rideOut(() => findDueHooks(db, this.store, which), onAway)
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
    for (const lane of ready) if (!taken.has(lane.id)) this.lanes.happen(lane, 'emptied')
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
      this.ended++
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
   * since it was taken that another process may have it.
   */
  private giveUp(lane: Lane, takenAtMs: number): boolean {
    const { leaseMs, timeoutMs } = this.context
    const isLate = performance.now() - takenAtMs > Math.max(leaseMs - timeoutMs, leaseMs / 2)
    if (!this.stopping && lane.state === 'due' && !isLate) return false
    this.due--
    lane.underWay--
    if (isLate) this.lanes.happen(lane, 'emptied')
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
    const { ok, gone, httpStatus, error } = outcome
    lane.isUnproven = httpStatus === null
    lane.hasAnswered ||= httpStatus !== null
    lane.failures = ok ? 0 : lane.failures + 1
    const { failures } = lane
    const pauseMs = ok || gone ? null : pauseAfter(outcome, failures)
    this.lanes.happen(lane, ok ? 'delivered' : gone ? 'ended' : pauseMs === null ? 'failed' : 'stalled')
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
    this.outcomes.push({ ...outcome, hookId, versionId, kind, leadId, abandoned, failures, pauseMs, lane, line })
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
        this.ended += ended
        for (const id of offIds) {
          const lane = this.lanes.get(id)
          if (lane) this.lanes.happen(lane, 'used up')
          onOff(id)
        }
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

  private async letGo(lanes: readonly Lane[]): Promise<void> {
    if (lanes.length === 0) return
    const { db, onAway } = this.context
    const ids = lanes.map(({ id }) => id)
    const areAny = await rideOut(() => releaseTriggers(db, this.store, ids), onAway)
    this.lanes.letGo(lanes)
    if (areAny) this.lookAtMs = 0
  }
}
