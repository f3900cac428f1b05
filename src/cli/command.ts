/**
 * The frame of every command: settings are read before any work, the database is closed in every case, the result is an exit
 * code. Commands import their modules when they run, so that `--help` and `--version` load nothing.
 */

import type { SettingsSource } from '../base/config.ts'
import { LeadpushError } from '../base/errors.ts'
import { databaseSilentMsMax } from '../base/limits.ts'
import type { Database, OpenDatabase, OpenOptions } from '../db/open.ts'
import type { SecretSettings, Vault } from '../secrets/vault.ts'
import type { CommandIo } from './command-io.ts'

/** 0, 1, 2, 3, 129, 130 or 143 (contract 3). */
export type ExitCode = number

/** Registers an action that returns an exit code; commander itself knows only success. */
export type Act = <A extends unknown[]>(
  action: (io: CommandIo, ...args: A) => Promise<ExitCode>,
) => (...args: A) => Promise<void>

/** The environment and the working folder, with the values of `flags`. Throws `usage` where the folder is gone. */
export function settingsSource({ env, folder }: CommandIo, flags: SettingsSource['flags'] = {}): SettingsSource {
  if (folder !== undefined) return { env, cwd: folder, flags }
  throw usageError('The working directory was removed.', 'Change to one that is there (`cd`), and run it again.')
}

/** For commands of short statements: a database that is silent for longer counts as away. */
export const inShort: OpenOptions = { silentMsMax: databaseSilentMsMax }

interface Held {
  opening: Promise<OpenDatabase>
  /** Closes the database, if it was opened. */
  release(): Promise<void>
}

/** For commands that wait for a database that is away when they start (contract 2, `LEADPUSH_DATABASE_AWAY`). */
export const waiting = ({ log, ending }: CommandIo): OpenOptions => ({
  onAway(text) {
    ending.noteWaiting(log)
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
export function holdDatabase(io: CommandIo, settings: DatabaseSettings, options: OpenOptions): Held {
  const onHang = (text: string) => io.log.warn(text)
  const limited = { awayMsMax: settings.databaseAwayMs ?? brokenMsMax, onHang, env: io.env, ...options }
  const opening = import('../db/open.ts').then(({ openDatabase }) => openDatabase(settings, limited))
  const watched = io.ending.watchOpening(opening)
  let closing: Promise<void> | undefined
  const close = async () => {
    // whoever ends early does not wait for a server elsewhere: the end of the process closes its connections
    if (!watched.isSettled && settings.databaseUrl !== undefined) return
    closing ??= opening.then((opened) => opened.close())
    await closing
  }
  const forget = io.ending.before(close)
  const release = async () => {
    if (await opening.catch(() => undefined)) await close()
    forget()
  }
  return { opening, release }
}

/** Opens the database, and closes it when `work` is over. */
export async function withDatabase<T>(
  io: CommandIo,
  settings: DatabaseSettings,
  options: OpenOptions,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  const { asDatabaseError } = await import('../db/away.ts')
  const { opening, release } = holdDatabase(io, settings, options)
  try {
    const opened = await opening
    if (opened.migrated.length > 0) await resolveSearches(opened.db)
    return await work(opened)
  } catch (error) {
    // the process is ending: its errors without a database are no news
    if (io.ending.isUnderWay) await new Promise<never>(() => {})
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
