/** Where everything of an embedded server is: data, socket, log, marker. Paths alone, worked out from its home folder. */
import { createHash } from 'node:crypto'
import { chmod, lchown, lstat, mkdir, realpath, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'

export const roleName = 'leadpush'
export const databaseName = 'leadpush'
/** Part of the socket's file name; no TCP port is opened. */
export const port = 5432
/** Linux takes 107 bytes for the path of a socket, macOS 103. */
const socketPathBytesMax = 100

export interface Place {
  home: string
  data: string
  /** Private to the server's user; outside of `home` where the path would be too long for a socket. */
  socketFolder: string
  log: string
  /** While this file is there, the last process to leave does not stop the server. */
  keepMarker: string
  url: string
}

/** `home` need not be there yet; symbolic links in what is there of it are resolved, so that each home has one place. */
export async function findPlace(home: string): Promise<Place> {
  const path = await realpath(home).catch(() => resolve(home))
  const inside = join(path, 'socket')
  const tooLong = Buffer.byteLength(join(inside, `.s.PGSQL.${port}.lock`)) > socketPathBytesMax
  // always /tmp: what TMPDIR says may differ between two processes that must meet at the same socket
  const name = `leadpush-${createHash('sha256').update(path).digest('hex').slice(0, 20)}`
  const socketFolder = tooLong ? join('/tmp', name) : inside
  return {
    home: path,
    data: join(path, 'data'),
    socketFolder,
    log: join(path, 'postgres.log'),
    keepMarker: join(path, 'keep-running'),
    // the port too, or PGPORT in the environment would count
    url: `postgresql://${roleName}@${encodeURIComponent(socketFolder)}:${port}/${databaseName}`,
  }
}

export async function hasData(place: Place): Promise<boolean> {
  try {
    await stat(join(place.data, 'PG_VERSION'))
    return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false
    throw unusableHome(place.home, error)
  }
}

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

/** Makes the folder, entered only by its owner; where root makes it, the server's user may pass through. */
export async function makeHome(home: string): Promise<void> {
  try {
    const missing: string[] = []
    for (let folder = home; !(await isThere(folder)); folder = dirname(folder)) missing.unshift(folder)
    // one by one: where a folder takes no other (/proc), Node.js tries for ever to make them at once
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

/** Makes the socket's folder, or checks that the one that is there is nobody else's. */
export async function makeSocketFolder(place: Place, account: { uid: number; gid: number }): Promise<void> {
  const made = await mkdir(place.socketFolder, { mode: 0o700 }).then(
    () => true,
    (error) => {
      if (codeOf(error) === 'EEXIST') return false
      throw unusableHome(place.home, error)
    },
  )
  if (made && account.uid !== process.getuid?.()) await lchown(place.socketFolder, account.uid, account.gid)
  const found = await lstat(place.socketFolder)
  // root made it and was stopped before it gave it away
  if (found.isDirectory() && found.uid === 0 && process.getuid?.() === 0 && account.uid !== 0) {
    await lchown(place.socketFolder, account.uid, account.gid)
  } else if (!found.isDirectory() || found.uid !== account.uid || (found.mode & 0o077) !== 0) {
    throw new LeadpushError('usage', `${place.socketFolder} is not a private folder of the server's user.`, {
      hint: 'Remove it, or set LEADPUSH_HOME to another, shorter path.',
    })
  }
}

/** Leaves nothing outside of `home`; not where another process has begun to start a server again. */
export async function removeOutsideFolder(place: Place): Promise<void> {
  if (dirname(place.socketFolder) !== place.home) await rmdir(place.socketFolder).catch(() => {})
}
