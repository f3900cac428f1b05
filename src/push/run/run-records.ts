/**
 * The statements that the database has confirmed to a run (contract 4.7); the row of the run counts them. A standby that takes over may
 * lack the last ones: then its row counts fewer than this process knows.
 */
import { LeadpushError } from '../../base/errors.ts'
import type { Worker } from '../../db/leases.ts'
import type { CountingRun } from '../../deliveries/runs.ts'
import type { RunStore } from '../ledger.ts'

export class RunRecords {
  private readonly runs: Pick<RunStore, 'findStatements'>
  private readonly worker: Worker
  private readonly runId: number
  /** The highest count that was confirmed. */
  private confirmed = 0

  constructor(runs: Pick<RunStore, 'findStatements'>, worker: Worker, runId: number) {
    this.runs = runs
    this.worker = worker
    this.runId = runId
  }

  /** The run for its next statement. */
  get run(): CountingRun {
    return { runId: this.runId, server: this.worker.server }
  }

  /** Notes that the statement with that number was confirmed by `server`, if it was made for one; null: it was not counted there. */
  note(statement: number | null, { server }: CountingRun): void {
    if (server === '') return
    if (statement === null || server !== this.worker.server) this.worker.distrust()
    else this.confirmed = Math.max(this.confirmed, statement)
  }

  /** Whether the server that answers has all that was confirmed. */
  async areThere(): Promise<boolean> {
    return ((await this.runs.findStatements(this.runId)) ?? -1) >= this.confirmed
  }
}

/** The error that ends a process once the database lacks confirmed records of its run. */
export const lostRecords = () =>
  new LeadpushError(
    'database',
    'The database lost confirmed records of this push, as when a standby without the last changes takes over: nothing more was begun.',
    { hint: '`leadpush status` says what to do.' },
  )
