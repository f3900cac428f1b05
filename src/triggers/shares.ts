/**
 * How processes that send triggers at once share the work: each has its part of the hooks that are due, and of the triggers that may
 * be under way in all (contract 6.2, 6.5). A process that comes later gets what the others give back.
 */
import { sql } from 'kysely'
import { shareKeptMs, triggersAtOnceMax } from '../base/limits.ts'
import { isLive } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { isPaused, type TriggerWorker } from './trigger-store.ts'

/** The part of one process. */
export interface Share {
  /** Processes that send triggers and asked for their share lately, this one among them. */
  processes: number
  /** How many triggers this process may have under way; it may have more of them until they end. */
  atOnce: number
  /** How many hooks are due in all, whoever has them; counted up to `hooksMax` a process, and only where there are several. */
  hooksDue: number
}

/**
 * Takes the share of the process that has `underWay` triggers under way; it must begin none meanwhile. All processes together never
 * have more than `triggersAtOnceMax`: one takes only what is free, and gives back only what it does not use. One that has not asked
 * for `shareKeptMs` has none under way; where it was frozen and asks again, it gets what is free by then.
 */
export async function takeShare(
  db: Database,
  worker: TriggerWorker,
  { underWay, hooksMax }: { underWay: number; hooksMax: number },
): Promise<Share> {
  const id = worker.ids.at(-1) ?? 0
  const ask = async () =>
    (
      await sql<Share>`
        with live as materialized (
          select p.worker_id, p.at_once, p.asked_at from trigger_processes p where ${isLive(sql`p.worker_id`)} order by p.worker_id for update
        ),
        counted as materialized (
          select count(*) as n, coalesce(sum(at_once) filter (where worker_id <> ${id}), 0) as others from live
          where worker_id = ${id} or asked_at > now() - ${shareKeptMs} * interval '1 millisecond'
        ),
        taken as (
          update trigger_processes p set asked_at = now(), at_once = greatest(${underWay}::integer,
            least(greatest(1, ${triggersAtOnceMax}::integer / c.n), ${triggersAtOnceMax}::integer - c.others))
          from counted c where p.worker_id = ${id} and p.worker_id in (select worker_id from live)
          returning p.at_once
        )
        select c.n as processes, least(t.at_once, greatest(1, ${triggersAtOnceMax}::integer / c.n),
          greatest(0, ${triggersAtOnceMax}::integer - c.others)) as "atOnce", case when c.n > 1 then (select count(*) from (
          select from hooks h where h.due_at <= ${worker.dueUntil} and not ${isPaused(worker)} limit c.n * ${hooksMax}::integer
        ) d) else 0 end as "hooksDue"
        from taken t cross join counted c
      `.execute(db)
    ).rows[0]
  const share = await ask()
  if (share !== undefined) return share
  // with nothing at first: processes that begin at the same time do not see each other's rows yet
  await sql`
    insert into trigger_processes (worker_id) select id from workers where id = ${id} on conflict do nothing
  `.execute(db)
  return (await ask()) ?? { processes: 1, atOnce: 0, hooksDue: 0 }
}

/** Leaves the share to others. The process must have nothing under way. */
export async function leaveShare(db: Database, { ids }: Pick<TriggerWorker, 'ids'>): Promise<void> {
  await sql`delete from trigger_processes where worker_id = any (${ids})`.execute(db)
}
