/**
 * The frame of every command: settings are read before any work, the database is closed in every case, the result is an exit
 * code. Commands import their modules when they run, so that `--help` and `--version` load nothing.
 */

import { LeadpushError } from '../base/errors.ts'
import { databaseSilentMsMax } from '../base/limits.ts'
import { mayNameLogFormat } from '../base/terminal.ts'
import type { Database, OpenDatabase, OpenOptions } from '../db/open.ts'
import type { SecretSettings, Vault } from '../secrets/vault.ts'
import { createLog, type Log } from './log.ts'
import { exitCodes } from './signals.ts'

/** 0, 1, 2, 3, 129, 130 or 143 (contract 3). */
export type ExitCode = number

/** Registers an action that returns an exit code; commander itself knows only success. */
export type Act = <A extends unknown[]>(
  action: (log: Log, ...args: A) => Promise<ExitCode>,
) => (...args: A) => Promise<void>

/** The diagnostics of this process. A bad `LEADPUSH_LOG_FORMAT` is reported by the command, in the default format. */
export async function openLog(): Promise<Log> {
  const isServer = process.argv[2] === 'serve'
  const fallback = isServer && !process.stderr.isTTY ? 'json' : 'pretty'
  if (!mayNameLogFormat()) return await createLog(fallback, isServer)
  const { readLogFormat } = await import('../base/config.ts')
  return await createLog(readLogFormat() ?? fallback, isServer)
}

/** Work to do before the process ends early: every database that is open or being opened must be closed. */
const inUse = new Set<() => Promise<void>>()
let isEnding = false
const endMsMax = 3_000

/** How many databases are being opened, and the log that has told of waiting for one. */
const atStart: { opening: number; log: Log | undefined } = { opening: 0, log: undefined }

/** Ends the process in the middle of a command that has nothing to finish; an embedded server does not stay behind. */
export async function endEarly(exitCode: ExitCode): Promise<void> {
  isEnding = true
  const signal = Object.entries(exitCodes).find(([, code]) => code === exitCode)?.[0]
  if (signal && atStart.opening > 0)
    atStart.log?.info(`${signal}: ended while it waited for the database; nothing was begun.`)
  const closed = Promise.allSettled([...inUse].map((close) => close()))
  await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, endMsMax))])
  process.exit(exitCode)
}

/** Has `work` done if the process ends early; returns how to take that back. */
export function onEarlyEnd(work: () => Promise<void>): () => void {
  inUse.add(work)
  return () => void inUse.delete(work)
}

/** For commands of short statements: a database that is silent for longer counts as away. */
export const inShort: OpenOptions = { silentMsMax: databaseSilentMsMax }

interface Held {
  opening: Promise<OpenDatabase>
  /** Closes the database, if it was opened. */
  release(): Promise<void>
}

/** For commands that wait for a database that is away when they start (contract 2, `LEADPUSH_DATABASE_AWAY`). */
export const waiting = (log: Log): OpenOptions => ({
  onAway(text) {
    atStart.log = log
    log.warn(text)
  },
})

/** A command that only looks makes a broken connection anew for so long, but waits for no database that is away at its start. */
const brokenMsMax = 2_000

/** Where the database is; without `databaseAwayMs` the command only looks. */
interface DatabaseSettings {
  databaseUrl: string | undefined
  home: string
  databaseAwayMs?: number
}

/** Opens the database, which is closed by `release`, or when the process ends early. */
export function holdDatabase(settings: DatabaseSettings, options: OpenOptions): Held {
  const onHang = (text: string) => void openLog().then((log) => log.warn(text))
  const limited = { awayMsMax: settings.databaseAwayMs ?? brokenMsMax, onHang, ...options }
  const opening = import('../db/open.ts').then(({ openDatabase }) => openDatabase(settings, limited))
  atStart.opening++
  let isOpening = true
  const settle = () => {
    atStart.opening--
    isOpening = false
  }
  opening.then(settle, settle)
  let closing: Promise<void> | undefined
  const close = async () => {
    // whoever ends early does not wait for a server elsewhere: the end of the process closes its connections
    if (isOpening && settings.databaseUrl !== undefined) return
    closing ??= opening.then((opened) => opened.close())
    await closing
  }
  inUse.add(close)
  const release = async () => {
    if (await opening.catch(() => undefined)) await close()
    inUse.delete(close)
  }
  return { opening, release }
}

/** Opens the database, and closes it when `work` is over. */
export async function withDatabase<T>(
  settings: DatabaseSettings,
  options: OpenOptions,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  const { asDatabaseError } = await import('../db/away.ts')
  const { opening, release } = holdDatabase(settings, options)
  try {
    const opened = await opening
    if (opened.migrated.length > 0) await resolveSearches(opened.db)
    return await work(opened)
  } catch (error) {
    // the process is ending: its errors without a database are no news
    if (isEnding) await new Promise<never>(() => {})
    throw asDatabaseError(error)
  } finally {
    await release()
  }
}

/** The vault of the database, as `openVault` has it, for a command that reads or writes secrets. */
export async function openSecrets(
  db: Database,
  settings: SecretSettings,
  options?: { begins?: boolean },
): Promise<Vault> {
  const { openVault } = await import('../secrets/vault.ts')
  return await openVault(db, settings, options)
}

/** After a migration: an older program, with other places, may have settled the meaning of queries. */
export async function resolveSearches(db: Database): Promise<void> {
  const { hasOutdated, resolveOutdated } = await import('../matching/searches.ts')
  if (!(await hasOutdated(db))) return
  const { findPlaces } = await import('../places/places.ts')
  await resolveOutdated(db, await findPlaces(db))
}

export function usageError(message: string, hint?: string): LeadpushError {
  return new LeadpushError('usage', message, hint === undefined ? {} : { hint })
}
