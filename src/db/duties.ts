/**
 * Duties: work that one process does at a time, over all machines. A worker has a duty as long as its lease runs. A process that finds
 * another at work asks it to look again, and leaves.
 */
import { sql } from 'kysely'
import { endIdleTransaction } from './idle.ts'
import { holdsLease, isLive, type Worker } from './leases.ts'
import { locks } from './locks.ts'
import type { Database } from './open.ts'

/** The process that is at work. */
export interface AtWork {
  host: string
  processId: number
  since: Date
}

/** SQL: whether the worker `id` has the duty, and holds its lease. */
export const hasDuty = (name: string, id: number) =>
  sql<boolean>`exists (select from duties d where d.name = ${name} and d.worker_id = ${id} and ${isLive(sql`d.worker_id`)})`

/**
 * Takes the duty, or keeps it. If another process has it, asks that one to look again before it ends, and returns it. A lease that has
 * not run out yet counts, even that of a killed process.
 */
export async function takeDuty(db: Database, name: string, worker: Worker): Promise<'taken' | 'kept' | AtWork> {
  for (;;) {
    const found = await db.transaction().execute(async (transaction) => {
      await endIdleTransaction(transaction)
      // the next statement must see the commit of the last process with this lock
      await sql`select pg_advisory_xact_lock(${locks.duties})`.execute(transaction)
      const kept = await sql`select where ${hasDuty(name, worker.id)}`.execute(transaction)
      if (kept.rows.length > 0) return 'kept' as const
      const taken = await sql`
        insert into duties as d (name, worker_id) values (${name}, ${worker.id})
        on conflict (name) do update set worker_id = excluded.worker_id, since = now(), asked = false
          where not ${isLive(sql`d.worker_id`)}
      `.execute(transaction)
      if (taken.numAffectedRows === 1n) return 'taken' as const
      const asked = await sql<AtWork>`
        update duties d set asked = true from workers w where d.name = ${name} and w.id = d.worker_id and ${holdsLease(sql`w`)}
        returning w.host, w.process_id as "processId", d.since
      `.execute(transaction)
      return asked.rows[0]
    })
    // the other process may have ended between the two statements
    if (found !== undefined) return found
  }
}

/** Whether somebody asked this worker to look again since its last look; clears that request. */
export async function hearAsked(db: Database, name: string, { ids }: Worker): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update duties set asked = false where name = ${name} and worker_id = any (${ids}) and asked
  `.execute(db)
  return numAffectedRows === 1n
}

/** Gives the duty back, unless somebody asked this worker to look again: then it returns false. */
export async function leaveDuty(db: Database, name: string, worker: Worker): Promise<boolean> {
  await sql`delete from duties where name = ${name} and worker_id = any (${worker.ids}) and not asked`.execute(db)
  return !(await hearAsked(db, name, worker))
}
