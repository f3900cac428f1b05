/**
 * Makes good what the database lost of a run after it had confirmed it (contract 4.7): another server took over without the last changes,
 * or a backup was restored. The worker calls `restore` before anything is begun on a server that it does not know.
 */
import { plural } from '../base/amounts.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { KnownDeliveries } from '../deliveries/known-deliveries.ts'
import { restoreDeliveries } from '../deliveries/restore.ts'
import { type Run, type RunToStart, restoreRun } from '../deliveries/runs.ts'
import type { PushReporter } from './reporter.ts'

export interface LostRowsContext {
  db: Database
  worker: Worker
  run: Run
  /** As the run was begun. */
  start: RunToStart
  /** When it was begun, by `performance.now()`. */
  startedAt: number
  reporter: Pick<PushReporter, 'note'>
  /** The row of the run is new: writes again what was recorded in it. */
  onRunRestored(): Promise<void>
  /** Called each time: what was read before may mean something else now, and other deliveries may be due. */
  onLooked(): void
}

export class LostRows {
  readonly known = new KnownDeliveries()
  /** Rows of this run were gone at some time. */
  found = false

  private readonly context: LostRowsContext
  private isNews = false

  constructor(context: LostRowsContext) {
    this.context = context
  }

  /** Writes again what is gone, and tells so once. */
  async restore(): Promise<void> {
    const { db, worker, run, start, startedAt, reporter } = this.context
    const isRunGone = await restoreRun(db, run, start, { workerId: worker.id, startedAt })
    if (isRunGone) await this.context.onRunRestored()
    const deliveries = await restoreDeliveries(db, worker.id, this.known)
    this.context.onLooked()
    if (!isRunGone && deliveries === 0) return
    if (!this.found) reporter.note(tellLoss(deliveries))
    this.found = true
    this.isNews = true
  }

  /** Whether rows were found gone since the last call. */
  takeNews(): boolean {
    const { isNews } = this
    this.isNews = false
    return isNews
  }
}

const tellLoss = (deliveries: number) =>
  `The database lost what it had confirmed to this push, as when a standby without the last changes takes over: ${plural(deliveries, 'delivery')} of it ${deliveries === 1 ? 'is' : 'are'} written again. The push looks once more for who is owed.`

/** What a push says at its end where not everything could be made good. */
export const adviseAfterLoss =
  'The database lost rows of this push, and somebody is still owed: see `leadpush status`; `leadpush push --all`, run again, goes on.'
