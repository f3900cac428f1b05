/** The beginning of a run: its row, by which other processes know of it. */
import type { Worker } from '../db/leases.ts'
import { type Run, type RunToStart, startRun } from '../deliveries/runs.ts'
import type { PushContext } from './push-request.ts'

function commandOf(request: PushContext['request']): RunToStart['command'] {
  if (request.what === 'all' && request.force) return 'force'
  if (request.what === 'user' && (request.owedOnly || request.further)) return 'owed'
  return request.what
}

/** Begins the run; `start` is what its row began with. Notes another time zone than the last run's. */
export async function beginRun(
  { db, request, settings, reporter }: PushContext,
  worker: Worker,
): Promise<{ run: Run; start: RunToStart }> {
  const { timeZone, maxLeadAgeMs } = settings
  const start: RunToStart = {
    command: commandOf(request),
    resumable: request.what === 'all' && request.limit === undefined,
    ...{ timeZone, maxLeadAgeMs },
  }
  const run = await startRun(db, { ...start, workerIds: worker.ids })
  // a weekly push is held for it, or was accepted
  if (run.otherTimeZone !== undefined && request.what !== 'all') {
    reporter.note(
      `The last run used the time zone ${run.otherTimeZone}, this one ${timeZone}: machines that share a database must agree on LEADPUSH_TIME_ZONE, or weeks overlap.`,
    )
  }
  return { run, start }
}
