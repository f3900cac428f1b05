/**
 * A process that pushes is a row of `workers` with a lease. While the lease runs, what the process has taken is left alone;
 * the row is renewed three times a lease, and everything that the process records checks it in the same statement.
 */
import { hostname } from 'node:os'
import { type RawBuilder, sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'

/** A worker whose lease has been over for so long has left its row behind. */
export const workerDaysMax = 1
const deadPerStart = 100

/** SQL: whether the worker with the id `workerId` holds its lease. */
export function isLive(workerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (select from workers w where w.id = ${workerId} and w.lease_until > now())`
}

export class Worker {
  private readonly db: Database
  private readonly leaseMs: number
  private timer: NodeJS.Timeout | undefined
  /** The last one is the current; the ones before lost their lease. */
  private readonly allIds: number[] = []
  private renewing: Promise<void> | undefined

  private constructor(db: Database, leaseMs: number) {
    this.db = db
    this.leaseMs = leaseMs
  }

  static async start(db: Database, leaseMs: number): Promise<Worker> {
    const worker = new Worker(db, leaseMs)
    await worker.register()
    await rideOut(() => worker.forgetDead())
    worker.timer = setInterval(() => void worker.renew().catch(() => {}), Math.max(100, leaseMs / 3))
    worker.timer.unref()
    return worker
  }

  get id(): number {
    return this.allIds.at(-1) ?? 0
  }

  /** The ids under which this process has recorded anything. */
  get ids(): readonly number[] {
    return this.allIds
  }

  /**
   * Extends the lease. If it has run out (the process was frozen, the database away), the process goes on as a new worker:
   * what it had taken may be another's by now.
   */
  async renew(): Promise<void> {
    this.renewing ??= this.renewOnce().finally(() => {
      this.renewing = undefined
    })
    return this.renewing
  }

  private async renewOnce(): Promise<void> {
    const renewed = await this.db
      .updateTable('workers')
      .set({ lease_until: this.leaseEnd() })
      .where('id', '=', this.id)
      .where(sql<boolean>`lease_until > now()`)
      .executeTakeFirst()
    if (renewed.numUpdatedRows === 0n) await this.register()
  }

  private async register(): Promise<void> {
    const { id } = await rideOut(() =>
      this.db
        .insertInto('workers')
        .values({ host: hostname(), process_id: process.pid, lease_until: this.leaseEnd() })
        .returning('id')
        .executeTakeFirstOrThrow(),
    )
    if (this.allIds.length > 0) await this.takeRunAlong(id)
    this.allIds.push(id)
  }

  /** Rows of processes that were killed: whether they are there or not, what these had is free. */
  private async forgetDead(): Promise<void> {
    await sql`
      delete from workers where id = any (array(
        select id from workers where lease_until < now() - ${workerDaysMax} * interval '1 day'
        limit ${deadPerStart} for update skip locked
      ))
    `.execute(this.db)
  }

  private async takeRunAlong(id: number): Promise<void> {
    await this.db
      .updateTable('runs')
      .set({ worker_id: id })
      .where('worker_id', 'in', this.allIds)
      .where('outcome', '=', 'running')
      .execute()
  }

  private leaseEnd() {
    return sql<Date>`now() + ${this.leaseMs} * interval '1 millisecond'`
  }

  /** Ends the lease; what the process still has is free from now on. */
  async stop(): Promise<void> {
    clearInterval(this.timer)
    await this.db.deleteFrom('workers').where('id', 'in', this.ids).execute()
  }
}
