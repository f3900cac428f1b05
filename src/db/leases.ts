/**
 * The leases of worker processes. A process that sends is a row of `workers` with a lease, renewed three times per lease.
 * While the lease runs, other processes leave its work alone; each statement that records for the process checks the lease.
 */

import { hostname } from 'node:os'
import { type RawBuilder, sql } from 'kysely'
import { type Clock, pause, systemClock, type Timer } from '../base/clock.ts'
import { repeatable } from './dialect.ts'
import { durably } from './durably.ts'
import type { Database } from './open.ts'
import { rideOut } from './patience.ts'

/** The row of a worker whose lease ended longer ago belongs to a dead process. */
const workerDaysMax = 1
const deadPerStart = 100

/**
 * SQL: whether the worker in the row `worker` holds its lease. Other code must not compare the end of a lease with the clock.
 */
export const holdsLease = (worker: RawBuilder<unknown>) => sql<boolean>`${worker}.lease_end > now()`

/** SQL: yields a row only while the worker holds its lease, on the server that it knows. */
export const liveWorker = ({ id, server }: { id: number; server: string }) =>
  sql`workers w where w.id = ${id} and ${holdsLease(sql`w`)} and this_server() = ${server}`

/** SQL: whether the lease of the worker in the row `worker` has been over for so long that its row may be deleted. */
export const isLongDead = (worker: RawBuilder<unknown>) =>
  sql<boolean>`${worker}.lease_end < now() - ${workerDaysMax} * interval '1 day'`

/** SQL: whether the worker with the id `workerId` holds its lease. */
export function isLive(workerId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`exists (select from workers w where w.id = ${workerId} and ${holdsLease(sql`w`)})`
}

/** The statements of a worker. All but two ride out an absence. */
export interface Leases {
  /** Runs `work` again while the database is away; `isRepeat`: an earlier call of it may have been committed. */
  rideOut<T>(work: (isRepeat: boolean) => Promise<T>): Promise<T>
  /** A new row with a lease of `leaseMs`, and the server that has it. */
  registerWorker(leaseMs: number): Promise<{ id: number; server: string }>
  /** Extends the lease if it is not over, and returns the server that did. Throws if the database is away. */
  renewLease(id: number, leaseMs: number): Promise<string | undefined>
  isWorkerThere(id: number): Promise<boolean>
  /** Deletes rows of killed processes. Their work is free anyway, since their leases are over. */
  forgetDeadWorkers(): Promise<void>
  /** Moves the run of the workers `from` to the worker `to`. */
  takeRunAlong(from: readonly number[], to: number): Promise<void>
  /** Ends the leases. Throws if the database is away. */
  endLeases(ids: readonly number[]): Promise<void>
  /** Which server answers. */
  findServer(): Promise<string>
}

const leaseEnd = (leaseMs: number) => sql<Date>`now() + ${leaseMs} * interval '1 millisecond'`

export const databaseLeases = (db: Database): Leases => ({
  rideOut: (work) => rideOut(db, work),
  async registerWorker(leaseMs) {
    const { rows } = await sql<{ id: number; server: string }>`
        ${repeatable('a row too many is deleted a day later')}
        with durable as materialized (${durably})
        insert into workers (host, process_id, lease_until)
        select ${hostname()}, ${process.pid}, ${leaseEnd(leaseMs)} from durable returning id, this_server() as server
      `.execute(db)
    return rows[0] as { id: number; server: string }
  },
  async renewLease(id, leaseMs) {
    const { rows } = await sql<{ server: string }>`
      update workers w set lease_until = ${leaseEnd(leaseMs)}, renewed_at = now()
      where id = ${id} and ${holdsLease(sql`w`)} returning this_server() as server
    `.execute(db)
    return rows[0]?.server
  },
  async isWorkerThere(id) {
    return (await db.selectFrom('workers').select('id').where('id', '=', id).executeTakeFirst()) !== undefined
  },
  async forgetDeadWorkers() {
    await sql`
        ${repeatable('it finds none any more')}
        delete from workers where id = any (array(
          select id from workers w where ${isLongDead(sql`w`)}
          limit ${deadPerStart} for update skip locked
        ))
      `.execute(db)
  },
  async takeRunAlong(from, to) {
    await db
      .updateTable('runs')
      .set({ worker_id: to })
      .where('worker_id', 'in', from)
      .where('outcome', '=', 'running')
      .execute()
  },
  async endLeases(ids) {
    await db.deleteFrom('workers').where('id', 'in', ids).execute()
  },
  async findServer() {
    const { rows } = await sql<{ server: string }>`select this_server() as server`.execute(db)
    return rows[0]?.server ?? ''
  },
})

/**
 * This process as a worker: registers it, renews its lease, and gives it a new id if the lease was lost.
 *
 * It also knows the server that it works on. If that server restarts or another one takes over, confirmed rows may be gone (contract
 * 4.7): statements that begin attempts name the server and do nothing on any other, until `renew` has found its records there.
 */
export class Worker {
  /** Whether another server that answers has all confirmed records of this process. Asked before anything is begun on it. */
  hasRecords: () => Promise<boolean> = async () => true
  private knownServer = ''
  private doubts = 0
  private readonly losing = new AbortController()
  private readonly leases: Leases
  private readonly leaseMs: number
  private readonly clock: Clock
  private timer: Timer | undefined
  /** The last id is the current one; the lease of each earlier id was lost. */
  private readonly allIds: number[] = []
  private renewing: Promise<void> | undefined

  private constructor(leases: Leases, leaseMs: number, clock: Clock) {
    this.leases = leases
    this.leaseMs = leaseMs
    this.clock = clock
  }

