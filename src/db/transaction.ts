/**
 * A transaction on a connection of its own, for work that Kysely does not support: COPY, temporary tables. It needs no session, so it
 * works through a PgBouncer in transaction mode. Stopping it cancels its statement.
 */

import { Kysely } from 'kysely'
import type pg from 'pg'
import { DatabaseTrouble, isDatabaseError } from './away.ts'
import { cancelOn } from './client.ts'
import { Dialect, isolationLevel } from './dialect.ts'
import type { Database, OpenDatabase } from './open.ts'
import { allowLongWork } from './silence.ts'
import type { Tables } from './tables.ts'

/** A connection inside a transaction. */
export type Connection = pg.PoolClient

/** Kysely on `connection`, inside its transaction. It needs no closing. */
export function kyselyOn(connection: Connection): Database {
  const client = { query: connection.query.bind(connection), release: () => {} }
  const pool = { connect: async () => client, end: async () => {} }
  return new Kysely<Tables>({ dialect: new Dialect({ pool: pool as never }) })
}

/**
 * Runs `work` between `begin` and `commit`. If it throws, or `signal` aborts, everything is rolled back, and this throws the error, or
 * the signal's reason. `ending`: `rollback` even after success, for a dry run.
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
  const disallow = allowLongWork(connection)
  const stopListening = signal && cancelOn(connection, signal)
  try {
    await connection.query(`begin isolation level ${isolationLevel}`)
    signal?.throwIfAborted()
    const result = await work(connection)
    if (ending === 'rollback') {
      signal?.throwIfAborted()
      await connection.query('rollback')
      return result
    }
    const { rows } = await connection.query('select pg_current_xact_id()::text as id')
    signal?.throwIfAborted()
    // a commit may wait for a standby: cancelled, it would count as committed though no standby has it
    stopListening?.()
    await commit(opened, connection, rows[0].id)
    return result
  } catch (error) {
    await connection.query('rollback').catch((trouble) => {
      broken ??= trouble
    })
    signal?.throwIfAborted()
    throw broken ?? error
  } finally {
    stopListening?.()
    disallow()
    connection.off('error', onError)
    // a cancel request that is still on its way must not hit another statement
    connection.release(signal?.aborted ? true : broken)
  }
}

/** Commits. If the connection breaks meanwhile, the result is open, so the database is asked for it. */
async function commit(opened: OpenDatabase, connection: Connection, id: string): Promise<void> {
  try {
    await connection.query('commit')
  } catch (error) {
    if (!isDatabaseError(error)) throw error
    const status = await opened.patience.rideOut(async () => {
      const { rows } = await opened.pool.query('select pg_xact_status($1::xid8) as status', [id])
      // it waits for a standby, and is committed a moment later
      if (rows[0]?.status === 'in progress') throw new OpenCommit()
      return rows[0]?.status
    })
    if (status !== 'committed') throw error
  }
}

/** The server does not know the result of a commit yet: ask again. */
class OpenCommit extends DatabaseTrouble {
  /** SQLSTATE: transaction resolution unknown. */
  readonly code = '08007'
  constructor() {
    super('a commit whose connection broke is still under way')
  }
}
