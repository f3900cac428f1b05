/**
 * A run of `trigger` (contract 6): looks for due triggers and sends them at the same time. Nothing is lost however the
 * process ends. An attempt without a recorded outcome is made again with the same `webhook-id`, because a platform can
 * recognise a repeated trigger but cannot miss a lead that never came.
 */
import { triggerRunMsMax, triggersAtOnceMax, triggerTimeoutMs } from '../base/limits.ts'
import type { Sleeper } from '../base/sleeper.ts'
import { describeAbsence, rideOut } from '../db/away.ts'
import { type AtWork, takeDuty } from '../db/duties.ts'
import { databaseLeases, Worker } from '../db/leases.ts'
import type { OpenDatabase } from '../db/open.ts'
import type { TriggerLine, TriggerSummaryLine } from '../index.ts'
import { hookRulesOf } from '../integrations/hook-address.ts'
import { createHookHttp } from '../integrations/hook-http.ts'
import type { Live } from '../matching/listed.ts'
import { plainVault, type Vault } from '../secrets/vault.ts'
import { type Looked, lookForLeads } from './look-for-leads.ts'
import { forgetLost, type LostToRenew, renewLost } from './lost-triggers.ts'
import { TriggerLoop } from './trigger-loop.ts'
import { countLeft, findRunStart, renewAside, triggerDuty } from './trigger-store.ts'

/** What a run needs, and whom it tells. */
export interface TriggerContext {
  opened: OpenDatabase
  /** Without it only signing secrets that are stored as they are can be used. */
  vault?: Vault | undefined
  settings: {
    leaseMs: number
    maxLeadAgeMs: number
    /** Of a house on several sites one listing may count (contract 4.20); by default each does. */
    sameHouse?: Live['sameHouse']
    allowInsecureHooks: string | undefined
    hookHosts?: readonly string[] | undefined
    keepAnswers?: 'on' | 'off'
  }
  /** Aborted: finishes the attempts under way, begins none, gives back the rest. */
  stop: AbortSignal
  onTrigger(line: TriggerLine, durationMs: number): void
  onNote(text: string): void
  /** Called for each hook that was switched off, besides a note. */
  onOff?: (hookId: string) => void
  /** Which lost triggers become due again first; undefined: none. */
  again?: LostToRenew | undefined
  /** How long the run may take; by default `triggerRunMsMax`. */
  runMsMax?: number
  /** How long an attempt may take; by default `triggerTimeoutMs`. */
  timeoutMs?: number
  /** Lets the run wait; by default with timers. */
  sleeper?: Sleeper
}

/** When the time of a run is up, recording what came of attempts that were under way may take so long. */
const recordingMs = 2_000

const none = { delivered: 0, failed: 0, abandoned: 0, removed: 0 }

/**
 * Runs until nothing is due, the time is up, or `stop` is aborted. Where another run is at work, asks it to look again and leaves. Throws
 * `database` when the database stays away.
 */
export async function runTriggers(context: TriggerContext): Promise<TriggerSummaryLine> {
  const { opened, settings, again, onNote } = context
  const { db } = opened
  const startedMs = performance.now()
  const onAway = noteOnce((error) => onNote(describeAbsence(error)))
  const worker = await Worker.start(databaseLeases(db), settings.leaseMs)
  const summarise = (more: Omit<TriggerSummaryLine, 'type' | 'seconds'>): TriggerSummaryLine => {
    return { type: 'summary', ...more, seconds: Math.round(performance.now() - startedMs) / 1_000 }
  }
  try {
    // before another run is asked to look again
    if (again) await rideOut(() => renewLost(db, again), onAway)
    const duty = await rideOut(() => takeDuty(db, triggerDuty, worker), onAway)
    if (typeof duty === 'object') onNote(describeAtWork(duty))
    const sent =
      typeof duty === 'object'
        ? { due: 0, ...none, ended: 0, dropped: 0, waiting: 0, left: 0 }
        : await send(context, worker, startedMs, onAway)
    await rideOut(() => worker.stop(), onAway)
    return summarise(sent)
  } catch (error) {
    // nothing is under way any more: the next run need not wait for the lease, unless the database is away
    await worker.stop().catch(() => worker.stopRenewing())
    throw error
  }
}

const describeAtWork = ({ host, processId, since }: AtWork): string =>
  `Another run has been sending triggers since ${since.toISOString()} (process ${processId} on ${host}): it also takes what is due by now.`

/** Sends as the run that has the duty. */
async function send(
  context: TriggerContext,
  worker: Worker,
  startedMs: number,
  onAway: (error: unknown) => void,
): Promise<Omit<TriggerSummaryLine, 'type' | 'seconds'>> {
  const { opened, settings, onNote, again, runMsMax = triggerRunMsMax, timeoutMs = triggerTimeoutMs } = context
  const { db } = opened
  const { leaseMs, maxLeadAgeMs, sameHouse, keepAnswers = 'off' } = settings
  const timeIsUp = new AbortController()
  const leftMs = startedMs + runMsMax - timeoutMs - recordingMs - performance.now()
  const timer = setTimeout(() => timeIsUp.abort(), Math.max(0, leftMs))
  const stop = AbortSignal.any([context.stop, timeIsUp.signal])
  const counts = { ...none }
  let [dropped, startedAt] = [0, '']
  let looking: Promise<unknown> = Promise.resolve()
  const http = createHookHttp(hookRulesOf(settings), { concurrency: triggersAtOnceMax, timeoutMs })
  const loop = new TriggerLoop({
    ...{
      db,
      http,
      vault: context.vault ?? plainVault,
      worker,
      leaseMs,
      maxLeadAgeMs,
      keepAnswers,
      timeoutMs,
      stop,
      onAway,
    },
    ...(context.sleeper && { sleeper: context.sleeper }),
    async beginRound() {
      await rideOut(() => renewAside(db, maxLeadAgeMs), onAway)
      const { lastImportId: upTo, dueUntil } = await rideOut(() => findRunStart(db), onAway)
      startedAt ||= dueUntil
      const onLooked = (looked: Looked) => {
        dropped += looked.dropped
        if (looked.found > 0) loop.lookAgain()
      }
      looking = lookForLeads(opened, { upTo, maxLeadAgeMs, sameHouse, stop, onAway, onLooked })
      return { dueUntil, found: looking }
    },
    onOff(id) {
      onNote(
        `The hook ${id} is switched off: three days of attempts failed. What it missed is kept for \`trigger --again\`.`,
      )
      context.onOff?.(id)
    },
    onLost: (atWork) => onNote(describeAtWork(atWork)),
    onTrigger(line, durationMs) {
      counts[line.status]++
      context.onTrigger(line, durationMs)
    },
  })
  try {
    await rideOut(() => forgetLost(db), onAway)
    await loop.run()
    const { dueUntil, due, ended } = loop
    const rest = await rideOut(() => countLeft(db, { dueUntil, startedAt }, again), onAway)
    const left = stop.aborted ? rest.left : 0
    if (left > 0 && !context.stop.aborted) onNote('The time of this run is up: the next one goes on.')
    return { due: due + left + rest.waiting, ...counts, ended, dropped, waiting: rest.waiting, left }
  } finally {
    clearTimeout(timer)
    timeIsUp.abort()
    await Promise.allSettled([looking, http.close()])
  }
}

function noteOnce(note: (error: unknown) => void): (error: unknown) => void {
  let noted = false
  return (error) => {
    if (!noted) note(error)
    noted = true
  }
}
