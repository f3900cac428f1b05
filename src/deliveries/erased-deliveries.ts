/**
 * The effect of an erasure on deliveries that name an erased version. A delivery without an attempt is made anew; one with an attempt
 * ends. An attempt under way in a live process is finished first, and is the last one.
 */
import { sql } from 'kysely'
import { isLive } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { endsLost, wasErased } from './ledger.ts'
import { decodeRecipe } from './recipe.ts'

const deliveriesPerFetch = 1_000

/** The keys of the pending deliveries that name a version for which `isErased` is true. In a transaction. */
export async function findPendingWith(
  transaction: Database,
  isErased: (versionId: number) => boolean,
): Promise<string[]> {
  const keys: string[] = []
  await sql`
    declare pending_deliveries no scroll cursor for select idempotency_key as key, recipe from deliveries where status = 'pending'
  `.execute(transaction)
  for (;;) {
    const { rows } = await sql<{ key: string; recipe: Buffer }>`
      fetch ${sql.lit(deliveriesPerFetch)} from pending_deliveries
    `.execute(transaction)
    for (const { key, recipe } of rows) if (decodeRecipe(recipe).some(isErased)) keys.push(key)
    if (rows.length === 0) break
  }
  await sql`close pending_deliveries`.execute(transaction)
  return keys
}

/**
 * Ends those of the deliveries `keys` that are pending and have had an attempt. Returns how many ended, and the keys with an attempt
 * under way in a live process: that process records the outcome, which ends the delivery, or takes the attempt back and makes the
 * delivery anew. `marked`: only deliveries that an earlier call returned as under way.
 */
export async function endDeliveries(
  db: Database,
  keys: readonly string[],
  marked = false,
): Promise<{ ended: number; underWay: string[] }> {
  const isLost = sql<boolean>`(d.under_way and not ${isLive(sql`d.worker_id`)})`
  // one update: PostgreSQL checks a row again that changed while it waited for the lock
  const { rows } = await sql<{ key: string; status: string }>`
    with marked as (
      update deliveries d set
        ${endsLost(isLost)},
        end_reason = case when d.attempts = 2 and ${isLost} then null else ${wasErased} end,
        status = case when d.under_way and not ${isLost} then 'pending'
          when d.first_maybe_arrived or d.second_maybe_arrived or d.under_way then 'unknown' else 'failed' end
      where d.idempotency_key = any (${keys}) and d.status = 'pending' and d.attempts > 0
        and (${!marked} or d.end_reason is not null)
      returning d.idempotency_key as key, d.worker_id, d.status
    ),
    told as (
      insert into erased_deliveries (worker_id, idempotency_key)
      select w.id, m.key from marked m join workers w on w.id = m.worker_id where m.status <> 'pending'
      -- a worker that ends at this moment has nothing to be told: without the lock its row could go before the foreign key is checked
      for key share of w
      on conflict do nothing
    )
    select key, status from marked
  `.execute(db)
  const underWay = rows.filter(({ status }) => status === 'pending').map(({ key }) => key)
  return { ended: rows.length - underWay.length, underWay }
}

/** The deliveries among `keys` that still have an attempt under way in a live process. */
export async function findUnderWay(db: Database, keys: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ key: string }>`
    select d.idempotency_key as key from deliveries d
    where d.idempotency_key = any (${keys}) and d.status = 'pending' and d.under_way and d.end_reason is not null
      and ${isLive(sql`d.worker_id`)}
  `.execute(db)
  return rows.map(({ key }) => key)
}

/** How many of the deliveries `keys` an erasure has ended. */
export async function countEnded(db: Database, keys: readonly string[]): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*) as n from deliveries
    where idempotency_key = any (${keys}) and status in ('failed', 'unknown') and end_reason = ${wasErased}
  `.execute(db)
  return rows[0]?.n ?? 0
}
