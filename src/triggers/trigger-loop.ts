/**
 * Sends due triggers as the run that has the duty, while a look finds due ones. It knows some thousands of hooks at a time, and finds more
 * when they are done; `HookLanes` decides how much each hook gets.
 */

import { triggerPausesMs, triggersAtOnceMax, triggerTimeoutMs } from '../base/limits.ts'
import { Sleeper } from '../base/sleeper.ts'
import { hearAsked, leaveDuty, takeDuty } from '../db/duties.ts'
import type { Worker } from '../db/leases.ts'
import type { Database, OpenDatabase } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import type { TriggerLine } from '../index.ts'
import { type HookRuleSettings, hookRulesOf } from '../integrations/hook-address.ts'
import { createHookHttp, type HookHttp } from '../integrations/hook-http.ts'
import { signingSecretsOf } from '../secrets/cipher.ts'
import { openIntact, type Vault } from '../secrets/vault.ts'
import { HookLanes, type Lane } from './hook-lanes.ts'
import { HostPace } from './host-pace.ts'
import { type LookOptions, lookForLeads } from './look-for-leads.ts'
import type { LostToRenew } from './lost-triggers.ts'
import { recordHookAnswers, recordTriggers, type TriggerToRecord } from './record-triggers.ts'
import { buildTriggerRequest, sendTrigger, type TriggerOutcome, type TriggerRequest } from './trigger-attempt.ts'
import {
  countUnsent,
  findDueHooks,
  findRunStart,
  giveBack,
  hooksPerLook,
  nameOf,
  renewAside,
  type TakenTrigger,
  takeTriggers,
  triggerDuty,
} from './trigger-store.ts'

/** The dependencies and listeners of a run. */
export interface TriggerContext {
  opened: OpenDatabase
  vault: Vault
  settings: { leaseMs: number; keepAnswers?: 'on' | 'off' } & HookRuleSettings &
    Pick<LookOptions, 'maxLeadAgeMs' | 'sameHouse'>
  /** Aborted: attempts under way are finished and recorded, none is begun, the rest is given back. */
  stop: AbortSignal
  onTrigger(line: TriggerLine, durationMs: number): void
  onNote(text: string): void
  /** Which lost triggers become due again first; undefined: none. */
  again?: LostToRenew | undefined
  /** How long the run may take; by default `triggerRunMsMax`. */
  runMsMax?: number
  /** How long an attempt may take; by default `triggerTimeoutMs`. */
  timeoutMs?: number
  /** Lets the run wait; by default with timers. */
  sleeper?: Sleeper
}

/** What the loop needs besides. */
interface TriggerLoopContext extends TriggerContext {
  worker: Worker
}

const noCounts = { delivered: 0, failed: 0, abandoned: 0, removed: 0, ended: 0, dropped: 0, waiting: 0, left: 0 }

const lookAgainMs = 1_000
/** Limits the leads under way, so that a large one is sent beside few others. In memory a lead takes several times its bytes. */
const bytesUnderWayMax = 16 * 1024 * 1024

/** After the time of a run is up, recording the outcomes of attempts under way may take so long. */
const recordingMs = 2_000

/** Sends the triggers of one run. A failure of the database ends it: `run` then throws. */
export class TriggerLoop {
  private readonly context: TriggerLoopContext
  private readonly timeoutMs: number
  private readonly http: HookHttp
  /** Aborted, like `stop` then: the time of the run is up, or it failed. */
  private readonly over = new AbortController()
  private readonly stop: AbortSignal
  private readonly lanes = new HookLanes()
  private readonly pace = new HostPace()
  private readonly sleeper: Sleeper
  /** What is to be recorded. */
  private readonly sent: { row: TriggerToRecord; lane: Lane; line: TriggerLine }[] = []
  private recording: Promise<void> | undefined
  private bytesUnderWay = 0
  private readonly counts = { ...noCounts }
  /** Until when triggers must be due for the first round, and the latest one, as `timestamptz`. */
  private startedAt = ''
  private dueUntil = '-infinity'
  /** When to look for hooks again, by `performance.now()`; 0: something may have become due. */
  private lookAtMs = 0
  /** The run looks again then if it knows fewer hooks than this: none, or one less than now if the last look may have left some out. */
  private lookBelow = 1
  /** The look for what is due, while it is under way. */
  private looking: Promise<void> | undefined
  private heardAtMs = performance.now()
  private failure: unknown

  constructor(context: TriggerLoopContext) {
    const { settings, timeoutMs = triggerTimeoutMs, sleeper = new Sleeper() } = context
    this.context = context
    this.timeoutMs = timeoutMs
    this.sleeper = sleeper
    this.http = createHookHttp(hookRulesOf(settings), { concurrency: triggersAtOnceMax, timeoutMs })
    this.stop = AbortSignal.any([context.stop, this.over.signal])
    this.stop.addEventListener('abort', () => sleeper.wake())
  }

