/**
 * The ledger's statements for what waits: attempts that are due and taken, when the next one is, and what is given back. Each looks
 * at what waits in the order of its index, and at no more of it than it was asked for.
 */
import { sql } from 'kysely'
import { retryAfterMsMax } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import {
  isAbandoned,
  isTooLate,
  isWanted,
  type LedgerDelivery,
  ledgerColumns,
  liveWorker,
  outcomeLost,
  type Reach,
  type RecordedAttempt,
} from './ledger.ts'
import { decodeRecipe } from './recipe.ts'

export type AttemptKind = 'first' | 'second'

interface AttemptRow extends Omit<RecordedAttempt, 'contents'> {
  recipe: Buffer
}

const attemptColumns = sql`
  d.idempotency_key as "idempotencyKey", d.run_id as "runId", d.attempts as attempt, d.user_id as "userId", u.email, u.receiver_key as "receiverKey",
  d.kind, d.period, d.part, d.parts, d.queries, d.leads, d.bytes, d.query_list as "queryList", d.recipe`

const toAttempt = ({ recipe, ...row }: AttemptRow): RecordedAttempt => ({
  ...row,
  contents: decodeRecipe(recipe).map((versionId) => ({ versionId })),
})

/**
 * From when on what is due is looked for, as milliseconds, by the attempt that is to come. What was taken leaves dead entries in
 * the index: a look that begins where the last one ended does not walk over them again.
 */
export type DueFrom = Record<AttemptKind, number>

/** What is recorded at the same moment may be due a little earlier than what was seen already. */
const lookBackMs = 1_000

const fromMs = (ms = Number.NEGATIVE_INFINITY) => sql`to_timestamp(${ms / 1_000}::double precision)`

/** SQL over `d`: what waits for that attempt, and was due at `from` or later; an index has it in the order of `due_at`. */
const isWaiting = (
  attempt: AttemptKind,
  from: DueFrom | undefined,
) => sql<boolean>`(d.status = 'pending' and not d.under_way
  and d.attempts = ${sql.lit(attempt === 'second' ? 1 : 0)} and d.due_at >= ${fromMs(from?.[attempt])})`

/** SQL over `d`, which waits: whether a process may go on with it. */
const isForUs = (workerIds: readonly number[], reach: Reach) =>
  sql<boolean>`(d.worker_id = any (${workerIds}) or ${isAbandoned(reach)} and not ${isTooLate})`

/** SQL over `d`: whether a process that is gone left a first attempt under way, so that the second is due. */
const isLost = (reach: Reach) =>
  sql<boolean>`(d.status = 'pending' and d.under_way and d.attempts = 1 and ${isAbandoned(reach)})`

/**
 * Records the next attempt of up to `limit` deliveries whose time has come, second ones first: this process's own, and within
 * `reach` those that were given back and those of workers whose lease is over. A first attempt that such a worker left under way counts as
 * made, without an outcome: without `from`, all are looked at, these too. Not those that are `known`: while this process lost its
 * lease it may still be making an attempt. `only` first or second attempts, where it says so. `next` is from where to look next;
 * what was passed over meanwhile needs a look at all.
 */
export async function recordDueAttempts(
  db: Database,
  {
    workerIds,
    limit,
    reach,
    known,
    from,
    only,
  }: {
    workerIds: readonly number[]
    limit: number
    reach: Reach
    known: readonly string[]
    from?: DueFrom | undefined
    only?: AttemptKind | undefined
  },
): Promise<{ attempts: RecordedAttempt[]; next: DueFrom | undefined }> {
  const workerId = workerIds.at(-1) ?? 0
  const isAskedFor = (attempt: AttemptKind) => only === undefined || only === attempt
  // each row is looked up by itself: how many are pending the statistics cannot know
  const isToMake = sql<boolean>`(d.end_reason is null and d.idempotency_key <> all (${known}) and exists (select from live)
    and exists (select from users u where u.id = d.user_id and ${isWanted} offset 0))`
  const waiting = (attempt: AttemptKind) => sql`
    select d.idempotency_key, d.user_id, extract(epoch from d.due_at) * 1000 as due_ms from deliveries d
    where ${isAskedFor(attempt)} and ${isWaiting(attempt, from)} and d.due_at <= now() and ${isToMake} and ${isForUs(workerIds, reach)}
    order by d.due_at limit ${limit} for update of d skip locked`
  const { rows } = await sql<AttemptRow & { dueMs: number | null }>`
    with live as materialized (${liveWorker(workerId)}),
    lost as (
      select d.idempotency_key, d.user_id from deliveries d
      where ${from === undefined && isAskedFor('second')} and ${isLost(reach)} and ${isToMake}
      order by d.due_at limit ${limit} for update of d skip locked
    ),
    second as (${waiting('second')}),
    first as (${waiting('first')}),
    due as (
      select idempotency_key, user_id, null as due_ms from lost union all select * from second union all select * from first limit ${limit}
    )
    update deliveries d set
      attempts = d.attempts + 1, under_way = true, worker_id = ${workerId},
      first_at = coalesce(d.first_at, now()), second_at = case when d.attempts = 1 then now() end,
      first_open = d.first_open or d.under_way,
      first_error = case when d.under_way then coalesce(d.first_error, ${outcomeLost}) else d.first_error end
    from due cross join lateral (select * from users where id = due.user_id offset 0) u
    where d.idempotency_key = due.idempotency_key
    returning ${attemptColumns}, due.due_ms::double precision as "dueMs"
  `.execute(db)
  return { attempts: rows.map(({ dueMs: _, ...row }) => toAttempt(row)), next: lookFrom(rows, from) }
}

