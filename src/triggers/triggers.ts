/**
 * A run of `trigger` (contract 6): what is due is looked for and sent at the same time, and nothing is lost or sent twice
 * whatever ends the process. An attempt whose outcome nobody recorded is made again, with the same `webhook-id`: a platform can
 * tell a repeated trigger, and cannot miss a lead that never came.
 */
import { sql } from 'kysely'
import { messageOf } from '../base/errors.ts'
import { triggerRunMsMax, triggersAtOnceMax, triggerTimeoutMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import { findOtherWorkers, Worker, waitForLeases } from '../db/leases.ts'
import type { Database, OpenDatabase } from '../db/open.ts'
import type { TriggerLine, TriggerSummaryLine } from '../index.ts'
import { createHookHttp } from '../integrations/hook-http.ts'
import { lookForLeads } from './look-for-leads.ts'
import { TriggerLoop } from './trigger-loop.ts'
import { countLeft, findRunStart } from './trigger-store.ts'

export interface TriggerContext {
  opened: OpenDatabase
  settings: { leaseMs: number; maxLeadAgeMs: number; allowInsecureHooks: string | undefined }
  /** Aborted: finish what is under way, begin nothing, give back the rest. */
  stop: AbortSignal
  onTrigger(line: TriggerLine, durationMs: number): void
  onNote(text: string): void
  /** A shorter run, in milliseconds. */
  runMsMax?: number
}

/** What is under way at the end may take so long. */
const endMs = triggerTimeoutMs + 2_000

/** Processes that send triggers. */
const findOthers = (db: Database, worker: Worker) =>
  findOtherWorkers(db, worker.ids, sql<boolean>`exists (select from hooks h where h.worker_id = w.id)`)

/** Throws `database` when the database stays away. */
export async function runTriggers(context: TriggerContext): Promise<TriggerSummaryLine> {
  const { opened, settings, onNote, runMsMax = triggerRunMsMax } = context
  const { db } = opened
  const startedAt = performance.now()
  const worker = await Worker.start(db, settings.leaseMs)
  const timeIsUp = new AbortController()
  const leftMs = startedAt + runMsMax - endMs - performance.now()
  const timer = setTimeout(() => timeIsUp.abort(), Math.max(0, leftMs))
  const stop = AbortSignal.any([context.stop, timeIsUp.signal])
  const onAway = noteOnce((error) =>
    onNote(`The database is away (${messageOf(error)}): waiting for it, for 30 s at most.`),
  )
  const counts = { delivered: 0, failed: 0, abandoned: 0, removed: 0 }
  let dropped = 0
  const allowInsecure = settings.allowInsecureHooks !== undefined
  const http = createHookHttp({ allowInsecure }, { concurrency: triggersAtOnceMax, timeoutMs: triggerTimeoutMs })
  let looking: Promise<unknown> = Promise.resolve()
  try {
    const { lastImportId, dueUntil } = await rideOut(() => findRunStart(db), onAway)
    const loop = new TriggerLoop({
      db, http, worker, dueUntil, stop, onAway,
      leaseMs: settings.leaseMs,
      onTrigger(line, durationMs) {
        counts[line.status]++
        context.onTrigger(line, durationMs)
      },
    }) // biome-ignore format: short
    looking = lookForLeads(opened, {
      upTo: lastImportId,
      maxLeadAgeMs: settings.maxLeadAgeMs,
      stop,
      onAway,
      onLooked(looked) {
        dropped += looked.dropped
        if (looked.found > 0) loop.lookAgain()
      },
    })
    await loop.run(looking)
    let waited: boolean
    do {
      waited = await waitForLeases(() => findOthers(db, worker), { stop, onWait: onNote })
      // also where nobody was waited for: another run may have given hooks back in the moment before
      await loop.run(Promise.resolve())
    } while (waited)
    const rest = await rideOut(() => countLeft(db, { dueUntil }), onAway)
    const left = stop.aborted ? rest.left : 0
    if (left > 0 && !context.stop.aborted) onNote('The time of this run is up: the next one goes on.')
    await rideOut(() => worker.stop(), onAway)
    const seconds = Math.round(performance.now() - startedAt) / 1_000
    return { type: 'summary', due: loop.due + left + rest.waiting, ...counts, dropped, waiting: rest.waiting, seconds }
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
