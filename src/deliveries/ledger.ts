/**
 * The ledger's types, and its statements for abandoned, stopped and erased deliveries; `due` has those for waiting deliveries,
 * `record` those of every delivery. Each statement checks the lease, claim or subscription that it relies on where it writes, so any
 * number of processes may run it at once. Durations are milliseconds; every time is the database's.
 */
import { type RawBuilder, sql } from 'kysely'
import { durably } from '../db/durably.ts'
import { isLive } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import { makeAnew } from './made-anew.ts'
import type { PlannedDelivery } from './plan.ts'
import { periodIn } from './runs.ts'

export type DeliveryKind = Tables['deliveries']['kind']
type DeliveryStatus = Tables['deliveries']['status']

/** The values of a delivery that never change. */
export interface DeliveryFacts extends Omit<PlannedDelivery, 'queryList' | 'contents'> {
  idempotencyKey: string
  runId: number
  userId: number
  kind: DeliveryKind
  /** That of the run that began it. */
  period: string
}

/** A recorded attempt that this process has to make. */
export interface RecordedAttempt extends DeliveryFacts, PlannedDelivery {
  attempt: 1 | 2
  /** It goes out compressed (contract 4.17). */
  gzip: boolean
  email: string
  /** In its stored form. */
  receiverKey: string
}

/** The state of a delivery. */
export interface DeliveryState {
  idempotencyKey: string
  status: DeliveryStatus
  attempts: number
  httpStatus: number | null
  error: string | null
}

/** A delivery as the ledger has it. */
export interface LedgerDelivery extends DeliveryFacts, DeliveryState {
  email: string | null
}

export const wasErased = 'a listing was erased'
export const outcomeLost = 'nobody recorded what came of the attempt'

export const ledgerColumns = sql`
  d.idempotency_key as "idempotencyKey", d.status, d.attempts, http_status_of(d) as "httpStatus", error_of(d) as error,
  d.run_id as "runId", d.user_id as "userId", d.kind, d.period, d.part, d.parts, d.queries, d.leads, d.bytes`

/**
 * SQL over `d`: whether its period is over and nothing of its push was ever sent: then it is no longer owed (contract 3, `--resume`). A
 * live run still finishes its own period.
 */
export const isTooLate = sql<boolean>`(d.attempts = 0 and d.kind in ('weekly', 'forced') and not ${isLive(sql`d.worker_id`)}
  and exists (select from runs r where r.id = d.run_id and d.period <> ${periodIn(sql`r.time_zone`)} offset 0)
  and not exists (select from deliveries e
    where e.run_id = d.run_id and e.user_id = d.user_id and e.kind = d.kind and e.attempts > 0 offset 0))`

/** SQL over `d` and its user `u`: a user who unsubscribed still gets deliveries that had an attempt, and those of `--user`. */
export const isWanted = sql<boolean>`(u.subscribed or d.attempts > 0 or d.kind = 'single')`

/**
 * The abandoned deliveries that a process may take over: none, all, or the subscription pushes of all users or of one. A delivery is
 * abandoned when no live process has it.
 */
export type Takeover = 'own' | 'all' | 'subscriptions' | { subscriptionOf: number }

/** SQL over `d`: whether `takeover` names the delivery, abandoned or not. */
function isWithin(takeover: Takeover): RawBuilder<boolean> {
  if (takeover === 'own' || takeover === 'all') return takeover === 'all' ? sql`true` : sql`false`
  const isSubscription = sql<boolean>`d.kind = 'subscription'`
  return takeover === 'subscriptions'
    ? isSubscription
    : sql`(${isSubscription} and d.user_id = ${takeover.subscriptionOf})`
}

/** SQL over `d`: whether it is abandoned and lies within `takeover`. */
export const isAbandoned = (takeover: Takeover) =>
  sql<boolean>`(${isWithin(takeover)} and (d.worker_id is null or not ${isLive(sql`d.worker_id`)}))`

/** Whether any pending delivery is abandoned. */
export async function isAnythingAbandoned(db: Database): Promise<boolean> {
  const { rows } = await sql`
      select from deliveries d where d.status = 'pending' and ${isAbandoned('all')} limit 1
    `.execute(db)
  return rows.length > 0
}

/** SQL over `d`: whether a live process other than `workerIds` is working on it. */
export const isElsewhere = (workerIds: readonly number[]) =>
  sql<boolean>`(d.status = 'pending' and d.worker_id <> all (${workerIds}) and ${isLive(sql`d.worker_id`)})`

/** SQL over `d`: the columns to set for an attempt that `isLost`: under way, and its outcome will never be recorded. */
export const endsLost = (isLost: RawBuilder<boolean>) => sql`
  under_way = d.under_way and not ${isLost},
  first_maybe_arrived = d.first_maybe_arrived or (d.attempts = 1 and ${isLost}),
  first_error = case when d.attempts = 1 and ${isLost} then coalesce(d.first_error, ${outcomeLost}) else d.first_error end,
  second_maybe_arrived = d.second_maybe_arrived or (d.attempts = 2 and ${isLost}),
  second_error = case when d.attempts = 2 and ${isLost} then coalesce(d.second_error, ${outcomeLost}) else d.second_error end`

