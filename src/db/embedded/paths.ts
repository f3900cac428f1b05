/** The paths of an embedded server (data, socket, log, marker), derived from its home folder. */
import { realpath, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'

export const roleName = 'leadpush'
export const databaseName = 'leadpush'
/** Only a part of the socket's file name: no TCP port is opened. */
export const port = 5432

/** Absolute paths of one embedded server. */
export interface Paths {
  home: string
  data: string
  /** Private to the server's user. */
  socketFolder: string
  log: string
  /** While this file exists, the last process that leaves does not stop the server. */
  keepMarker: string
  url: string
}

/** `home` need not exist yet. Symbolic links in the part that exists are resolved, so each home has one set of paths. */
export async function findPaths(home: string): Promise<Paths> {
  const path = await realpath(home).catch(() => resolve(home))
  const socketFolder = join(path, 'socket')
  return {
    home: path,
    data: join(path, 'data'),
    socketFolder,
    log: join(path, 'postgres.log'),
    keepMarker: join(path, 'keep-running'),
    url: urlOf(socketFolder),
  }
}

/** How to connect to a server whose socket is in `folder`. With the port: otherwise PGPORT in the environment would count. */
export const urlOf = (folder: string): string =>
  `postgresql://${roleName}@${encodeURIComponent(folder)}:${port}/${databaseName}`

/** Whether a complete data folder exists. Throws `usage` if the home cannot be read. */
export async function hasData(paths: Paths): Promise<boolean> {
  try {
    await stat(join(paths.data, 'PG_VERSION'))
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false
    throw unusableHome(paths.home, error)
  }
}

/** The `usage` error for a home that cannot be read or written. */
export function unusableHome(home: string, error: unknown): LeadpushError {
  return new LeadpushError('usage', `The embedded database cannot be kept in ${home}: ${messageOf(error)}`, {
    hint: 'Set LEADPUSH_HOME to a folder of your own, or DATABASE_URL to a PostgreSQL server.',
    cause: error,
  })
}
