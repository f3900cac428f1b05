/**
 * The ledger's statements for what waits, what others left, and when a process stops or died; `record` has those that every
 * delivery goes through. Each is one statement that checks what it relies on (lease, claim, subscription) where it writes, so
 * that any number of processes may run them at once. Durations are milliseconds; every time is the database's.
 */
import { type RawBuilder, sql } from 'kysely'
import { retryAfterMsMax } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import { durably } from '../db/durably.ts'
import { holdsLease, isLive } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import type { LeadInBody } from '../leads/lead-store.ts'
import { makeAnew } from './made-anew.ts'
import { decodeRecipe } from './recipe.ts'
import { periodIn } from './runs.ts'

export type DeliveryKind = Tables['deliveries']['kind']
export type DeliveryStatus = Tables['deliveries']['status']

/** A recorded attempt that this process is to make. */
export interface RecordedAttempt {
  idempotencyKey: string
  /** Of the run that began the delivery. */
  runId: number
  attempt: 1 | 2
  userId: number
  email: string
  receiverKey: string
  kind: DeliveryKind
  period: string
  part: number
  parts: number
  queries: number
  leads: number
  bytes: number
  queryList: string
  contents: readonly LeadInBody[]
}

/** How a delivery stands. */
export interface Standing {
  idempotencyKey: string
  status: DeliveryStatus
  attempts: number
  httpStatus: number | null
  error: string | null
}

/** A delivery as the ledger has it. */
export interface LedgerDelivery extends Standing {
  /** Of the run that began it. */
  runId: number
  userId: number
  email: string | null
  kind: DeliveryKind
  period: string
  part: number
  parts: number
  queries: number
  leads: number
  bytes: number
}

export const wasErased = 'a listing was erased'
const outcomeLost = 'nobody recorded what came of the attempt'

/** Yields a row only while the worker holds its lease. */
const liveWorker = (workerId: number) =>
  sql`${durably} from workers w where w.id = ${workerId} and ${holdsLease(sql`w`)}`

export const ledgerColumns = sql`
  d.idempotency_key as "idempotencyKey", d.status, d.attempts, told_status(d) as "httpStatus", told_error(d) as error,
  d.run_id as "runId", d.user_id as "userId", d.kind, d.period, d.part, d.parts, d.queries, d.leads, d.bytes`

/**
 * SQL over `d`: whether nothing of its push was ever sent and the period that it was for is over: then it is not owed any
 * more (contract 3, `--resume`). A run that still lives finishes in its period.
 */
export const isTooLate = sql<boolean>`(d.attempts = 0 and d.kind in ('weekly', 'forced') and not ${isLive(sql`d.worker_id`)}
  and exists (select from runs r where r.id = d.run_id and d.period <> ${periodIn(sql`r.time_zone`)} offset 0)
  and not exists (select from deliveries e
    where e.run_id = d.run_id and e.user_id = d.user_id and e.kind = d.kind and e.attempts > 0 offset 0))`

/** SQL over `d` and its user `u`: who has unsubscribed still gets the rest of what was begun, and what was asked for by name. */
export const isWanted = sql<boolean>`(u.subscribed or d.attempts > 0 or d.kind = 'single')`

/**
 * What of the deliveries that others left a process may go on with, once nobody alive has them: none, all, or the subscription
 * pushes of one user.
 */
export type Reach = 'own' | 'all' | { subscriptionOf: number }

/** SQL over `d`: whether a delivery that is not this process's lies within `reach`. */
function isWithin(reach: Reach): RawBuilder<boolean> {
  if (typeof reach === 'string') return reach === 'all' ? sql`true` : sql`false`
  return sql`(d.kind = 'subscription' and d.user_id = ${reach.subscriptionOf})`
}

/** SQL over `d`: whether it lies within `reach`, and is in the hands of nobody alive. */
const isAbandoned = (reach: Reach) =>
  sql<boolean>`(${isWithin(reach)} and (d.worker_id is null or not ${isLive(sql`d.worker_id`)}))`

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

/** Those of `userIds` of whom the run has begun a delivery. */
export async function findUsersBegun(db: Database, runId: number, userIds: readonly number[]): Promise<Set<number>> {
  const { rows } = await sql<{ id: number }>`
    select distinct user_id as id from deliveries where user_id = any (${userIds}) and run_id = ${runId}
  `.execute(db)
  return new Set(rows.map(({ id }) => id))
}

/** Whether there are deliveries to go on with, or to end, that nobody alive has. */
export async function isAnythingAbandoned(db: Database): Promise<boolean> {
  const { rows } = await sql`
    select from deliveries d where d.status = 'pending' and ${isAbandoned('all')} limit 1
  `.execute(db)
  return rows.length > 0
}

