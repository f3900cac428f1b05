/**
 * SQL with which a statement changes its own transaction: its commit is on disk when it is confirmed, or its wait for locks is limited.
 */
import { sql } from 'kysely'
import { lockWaitMsMax } from '../base/limits.ts'

/**
 * SQL for the first part of a statement: makes its transaction durable even where the server is told to confirm commits early. The ids of
 * a process must never be given twice. Attempts must be on disk before they are made, and outcomes before this process forgets them, or
 * it would make those attempts again.
 */
export const durably = sql`
  select set_config('synchronous_commit',
    case when current_setting('synchronous_commit') in ('off', 'local') then 'on' else current_setting('synchronous_commit') end, true)`

/**
 * SQL for the first part of a statement that may wait for another transaction: the statement ends before its caller gives up, so that it
 * has no effect after that.
 */
export const briefly = sql`select set_config('lock_timeout', ${String(lockWaitMsMax)}, true)`
