/** The database of a command: opened by its settings, and always closed, even when the process ends early. */
import { databaseSilentMsMax } from '../base/limits.ts'
import { type Database, type OpenDatabase, type OpenOptions, openDatabase } from '../db/open.ts'
import { hasOutdated, resolveOutdated } from '../matching/searches.ts'
import { findPlaces } from '../places/places.ts'
import type { CommandIo } from './command-io.ts'
import type { DatabaseUse } from './describe.ts'

/** For commands of short statements: a database that is silent for longer counts as away. */
const inShort: OpenOptions = { silentMsMax: databaseSilentMsMax }

interface HoldOptions extends Omit<OpenOptions, 'onAway'> {
  /** The command waits for a database that is away when it starts (contract 2, `LEADPUSH_DATABASE_AWAY`). */
  waits?: true
}

/**
 * A look has some twenty statements, and each new connection reads the catalog anew: over eight, `status` took the server five times the
 * work, and longer.
 */
const lookConnectionsMax = 2

export const optionsOf: Record<DatabaseUse, HoldOptions> = {
  reads: { ...inShort, connectionsMax: lookConnectionsMax },
  'reads long': { connectionsMax: lookConnectionsMax },
  changes: { ...inShort, writes: true },
  works: { waits: true },
  sends: { ...inShort, waits: true },
}

interface Held {
  opening: Promise<OpenDatabase>
  /** Closes the database, if it was opened. */
  release(): Promise<void>
}

/** How long a command that only looks tries to replace a broken connection. It does not wait for a database that is away at its start. */
const brokenMsMax = 2_000

/** Where the database is; without `databaseAwayMs` the command only looks. */
export interface DatabaseSettings {
  databaseUrl: string | undefined
  home: string
  databaseAwayMs?: number
}

/** Opens the database, which is closed by `release`, or when the process ends early. */
export function holdDatabase(io: CommandIo, settings: DatabaseSettings, { waits, ...options }: HoldOptions): Held {
  let state: 'opening' | 'waiting' | 'settled' = 'opening'
  const warn = (text: string) => io.log.warn(text)
  const onAway = (text: string) => {
    if (state === 'opening') state = 'waiting'
    warn(text)
  }
  const limited = { awayMsMax: settings.databaseAwayMs ?? brokenMsMax, onHang: warn, env: io.env, ...options }
  const opening = openDatabase(settings, waits ? { ...limited, onAway } : limited)
  const settle = () => {
    state = 'settled'
  }
  opening.then(settle, settle)
  let closing: Promise<void> | undefined
  const close = async () => {
    closing ??= opening.then((opened) => opened.close())
    await closing
  }
  const forget = io.ending.before(async (signal) => {
    if (signal && state === 'waiting')
      io.log.info(`${signal}: ended while it waited for the database; nothing was begun.`)
    // it does not wait for an external server: the end of the process closes the connections
    if (state === 'settled' || settings.databaseUrl === undefined) await close()
  })
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
  options: HoldOptions,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  const { opening, release } = holdDatabase(io, settings, options)
  let opened: OpenDatabase | undefined
  try {
    opened = await opening
    if (opened.migrated.length > 0) await resolveSearches(opened.db)
    return await work(opened)
  } catch (error) {
    // the process is ending: errors because of the closed database are not reported
    if (io.ending.isUnderWay) await new Promise<never>(() => {})
    throw opened?.patience.asTold(error) ?? error
  } finally {
    await release()
  }
}

/** After a migration: an older program, with other places, may have resolved the queries. */
export async function resolveSearches(db: Database): Promise<void> {
  if (await hasOutdated(db)) await resolveOutdated(db, await findPlaces(db))
}
