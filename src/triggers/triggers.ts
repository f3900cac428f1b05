/**
 * A run of `trigger` (contract 6): looks for due triggers and sends them at the same time. Nothing is lost, even if the process dies. An
 * attempt without a recorded outcome is made again with the same `webhook-id`, because a platform can recognise a repeated trigger but
 * cannot notice a lost lead.
 */

import { triggerRunMsMax } from '../base/limits.ts'
import { databaseLeases, Worker } from '../db/leases.ts'
import { rideOut } from '../db/patience.ts'
import type { TriggerSummaryLine } from '../index.ts'
import { renewLost } from './lost-triggers.ts'
import { type TriggerContext, TriggerLoop } from './trigger-loop.ts'

/**
 * Runs until nothing is due, the time is up, or `stop` is aborted. If another run is at work, asks it to look again and leaves. Throws
 * `database` if the database stays away.
 */
export async function runTriggers(context: TriggerContext): Promise<TriggerSummaryLine> {
  const { opened, settings, again, onNote, runMsMax = triggerRunMsMax } = context
  const { db } = opened
  const startedMs = performance.now()
  const worker = await Worker.start(databaseLeases(db), settings.leaseMs)
  try {
    // before another run is asked to look again
    if (again) await rideOut(db, () => renewLost(db, again))
    const loop = new TriggerLoop({ ...context, worker })
    const counts = await loop.run(startedMs + runMsMax - performance.now())
    if (counts.left > 0 && !context.stop.aborted) onNote('The time of this run is up: the next one goes on.')
    await rideOut(db, () => worker.stop())
    const { dropped, ...ofDue } = counts
    const due = Object.values(ofDue).reduce((sum, count) => sum + count)
    return { type: 'summary', due, ...counts, seconds: Math.round(performance.now() - startedMs) / 1_000 }
  } catch (error) {
    // nothing is under way any more: the next run need not wait for the lease, unless the database is away
    await worker.stop().catch(() => worker.stopRenewing())
    throw error
  }
}
