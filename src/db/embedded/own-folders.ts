/**
 * The outer folders of an embedded server, which are this account's alone: made so, and looked at before each connection. Whoever made one
 * of them, or may enter it, could have a server of their own there, which would get receiver keys and contacts.
 */
import { closeSync, constants, existsSync, fstatSync, lstatSync, openSync, readdirSync, type Stats } from 'node:fs'
import { chmod, lchown, mkdir, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { codeOf, LeadpushError } from '../../base/errors.ts'
import { findPaths, type Paths, port, unusableHome } from './paths.ts'

const ownUid = () => process.getuid?.()

/** What others may do in a home: nothing, but pass through root's to the folders of the server's user. */
const openBits = () => (ownUid() === 0 ? 0o066 : 0o077)

function refusal(folder: string, why: string, hint: string): LeadpushError {
  return new LeadpushError('database', `${folder} is not used for the embedded database: it ${why}.`, { hint })
}

/** The `database` error for a folder of another user. */
export const anothersFolder = (folder: string): LeadpushError =>
  refusal(
    folder,
    'belongs to another user',
    'Run the command as that user, or set LEADPUSH_HOME to a folder of your own.',
  )

const openFolder = (folder: string, mode: string): LeadpushError =>
  refusal(
    folder,
    'is open to other users',
    `If nobody else wrote there, close it (chmod ${mode}); else set LEADPUSH_HOME to a new folder.`,
  )

function look(folder: string): Stats | undefined {
  try {
    return lstatSync(folder)
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined
    throw codeOf(error) === 'EACCES' ? anothersFolder(folder) : error
  }
}

/** Throws `database` unless the home that was looked at is this account's alone. An empty one may be readable: `makeHome` closes it. */
function checkHome(home: string, found: Stats | undefined): void {
  if (found?.isSymbolicLink()) throw refusal(home, 'is a link', 'Set LEADPUSH_HOME to the folder that it leads to.')
  // those who read or make it say what is wrong with a file
  if (!found?.isDirectory()) return
  if (ownUid() !== undefined && found.uid !== ownUid()) throw anothersFolder(home)
  const isOpen = (found.mode & 0o022) !== 0 || ((found.mode & openBits()) !== 0 && readdirSync(home).length > 0)
  if (isOpen) throw openFolder(home, ownUid() === 0 ? '711' : '700')
}

function checkPrivate(folder: string, found: Stats, uid: number): void {
  if (!found.isDirectory()) throw refusal(folder, 'is no folder', 'Remove it, or set LEADPUSH_HOME to another folder.')
  if (found.uid !== uid) throw anothersFolder(folder)
  if ((found.mode & 0o077) !== 0) throw openFolder(folder, '700')
}

/**
 * The folders of the data and of the socket, if both are there. Throws `database` if one of them, or the home, is a link, belongs to another
 * user, or is open to others.
 */
function checkFolders(paths: Paths): { data: Stats; socket: Stats } | undefined {
  checkHome(paths.home, look(paths.home))
  const [data, socket] = [look(paths.data), look(paths.socketFolder)]
  // in root's home only root can have given a folder to another user
  if (data) checkPrivate(paths.data, data, ownUid() || data.uid)
  if (socket) checkPrivate(paths.socketFolder, socket, ownUid() || socket.uid)
  return data && socket && { data, socket }
}

/** The paths of `home`, which need not exist. Throws `database` if a folder there is not this account's alone. */
export async function findOwnPaths(home: string): Promise<Paths> {
  const given = resolve(home)
  checkHome(given, look(given))
  const paths = await findPaths(home)
  checkFolders(paths)
  return paths
}

/** Folders of sockets that this process holds open, by their paths: as many as it has homes. */
const held = new Map<string, number>()

/** Opens `folder`, or gives the one that is held, if it is still the same. */
function hold(folder: string, found: Stats): number {
  const known = held.get(folder)
  if (known !== undefined) {
    const { dev, ino } = fstatSync(known)
    if (dev === found.dev && ino === found.ino) return known
    closeSync(known)
  }
  const opened = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  held.set(folder, opened)
  return opened
}

/** The limit for a socket's path is 107 bytes on Linux, 103 on macOS. */
const socketPathBytesMax = 103

/** Whether other programs can connect to the socket by its path. */
export const isReachable = (paths: Paths): boolean => spareBytes(paths) >= 0

const spareBytes = ({ socketFolder }: Paths) =>
  socketPathBytesMax - Buffer.byteLength(join(socketFolder, `.s.PGSQL.${port}`))

/** The `usage` error for a home whose path is too long for a socket. */
export function tooLong(paths: Paths): LeadpushError {
  const most = Buffer.byteLength(paths.home) + spareBytes(paths)
  return new LeadpushError('usage', `${paths.home} is too long for the path of a socket.`, {
    hint: `Set LEADPUSH_HOME to a path of at most ${most} bytes.`,
  })
}

/**
 * The folder in which to connect to the server of `paths`, once each is looked at: as long as this process lives, the name leads to the
 * folder that was found, and it is short. Undefined if there is no server to connect to. Throws `database` if a folder is not this account's alone,
 * `usage` if the home's path is too long on a system without /proc.
 */
export function findSocketFolder(paths: Paths): string | undefined {
  const found = checkFolders(paths)
  // data that root put there may be of another user than those before them: the server's start mends that
  if (!found || found.socket.uid !== found.data.uid) return undefined
  const opened = hold(paths.socketFolder, found.socket)
  checkPrivate(paths.socketFolder, fstatSync(opened), found.data.uid)
  const name = join('/proc', String(process.pid), 'fd', String(opened))
  if (existsSync(name)) return name
  if (!isReachable(paths)) throw tooLong(paths)
  return paths.socketFolder
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

/**
 * Makes `home` so that only its owner may enter, or closes an empty one. Of root's others may pass through, such as the server's user.
 * Throws `database` if it is not this account's alone, `usage` if it cannot be made.
 */
export async function makeHome(home: string): Promise<void> {
  const mode = ownUid() === 0 ? 0o711 : 0o700
  try {
    const missing: string[] = []
    for (let folder = home; !(await isThere(folder)); folder = dirname(folder)) missing.unshift(folder)
    // one by one: with `recursive`, Node.js tries for ever in a folder that accepts none (/proc)
    for (const folder of missing) {
      await mkdir(folder, { mode: 0o700 }).catch((error) => {
        if (codeOf(error) !== 'EEXIST') throw error
      })
      if (mode === 0o711) await chmod(folder, mode)
    }
    const found = look(home)
    checkHome(home, found)
    if (found && (found.mode & openBits()) !== 0) await chmod(home, mode)
  } catch (error) {
    throw error instanceof LeadpushError ? error : unusableHome(home, error)
  }
}

/** Removes an empty folder that outlived its data: it would be in the way if another user gets the new data. */
async function removeEmptyOfOther(folder: string, uid: number): Promise<void> {
  const found = look(folder)
  if (found && found.uid !== uid) await rmdir(folder).catch(() => {})
}

/** Makes the socket's folder, or checks that the existing one is private to the server's user; otherwise throws `database`. */
export async function makeSocketFolder(paths: Paths, account: { uid: number; gid: number }): Promise<void> {
  const { socketFolder } = paths
  if (ownUid() === 0) await removeEmptyOfOther(socketFolder, account.uid)
  await mkdir(socketFolder, { mode: 0o700 }).catch((error) => {
    if (codeOf(error) !== 'EEXIST') throw unusableHome(paths.home, error)
  })
  const found = look(socketFolder)
  // root made the folder, now or in a process that was stopped then; nobody else may need the right to give folders away
  const isRoots = ownUid() === 0 && found?.isDirectory() && found.uid === 0 && account.uid !== 0
  if (isRoots) await lchown(socketFolder, account.uid, account.gid)
  const now = look(socketFolder)
  if (now) checkPrivate(socketFolder, now, account.uid)
}
