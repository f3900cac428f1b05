/**
 * The ledger's statements for waiting deliveries: taking due attempts, finding the next one, releasing deliveries. Each walks the index
 * in the order of `due_at`, up to its limit.
 */
import { sql } from 'kysely'
import { retryAfterMsMax } from '../base/limits.ts'
import { repeatable } from '../db/dialect.ts'
import { durably } from '../db/durably.ts'
import { liveWorker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import {
  isAbandoned,
  isTooLate,
  isWanted,
  type LedgerDelivery,
  ledgerColumns,
  outcomeLost,
  type RecordedAttempt,
  type Takeover,
} from './ledger.ts'
import { decodeRecipe } from './recipe.ts'
import { type CountingRun, countStatement } from './runs.ts'

export type AttemptKind = 'first' | 'second'

interface AttemptRow extends Omit<RecordedAttempt, 'contents'> {
  recipe: Buffer
}

const attemptColumns = sql`
  d.idempotency_key as "idempotencyKey", d.run_id as "runId", d.attempts as attempt, d.gzip, d.user_id as "userId", u.email, u.receiver_key as "receiverKey",
  d.kind, d.period, d.part, d.parts, d.queries, d.leads, d.bytes, d.query_list as "queryList", d.recipe`

const toAttempt = ({ recipe, ...row }: AttemptRow): RecordedAttempt => ({
  contents: decodeRecipe(recipe).map((versionId) => ({ versionId })),
  ...row,
})

/**
 * The beginning of the look for due attempts, as a `due_at` in milliseconds for each kind. Taken attempts leave dead index entries: a
 * look that begins at the end of the last one does not walk over them again.
 */
export type DueFrom = Record<AttemptKind, number>

/** The workers whose attempts are looked for. */
export interface DueLook {
  workerIds: readonly number[]
  takeover: Takeover
  from?: DueFrom | undefined
  /** Only attempts of this kind. */
  only?: AttemptKind | undefined
  /** Drawn at random, not the earliest; first ones of users without an attempt before those without a failure, and one part of each. */
  drawn?: boolean
}

/** A row that is committed after a look may be due a little earlier than rows that the look has seen. */
const lookBackMs = 1_000

const fromMs = (ms = Number.NEGATIVE_INFINITY) => sql`to_timestamp(${ms / 1_000}::double precision)`

/** SQL over `d`: whether it waits for that attempt, due at `from` or later; an index has these rows in the order of `due_at`. */
const isWaiting = (
  attempt: AttemptKind,
  from: DueFrom | undefined,
) => sql<boolean>`(d.status = 'pending' and not d.under_way
  and d.attempts = ${sql.lit(attempt === 'second' ? 1 : 0)} and d.due_at >= ${fromMs(from?.[attempt])})`

/** SQL over a waiting `d`: whether the process may take it. */
const isForUs = (workerIds: readonly number[], takeover: Takeover) =>
  sql<boolean>`(d.worker_id = any (${workerIds}) or ${isAbandoned(takeover)} and not ${isTooLate})`

/** SQL over `d`: whether a dead process left its first attempt under way, so that the second is due. */
const isLost = (takeover: Takeover) =>
  sql<boolean>`(d.status = 'pending' and d.under_way and d.attempts = 1 and ${isAbandoned(takeover)})`

/**
 * Records the next attempt of up to `limit` deliveries that are due, second attempts first. It takes this process's own deliveries
 * and, within `takeover`, abandoned ones. A first attempt that a dead worker left under way counts as made; only a look without `from`
 * finds these. `statement` is its number in the run's row. Keys in `known` are left out: a process that lost its lease may still be making their attempts. `only` limits the look
 * to one kind. First attempts go out compressed with `gzip`; second ones as the first did, but plain after a 415. `next` is the `from`
 * of the next look; rows that were locked meanwhile need a look without `from`.
 */
export async function recordDueAttempts(
  db: Database,
  of: DueLook & CountingRun & { limit: number; known: readonly string[]; gzip?: boolean },
): Promise<{ attempts: RecordedAttempt[]; next: DueFrom | undefined; statement: number | null }> {
  const { workerIds, server, runId, limit, takeover, known, from, only, drawn = false, gzip = false } = of
  const workerId = workerIds.at(-1) ?? 0
  const isAskedFor = (attempt: AttemptKind) => only === undefined || only === attempt
  // `offset 0` keeps this a look-up for each row: the statistics cannot know how many are pending
  const isToMake = sql<boolean>`(d.end_reason is null and d.idempotency_key <> all (${known}) and exists (select from live)
    and exists (select from users u where u.id = d.user_id and ${isWanted} offset 0))`
  const tried = sql`(select max((o.status <> 'delivered')::integer) from deliveries o
    where o.user_id = d.user_id and o.period = d.period and o.attempts > 0 and not o.under_way)`
  const waiting = (attempt: AttemptKind) => sql`
    select d.idempotency_key, d.user_id, extract(epoch from d.due_at) * 1000 as due_ms from deliveries d
    where ${isAskedFor(attempt)} and ${isWaiting(attempt, from)} and d.due_at <= now() and ${isToMake} and ${isForUs(workerIds, takeover)}
    order by ${drawn ? sql`${attempt === 'first' ? tried : null} nulls first, d.part, random()` : sql`d.due_at`} limit ${limit} for update of d skip locked`
  const { rows } = await sql<AttemptRow & { dueMs: number | null; statement: number | null }>`
    with live as materialized (${durably} from ${liveWorker({ id: workerId, server })}),
    lost as (
      select d.idempotency_key, d.user_id from deliveries d
      where ${from === undefined && isAskedFor('second')} and ${isLost(takeover)} and ${isToMake}
      order by d.due_at limit ${limit} for update of d skip locked
    ),
    second as (${waiting('second')}),
    first as (${waiting('first')}),
    due as (
      select idempotency_key, user_id, null as due_ms from lost union all select * from second union all select * from first limit ${limit}
    ),
    counted as (${countStatement({ runId, server }, sql`exists (select from due)`)})
    update deliveries d set
      attempts = d.attempts + 1, under_way = true, worker_id = ${workerId},
      first_at = coalesce(d.first_at, now()), second_at = case when d.attempts = 1 then now() end,
      gzip = case when d.attempts = 0 then ${gzip} else d.gzip and d.first_status is distinct from 415 end,
      first_maybe_arrived = d.first_maybe_arrived or d.under_way,
      first_error = case when d.under_way then coalesce(d.first_error, ${outcomeLost}) else d.first_error end
    from due cross join lateral (select * from users where id = due.user_id offset 0) u
    where d.idempotency_key = due.idempotency_key
    returning ${attemptColumns}, due.due_ms::double precision as "dueMs", (select statements from counted) as statement
  `.execute(db)
  const attempts = rows.map(({ dueMs: _, statement: __, ...row }) => toAttempt(row))
  return { attempts, next: lookFrom(rows, from), statement: rows[0]?.statement ?? null }
}

function lookFrom(
  rows: readonly { attempt: 1 | 2; dueMs: number | null }[],
  from: DueFrom | undefined,
): DueFrom | undefined {
  if (rows.length === 0) return undefined
  const next = { first: Number.NEGATIVE_INFINITY, second: Number.NEGATIVE_INFINITY, ...from }
  for (const { attempt, dueMs } of rows) {
    const which = attempt === 2 ? 'second' : 'first'
    if (dueMs !== null) next[which] = Math.max(next[which], dueMs - lookBackMs)
  }
  return next
}

/**
 * Attempts of this process that are under way in the ledger, on the server that the process knows, and are not among `known`: the answer
 * of the statement that recorded them was lost. If the lease was lost too, another process may take such a delivery over and make its
 * second attempt.
 */
export async function findRecordedUnheard(
  db: Database,
  { ids, server }: { ids: readonly number[]; server: string },
  known: readonly string[],
): Promise<RecordedAttempt[]> {
  const { rows } = await sql<AttemptRow>`
    select ${attemptColumns} from deliveries d join users u on u.id = d.user_id
    where d.status = 'pending' and d.under_way and d.worker_id = any (${ids}) and d.idempotency_key <> all (${known})
      and this_server() = ${server}
  `.execute(db)
  return rows.map(toAttempt)
}

/**
 * The milliseconds until the next attempt is due, among the process's own deliveries and those that it may take over; null if none waits.
 * `only` limits the look to one kind; `second` includes deliveries whose first attempt a dead process left under way.
 */
export async function findNextDue(db: Database, { workerIds, takeover, from, only }: DueLook): Promise<number | null> {
  const isAskedFor = (attempt: AttemptKind) => only === undefined || only === attempt
  const next = (attempt: AttemptKind) => sql`(select d.due_at from deliveries d
    where ${isAskedFor(attempt)} and ${isWaiting(attempt, from)} and ${isForUs(workerIds, takeover)} order by d.due_at limit 1)`
  const lost = sql`(select now() from deliveries d where ${only === 'second'} and ${isLost(takeover)} limit 1)`
  const { rows } = await sql<{ ms: number | null }>`
    select (extract(epoch from least(${next('second')}, ${next('first')}, ${lost}) - now()) * 1000)::double precision as ms
  `.execute(db)
  return rows[0]?.ms ?? null
}

/** No pause is so long: a clock that was ahead wrote a later `due_at`. */
const pauseMsMax = 2 * retryAfterMsMax

/** Makes deliveries due now that were put off because a clock was ahead. */
export async function endFarPauses(db: Database): Promise<void> {
  await sql`
    ${repeatable('it finds none any more')}
    update deliveries set due_at = now()
    where status = 'pending' and not under_way and due_at > now() + ${pauseMsMax} * interval '1 millisecond'
  `.execute(db)
}
const releasedPerStatement = 5_000

/**
 * Releases the waiting deliveries of a process and yields them: due `now`, so that a later run need not wait, or `then`, at their own
 * time.
 */
export async function* releaseDeliveries(
  db: Database,
  workerIds: readonly number[],
  due: 'now' | 'then' = 'now',
): AsyncGenerator<LedgerDelivery> {
  for (const attempt of ['second', 'first'] as const) {
    let from: number | undefined
    for (;;) {
      // moved back by the longest pause: all are due, in the same order
      const { rows } = await sql<LedgerDelivery & { dueMs: number }>`
        ${repeatable('what was given back is told by a later look')}
        with page as materialized (
          select d.idempotency_key, d.due_at from deliveries d
          where ${isWaiting(attempt, from === undefined ? undefined : { first: from, second: from })}
            and d.worker_id = any (${workerIds}) and exists (select from users u where u.id = d.user_id offset 0)
          order by d.due_at limit ${releasedPerStatement} for update of d
        )
        update deliveries d set worker_id = null, due_at = case when ${due === 'now'} and d.due_at > now()
          then least(now(), d.due_at - ${retryAfterMsMax} * interval '1 millisecond') else d.due_at end
        from page p, users u
        where d.idempotency_key = p.idempotency_key and u.id = d.user_id
        returning ${ledgerColumns}, u.email, (extract(epoch from p.due_at) * 1000)::double precision as "dueMs"
      `.execute(db)
      for (const { dueMs, ...delivery } of rows) {
        // a millisecond less: a JavaScript number of milliseconds is rounded
        from = Math.max(from ?? dueMs - 1, dueMs - 1)
        yield delivery
      }
      if (rows.length < releasedPerStatement) break
    }
  }
}
