/**
 * The two records of every delivery: its beginning, before a byte is sent, and the outcomes of its attempts. During a push one statement
 * writes both for many users, which costs little more than either alone.
 */
import { sql } from 'kysely'
import { durably } from '../db/durably.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import { type RecordedAnswer, recordAnswers } from './answers.ts'
import type { AttemptOutcome } from './attempt.ts'
import type { DeliveryKind, DeliveryState, RecordedAttempt } from './ledger.ts'
import { type PlannedDelivery, sumLeads } from './plan.ts'
import { encodeRecipes } from './recipe.ts'
import { type CountingRun, countStatement } from './runs.ts'

/** One push of one user, before it is begun. */
export interface PlannedPush {
  userId: number
  email: string
  kind: DeliveryKind
  /** The scope of the claim that prevents a second push; null for `single` and `subscription`. */
  scope: string | null
  /** A hash of the queries: the guard compares only deliveries with the same one. */
  queriesMark?: number
  deliveries: readonly (PlannedDelivery & { idempotencyKey: string })[]
  /** The count of erasures from before any lead of the push was read. */
  erasures: number
  /** The server whose data it was planned from: on another, ids and versions may have another meaning. */
  server: string
}

export interface RecordedOutcome
  extends RecordedAnswer,
    Pick<AttemptOutcome, 'ok' | 'maybeArrived' | 'httpStatus' | 'error' | 'durationMs'> {
  /** The pause before the second attempt, if there is one. */
  retryDelayMs: number
}

/**
 * A column as the text of a PostgreSQL array. Texts must be keys, kinds or scopes, in which nothing has a meaning there; others are left
 * to the driver, which quotes them.
 */
const column = <T>(rows: readonly T[], of: (row: T) => number | boolean | string | null) =>
  `{${rows.map((row) => of(row) ?? 'null').join()}}`

/** SQL: the arguments of a function, by their names. */
const byName = (values: Readonly<Record<string, unknown>>) =>
  sql.join(Object.entries(values).map(([name, value]) => sql`${sql.ref(name)} => ${value}`))

/** Outcomes as arguments of `record_outcomes` and `record_pushes`. */
const outcomeColumns = (outcomes: readonly RecordedOutcome[]) => ({
  of_keys: column(outcomes, (o) => o.idempotencyKey),
  of_attempts: column(outcomes, (o) => o.attempt),
  oks: column(outcomes, (o) => o.ok),
  maybe_arrived: column(outcomes, (o) => o.maybeArrived),
  http_statuses: column(outcomes, (o) => o.httpStatus),
  errors: outcomes.map((o) => o.error),
  took_ms: column(outcomes, (o) => Math.round(o.durationMs)),
  retry_delays_ms: column(outcomes, (o) => Math.round(o.retryDelayMs)),
})

const stateColumns = sql`delivery_key as "idempotencyKey", delivery_status as status, delivery_attempts as attempts,
  delivery_http_status as "httpStatus", delivery_error as error`

export interface RecordedOutcomes {
  /** The states of the deliveries whose outcomes were recorded. */
  told: DeliveryState[]
  /** The number of the statement in the run's row; null: another server answered, or the row is gone. */
  statement: number | null
}

/**
 * Records the outcomes of attempts. An outcome may come late, when the delivery has gone on without it: a success still makes the
 * delivery `delivered`. The outcome of an attempt that the database does not know is left out. Harmless when repeated.
 */
export async function recordOutcomes(
  db: Database,
  run: CountingRun,
  outcomes: readonly RecordedOutcome[],
): Promise<RecordedOutcomes> {
  await recordAnswers(db, outcomes)
  const { rows } = await sql<DeliveryState & Pick<RecordedOutcomes, 'statement'>>`
    with durable as materialized (${durably}), counted as (${countStatement(run)})
    select ${stateColumns}, (select statements from counted) as statement
    from durable cross join lateral record_outcomes(${byName(outcomeColumns(outcomes))})
  `.execute(db)
  const told = rows.map(({ idempotencyKey, status, attempts, httpStatus, error }) => {
    return { idempotencyKey, status, attempts, httpStatus, error }
  })
  return { told, statement: rows[0]?.statement ?? null }
}

