/**
 * A transaction on a connection of its own, for the work that Kysely has no words for: copies in and out, temporary tables.
 * Nothing in it needs a session, so it goes through a PgBouncer in transaction mode. Stopping it cancels its statement.
 */

import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import { isDatabaseError, rideOut } from './away.ts'
import { type Database, type OpenDatabase, streamOf } from './open.ts'
import type { Tables } from './tables.ts'

export type Connection = pg.PoolClient

/** Kysely on `connection`, inside its transaction. It needs no closing. */
export function kyselyOn(connection: Connection): Database {
  const client = { query: connection.query.bind(connection), release: () => {} }
  const pool = { connect: async () => client, end: async () => {} }
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: pool as never }) })
}

/** A statement that will not be cancelled is left behind after so long. */
const cancelMs = 3_000

/**
 * Runs `work` between `begin` and `commit`. When it throws, or `signal` aborts, all of it is rolled back; then this throws
 * the error, or the signal's reason.
 */
export async function withTransaction<T>(
  opened: OpenDatabase,
  work: (connection: Connection) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted()
  const connection = await opened.pool.connect()
  let broken: Error | undefined
  const onError = (error: Error) => {
    broken = error
  }
  connection.on('error', onError)
  let stop: (() => void) | undefined
  const stream = streamOf(connection)
  const silentMsMax = stream.timeout ?? 0
  try {
    await connection.query('begin')
    stop = await listen(opened, connection, signal)
    // work like this is silent for long at times
    stream.setTimeout(0)
    const result = await work(connection)
    const { rows } = await connection.query('select pg_current_xact_id()::text as id')
    signal?.throwIfAborted()
    await commit(opened, connection, rows[0].id)
    return result
  } catch (error) {
    await connection.query('rollback').catch((trouble) => {
      broken ??= trouble
    })
    signal?.throwIfAborted()
    throw broken ?? error
  } finally {
    stop?.()
    stream.setTimeout(silentMsMax)
    connection.off('error', onError)
    connection.release(broken)
  }
}

/** A connection that breaks during the commit leaves open what came of it: the database knows. */
async function commit(opened: OpenDatabase, connection: Connection, id: string): Promise<void> {
  try {
    await connection.query('commit')
  } catch (error) {
    if (!isDatabaseError(error)) throw error
    const find = () => opened.pool.query('select pg_xact_status($1::xid8) as status', [id])
    const { rows } = await rideOut(find)
    if (rows[0]?.status !== 'committed') throw error
  }
}

/** Cancels what the transaction is doing when `signal` aborts. */
async function listen(opened: OpenDatabase, connection: Connection, signal?: AbortSignal): Promise<() => void> {
  if (!signal) return () => {}
  const { rows } = await connection.query('select pg_backend_pid() as pid, now()::text as since')
  const { pid, since } = rows[0] as { pid: number; since: string }
  let timer: NodeJS.Timeout | undefined
  const cancel = () => {
    // by the transaction, not by the process alone: behind a PgBouncer another client may have it by now
    const statement =
      'select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and xact_start = $2::timestamptz'
    opened.pool.query(statement, [pid, since]).catch(() => {})
    timer = setTimeout(() => streamOf(connection).destroy(), cancelMs)
  }
  signal.addEventListener('abort', cancel, { once: true })
  return () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}
