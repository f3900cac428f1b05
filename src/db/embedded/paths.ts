/**
 * The paths of an embedded server (data, socket, log, marker), derived from its home folder; makes and removes its outer
 * folders.
 */
import { createHash } from 'node:crypto'
import { chmod, lchown, lstat, mkdir, realpath, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'

export const roleName = 'leadpush'
export const databaseName = 'leadpush'
/** Only a part of the socket's file name: no TCP port is opened. */
export const port = 5432
/** The limit for a socket's path is 107 bytes on Linux, 103 on macOS. */
const socketPathBytesMax = 100

/** Absolute paths of one embedded server. */
export interface Paths {
  home: string
  data: string
  /** Private to the server's user; outside of `home` if the path would be too long. */
  socketFolder: string
  log: string
  /** While this file exists, the last process that leaves does not stop the server. */
  keepMarker: string
  url: string
}

/** `home` need not exist yet. Symbolic links in the part that exists are resolved, so each home has one set of paths. */
export async function findPaths(home: string): Promise<Paths> {
  const path = await realpath(home).catch(() => resolve(home))
  const inside = join(path, 'socket')
  const tooLong = Buffer.byteLength(join(inside, `.s.PGSQL.${port}.lock`)) > socketPathBytesMax
  // always /tmp: TMPDIR may differ between two processes that must meet at the same socket
  const name = `leadpush-${createHash('sha256').update(path).digest('hex').slice(0, 20)}`
  const socketFolder = tooLong ? join('/tmp', name) : inside
  return {
    home: path,
    data: join(path, 'data'),
    socketFolder,
    log: join(path, 'postgres.log'),
    keepMarker: join(path, 'keep-running'),
    // with the port: otherwise PGPORT in the environment would count
    url: `postgresql://${roleName}@${encodeURIComponent(socketFolder)}:${port}/${databaseName}`,
  }
}

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

async function isThere(folder: string): Promise<boolean> {
  try {
    if ((await stat(folder)).isDirectory()) return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
  throw Object.assign(new Error(`${folder} is no folder`), { code: 'ENOTDIR' })
}

/** Makes `home` so that only its owner may enter. If root makes it, others may pass through, such as the server's user. */
export async function makeHome(home: string): Promise<void> {
  try {
    const missing: string[] = []
    for (let folder = home; !(await isThere(folder)); folder = dirname(folder)) missing.unshift(folder)
    // one by one: with `recursive`, Node.js tries for ever in a folder that accepts none (/proc)
    for (const folder of missing) {
      await mkdir(folder, { mode: 0o700 }).catch((error) => {
        if (codeOf(error) !== 'EEXIST') throw error
      })
      if (process.getuid?.() === 0) await chmod(folder, 0o711)
    }
  } catch (error) {
    throw unusableHome(home, error)
  }
}

/** Removes an empty folder that outlived its data: it would be in the way if another user gets the new data. */
async function removeEmptyOfOther(folder: string, uid: number): Promise<void> {
  const found = await lstat(folder).catch(() => undefined)
  if (found && found.uid !== uid) await rmdir(folder).catch(() => {})
}

/** Makes the socket's folder, or checks that the existing one is private to the server's user; otherwise throws `usage`. */
export async function makeSocketFolder(paths: Paths, account: { uid: number; gid: number }): Promise<void> {
  if (process.getuid?.() === 0) await removeEmptyOfOther(paths.socketFolder, account.uid)
  const made = await mkdir(paths.socketFolder, { mode: 0o700 }).then(
    () => true,
    (error) => {
      if (codeOf(error) === 'EEXIST') return false
      throw unusableHome(paths.home, error)
    },
  )
  if (made && account.uid !== process.getuid?.()) await lchown(paths.socketFolder, account.uid, account.gid)
  const found = await lstat(paths.socketFolder)
  // root made the folder and was stopped before it changed the owner
  if (found.isDirectory() && found.uid === 0 && process.getuid?.() === 0 && account.uid !== 0) {
    await lchown(paths.socketFolder, account.uid, account.gid)
  } else if (!found.isDirectory() || found.uid !== account.uid || (found.mode & 0o077) !== 0) {
    throw new LeadpushError('usage', `${paths.socketFolder} is not a private folder of the server's user.`, {
      hint: 'Remove it, or set LEADPUSH_HOME to another, shorter path.',
    })
  }
}

/** Removes a socket folder outside of `home`, unless it is in use because another process starts the server again. */
export async function removeOutsideFolder(paths: Paths): Promise<void> {
  if (dirname(paths.socketFolder) !== paths.home) await rmdir(paths.socketFolder).catch(() => {})
}
