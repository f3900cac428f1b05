/**
 * What is recorded of every delivery: that it begins, before a byte of it is sent, and what came of its attempts. While a push
 * is under way one statement does both, for many users at once: it costs little more than either alone.
 */
import { sql } from 'kysely'
import { durably } from '../db/durably.ts'
import type { Database } from '../db/open.ts'
import { erasureCount } from './erasure-count.ts'
import { type DeliveryKind, liveWorker, type Standing, standingColumns } from './ledger.ts'
import type { PlannedDelivery } from './plan.ts'
import { encodeRecipe } from './recipe.ts'

/** One push of one user, as it is to be begun. */
export interface PushToBegin {
  userId: number
  kind: DeliveryKind
  /** What makes it the only one: a claim in this scope; null for `single` and `subscription`. */
  scope: string | null
  deliveries: (PlannedDelivery & {
    idempotencyKey: string
    /** Whether its first attempt is recorded with it; otherwise it waits to be taken. */
    started: boolean
  })[]
}

/** A user whose push was begun, with the key to send it with. */
export interface BegunPush {
  userId: number
  email: string
  receiverKey: string
}

export interface RecordedOutcome {
  idempotencyKey: string
  attempt: 1 | 2
  ok: boolean
  /** It may have reached the receiver without a complete answer. */
  open: boolean
  httpStatus: number | null
  error: string | null
  durationMs: number
  /** From now to the second attempt, if there is to be one. */
  retryDelayMs: number
}

/** SQL: records `outcomes`, each with the delivery `d` that it is of; joins what `after` yields, and so runs behind it. */
function updateOutcomes(outcomes: readonly RecordedOutcome[], after: 'durable' | 'now_erased') {
  const one = (column: string) =>
    sql`case when o.attempt = 1 then o.${sql.raw(column)} else d.first_${sql.raw(column)} end`
  const two = (column: string) =>
    sql`case when o.attempt = 2 then o.${sql.raw(column)} else d.second_${sql.raw(column)} end`
  return sql`
    update deliveries d set
      first_ms = ${one('ms')}, first_status = ${one('status')}, first_error = ${one('error')}, first_open = ${one('open')},
      second_ms = ${two('ms')}, second_status = ${two('status')}, second_error = ${two('error')}, second_open = ${two('open')},
      under_way = d.under_way and d.attempts <> o.attempt,
      due_at = case when d.attempts = o.attempt then now() + o.delay * interval '1 millisecond' else d.due_at end,
      end_reason = case when o.attempt = 1 then d.end_reason end,
      status = case
        when o.ok or d.status = 'delivered' then 'delivered'
        when d.status = 'pending' and o.attempt = 1 and d.end_reason is null then 'pending'
        when ${one('open')} or ${two('open')} then 'unknown'
        else 'failed' end
    from unnest(${outcomes.map((o) => o.idempotencyKey)}::text[], ${outcomes.map((o) => o.attempt)}::integer[],
      ${outcomes.map((o) => o.ok)}::boolean[], ${outcomes.map((o) => o.open)}::boolean[],
      ${outcomes.map((o) => o.httpStatus)}::integer[], ${outcomes.map((o) => o.error)}::text[],
      ${outcomes.map((o) => Math.round(o.durationMs))}::integer[], ${outcomes.map((o) => Math.round(o.retryDelayMs))}::integer[])
      as o (key, attempt, ok, open, status, error, ms, delay), ${sql.raw(after)}
    where d.idempotency_key = o.key
    returning ${standingColumns}`
}

/**
 * Records what came of attempts, also late, when the delivery has gone on without them: a success makes a delivery
 * `delivered` whenever it comes. Returns how the deliveries stand then. Harmless when repeated.
 */
export async function recordOutcomes(db: Database, outcomes: readonly RecordedOutcome[]): Promise<Standing[]> {
  const { rows } = await sql<Standing>`
    with durable as materialized (${durably}) ${updateOutcomes(outcomes, 'durable')}
  `.execute(db)
  return rows
}

/** Of all parts. */
const countLeads = ({ deliveries }: PushToBegin) => deliveries.reduce((sum, { leads }) => sum + leads, 0)

/**
 * Begins pushes: claims each in its scope, and writes its deliveries with the attempts that start. The users whose pushes are
 * not in `begun` had theirs, or may not be served any more. `live` is false when the worker lost its lease, `erasures` another
 * count than the one that the pushes were planned under when listings were erased since: then nothing was begun. Whatever
 * becomes of that, `outcomes` are recorded as by `recordOutcomes`, and `told` is how their deliveries stand.
 */
