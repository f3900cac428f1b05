/**
 * A run of `trigger` (contract 6): looks for due triggers and sends them at the same time. Nothing is lost however the
 * process ends. An attempt without a recorded outcome is made again with the same `webhook-id`, because a platform can
 * recognise a repeated trigger but cannot miss a lead that never came.
 */
import { sql } from 'kysely'
import { triggerRunMsMax, triggersAtOnceMax, triggerTimeoutMs } from '../base/limits.ts'
import { describeAbsence, rideOut } from '../db/away.ts'
import { findOtherWorkers, Worker, waitForLeases } from '../db/leases.ts'
import type { Database, OpenDatabase } from '../db/open.ts'
import type { TriggerLine, TriggerSummaryLine } from '../index.ts'
import { hookRulesOf } from '../integrations/hook-address.ts'
import { createHookHttp } from '../integrations/hook-http.ts'
import type { Live } from '../matching/listed.ts'
import { plainVault, type Vault } from '../secrets/vault.ts'
import { forgetHosts } from './host-pace.ts'
import { lookForLeads } from './look-for-leads.ts'
import { forgetLost, type LostToRenew, renewLost } from './lost-triggers.ts'
import { TriggerLoop } from './trigger-loop.ts'
import { countLeft, findRunStart, renewAside } from './trigger-store.ts'

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
}

/** When the time of a run is up, recording what came of attempts that were under way may take so long. */
const recordingMs = 2_000

/** Other live processes that send triggers. */
const findOthers = (db: Database, worker: Worker) =>
  findOtherWorkers(db, worker.ids, sql<boolean>`exists (select from hooks h where h.worker_id = w.id)`)

/** Runs until nothing is due, the time is up, or `stop` is aborted. Throws `database` when the database stays away. */
export async function runTriggers(context: TriggerContext): Promise<TriggerSummaryLine> {
  const { opened, settings, onNote, runMsMax = triggerRunMsMax, timeoutMs = triggerTimeoutMs } = context
  const { db } = opened
  const startedAt = performance.now()
  const worker = await Worker.start(db, settings.leaseMs)
  const timeIsUp = new AbortController()
  const leftMs = startedAt + runMsMax - timeoutMs - recordingMs - performance.now()
  const timer = setTimeout(() => timeIsUp.abort(), Math.max(0, leftMs))
  const stop = AbortSignal.any([context.stop, timeIsUp.signal])
  const onAway = noteOnce((error) => onNote(describeAbsence(error)))
  const counts = { delivered: 0, failed: 0, abandoned: 0, removed: 0 }
  let dropped = 0
  const http = createHookHttp(hookRulesOf(settings), { concurrency: triggersAtOnceMax, timeoutMs })
  let looking: Promise<unknown> = Promise.resolve()
  try {
    const again = context.again
    if (again) await rideOut(() => renewLost(db, again), onAway)
    await rideOut(() => renewAside(db, settings.maxLeadAgeMs), onAway)
    await rideOut(() => forgetLost(db), onAway)
    await rideOut(() => forgetHosts(db), onAway)
    const { lastImportId, dueUntil } = await rideOut(() => findRunStart(db), onAway)
    const loop = new TriggerLoop({
      db,
      http,
      vault: context.vault ?? plainVault,
      worker,
      dueUntil,
      stop,
      onAway,
      leaseMs: settings.leaseMs,
      maxLeadAgeMs: settings.maxLeadAgeMs,
      keepAnswers: settings.keepAnswers ?? 'off',
      timeoutMs,
      onOff(id) {
        onNote(
          `The hook ${id} is switched off: three days of attempts failed. What it missed is kept for \`trigger --again\`.`,
        )
        context.onOff?.(id)
      },
      onTrigger(line, durationMs) {
        counts[line.status]++
        context.onTrigger(line, durationMs)
      },
    })
    looking = lookForLeads(opened, {
      upTo: lastImportId,
      maxLeadAgeMs: settings.maxLeadAgeMs,
      sameHouse: settings.sameHouse,
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
      // also where no lease was waited for: another run may have given hooks back just before
      await loop.run(Promise.resolve())
    } while (waited)
    const rest = await rideOut(() => countLeft(db, { dueUntil }, again), onAway)
    const left = stop.aborted ? rest.left : 0
    if (left > 0 && !context.stop.aborted) onNote('The time of this run is up: the next one goes on.')
    await rideOut(() => worker.stop(), onAway)
    const seconds = Math.round(performance.now() - startedAt) / 1_000
    return { type: 'summary', due: loop.due + left + rest.waiting, ...counts, dropped, waiting: rest.waiting, seconds }
  } finally {
    clearTimeout(timer)
    timeIsUp.abort()
    worker.stopRenewing()
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
