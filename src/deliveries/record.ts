/**
 * What is recorded of every delivery: that it begins, before a byte of it is sent, and what came of its attempts. While a push
 * is under way one statement does both, for many users at once: it costs little more than either alone.
 */
import { sql } from 'kysely'
import { durably } from '../db/durably.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import type { DeliveryKind, Standing } from './ledger.ts'
import type { PlannedDelivery } from './plan.ts'
import { encodeRecipes } from './recipe.ts'

/** One push of one user, as it is to be begun. */
export interface PushToBegin {
  userId: number
  kind: DeliveryKind
  /** What makes it the only one: a claim in this scope; null for `single` and `subscription`. */
  scope: string | null
  /** By which later weeks know that it was for the same queries. */
  queriesMark?: number
  deliveries: readonly DeliveryToBegin[]
  /** Of so many, the first ones, the first attempt is recorded with them; the others wait to be taken. */
  started: number
}

export type DeliveryToBegin = PlannedDelivery & { idempotencyKey: string }

/** A push that was begun, with its user and the key to send it with. */
export interface BegunPush {
  push: PushToBegin
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

/** A column as an array of PostgreSQL, ready to be sent; columns of texts are left to the driver, which knows how to quote. */
const column = <T>(rows: readonly T[], of: (row: T) => number | boolean | null) =>
  `{${rows.map((row) => of(row) ?? 'null').join()}}`

/** Arguments of the database's functions. */
const outcomeColumns = (outcomes: readonly RecordedOutcome[]) => sql`
  ${outcomes.map((o) => o.idempotencyKey)}, ${column(outcomes, (o) => o.attempt)}, ${column(outcomes, (o) => o.ok)},
  ${column(outcomes, (o) => o.open)}, ${column(outcomes, (o) => o.httpStatus)}, ${outcomes.map((o) => o.error)},
  ${column(outcomes, (o) => Math.round(o.durationMs))}, ${column(outcomes, (o) => Math.round(o.retryDelayMs))}`

const standingColumns = sql`told_key as "idempotencyKey", told_status as status, told_attempts as attempts,
  told_http_status as "httpStatus", told_error as error`

/**
 * Records what came of attempts, also late, when the delivery has gone on without them: a success makes a delivery
 * `delivered` whenever it comes. Returns how the deliveries stand then. Harmless when repeated.
 */
export async function recordOutcomes(db: Database, outcomes: readonly RecordedOutcome[]): Promise<Standing[]> {
  const { rows } = await sql<Standing>`
    with durable as materialized (${durably})
    select ${standingColumns} from durable cross join lateral record_outcomes(${outcomeColumns(outcomes)})
  `.execute(db)
  return rows
}

/** Of all parts. */
const countLeads = ({ deliveries }: PushToBegin) => deliveries.reduce((sum, { leads }) => sum + leads, 0)

/**
 * Begins pushes: claims each in its scope, and writes its deliveries with the attempts that start. Those that are not in
 * `begun` had theirs, or their users may not be served any more. `live` is false when the worker lost its lease, `erasures`
 * another count than the one that the pushes were planned under when listings were erased since: then nothing was begun. `busy`
 * are subscription pushes of users whom another transaction is changing: they were not begun, and are still owed.
 * Whatever becomes of that, `outcomes` are recorded as by `recordOutcomes`, and `told` is how their deliveries stand.
 */
export async function recordPushes(
  db: Database,
  context: { workerId: number; runId: number; period: string; erasures: number },
  pushes: readonly PushToBegin[],
  outcomes: readonly RecordedOutcome[] = [],
): Promise<{ live: boolean; erasures: number; begun: BegunPush[]; busy: PushToBegin[]; told: Standing[] }> {
  const deliveries = pushes.flatMap((push) => push.deliveries)
  const pushOf = pushes.flatMap((push, at) => push.deliveries.map(() => at + 1))
  const started = pushes.flatMap((push) => push.deliveries.map((_, at) => at < push.started))
  const recipes = encodeRecipes(deliveries.map(({ contents }) => contents))
  type Of<T> = { [name in keyof T]: T[name] | null }
  type Found = Of<Standing> & {
    live: boolean
    erasures: number
    push: number | null
    email: string | null
    receiverKey: string | null
  }
  const { rows: found } = await sql<Found>`
    select live, erasures, push, email, receiver_key as "receiverKey", ${standingColumns} from record_pushes(
      ${context.workerId}, ${context.runId}, ${context.period}, ${locks.erasure}, ${context.erasures},
      ${column(pushes, ({ userId }) => userId)}, ${pushes.map(({ kind }) => kind)}, ${pushes.map(({ scope }) => scope)},
      ${column(pushes, countLeads)}, ${column(pushes, ({ queriesMark }) => queriesMark ?? null)},
      ${deliveries.map((d) => d.idempotencyKey)}, ${column(pushOf, (push) => push)}, ${column(deliveries, (d) => d.part)},
      ${column(deliveries, (d) => d.parts)}, ${column(deliveries, (d) => d.queries)}, ${column(deliveries, (d) => d.leads)},
      ${column(deliveries, (d) => d.bytes)}, ${deliveries.map((d) => d.queryList)}, ${recipes.bytes},
      ${column(recipes.lengths, (length) => length)}, ${column(started, (is) => is)},
      ${outcomeColumns(outcomes)})
  `.execute(db)
  const begun: BegunPush[] = []
  const busy: PushToBegin[] = []
  const told: Standing[] = []
  for (const { push, email, receiverKey, idempotencyKey, status, attempts, httpStatus, error } of found) {
    const of = push === null ? undefined : (pushes[push - 1] as PushToBegin)
    if (of && email !== null && receiverKey !== null) begun.push({ push: of, email, receiverKey })
    else if (of) busy.push(of)
    if (idempotencyKey !== null) told.push({ idempotencyKey, status, attempts, httpStatus, error } as Standing)
  }
  const [{ live, erasures } = { live: false, erasures: 0 }] = found
  return { live, erasures, begun, busy, told }
}
