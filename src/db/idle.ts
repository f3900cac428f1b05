/** A transaction of a process that is cut off must not hold its locks until the network notices. */
import { sql } from 'kysely'
import type { Database } from './open.ts'

const idleMsMax = 5_000

/** The server ends the transaction `db` if it hears nothing of it for 5 s. */
export async function endIdleTransaction(db: Database): Promise<void> {
  await sql`select set_config('idle_in_transaction_session_timeout', ${String(idleMsMax)}, true)`.execute(db)
}
