/** Erasures take turns with imports: what an import merges after one, it knows to be erased. */
import { setTimeout as sleep } from 'node:timers/promises'
import { locks } from '../db/locks.ts'
import type { OpenDatabase } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { type Connection, withTransaction } from '../db/transaction.ts'

/** A process that is cut off from the database, or frozen, must not hold up imports and pushes for longer. */
const idleMsMax = 10_000
const lookMs = 200

export interface TurnOptions {
  /** Aborted: `work` may still be done, and must throw its reason where that matters. */
  stop: AbortSignal
  /** Called each time that an import is found under way. */
  onWait?: (() => void) | undefined
}

/** Runs `work` in a transaction while no import of that kind runs. */
export async function inTurn<T>(
  opened: OpenDatabase,
  turn: 'leadsImport' | 'usersImport',
  { stop, onWait }: TurnOptions,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const tryOnce = async (connection: Connection) => {
    await connection.query(`set local idle_in_transaction_session_timeout = ${idleMsMax}`)
    const { rows } = await connection.query('select pg_try_advisory_xact_lock($1) as mine', [locks[turn]])
    return rows[0]?.mine ? { result: await work(connection) } : undefined
  }
  for (;;) {
    const done = await rideOut(opened.db, () => withTransaction(opened, tryOnce, stop))
    if (done) return done.result
    onWait?.()
    await sleep(lookMs, undefined, { signal: stop }).catch(() => {})
  }
}
