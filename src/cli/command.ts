/**
 * What every command has in common: its settings are read before any work, its database is closed whatever happens, its
 * result is an exit code. Each command loads what it needs when it runs, so that `--help` and `--version` load nothing.
 */
import type { Database, OpenDatabase, OpenOptions } from '../db/open.ts'
import { LeadpushError } from '../errors.ts'
import { mayNameLogFormat } from '../terminal.ts'
import { createLog, type Log } from './log.ts'

/** 0, 1, 2, 3, 130 or 143 (contract 3). */
export type ExitCode = number

/** The diagnostics of this process. A bad `LEADPUSH_LOG_FORMAT` is reported by the command, in the default format. */
export async function openLog(fallback: 'pretty' | 'json' = 'pretty'): Promise<Log> {
  if (!mayNameLogFormat()) return await createLog(fallback)
  const { processSource, readLogFormat } = await import('../config.ts')
  return await createLog(readLogFormat(processSource()) ?? fallback)
}

/** Opens the database, and closes it when `work` is over. */
export async function withDatabase<T>(
  settings: { databaseUrl: string | undefined; home: string },
  options: OpenOptions,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  const { openDatabase } = await import('../db/open.ts')
  const { asDatabaseError } = await import('../db/away.ts')
  const opened = await openDatabase(settings, options)
  try {
    if (opened.migrated.length > 0) await resolveSearches(opened.db)
    return await work(opened)
  } catch (error) {
    throw asDatabaseError(error)
  } finally {
    await opened.close()
  }
}

/** After a migration: what users' queries mean may have been settled by an older program, with other places. */
export async function resolveSearches(db: Database): Promise<void> {
  const { hasOutdated, resolveOutdated } = await import('../matching/searches.ts')
  if (!(await hasOutdated(db))) return
  const { findPlaces } = await import('../places/places.ts')
  await resolveOutdated(db, await findPlaces(db))
}

export function usageError(message: string, hint?: string): LeadpushError {
  return new LeadpushError('usage', message, hint === undefined ? {} : { hint })
}
