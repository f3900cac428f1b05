/**
 * SQL with which a statement changes its own transaction: that its commit is on disk when it is confirmed, or how long it
 * waits for locks.
 */
import { sql } from 'kysely'
import { lockWaitMsMax } from '../base/limits.ts'

/**
 * SQL for the first part of a statement: makes its transaction durable even where the server is told to confirm commits
 * early. Ids by which a process is known must never be given twice. Attempts must be on disk before they are made, and
 * outcomes before this process forgets them, or it would make those attempts again.
 */
export const durably = sql`
  select set_config('synchronous_commit',
    case when current_setting('synchronous_commit') in ('off', 'local') then 'on' else current_setting('synchronous_commit') end, true)`

/**
 * SQL for the first part of a statement that may wait for another transaction: the statement ends before its caller gives up,
 * so that nothing is carried out for which nobody waits any more.
 */
export const briefly = sql`select set_config('lock_timeout', ${String(lockWaitMsMax)}, true)`