export interface RecordedPushes<Push extends PlannedPush = PlannedPush> extends RecordedOutcomes {
  /** False: the worker lost its lease, and nothing was begun. */
  live: boolean
  /** The count of erasures now. If the pushes were planned under another count, nothing was begun. */
  erasures: number
  /** The pushes that were begun. The other users already have theirs, or may not be served any more. */
  begun: Push[]
  /** The first attempts that were recorded with them. */
  attempts: RecordedAttempt[]
}

/**
 * Begins pushes that were planned under one count of erasures: claims each in its scope, and writes its deliveries. The first
 * `attemptsMax` deliveries, in order, have their first attempt recorded at once, as compressed with `gzip`; the others are due. Also
 * records `outcomes`, as `recordOutcomes` does, even if no push is begun.
 */
export async function recordPushes<Push extends PlannedPush>(
  db: Database,
  context: { workerId: number; server: string; runId: number; period: string; attemptsMax: number; gzip?: boolean },
  pushes: readonly Push[],
  outcomes: readonly RecordedOutcome[] = [],
): Promise<RecordedPushes<Push>> {
  const { workerId, server, runId, period, attemptsMax, gzip = false } = context
  await recordAnswers(db, outcomes)
  const deliveries = pushes.flatMap((push) => push.deliveries)
  const pushOf = pushes.flatMap((push, at) => push.deliveries.map(() => at + 1))
  const started = deliveries.map((_, at) => at < attemptsMax)
  const recipes = encodeRecipes(deliveries.map(({ contents }) => contents))
  type Of<T> = { [name in keyof T]: T[name] | null }
  type Found = Of<DeliveryState> & {
    live: boolean
    erasures: number
    statement: number | null
    push: number | null
    email: string | null
    receiverKey: string | null
  }
  const given = {
    worker: workerId,
    server,
    run: runId,
    run_period: period,
    erasure_lock: locks.erasure,
    erasures_planned: pushes[0]?.erasures ?? 0,
    user_ids: column(pushes, ({ userId }) => userId),
    emails: pushes.map(({ email }) => email),
    kinds: column(pushes, ({ kind }) => kind),
    scopes: column(pushes, ({ scope }) => scope),
    leads_of_pushes: column(pushes, (push) => sumLeads(push.deliveries)),
    marks_of_pushes: column(pushes, ({ queriesMark }) => queriesMark ?? null),
    keys: column(deliveries, (d) => d.idempotencyKey),
    pushes: column(pushOf, (push) => push),
    parts: column(deliveries, (d) => d.part),
    parts_in_all: column(deliveries, (d) => d.parts),
    queries: column(deliveries, (d) => d.queries),
    leads: column(deliveries, (d) => d.leads),
    bytes: column(deliveries, (d) => d.bytes),
    query_lists: deliveries.map((d) => d.queryList),
    recipes: recipes.bytes,
    recipe_bytes: column(recipes.lengths, (length) => length),
    started: column(started, (is) => is),
    compressed: gzip,
    ...outcomeColumns(outcomes),
  }
  const { rows: found } = await sql<Found>`
    with counted as (${countStatement({ runId, server })})
    select live, erasures, push, email, receiver_key as "receiverKey", ${stateColumns}, (select statements from counted) as statement
    from record_pushes(${byName(given)})
  `.execute(db)
  const [{ live, erasures, statement } = { live: false, erasures: 0, statement: null }] = found
  const recorded: RecordedPushes<Push> = { live, erasures, begun: [], attempts: [], told: [], statement }
  for (const { push: nth, email, receiverKey, idempotencyKey, status, attempts, httpStatus, error } of found) {
    const push = nth === null ? undefined : (pushes[nth - 1] as Push)
    if (push && email !== null && receiverKey !== null) {
      const { userId, kind } = push
      const of = { userId, email, receiverKey, kind, runId, period, gzip }
      const first = pushOf.indexOf(nth as number)
      recorded.begun.push(push)
      for (const [at, delivery] of push.deliveries.entries())
        if (first + at < attemptsMax) recorded.attempts.push({ attempt: 1, ...of, ...delivery })
    }
    if (idempotencyKey !== null)
      recorded.told.push({ idempotencyKey, status, attempts, httpStatus, error } as DeliveryState)
  }
  return recorded
}