  /**
   * Takes the duty, and sends until nothing is due and nobody asked for another round, for at most `leftMs` with all that remains then. The
   * duty is given back if nothing is left. Sends nothing if another run is at work.
   */
  async run(leftMs: number): Promise<typeof noCounts> {
    if ((await this.takeDuty()) === undefined) return noCounts
    const timer = setTimeout(() => this.over.abort(), Math.max(0, leftMs - this.timeoutMs - recordingMs))
    try {
      await this.beginRound()
      do await this.begin()
      while (!(await this.isOver()))
    } catch (error) {
      this.fail(error)
    }
    clearTimeout(timer)
    const { stop, dueUntil, startedAt } = this
    const wasStopped = stop.aborted
    this.over.abort()
    while (this.lanes.room < triggersAtOnceMax) await this.sleeper.sleep(lookAgainMs)
    await Promise.allSettled([this.looking, this.recording, this.http.close()])
    if (this.failure !== undefined) throw this.failure
    const { left, waiting } = await this.on((db) => countUnsent(db, { dueUntil, startedAt }, this.context.again))
    return { ...this.counts, waiting, left: wasStopped ? left : 0 }
  }

  private fail(error: unknown): void {
    this.failure ??= error
    this.over.abort()
  }

  /** Works on the database, and waits if that is away for a while. */
  private on<T>(work: (db: Database) => Promise<T>): Promise<T> {
    return rideOut(this.context.opened.db, () => work(this.context.opened.db))
  }

  /** Begins to look for due triggers. */
  private async beginRound(): Promise<void> {
    await this.on((db) => renewAside(db, this.context.settings.maxLeadAgeMs))
    const { lastImportId, dueUntil } = await this.on(findRunStart)
    this.dueUntil = dueUntil
    this.startedAt ||= dueUntil
    this.lookAtMs = 0
    // a stop breaks the look off
    this.looking = this.look(lastImportId).catch((error) => {
      if (!this.stop.aborted) this.fail(error)
    })
  }

  private async look(upTo: number): Promise<void> {
    const { opened, settings } = this.context
    for await (const { found, dropped } of lookForLeads(opened, { upTo, ...settings, stop: this.stop })) {
      this.counts.dropped += dropped
      if (found > 0) this.lookAtMs = 0
      this.sleeper.wake()
    }
    this.looking = undefined
    this.sleeper.wake()
  }

  /** Begins attempts, as many as there is room for. */
  private async begin(): Promise<void> {
    if (this.stop.aborted) return
    const ready = this.findReady()
    if (this.lanes.room > ready.length && this.mayFind()) await this.findHooks()
    if (ready.length > 0) await this.take(ready)
    await this.hear()
  }

  private findReady(): Lane[] {
    return this.bytesUnderWay < bytesUnderWayMax ? this.lanes.findReady(performance.now()) : []
  }

  /** Whether it is time to find hooks: triggers may have become due, or hooks were left out, or the run is about to end. */
  private mayFind(): boolean {
    const below = this.lookAtMs === 0 ? hooksPerLook : this.lookBelow
    return this.lanes.size < below && this.lookAtMs <= performance.now()
  }

  /** Whether the run has ended; if not, waits until a lane may be ready, or something wakes the loop. */
  private async isOver(): Promise<boolean> {
    if (this.stop.aborted && this.lanes.room === triggersAtOnceMax && !this.recording) return true
    let untilMs = lookAgainMs
    if (!this.stop.aborted && this.lanes.room > 0) {
      if (this.findReady().length > 0) return false
      const nowMs = performance.now()
      this.lanes.letGoDone(nowMs)
      if (this.mayFind()) return false
      if (!this.looking && this.lanes.size === 0 && this.lookBelow === 1) return await this.end()
      untilMs = Math.min(untilMs, this.lanes.untilNextMs(nowMs))
    }
    await this.sleeper.sleep(untilMs)
    return false
  }

  /** Begins another round if another run asked for it. */
  private async hear(): Promise<void> {
    if (this.looking || performance.now() < this.heardAtMs + lookAgainMs) return
    this.heardAtMs = performance.now()
    if (await this.on((db) => hearAsked(db, triggerDuty, this.context.worker))) await this.beginRound()
  }

  /** Takes the duty, or keeps it; undefined: another run has it, which is asked to look again. */
  private async takeDuty(): Promise<'taken' | 'kept' | undefined> {
    const duty = await this.on((db) => takeDuty(db, triggerDuty, this.context.worker))
    if (typeof duty !== 'object') return duty
    const by = `since ${duty.since.toISOString()} (process ${duty.processId} on ${duty.host})`
    this.context.onNote(`Another run has been sending triggers ${by}: it also takes what is due by now.`)
    return undefined
  }

  /**
   * Whether the run is over. A process without a lease finds nothing to take, so only a process that still has the duty may conclude that
   * nothing is due.
   */
  private async end(): Promise<boolean> {
    const { worker } = this.context
    await this.on(() => worker.renew())
    const duty = await this.takeDuty()
    if (duty === undefined) return true
    if (duty === 'kept' && (await this.on((db) => leaveDuty(db, triggerDuty, worker)))) return true
    await this.beginRound()
    return false
  }

