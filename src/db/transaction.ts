/**
 * A transaction on a connection of its own, for work that Kysely has no words for: COPY, temporary tables. It needs no
 * session, so it works through a PgBouncer in transaction mode. Stopping it cancels its statement.
 */

import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import { isDatabaseError, rideOut } from './away.ts'
import { streamOf } from './client.ts'
import type { Database, OpenDatabase } from './open.ts'
import { allowLongWork } from './silence.ts'
import type { Tables } from './tables.ts'

/** A connection inside a transaction. */
export type Connection = pg.PoolClient

/** Kysely on `connection`, inside its transaction. It needs no closing. */
export function kyselyOn(connection: Connection): Database {
  const client = { query: connection.query.bind(connection), release: () => {} }
  const pool = { connect: async () => client, end: async () => {} }
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: pool as never }) })
}

/** A statement that is not cancelled within so long loses its connection. */
const cancelMs = 3_000

/**
 * Runs `work` between `begin` and `commit`. When it throws, or `signal` aborts, all of it is rolled back; then this throws
 * the error, or the signal's reason. `ending`: `rollback` also where all went well, for work that is only tried.
 */
export async function withTransaction<T>(
  opened: OpenDatabase,
  work: (connection: Connection) => Promise<T>,
  signal?: AbortSignal,
  ending: 'commit' | 'rollback' = 'commit',
): Promise<T> {
  signal?.throwIfAborted()
  const connection = await opened.pool.connect()
  let broken: Error | undefined
  const onError = (error: Error) => {
    broken = error
  }
  connection.on('error', onError)
  let stop: (() => void) | undefined
  const disallow = allowLongWork(connection)
  try {
    await connection.query('begin')
    stop = await listen(opened, connection, signal)
    // a signal that came before it was listened for is heard here
    signal?.throwIfAborted()
    const result = await work(connection)
    if (ending === 'rollback') {
      signal?.throwIfAborted()
      await connection.query('rollback')
      return result
    }
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
    disallow()
    connection.off('error', onError)
    connection.release(broken)
  }
}

/** Commits. A connection that breaks meanwhile leaves the result open, so the database is asked for it. */
async function commit(opened: OpenDatabase, connection: Connection, id: string): Promise<void> {
  try {
    await connection.query('commit')
  } catch (error) {
    if (!isDatabaseError(error)) throw error
    const status = await rideOut(async () => {
      const { rows } = await opened.pool.query('select pg_xact_status($1::xid8) as status', [id])
      // it waits for a standby, and is committed a moment later
      if (rows[0]?.status === 'in progress') throw new OpenCommit()
      return rows[0]?.status
    })
    if (status !== 'committed') throw error
  }
}

/** The server has not told yet what became of a commit: to be asked again. */
class OpenCommit extends Error {
  /** SQLSTATE: transaction resolution unknown. */
  readonly code = '08007'
  constructor() {
    super('a commit whose connection broke is still under way')
  }
}

/** Cancels the transaction's statement when `signal` aborts; returns a function that ends the listening. */
async function listen(opened: OpenDatabase, connection: Connection, signal?: AbortSignal): Promise<() => void> {
  if (!signal) return () => {}
  const { rows } = await connection.query('select pg_backend_pid() as pid, now()::text as since')
  const { pid, since } = rows[0] as { pid: number; since: string }
  let timer: NodeJS.Timeout | undefined
  const cancel = () => {
    // found by its transaction too: behind a PgBouncer another client may have the process by now
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
