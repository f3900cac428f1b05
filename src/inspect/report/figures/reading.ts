/**
 * How the figures of a report are read: one snapshot that writes nothing, statements that end by themselves, and of a ledger that
 * is too long to be read in seconds a sample.
 */
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { codeOf, LeadpushError } from '../../../base/errors.ts'
import { rideOut } from '../../../db/away.ts'
import type { Database } from '../../../db/open.ts'
import type { Tables } from '../../../db/tables.ts'

/** One statement; those of a ledger of millions take seconds. */
const statementMsMax = 60_000
/** A ledger of more is sampled: 0.5 GB are read in a second or two. */
const wholeBytesMax = 512 * 1024 * 1024

export type Snapshot = Transaction<Tables>

/** Runs `read` on one state of the database. Throws `failed` where a statement takes too long. */
export async function readSnapshot<T>(db: Database, read: (snapshot: Snapshot) => Promise<T>): Promise<T> {
  const transactions = () => db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only')
  return await rideOut(() =>
    transactions()
      .execute(async (snapshot) => {
        // compiling these takes longer than it saves
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

export interface Ledger {
  /** SQL: `deliveries` as `d`, or the same blocks of it each time. */
  rows: RawBuilder<unknown>
  /** How much of it that is, above 0 and at most 1. */
  share: number
}

export async function findLedger(snapshot: Snapshot, bytesMax: number = wholeBytesMax): Promise<Ledger> {
  const { rows } = await sql<{ bytes: number }>`select pg_relation_size('deliveries') as bytes`.execute(snapshot)
  const share = Math.min(1, bytesMax / (rows[0]?.bytes || 1))
  if (share === 1) return { rows: sql`deliveries d`, share }
  return { rows: sql`deliveries d tablesample system (${share * 100}) repeatable (1)`, share }
}

/** The moment of the snapshot, and who of the subscribed users asks for nothing. */
export async function findMoment(snapshot: Snapshot): Promise<{ madeAt: Date; withoutQueries: number }> {
  const { rows } = await sql<{ madeAt: Date; withoutQueries: number }>`
    select now() as "madeAt", count(*) as "withoutQueries" from users u
    where u.subscribed and not exists (select from queries q where q.user_id = u.id)
  `.execute(snapshot)
  return rows[0] ?? { madeAt: new Date(), withoutQueries: 0 }
}
