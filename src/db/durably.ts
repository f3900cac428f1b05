/** What a statement sets for its own transaction: what is on disk when it is confirmed, and how long it waits for locks. */
import { sql } from 'kysely'
import { lockWaitMsMax } from '../base/limits.ts'

/**
 * SQL for the first part of a statement. Where the server was told to confirm commits early, this transaction is not: the ids
 * that a process goes by must never be given again; attempts must be on disk before they are made, and what came of them before
 * this process forgets that it made them, or it would take them for attempts to be made.
 */
export const durably = sql`
  select set_config('synchronous_commit',
    case when current_setting('synchronous_commit') in ('off', 'local') then 'on' else current_setting('synchronous_commit') end, true)`

/**
 * SQL for the first part of a statement that may wait for another transaction: it ends by itself before whoever asked gives up, so
 * that nothing is carried out that nobody waits for any more.
 */
export const briefly = sql`select set_config('lock_timeout', ${String(lockWaitMsMax)}, true)`
