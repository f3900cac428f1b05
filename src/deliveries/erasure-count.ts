/**
 * How often listings were erased, as a fence between an erasure and whoever plans and begins deliveries. A plan bears the
 * count from before anything of it was read; the statement that begins it compares, and begins nothing where it has risen.
 */
import { sql } from 'kysely'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'

/**
 * The count, read as `record_pushes` reads it. The lock is shared, and held to the end of the transaction; an erasure raises the
 * count while it holds it alone. So what was begun under the old count is committed when the erasure looks for it, and what comes
 * after sees the new one, whatever its snapshot: the count is read behind the lock, from a sequence.
 */
export async function findErasureCount(db: Database): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select case when pg_advisory_xact_lock_shared(${locks.erasure}) is not null then (select last_value from erasure_count) end as n
  `.execute(db)
  return rows[0]?.n ?? 0
}

/** Raises the count, and keeps deliveries from being begun until the transaction ends. */
export async function raiseErasureCount(transaction: Database): Promise<void> {
  await sql`select pg_advisory_xact_lock(${locks.erasure})`.execute(transaction)
  await sql`select nextval('erasure_count')`.execute(transaction)
}
