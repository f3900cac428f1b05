/**
 * A run of `trigger` (contract 6): looks for due triggers and sends them at the same time. Nothing is lost, even if the process dies. An
 * attempt without a recorded outcome is made again with the same `webhook-id`, because a platform can recognise a repeated trigger but
 * cannot notice a lost lead.
 */
import { triggerRunMsMax, triggersAtOnceMax, triggerTimeoutMs } from '../base/limits.ts'
import { describeAbsence, rideOut } from '../db/away.ts'
import { takeDuty } from '../db/duties.ts'
import { databaseLeases, Worker } from '../db/leases.ts'
import type { TriggerSummaryLine } from '../index.ts'
import { hookRulesOf } from '../integrations/hook-address.ts'
import { createHookHttp } from '../integrations/hook-http.ts'
import { renewLost } from './lost-triggers.ts'
import { describeAtWork, noCounts, type TriggerContext, type TriggerCounts, TriggerLoop } from './trigger-loop.ts'
import { triggerDuty } from './trigger-store.ts'

/** After the time of a run is up, recording the outcomes of attempts under way may take so long. */
const recordingMs = 2_000

/**
 * Runs until nothing is due, the time is up, or `stop` is aborted. If another run is at work, asks it to look again and leaves. Throws
 * `database` if the database stays away.
 */
export async function runTriggers(context: TriggerContext): Promise<TriggerSummaryLine> {
  const { opened, settings, again, onNote } = context
  const { db } = opened
  const startedMs = performance.now()
  let wasAway = false
  const onAway = (error: unknown) => {
    if (!wasAway) onNote(describeAbsence(error))
    wasAway = true
  }
  const worker = await Worker.start(databaseLeases(db), settings.leaseMs)
  try {
    // before another run is asked to look again
    if (again) await rideOut(() => renewLost(db, again), onAway)
    const duty = await rideOut(() => takeDuty(db, triggerDuty, worker), onAway)
    if (typeof duty === 'object') onNote(describeAtWork(duty))
    const counts = typeof duty === 'object' ? noCounts : await send(context, worker, startedMs, onAway)
    await rideOut(() => worker.stop(), onAway)
    const { delivered, failed, abandoned, removed, ended, dropped, waiting, left } = counts
    const due = delivered + failed + abandoned + removed + ended + waiting + left
    const seconds = Math.round(performance.now() - startedMs) / 1_000
    return { type: 'summary', due, delivered, failed, abandoned, removed, ended, dropped, waiting, left, seconds }
  } catch (error) {
    // nothing is under way any more: the next run need not wait for the lease, unless the database is away
    await worker.stop().catch(() => worker.stopRenewing())
    throw error
  }
}

/** Sends as the run that has the duty, until its time is up. */
async function send(
  context: TriggerContext,
  worker: Worker,
  startedMs: number,
  onAway: (error: unknown) => void,
): Promise<TriggerCounts> {
  const { settings, onNote, runMsMax = triggerRunMsMax, timeoutMs = triggerTimeoutMs } = context
  const leftMs = startedMs + runMsMax - timeoutMs - recordingMs - performance.now()
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(), Math.max(0, leftMs))
  const stop = AbortSignal.any([context.stop, over.signal])
  const http = createHookHttp(hookRulesOf(settings), { concurrency: triggersAtOnceMax, timeoutMs })
  const loop = new TriggerLoop({ ...context, timeoutMs, stop, http, worker, onAway })
  try {
    const counts = await loop.run()
    if (counts.left > 0 && !context.stop.aborted) onNote('The time of this run is up: the next one goes on.')
    return counts
  } finally {
    clearTimeout(timer)
    over.abort()
    await Promise.allSettled([loop.looking, http.close()])
  }
}
