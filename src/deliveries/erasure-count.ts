/**
 * The count of erasures, as a fence between an erasure and processes that plan deliveries. A plan has the count from before its leads
 * were read; the statement that begins the plan compares the counts, and begins nothing if the count has risen.
 */
import { sql } from 'kysely'
import { briefly } from '../db/durably.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'

/**
 * The count, read as `record_pushes` reads it: behind a shared lock that is held to the end of the transaction. An erasure raises the
 * count under the exclusive lock. So deliveries that were begun under the old count are committed when the erasure looks for them,
 * and later ones see the new count: no snapshot hides a sequence. Throws after a short wait for an erasure: the caller tells of it.
 */
export async function findErasureCount(db: Database): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    with brief as materialized (${briefly})
    select case when pg_advisory_xact_lock_shared(${locks.erasure}) is not null then (select last_value from erasure_count) end as n
    from brief
  `.execute(db)
  return rows[0]?.n ?? 0
}

/** Raises the count; no delivery can be begun until the transaction ends. */
export async function raiseErasureCount(transaction: Database): Promise<void> {
  await sql`select pg_advisory_xact_lock(${locks.erasure})`.execute(transaction)
  await sql`select nextval('erasure_count')`.execute(transaction)
}
