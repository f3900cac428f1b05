/** `status --user`: the deliveries of one user with the outcome of each attempt, the newest first, a page at a time. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { type LedgerDelivery, ledgerColumns } from '../../deliveries/ledger.ts'

/** One attempt, as `attemptLog` has it. */
export interface AttemptReport {
  at: Date
  /** Null while it is under way, and if nobody recorded its end. */
  durationMs: number | null
  /** The status of a complete answer. */
  httpStatus: number | null
  error: string | null
  /** The receiver's words when it refused; null if there are none, or they are not kept. */
  answer: string | null
}

/** A delivery of the ledger with its attempts. */
export interface UserDelivery extends LedgerDelivery {
  createdAt: Date
  /** The versions in its body: `decodeRecipe` reads them. */
  recipe: Buffer
  attemptLog: AttemptReport[]
}

interface Row extends Omit<UserDelivery, 'attemptLog'> {
  /** `createdAt` to the microsecond, which a Date cannot hold. */
  cursor: string
  first_at: Date | null
  first_ms: number | null
  first_status: number | null
  first_error: string | null
  second_at: Date | null
  second_ms: number | null
  second_status: number | null
  second_error: string | null
  first_answer: string | null
  second_answer: string | null
}

const deliveriesPerPage = 200

function toUserDelivery(row: Row): UserDelivery {
  const { cursor: _, first_at, first_ms, first_status, first_error, ...rest } = row
  const { second_at, second_ms, second_status, second_error, first_answer, second_answer, ...delivery } = rest
  const attempts = [
    { at: first_at, durationMs: first_ms, httpStatus: first_status, error: first_error, answer: first_answer },
    { at: second_at, durationMs: second_ms, httpStatus: second_status, error: second_error, answer: second_answer },
  ]
  const made = attempts.flatMap(({ at, ...attempt }) => (at === null ? [] : [{ at, ...attempt }]))
  return { ...delivery, attemptLog: made }
}

const answerTo = (attempt: 1 | 2, keepAnswers: 'on' | 'off') =>
  keepAnswers === 'off'
    ? sql`null`
    : sql`(select a.answer from answers a where a.idempotency_key = d.idempotency_key and a.attempt = ${sql.lit(attempt)})`

const columns = (keepAnswers: 'on' | 'off') => sql`
  ${ledgerColumns}, u.email, d.created_at as "createdAt", d.created_at::text as cursor,
  d.recipe, d.first_at, d.first_ms, d.first_status, d.first_error, d.second_at, d.second_ms, d.second_status, d.second_error,
  ${answerTo(1, keepAnswers)} as first_answer, ${answerTo(2, keepAnswers)} as second_answer`

/** One delivery by its key, even that of a removed user. */
export async function findDelivery(
  db: Database,
  idempotencyKey: string,
  keepAnswers: 'on' | 'off',
): Promise<(UserDelivery & { queryList: string }) | undefined> {
  const { rows } = await sql<Row & { queryList: string }>`
      select ${columns(keepAnswers)}, d.query_list as "queryList"
      from deliveries d left join users u on u.id = d.user_id where d.idempotency_key = ${idempotencyKey}
    `.execute(db)
  const [row] = rows
  return row && { ...toUserDelivery(row), queryList: row.queryList }
}

/** All deliveries of the user, the newest first; the parts of one push in their order. */
export async function* findUserDeliveries(
  db: Database,
  userId: number,
  keepAnswers: 'on' | 'off' = 'off',
): AsyncGenerator<UserDelivery> {
  let last: Row | undefined
  for (;;) {
    const before: Row | undefined = last
    const behind =
      before === undefined
        ? sql`true`
        : sql`d.created_at <= ${before.cursor}::timestamptz and (d.created_at < ${before.cursor}::timestamptz
            or (d.part, d.idempotency_key) > (${before.part}, ${before.idempotencyKey}))`
    const { rows } = await sql<Row>`
        select ${columns(keepAnswers)}
        from deliveries d join users u on u.id = d.user_id
        where d.user_id = ${userId} and ${behind}
        order by d.created_at desc, d.part, d.idempotency_key limit ${deliveriesPerPage}
      `.execute(db)
    for (const row of rows) yield toUserDelivery(row)
    last = rows.at(-1)
    if (rows.length < deliveriesPerPage) return
  }
}
