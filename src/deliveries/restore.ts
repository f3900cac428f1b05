/**
 * Writes deliveries again that a process knows and the database no longer has as they were (contract 4.7). It only adds: an attempt, an
 * outcome, a claim or a row that another process has written since then stays.
 */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import { durably } from '../db/durably.ts'
import type { Database } from '../db/open.ts'
import type { KnownDeliveries, KnownDelivery } from './known-deliveries.ts'
import { recordOutcomes } from './record.ts'

const deliveriesPerStatement = 500

/**
 * Restores what is gone or older than what is `known`. What was recorded and is not answered yet is the worker's, as before. Returns how
 * many deliveries were not as they were known.
 */
export async function restoreDeliveries(db: Database, workerId: number, known: KnownDeliveries): Promise<number> {
  let restored = 0
  for (const page of known.pages(deliveriesPerStatement)) {
    const written = await rideOut(() => restoreRows(db, workerId, page))
    const told = await rideOut(() => restoreOutcomes(db, page))
    restored += new Set([...written, ...told]).size
  }
  return restored
}

/** Writes claims and deliveries that are gone, and raises the number of attempts of those that know of fewer. */
async function restoreRows(db: Database, workerId: number, deliveries: readonly KnownDelivery[]): Promise<string[]> {
  const nowMs = performance.now()
  const rows = deliveries.map(({ outcomes: _, sinceMs, recipe, ...delivery }) => ({
    ...delivery,
    recipe: recipe.toString('base64'),
    agoMs: nowMs - sinceMs,
  }))
  const since = sql`now() - k."agoMs" * interval '1 millisecond'`
  // a user whose row is gone may be there again under another id; nobody has the id 0, and such a delivery ends as for a user who was
  // removed
  const { rows: written } = await sql<{ key: string }>`
    with durable as materialized (${durably}),
    known as materialized (
      select k.*, coalesce(u.id, 0) as owner
      from durable, json_to_recordset(${JSON.stringify(rows)}::json) as k ("idempotencyKey" text, "runId" bigint, email text, kind text,
        period text, part integer, parts integer, queries integer, leads integer, bytes integer, "queryList" text, recipe text,
        gzip boolean, attempts integer, scope text, "leadsOfPush" integer, "queriesMark" integer, "agoMs" double precision)
        left join users u on u.email = k.email
    ),
    claimed as (
      insert into claims (scope, email, claimed_at, leads, queries_mark)
      select distinct on (scope, email) scope, email, ${since}, case kind when 'weekly' then "leadsOfPush" end,
        case kind when 'weekly' then "queriesMark" end
      from known k where scope is not null order by scope, email
      on conflict do nothing
    ),
    begun as (
      update users u set subscription_owed_at = null, subscription_begun_at = ${since} from known k
      where u.id = k.owner and k.kind = 'subscription' and u.subscription_owed_at <= ${since} + interval '1 second'
        and not exists (select from deliveries d where d.idempotency_key = k."idempotencyKey")
    )
    insert into deliveries as d (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      created_at, status, attempts, under_way, gzip, worker_id, first_at, second_at)
    select "idempotencyKey", "runId", owner, period, kind, part, parts, queries, leads, bytes, "queryList", decode(recipe, 'base64'),
      ${since}, 'pending', attempts, attempts > 0, gzip, ${workerId}, case when attempts > 0 then ${since} end,
      case when attempts > 1 then now() end
    from known k order by "idempotencyKey"
    on conflict (idempotency_key) do update set attempts = excluded.attempts, under_way = d.status in ('pending', 'delivered'),
      gzip = excluded.gzip, worker_id = excluded.worker_id, first_at = coalesce(d.first_at, excluded.first_at),
      second_at = coalesce(d.second_at, excluded.second_at)
    where d.attempts < excluded.attempts
    returning d.idempotency_key as key
  `.execute(db)
  return written.map(({ key }) => key)
}

/** Records outcomes again that the rows lack. */
async function restoreOutcomes(db: Database, deliveries: readonly KnownDelivery[]): Promise<string[]> {
  const { rows } = await sql<{ key: string; lacksFirst: boolean; lacksSecond: boolean }>`
    select idempotency_key as key, first_ms is null as "lacksFirst", second_ms is null as "lacksSecond" from deliveries
    where idempotency_key = any (${deliveries.map(({ idempotencyKey }) => idempotencyKey)})
  `.execute(db)
  const lacks = new Map(rows.map((row) => [row.key, row]))
  const restored: string[] = []
  // an update meets each row once
  for (const nth of [1, 2] as const) {
    const lost = deliveries.flatMap(({ idempotencyKey, outcomes }) => {
      const row = lacks.get(idempotencyKey)
      const isLost = nth === 1 ? row?.lacksFirst : row?.lacksSecond
      return isLost ? outcomes.filter(({ attempt, isRecorded }) => isRecorded && attempt === nth) : []
    })
    if (lost.length > 0) await recordOutcomes(db, lost)
    for (const { idempotencyKey } of lost) restored.push(idempotencyKey)
  }
  return restored
}
