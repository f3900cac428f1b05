/** Which subscription pushes wait for a process to send them: owed ones, and those that were begun and abandoned. */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { owedSubscriptions } from '../push/database/users-to-serve.ts'
import type { UserToServe } from '../push/whom/pass.ts'

export interface WaitingSubscriptions {
  /** Users whose subscription push is due, the oldest first, up to the limit. */
  due: UserToServe[]
  /** How many are due in all. */
  dueCount: number
  /** In how many milliseconds the next one is due; null: none waits. */
  nextMs: number | null
  /** When the database was asked, by its clock and with its microseconds. */
  lookedAt: string
}

/** How many of the oldest owed pushes are looked at: because of the limit PostgreSQL uses the index with any statistics. */
const lookedAtMax = 10_000

/**
 * A push that is owed to one of `own`, or has been owed since `ownUntil` or before, is due at once. One that is owed to another user is
 * due `othersAfterMs` later, since the process that recorded it is about to send it. A begun push is due once its worker's lease and the
 * pause before its next attempt are over. Left out are users in `except`, and pushes that were owed or begun at `after` or before. Both
 * times are the `lookedAt` of an earlier look, or infinite.
 */
export async function findWaitingSubscriptions(
  db: Database,
  {
    own,
    ownUntil,
    othersAfterMs,
    except,
    after = '-infinity',
    limit,
  }: {
    own: readonly number[]
    ownUntil: string
    othersAfterMs: number
    except: readonly number[]
    after?: string | undefined
    limit: number
  },
): Promise<WaitingSubscriptions> {
  const { rows } = await sql<UserToServe & { waitMs: number; dueCount: number; lookedAt: string }>`
    with waiting as (
      (select u.id, u.email, o.owed_at as since,
        case when u.id = any (${own}) or o.owed_at <= ${ownUntil}::timestamptz then now()
          else o.owed_at + ${othersAfterMs} * interval '1 millisecond' end as due_at
      from ${owedSubscriptions} where o.owed_at > ${after}::timestamptz order by o.owed_at limit ${lookedAtMax})
      union all
      select u.id, u.email, d.created_at, greatest(d.due_at, w.lease_end)
      from deliveries d cross join lateral (select * from users where id = d.user_id offset 0) u
        left join workers w on w.id = d.worker_id
      where d.status = 'pending' and d.kind = 'subscription' and d.created_at > ${after}::timestamptz
    ),
    users_waiting as (
      select id, email, min(due_at) as due_at, min(since) as since from waiting where id <> all (${except}) group by id, email
    )
    select id, email, greatest(0, extract(epoch from due_at - now()) * 1000)::double precision as "waitMs",
      count(*) filter (where due_at <= now()) over () as "dueCount", now()::text as "lookedAt"
    from users_waiting order by greatest(due_at, now()), since limit ${limit}
  `.execute(db)
  return {
    due: rows.filter(({ waitMs }) => waitMs === 0).map(({ id, email }) => ({ id, email })),
    dueCount: rows[0]?.dueCount ?? 0,
    nextMs: rows.find(({ waitMs }) => waitMs > 0)?.waitMs ?? null,
    lookedAt: rows[0]?.lookedAt ?? '-infinity',
  }
}

/** How many subscription pushes are owed and not begun. */
export async function countOwedSubscriptions(db: Database): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from ${owedSubscriptions}
  `.execute(db)
  return rows[0]?.n ?? 0
}