  private async findHooks(): Promise<void> {
    // set before the look: hooks that become due during it are worth another look
    this.lookAtMs = performance.now() + lookAgainMs
    const hooks = await this.on((db) => findDueHooks(db, this.dueUntil, this.lanes.knownIds))
    this.lanes.add(hooks)
    const mayHaveMore = hooks.length === hooksPerLook || this.lanes.hasFullHost
    this.lookBelow = mayHaveMore ? Math.min(this.lanes.size, hooksPerLook) : 1
  }

  private async take(ready: readonly Lane[]): Promise<void> {
    const takenAtMs = performance.now()
    const limits = { ...this.context.settings, bytesMax: bytesUnderWayMax - this.bytesUnderWay }
    const triggers = await this.on((db) => takeTriggers(db, this.context.worker, this.dueUntil, ready, limits))
    const found = new Set(triggers.map(({ hookId }) => hookId))
    for (const lane of ready) if (!found.has(lane.id)) this.lanes.happen(lane, 'emptied')
    for (const trigger of triggers) {
      const lane = this.lanes.get(trigger.hookId)
      if (trigger.fate === 'end') this.counts.ended++
      if (!lane || trigger.json === null) continue
      const end = this.lanes.begin(lane, nameOf(trigger))
      this.bytesUnderWay += trigger.bytes
      this.make(lane, trigger, trigger.json, takenAtMs)
        .catch((error) => this.fail(error))
        .finally(() => {
          end()
          this.bytesUnderWay -= trigger.bytes
          this.sleeper.wake()
        })
    }
  }

  private async make(lane: Lane, trigger: TakenTrigger, json: string, takenAtMs: number): Promise<void> {
    const { leaseMs, keepAnswers } = this.context.settings
    const { http, timeoutMs } = this
    // not if this process stops, the hook failed, or another process may have the duty by now
    const freshMs = Math.max(leaseMs - timeoutMs, leaseMs / 2)
    const mayGo = () => !this.stop.aborted && lane.state === 'due' && performance.now() - takenAtMs <= freshMs
    const secrets = await this.openSecrets(trigger)
    const request = buildTriggerRequest(lane, json, trigger)
    if (mayGo()) await this.pace.waitForTurn(lane.host)
    this.lanes.endWait(lane, performance.now())
    this.sleeper.wake()
    if (!mayGo()) {
      await this.on((db) => giveBack(db, this.context.worker, trigger))
      return void lane.inHand.delete(nameOf(trigger))
    }
    const now = new Date(trigger.now.getTime() + performance.now() - takenAtMs)
    const outcome = await sendTrigger(http, request, secrets, { now, timeoutMs, keepsAnswer: keepAnswers === 'on' })
    this.note(lane, trigger, request, outcome)
  }

  /** The signing secrets that can be decrypted. Throws `usage` as `Vault.open` does. */
  private async openSecrets({ userId, signingSecrets }: TakenTrigger): Promise<string[]> {
    const stored = signingSecrets.map((each) => openIntact(this.context.vault, each, signingSecretsOf(userId)))
    // a rotation mends a damaged secret at once, not only when their overlap is over
    return (await Promise.all(stored)).filter((secret) => secret !== undefined)
  }

  private note(lane: Lane, trigger: TakenTrigger, request: TriggerRequest, outcome: TriggerOutcome): void {
    const { href, webhookId } = request
    const { ok, gone, httpStatus, error } = outcome
    const pauseMs = this.lanes.note(lane, outcome)
    const abandoned = !ok && !gone && trigger.attempts >= triggerPausesMs.length
    const { hookId, versionId, kind, leadId } = trigger
    const line: TriggerLine = {
      ...{ type: 'trigger', trigger: kind, integration: lane.integrationId, hook: hookId, href, webhookId },
      status: ok ? 'delivered' : gone ? 'removed' : abandoned ? 'abandoned' : 'failed',
      ...{ attempts: trigger.attempts + 1, httpStatus, error },
    }
    const row = { ...outcome, hookId, versionId, kind, leadId, abandoned, failures: lane.failures, pauseMs }
    this.sent.push({ row, lane, line })
    this.recording ??= this.record().catch((error) => {
      this.recording = undefined
      this.fail(error)
    })
  }

  /** Records what came of attempts, beside the statements that begin others: neither waits for the other. */
  private async record(): Promise<void> {
    const { worker, onTrigger, onNote } = this.context
    while (this.sent.length > 0) {
      const sent = [...this.sent]
      const rows = sent.map(({ row }) => row)
      const { offIds, ended } = await this.on((db) => recordTriggers(db, worker, this.dueUntil, rows))
      this.counts.ended += ended
      await this.on((db) => recordHookAnswers(db, rows))
      for (const id of offIds) {
        const lane = this.lanes.get(id)
        if (lane) this.lanes.happen(lane, 'used up')
        onNote(
          `The hook ${id} is switched off: three days of attempts failed. What it missed is kept for \`trigger --again\`.`,
        )
      }
      this.sent.splice(0, sent.length)
      for (const { lane, row, line } of sent) {
        lane.inHand.delete(nameOf(row))
        this.counts[line.status]++
        onTrigger(line, row.durationMs)
      }
      this.sleeper.wake()
    }
    this.recording = undefined
  }
}
