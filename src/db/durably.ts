/** What must be on disk when it is confirmed, whatever the server was told. */
import { sql } from 'kysely'

/**
 * SQL for the first part of a statement. Where the server was told to confirm commits early, this transaction is not: the ids
 * that a process goes by must never be given again; attempts must be on disk before they are made, and what came of them before
 * this process forgets that it made them, or it would take them for attempts to be made.
 */
export const durably = sql`
  select set_config('synchronous_commit',
    case when current_setting('synchronous_commit') in ('off', 'local') then 'on' else current_setting('synchronous_commit') end, true)`
