/**
 * The statements that the database has confirmed to a run (contract 4.7); the row of the run counts them. A standby that takes over may
 * lack the last ones: then its row counts fewer than this process knows.
 */
import type { Clock } from '../../base/clock.ts'
import { LeadpushError } from '../../base/errors.ts'
import type { Worker } from '../../db/leases.ts'
import type { CountingRun, Run, RunToStart } from '../../deliveries/runs.ts'
import type { Ledger } from '../ledger.ts'

export interface RunRecordsContext {
  ledger: Pick<Ledger, 'runs'>
  worker: Worker
  run: Run
  /** As the run was begun. */
  start: RunToStart
  clock: Clock
  /** When it was begun, by that clock. */
  startedAt: number
}

export class RunRecords {
  private readonly context: RunRecordsContext
  /** The highest count that was confirmed. */
  private confirmed = 0

  constructor(context: RunRecordsContext) {
    this.context = context
  }

  /** How long ago the run was begun. */
  get ageMs(): number {
    const { clock, startedAt } = this.context
    return clock.now() - startedAt
  }

  /** The run for its next statement. */
  get run(): CountingRun {
    const { run, worker } = this.context
    return { runId: run.id, server: worker.server }
  }

  /** Notes that the statement with that number was confirmed by `server`, if it was made for one; null: it was not counted there. */
  note(statement: number | null, { server }: CountingRun): void {
    const { worker } = this.context
    if (server === '') return
    if (statement === null || server !== worker.server) worker.distrust()
    else this.confirmed = Math.max(this.confirmed, statement)
  }

  /** Whether the server that answers has all that was confirmed. */
  async areThere(): Promise<boolean> {
    const { ledger, run } = this.context
    return ((await ledger.runs.findStatements(run.id)) ?? -1) >= this.confirmed
  }

  /** Records that they are gone, so that `status` says so and the run can be resumed; returns the error that ends this process. */
  async noteLoss(): Promise<LeadpushError> {
    const { ledger, worker, run, start } = this.context
    await ledger.runs.recordLoss(run, start, { workerId: worker.id, ageMs: this.ageMs })
    await worker.stop()
    return new LeadpushError(
      'database',
      'The database lost confirmed records of this push, as when a standby without the last changes takes over: nothing more was begun.',
      {
        hint: 'See `leadpush status`; `leadpush push --resume` serves every user who is owed by what the database has now.',
      },
    )
  }
}