  /** Registers this process with a lease of `leaseMs`. Throws `database` if the database stays away. */
  static async start(leases: Leases, leaseMs: number, clock = systemClock): Promise<Worker> {
    const worker = new Worker(leases, leaseMs, clock)
    worker.knownServer = await worker.register()
    await leases.forgetDeadWorkers()
    worker.timer = clock.every(Math.max(100, leaseMs / 3), () => void worker.renew().catch(() => {}))
    return worker
  }

  get id(): number {
    return this.allIds.at(-1) ?? 0
  }

  /** The server that has the records of this process; no server while that is in doubt, or if they are gone. */
  get server(): string {
    return this.knownServer
  }

  /** Aborted once records of this process are gone: it begins nothing more. */
  get lost(): AbortSignal {
    return this.losing.signal
  }

  /** Records of this process may be gone: nothing is begun until the next `renew` has looked. */
  distrust(): void {
    this.doubts++
    this.knownServer = ''
  }

  /** All ids under which this process may have recorded something. */
  get ids(): readonly number[] {
    return this.allIds
  }

  /**
   * Extends the lease. If it has run out (the process was frozen, the database away), the process goes on as a new worker,
   * since another process may have taken its work by now.
   */
  async renew(): Promise<void> {
    this.renewing ??= this.renewOnce().finally(() => {
      this.renewing = undefined
    })
    return this.renewing
  }

  private async renewOnce(): Promise<void> {
    const server = await this.leases.renewLease(this.id, this.leaseMs)
    if (server === undefined) await this.replace()
    else if (server !== this.knownServer) await this.follow(server)
  }

  /** Goes on under a new id. The row of the old one stays for a day: if it is missing, other rows may be missing too. */
  private async replace(): Promise<void> {
    const { id } = this
    const server = await this.register()
    if (server !== this.knownServer || !(await this.leases.isWorkerThere(id))) await this.follow(server)
  }

  /** Learns the server, unless it lacks records. Yet another server may answer after the one that was asked for them. */
  private async follow(server: string): Promise<void> {
    let [before, now] = ['', server]
    for (let doubts = -1; before !== now || doubts !== this.doubts; ) {
      doubts = this.doubts
      if (this.lost.aborted) return
      if (!(await this.hasRecords())) this.losing.abort()
      before = now
      now = await this.leases.findServer()
    }
    if (!this.lost.aborted) this.knownServer = now
  }

  /** Returns the server that has the new row. */
  private async register(): Promise<string> {
    const { id, server } = await this.leases.registerWorker(this.leaseMs)
    if (this.allIds.length > 0) await this.leases.takeRunAlong(this.allIds, id)
    this.allIds.push(id)
    return server
  }

  stopRenewing(): void {
    this.clock.cancel(this.timer)
  }

  /** Ends the lease; the remaining work of the process is free from now on. */
  async stop(): Promise<void> {
    this.stopRenewing()
    await this.leases.endLeases(this.ids)
  }
}

/** Runs `work` as a worker, whose lease ends with it, even if it fails (contract 4.13): nothing of it may be under way any more. */
export async function withWorker<T>(
  leases: Leases,
  leaseMs: number,
  work: (worker: Worker) => Promise<T>,
  clock = systemClock,
): Promise<T> {
  const worker = await Worker.start(leases, leaseMs, clock)
  try {
    const result = await work(worker)
    await leases.rideOut(() => worker.stop())
    return result
  } catch (error) {
    // while the database is away the lease runs out by itself
    await worker.stop().catch(() => {})
    throw error
  }
}

/** Another live worker. */
export interface OtherWorker {
  id: number
  /** How long its lease still runs, in milliseconds. */
  leaseMs: number
}

/** The live workers, except our own ids, whose row `w` fulfils the SQL `isAtWork`. */
export async function findOtherWorkers(
  db: Database,
  workerIds: readonly number[],
  isAtWork: RawBuilder<boolean>,
): Promise<OtherWorker[]> {
  const { rows } = await sql<OtherWorker>`
    select w.id, (extract(epoch from w.lease_end - now()) * 1000)::double precision as "leaseMs" from workers w
    where ${holdsLease(sql`w`)} and w.id <> all (${workerIds}) and (${isAtWork})
  `.execute(db)
  return rows
}

const leaseLookMs = 250

/**
 * Waits until each lease found at the start has ended, was renewed, or is no longer among `findOthers`; never longer than
 * those leases had to run. Returns whether a worker is no longer there, so that its work may be free.
 */
export async function waitForLeases(
  findOthers: () => Promise<OtherWorker[]>,
  { stop, onWait, clock }: { stop: AbortSignal; onWait(text: string): void; clock: Clock },
): Promise<boolean> {
  const since = clock.now()
  let waitingFor = await findOthers()
  const startMs = Math.max(0, ...waitingFor.map(({ leaseMs }) => leaseMs))
  if (startMs > 0) {
    const seconds = Math.ceil(startMs / 1_000)
    onWait(`Another process has work in hand: waiting until its lease is over (${seconds} s) or renewed.`)
  }
  let ranOut = false
  while (waitingFor.length > 0 && !stop.aborted) {
    await pause(clock, leaseLookMs, stop)
    const passedMs = clock.now() - since
    const now = new Map((await findOthers()).map(({ id, leaseMs }) => [id, leaseMs]))
    ranOut ||= waitingFor.some(({ id }) => !now.has(id))
    // renewed: its lease ends later than when this wait began
    waitingFor = waitingFor.filter(
      ({ id, leaseMs }) => (now.get(id) ?? Number.POSITIVE_INFINITY) + passedMs < leaseMs + leaseLookMs,
    )
  }
  return ranOut && !stop.aborted
}