export async function recordPushes(
  db: Database,
  context: { workerId: number; runId: number; period: string; erasures: number },
  pushes: readonly PushToBegin[],
  outcomes: readonly RecordedOutcome[] = [],
): Promise<{ live: boolean; erasures: number; begun: BegunPush[]; told: Standing[] }> {
  const rows = pushes.flatMap((push) =>
    push.deliveries.map((delivery) => ({ ...delivery, userId: push.userId, kind: push.kind })),
  )
  type Of<T> = { [name in keyof T]: T[name] | null }
  type Found = Of<BegunPush> & Of<Standing> & { live: boolean; erasures: number }
  const told = sql`, told as (${updateOutcomes(outcomes, 'now_erased')})`
  const toldRows = sql`
    union all select null, null, null, "idempotencyKey", status, attempts, "httpStatus", error from told`
  const noStanding = sql`null::text as "idempotencyKey", null::text as status, null::integer as attempts,
    null::integer as "httpStatus", null::text as error`
  const { rows: found } = await sql<Found>`
    with live as materialized (${liveWorker(context.workerId)}), now_erased as materialized (select ${erasureCount} as n),
    eligible as (
      select p.user_id, p.kind, p.scope, p.leads, u.email, u.receiver_key
      from unnest(${pushes.map(({ userId }) => userId)}::bigint[], ${pushes.map(({ kind }) => kind)}::text[],
        ${pushes.map(({ scope }) => scope)}::text[], ${pushes.map(countLeads)}::integer[]) as p (user_id, kind, scope, leads)
      join users u on u.id = p.user_id
      where exists (select from live) and (select n from now_erased) = ${context.erasures}::bigint
        and (u.subscribed or p.kind in ('single', 'subscription'))
    ),
    owed as (
      update users u set subscription_owed_at = null, subscription_begun_at = now()
      from eligible e where u.id = e.user_id and e.kind = 'subscription' and u.subscription_owed_at is not null
      returning u.id
    ),
    claimed as (
      insert into claims (scope, email, leads)
      select scope, email, case kind when 'weekly' then leads end from eligible where scope is not null order by scope, email
      on conflict do nothing returning scope, email
    ),
    granted as (
      select * from eligible e where case e.kind
        when 'single' then true
        when 'subscription' then e.user_id in (select id from owed)
        else exists (select from claimed c where c.scope = e.scope and c.email = e.email) end
    ),
    begun as (
      insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list,
        recipe, status, attempts, under_way, worker_id, first_at)
      select d.key, ${context.runId}, g.user_id, ${context.period}, g.kind, d.part, d.parts, d.queries, d.leads, d.bytes,
        d.query_list, d.recipe, 'pending', d.started::integer, d.started, ${context.workerId}, case when d.started then now() end
      from unnest(${rows.map((row) => row.idempotencyKey)}::text[], ${rows.map((row) => row.userId)}::bigint[],
        ${rows.map((row) => row.part)}::integer[], ${rows.map((row) => row.parts)}::integer[],
        ${rows.map((row) => row.queries)}::integer[], ${rows.map((row) => row.leads)}::integer[],
        ${rows.map((row) => row.bytes)}::integer[], ${rows.map((row) => row.queryList)}::text[],
        ${rows.map((row) => encodeRecipe(row.versionIds))}::bytea[], ${rows.map((row) => row.started)}::boolean[])
        as d (key, user_id, part, parts, queries, leads, bytes, query_list, recipe, started)
      join granted g on g.user_id = d.user_id
    )${outcomes.length > 0 ? told : sql``}
    select found.*, exists (select from live) as live, (select n from now_erased) as erasures
    from (values (1)) as always left join (
      select g.user_id as "userId", g.email, g.receiver_key as "receiverKey", ${noStanding} from granted g
      ${outcomes.length > 0 ? toldRows : sql``}
    ) as found on true
  `.execute(db)
  const begun: BegunPush[] = []
  const stand: Standing[] = []
  for (const { userId, email, receiverKey, idempotencyKey, status, attempts, httpStatus, error } of found) {
    if (userId !== null) begun.push({ userId, email, receiverKey } as BegunPush)
    if (idempotencyKey !== null) stand.push({ idempotencyKey, status, attempts, httpStatus, error } as Standing)
  }
  return { live: found[0]?.live ?? false, erasures: found[0]?.erasures ?? 0, begun, told: stand }
}