/** SQL: ends the pending deliveries `d` for which `isMeant` holds, with their users `u`, whom it may not have. */
const endThose = (isMeant: RawBuilder<boolean>) => sql<LedgerDelivery>`
  update deliveries d set
    ${endsLost(sql`d.under_way`)},
    end_reason = case when d.under_way and d.attempts = 2 then null when d.end_reason is not null then d.end_reason when gone.user_id is null then 'the user was removed' else 'the user unsubscribed before it was begun' end,
    status = case when d.first_maybe_arrived or d.second_maybe_arrived or d.under_way then 'unknown' else 'failed' end
  from (
    select d.idempotency_key, u.id as user_id, u.email from deliveries d left join users u on u.id = d.user_id
    where d.status = 'pending' and ${isMeant} for update of d skip locked
  ) gone
  where d.idempotency_key = gone.idempotency_key
  returning ${ledgerColumns}, gone.email`

/**
 * Ends deliveries that get no further attempt: a dead worker left the second one without an outcome, the user was removed, a listing was
 * erased, or nothing was sent and the user has unsubscribed. Ends only deliveries of `workerIds` and abandoned ones within `takeover`,
 * since the process that has a delivery must end and report it; never those in `known`, whose attempts it is making. Deletes deliveries
 * that are too late. Returns the ended ones, and those of `workerIds` that an erasure has ended, except those in `known`: the outcomes of
 * their attempts report the end.
 */
export async function endAbandoned(
  db: Database,
  of: { workerIds?: readonly number[]; takeover?: Takeover; known?: readonly string[] } = {},
): Promise<LedgerDelivery[]> {
  const { workerIds = [], takeover = 'all', known = [] } = of
  const isMeant = sql<boolean>`(d.worker_id = any (${workerIds}) or ${isAbandoned(takeover)})
    and d.idempotency_key <> all (${known}) and case
      when d.under_way then (d.attempts = 2 or d.end_reason is not null or u.id is null) and not ${isLive(sql`d.worker_id`)}
      else u.id is null or d.end_reason is not null or not ${isWanted} end`
  const { rows } = await sql<LedgerDelivery>`
    with forgotten as (delete from deliveries d where ${takeover === 'all'} and d.status = 'pending' and ${isTooLate}),
    told as (delete from erased_deliveries where worker_id = any (${workerIds}) and idempotency_key <> all (${known})
      returning idempotency_key),
    ended as (${endThose(isMeant)})
    select * from ended union all
    select ${ledgerColumns}, u.email from told join deliveries d on d.idempotency_key = told.idempotency_key
      left join users u on u.id = d.user_id
  `.execute(db)
  return rows
}

/**
 * Ends what a removed user was to get, and what was not begun for one who unsubscribed; without `userId`, for all of these. A push ends,
 * and tells, all else.
 */
export async function endUnwanted(db: Database, userId?: number): Promise<number> {
  const isOfUser = userId === undefined ? sql`true` : sql`d.user_id = ${userId}`
  const isUnwanted = sql`(u.id is null or d.end_reason is null and not ${isWanted})`
  const { rows } = await endThose(sql`${isOfUser} and ${isAbandoned('all')} and ${isUnwanted}`).execute(db)
  return rows.length
}

/** The deliveries among `keys` that an erasure has ended since `workerIds` had their attempts recorded; the caller reports them. */
async function takeErased(
  transaction: Database,
  workerIds: readonly number[],
  keys: readonly string[],
): Promise<LedgerDelivery[]> {
  const { rows } = await sql<LedgerDelivery>`
    with told as (
      delete from erased_deliveries where worker_id = any (${workerIds}) and idempotency_key = any (${keys}) returning idempotency_key
    )
    select ${ledgerColumns}, null as email from told join deliveries d on d.idempotency_key = told.idempotency_key
  `.execute(transaction)
  return rows
}

/**
 * Takes back attempts of which certainly nothing went out: they do not count, and are due at once. If a listing was erased meanwhile, a first attempt
 * is due without it and a second one ends its delivery; `isErased`: the caller missed one of their listings. Returns the deliveries that
 * ended, now or before.
 */
export async function takeBack(
  db: Database,
  workerIds: readonly number[],
  taken: readonly Pick<RecordedAttempt, 'idempotencyKey' | 'attempt'>[],
  isErased = false,
): Promise<LedgerDelivery[]> {
  const firsts = taken.filter(({ attempt }) => attempt === 1).map(({ idempotencyKey }) => idempotencyKey)
  return await db.transaction().execute(async (transaction) => {
    await makeAnew(transaction, firsts, ({ attempts, underWay, workerId, isEnding }) => {
      // otherwise another process may have taken it over and be sending it
      const isOurs = attempts === 1 && underWay && workerId !== null && workerIds.includes(workerId)
      return isOurs && (isErased || isEnding)
    })
    const reason = sql`case when ${isErased} and attempts = 2 then ${wasErased} else end_reason end`
    const { rows } = await sql<LedgerDelivery>`
      with durable as materialized (${durably})
      update deliveries d set
        attempts = attempts - 1, under_way = false, due_at = now(), second_at = null, end_reason = ${reason},
        first_at = case when attempts = 1 then null else first_at end,
        status = case when (${reason}) is null then 'pending' when first_maybe_arrived then 'unknown' else 'failed' end
      from durable, unnest(${taken.map(({ idempotencyKey }) => idempotencyKey)}::text[], ${taken.map(({ attempt }) => attempt)}::integer[])
        as u (key, attempt)
      where idempotency_key = u.key and attempts = u.attempt and status = 'pending' and under_way and worker_id = any (${workerIds})
      returning ${ledgerColumns}, null as email
    `.execute(transaction)
    const keys = rows.length < taken.length ? taken.map(({ idempotencyKey }) => idempotencyKey) : []
    return [...rows.filter(({ status }) => status !== 'pending'), ...(await takeErased(transaction, workerIds, keys))]
  })
}
