/** The beginning of a run: its row, which shows it to other processes. */
import type { Worker } from '../../db/leases.ts'
import type { Run, RunToStart } from '../../deliveries/runs.ts'
import type { RunContext } from '../push-request.ts'
import { isResumable, scopeOf } from './scope.ts'

/** Begins the run; `start` is the first content of its row. Notes a time zone that differs from the last run's. */
export async function beginRun(
  { ledger, request, settings, reporter }: RunContext,
  worker: Worker,
): Promise<{ run: Run; start: RunToStart }> {
  const { timeZone, maxLeadAgeMs } = settings
  const scope = scopeOf(request)
  const start: RunToStart = {
    command: scope.command,
    resumable: isResumable(scope),
    timeZone,
    maxLeadAgeMs,
  }
  const run = await ledger.runs.start({ workerIds: worker.ids, ...start })
  // a weekly push with it is held, or was accepted
  if (run.otherTimeZone !== undefined && request.what !== 'all') {
    reporter.note(
      `The last run used the time zone ${run.otherTimeZone}, this one ${timeZone}: machines that share a database must agree on LEADPUSH_TIME_ZONE, or weeks overlap.`,
    )
  }
  return { run, start }
}