function lookFrom(
  rows: readonly { attempt: 1 | 2; dueMs: number | null }[],
  from: DueFrom | undefined,
): DueFrom | undefined {
  if (rows.length === 0) return undefined
  const { first, second } = from ?? { first: Number.NEGATIVE_INFINITY, second: Number.NEGATIVE_INFINITY }
  const next = { first, second }
  for (const { attempt, dueMs } of rows) {
    const which = attempt === 2 ? 'second' : 'first'
    if (dueMs !== null) next[which] = Math.max(next[which], dueMs - lookBackMs)
  }
  return next
}

/**
 * Attempts that are recorded as this process's and under way, but not among `known`: it recorded them without hearing so,
 * maybe before it lost its lease. Whoever takes one over by then makes it the second, as of any other.
 */
export async function findAdrift(
  db: Database,
  workerIds: readonly number[],
  known: readonly string[],
): Promise<RecordedAttempt[]> {
  const { rows } = await sql<AttemptRow>`
    select ${attemptColumns} from deliveries d join users u on u.id = d.user_id
    where d.status = 'pending' and d.under_way and d.worker_id = any (${workerIds}) and d.idempotency_key <> all (${known})
  `.execute(db)
  return rows.map(toAttempt)
}

/**
 * In how many milliseconds the next attempt is due, of the process's own deliveries and of what it may go on with; null if none
 * waits. `only` first or second ones, where it says so; the latter with those that a process which is gone left to be made.
 */
export async function findNextDue(
  db: Database,
  {
    workerIds,
    reach,
    from,
    only,
  }: { workerIds: readonly number[]; reach: Reach; from?: DueFrom | undefined; only?: AttemptKind | undefined },
): Promise<number | null> {
  const isAskedFor = (attempt: AttemptKind) => only === undefined || only === attempt
  const next = (attempt: AttemptKind) => sql`(select d.due_at from deliveries d
    where ${isAskedFor(attempt)} and ${isWaiting(attempt, from)} and ${isForUs(workerIds, reach)} order by d.due_at limit 1)`
  const lost = sql`(select now() from deliveries d where ${only === 'second'} and ${isLost(reach)} limit 1)`
  const { rows } = await sql<{ ms: number | null }>`
    select (extract(epoch from least(${next('second')}, ${next('first')}, ${lost}) - now()) * 1000)::double precision as ms
  `.execute(db)
  return rows[0]?.ms ?? null
}

/** No pause is as long: what is due so late was put off by a clock that was wrong. */
const pauseMsMax = 2 * retryAfterMsMax

/** Makes due now what would else be waited for as long as the database's clock was once ahead. */
export async function endFarPauses(db: Database): Promise<void> {
  await sql`
    update deliveries set due_at = now()
    where status = 'pending' and not under_way and due_at > now() + ${pauseMsMax} * interval '1 millisecond'
  `.execute(db)
}
const givenBackPerStatement = 5_000

/**
 * Gives back what a process has waiting, due `now`, so that whoever resumes need not wait, or `then`, when it would have been.
 * Yields those deliveries.
 */
export async function* recordGivenBack(
  db: Database,
  workerIds: readonly number[],
  due: 'now' | 'then' = 'now',
): AsyncGenerator<LedgerDelivery> {
  for (const attempt of ['second', 'first'] as const) {
    let from: number | undefined
    for (;;) {
      // no pause is longer than the longest: so all are over, and their order stays
      const { rows } = await rideOut(() =>
        sql<LedgerDelivery & { dueMs: number }>`
        with page as materialized (
          select d.idempotency_key, d.due_at from deliveries d
          where ${isWaiting(attempt, from === undefined ? undefined : { first: from, second: from })}
            and d.worker_id = any (${workerIds}) and exists (select from users u where u.id = d.user_id offset 0)
          order by d.due_at limit ${givenBackPerStatement} for update of d
        )
        update deliveries d set worker_id = null, due_at = case when ${due === 'now'} and d.due_at > now()
          then least(now(), d.due_at - ${retryAfterMsMax} * interval '1 millisecond') else d.due_at end
        from page p, users u
        where d.idempotency_key = p.idempotency_key and u.id = d.user_id
        returning ${ledgerColumns}, u.email, (extract(epoch from p.due_at) * 1000)::double precision as "dueMs"
      `.execute(db),
      )
      for (const { dueMs, ...delivery } of rows) {
        // a millisecond less: it is not told more exactly
        from = Math.max(from ?? dueMs - 1, dueMs - 1)
        yield delivery
      }
      if (rows.length < givenBackPerStatement) break
    }
  }
}
