/**
 * Reads the figures of a report: in read-only snapshots, by statements with a time limit, and from a sample of the ledger if the whole
 * would take more than seconds.
 */
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { codeOf, LeadpushError } from '../../../base/errors.ts'
import { rideOut } from '../../../db/away.ts'
import type { Database } from '../../../db/open.ts'
import type { Tables } from '../../../db/tables.ts'

/** The limit of one statement; on a ledger of millions a statement takes seconds. */
const statementMsMax = 60_000
/** A larger ledger is sampled: 0.5 GB are read in a second or two. */
const wholeBytesMax = 512 * 1024 * 1024

export type Snapshot = Transaction<Tables>

/** Runs `read` on one state of the database. Throws `failed` if a statement takes too long. */
export async function readSnapshot<T>(db: Database, read: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  const transactions = () => db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only')
  return await rideOut(() =>
    transactions()
      .execute(async (snapshot) => {
        // compiling these statements takes longer than it saves
        await sql`
          select set_config('statement_timeout', ${String(statementMsMax)}, true), set_config('jit', 'off', true)
        `.execute(snapshot)
        return await read(snapshot)
      })
      .catch((error) => {
        if (codeOf(error) !== '57014') throw error
        throw new LeadpushError('failed', `The database took longer than ${statementMsMax / 1_000} s for one figure.`, {
          hint: 'Run it again when the database is less busy; `leadpush prune --older-than 90d` makes the ledger shorter.',
          cause: error,
        })
      }),
  )
}

/** The part of the ledger from which the figures are read. */
export interface Ledger {
  /** SQL: `deliveries d`, whole, or a sample of blocks that is the same in every statement. */
  rows: RawBuilder<unknown>
  /** The share of the ledger that `rows` has, above 0 and at most 1. */
  share: number
}

/** The whole ledger, or a sample of about `bytesMax` bytes. */
export async function findLedger(snapshot: Snapshot, bytesMax: number = wholeBytesMax): Promise<Ledger> {
  const { rows } = await sql<{ bytes: number }>`select pg_relation_size('deliveries') as bytes`.execute(snapshot)
  const share = Math.min(1, bytesMax / (rows[0]?.bytes || 1))
  if (share === 1) return { rows: sql`deliveries d`, share }
  return { rows: sql`deliveries d tablesample system (${share * 100}) repeatable (1)`, share }
}

/** When the snapshot was made, and how many subscribed users have no query. */
export async function findMoment(snapshot: Snapshot): Promise<{ madeAt: Date; withoutQueries: number }> {
  const { rows } = await sql<{ madeAt: Date; withoutQueries: number }>`
    -- those who are subscribed or have queries, without those who have queries: two ways through an index instead of a hash of all queries
    select now() as "madeAt",
      count(*) filter (where u.subscribed or exists (select from queries q where q.user_id = u.id offset 0))
        - (select count(distinct user_id) from queries) as "withoutQueries"
    from users u
  `.execute(snapshot)
  return rows[0] ?? { madeAt: new Date(), withoutQueries: 0 }
}