/** SQL over `d`: sets what an attempt leaves behind that `isLost`: under way, and nobody will record what came of it. */
export const endsLost = (isLost: RawBuilder<boolean>) => sql`
  under_way = d.under_way and not ${isLost},
  first_open = d.first_open or (d.attempts = 1 and ${isLost}),
  first_error = case when d.attempts = 1 and ${isLost} then coalesce(d.first_error, ${outcomeLost}) else d.first_error end,
  second_open = d.second_open or (d.attempts = 2 and ${isLost}),
  second_error = case when d.attempts = 2 and ${isLost} then coalesce(d.second_error, ${outcomeLost}) else d.second_error end`

/**
 * Ends what will get no further attempt: the second was left without an outcome by a worker whose lease is over; the user
 * was removed; a listing of it was erased; or nothing of it was sent and the user is no longer subscribed. Only what `workerIds`
 * have, and what nobody alive has within `reach`: who has it ends it, and tells of it. Never what this process is at, `known`.
 * Returns what it ended, and what an erasure had ended that was theirs. What is too late is forgotten: it was never begun.
 */
export async function endAbandoned(
  db: Database,
  {
    workerIds = [],
    reach = 'all',
    known = [],
  }: { workerIds?: readonly number[]; reach?: Reach; known?: readonly string[] } = {},
): Promise<LedgerDelivery[]> {
  const { rows } = await sql<LedgerDelivery>`
    with forgotten as (delete from deliveries d where ${reach === 'all'} and d.status = 'pending' and ${isTooLate}),
    told as (delete from erased_deliveries where worker_id = any (${workerIds}) returning idempotency_key),
    ended as (update deliveries d set
      ${endsLost(sql`d.under_way`)},
      end_reason = case when d.under_way and d.attempts = 2 then null when d.end_reason is not null then d.end_reason when gone.user_id is null then 'the user was removed' else 'the user unsubscribed before it was begun' end,
      status = case when d.first_open or d.second_open or d.under_way then 'unknown' else 'failed' end
    from (
      select d.idempotency_key, u.id as user_id, u.email from deliveries d left join users u on u.id = d.user_id
      where d.status = 'pending' and (d.worker_id = any (${workerIds}) or ${isAbandoned(reach)})
        and d.idempotency_key <> all (${known}) and case
          when d.under_way then (d.attempts = 2 or d.end_reason is not null or u.id is null) and not ${isLive(sql`d.worker_id`)}
          else u.id is null or d.end_reason is not null or not ${isWanted} end
      for update of d skip locked
    ) gone
    where d.idempotency_key = gone.idempotency_key
    returning ${ledgerColumns}, gone.email)
    select * from ended union all
    select ${ledgerColumns}, u.email from told join deliveries d on d.idempotency_key = told.idempotency_key
      left join users u on u.id = d.user_id
  `.execute(db)
  return rows
}

/**
 * Takes back attempts that were recorded and certainly not made: they are due at once. Of those with a listing that was erased
 * meanwhile second ones end, and first ones are made anew without it. Returns those that ended.
 */
export async function recordUnsent(
  db: Database,
  workerIds: readonly number[],
  unsent: readonly string[],
): Promise<LedgerDelivery[]> {
  return await db.transaction().execute(async (transaction) => {
    await makeAnew(transaction, unsent, ({ attempts, isEnding }) => attempts === 1 && isEnding)
    const { rows } = await sql<LedgerDelivery>`
      with durable as materialized (${durably})
      update deliveries d set
        attempts = attempts - 1, under_way = false, due_at = now(), second_at = null,
        first_at = case when attempts = 1 then null else first_at end,
        status = case when end_reason is null then 'pending' when first_open then 'unknown' else 'failed' end
      from durable where status = 'pending' and under_way and worker_id = any (${workerIds}) and idempotency_key = any (${unsent})
      returning ${ledgerColumns}, null as email
    `.execute(transaction)
    return rows.filter(({ status }) => status !== 'pending')
  })
}

/**
 * Takes back an attempt that was recorded and not made because one of its listings is no more: a first one is due at once,
 * without it, and a second one ends its delivery, which is returned.
 */
export async function endErased(db: Database, idempotencyKey: string): Promise<LedgerDelivery[]> {
  return await db.transaction().execute(async (transaction) => {
    await makeAnew(transaction, [idempotencyKey], ({ attempts, underWay }) => attempts === 1 && underWay)
    const { rows } = await sql<LedgerDelivery>`
      update deliveries d set
        attempts = attempts - 1, under_way = false, due_at = now(), second_at = null,
        end_reason = case when attempts = 2 then ${wasErased} end,
        first_at = case when attempts = 1 then null else first_at end,
        status = case when attempts = 1 then 'pending' when first_open then 'unknown' else 'failed' end
      where status = 'pending' and under_way and idempotency_key = ${idempotencyKey}
      returning ${ledgerColumns}, null as email
    `.execute(transaction)
    return rows.filter(({ status }) => status !== 'pending')
  })
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
