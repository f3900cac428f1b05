/** `deliveries list`: deliveries that fit conditions, the newest first. PostgreSQL sorts, and pages of a cursor bound the memory. */
import { type RawBuilder, sql } from 'kysely'
import type { OpenDatabase } from '../../db/open.ts'
import { kyselyOn, withTransaction } from '../../db/transaction.ts'
import { type LedgerDelivery, ledgerColumns } from '../../deliveries/ledger.ts'
import { isTheLastWord } from '../../push/database/users-to-serve.ts'
import { causeOf } from '../status/causes.ts'

type LedgerStatus = LedgerDelivery['status']

/** A missing condition does not narrow the list; a delivery needs one of several statuses or kinds. */
export interface DeliveryFilter {
  period?: string | undefined
  statuses?: readonly LedgerStatus[] | undefined
  kinds?: readonly LedgerDelivery['kind'][] | undefined
  userId?: number | undefined
  /** The greatest age of the last attempt. */
  sinceMs?: number | undefined
  /** The last attempt took longer. */
  slowerThanMs?: number | undefined
  doubtful?: boolean | undefined
  limit?: number | undefined
}

export interface ListedDelivery extends LedgerDelivery {
  /** When the first and the last attempt began; null: there was no attempt. */
  firstAt: Date | null
  lastAt: Date | null
  /** Of the last attempt; null also if nobody recorded it. */
  durationMs: number | null
  /** The cause, as `status` groups it; null if nothing went wrong so far. */
  cause: string | null
  /** Delivered with an answer that showed nothing, and nothing since has made it good (contract 4.5). */
  doubtful: boolean
}

const rowsPerFetch = 1_000
const allStatuses: readonly LedgerStatus[] = ['delivered', 'failed', 'unknown', 'pending']

/** Ended and waiting deliveries each have an index, so they are read one after the other. */
function hasState({ period, statuses = allStatuses }: DeliveryFilter): RawBuilder<boolean> {
  const inPeriod = period === undefined ? sql`` : sql`and d.period = ${sql.lit(period)}`
  const ended = statuses.filter((status) => status !== 'pending')
  const states = [
    ...(ended.length > 0 ? [sql`d.status in (${sql.join(ended.map((status) => sql.lit(status)))})`] : []),
    ...(statuses.includes('pending') ? [sql`d.status = 'pending'`] : []),
  ]
  return sql`(${sql.join(
    states.map((state) => sql`(${state} ${inPeriod})`),
    sql` or `,
  )})`
}

const isDoubtful = sql<boolean>`(d.doubtful and ${isTheLastWord})`

function conditionOf(filter: DeliveryFilter): RawBuilder<boolean> {
  const { period, statuses, kinds, userId, sinceMs, slowerThanMs, doubtful } = filter
  const conditions = [sql`true`]
  if (period !== undefined || statuses !== undefined) conditions.push(hasState(filter))
  if (kinds !== undefined) conditions.push(sql`d.kind in (${sql.join(kinds.map((kind) => sql.lit(kind)))})`)
  if (userId !== undefined) conditions.push(sql`d.user_id = ${sql.lit(userId)}`)
  if (sinceMs !== undefined) {
    const since = sql`now() - ${sql.lit(sinceMs)}::double precision * interval '1 millisecond'`
    conditions.push(sql`last.at >= ${since}`)
  }
  if (slowerThanMs !== undefined) conditions.push(sql`last.ms > ${sql.lit(slowerThanMs)}`)
  if (doubtful) conditions.push(isDoubtful)
  return sql`${sql.join(conditions, sql` and `)}`
}

/** Hands the deliveries to `onPage`, the newest first, the parts of a push in their order. */
export async function listDeliveries(
  opened: OpenDatabase,
  filter: DeliveryFilter,
  onPage: (page: ListedDelivery[]) => Promise<void>,
): Promise<void> {
  const list = async (db: ReturnType<typeof kyselyOn>) => {
    // DECLARE takes no parameters
    await sql`
      declare listed no scroll cursor for
      select ${ledgerColumns}, u.email, d.first_at as "firstAt", last.at as "lastAt", last.ms as "durationMs", ${isDoubtful} as doubtful
      from deliveries d cross join last_attempt_of(d) last left join users u on u.id = d.user_id
      where ${conditionOf(filter)}
      order by d.created_at desc, d.part, d.idempotency_key ${filter.limit === undefined ? sql`` : sql`limit ${sql.lit(filter.limit)}`}
    `.execute(db)
    for (;;) {
      const { rows } = await sql<Omit<ListedDelivery, 'cause'>>`fetch ${sql.lit(rowsPerFetch)} from listed`.execute(db)
      if (rows.length > 0) await onPage(rows.map((row) => ({ ...row, cause: findCause(row) })))
      if (rows.length < rowsPerFetch) return
    }
  }
  // rolled back: a standby has no transaction to commit
  await withTransaction(opened, (connection) => list(kyselyOn(connection)), undefined, 'rollback')
}

const findCause = ({ status, httpStatus, error }: LedgerDelivery): string | null =>
  status === 'delivered' || (status === 'pending' && error === null) ? null : causeOf({ httpStatus, error }).what
