/**
 * The server process of an embedded database: finding it, starting it apart from this process, stopping it, and cleaning up after a
 * killed one.
 */

import type { ChildProcess } from 'node:child_process'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { link, open, readdir, readFile, readlink, rename, rm, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { codeOf } from '../../base/errors.ts'
import { type Account, spawnAs } from './account.ts'
import type { Binaries } from './binaries.ts'
import { type Paths, port, unusableHome } from './paths.ts'

const logBytesMax = 1_000_000
const stopMsMax = 60_000
/** A server that was killed while it made its pid file leaves an empty one; a living server fills it at once. */
const emptyPidFileMsMax = 2_000

const ownerOf = (path: string) =>
  stat(path).then(
    ({ uid }) => uid,
    () => undefined,
  )

/** Whether process `pid` is a living PostgreSQL on these data, rather than a later process with the same id. */
async function isServerProcess(pid: number, data: string): Promise<boolean> {
  if (process.platform !== 'linux') {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'uid=,state=,comm=', '-p', String(pid)]).catch(() => ({
      stdout: '',
    }))
    const [, uid, state = ''] = /^\s*(\d+)\s+(\S+)\s.*postgres/.exec(stdout) ?? []
    return uid !== undefined && !state.startsWith('Z') && Number(uid) === (await ownerOf(data))
  }
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const [, name, state = ''] = /^\d+ \((.*)\) (\w)/s.exec(status) ?? []
  if (name !== 'postgres' || /[ZX]/.test(state)) return false
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => undefined)
  // root may not see it in a container; but nobody else's server is on these data
  return folder === undefined ? (await ownerOf(`/proc/${pid}`)) === (await ownerOf(data)) : folder === data
}

async function readPid(path: string): Promise<number | 'empty' | undefined> {
  const text = await readFile(path, 'utf8').catch((error) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  })
  return text === undefined ? undefined : Number.parseInt(text, 10) || 'empty'
}

const pidFile = (paths: Paths) => join(paths.data, 'postmaster.pid')

/** The id of the server's process, also while the server starts or stops; undefined for none. */
export async function findServer(paths: Paths): Promise<number | undefined> {
  const pid = await readPid(pidFile(paths))
  return typeof pid === 'number' && (await isServerProcess(pid, paths.data)) ? pid : undefined
}

async function isStale(path: string, data: string): Promise<boolean> {
  const pid = await readPid(path)
  if (pid === undefined) return false
  if (pid !== 'empty') return !(await isServerProcess(pid, data))
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs > emptyPidFileMsMax
}

/**
 * Removes stale pid files. PostgreSQL does so itself, unless the id is missing or belongs to another process by now (or a
 * zombie).
 */
async function removeStaleFiles(paths: Paths): Promise<void> {
  for (const path of [pidFile(paths), join(paths.socketFolder, `.s.PGSQL.${port}.lock`)]) {
    if (!(await isStale(path, paths.data))) continue
    // another process may do the same and start a server in between: so look at the file taken away, and put it back
    const taken = `${path}.${randomBytes(6).toString('hex')}`
    await rename(path, taken).catch(() => {})
    const pid = await readPid(taken)
    if (typeof pid === 'number' && (await isServerProcess(pid, paths.data))) await link(taken, path).catch(() => {})
    await rm(taken, { force: true })
  }
}

/**
 * Ends the sessions of a killed server: while they run, PostgreSQL starts no other server on the same data. Call it only when there is no
 * server. Only Linux shows these processes; elsewhere they end by themselves.
 */
export async function endOrphans(paths: Paths, signal: 'SIGQUIT' | 'SIGKILL'): Promise<void> {
  const processes = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  for (const name of processes) {
    const title = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    // the title of a server shows its path and arguments instead: another process may be starting one
    if (!title.startsWith('postgres: ')) continue
    if ((await readlink(`/proc/${name}/cwd`).catch(() => '')) !== paths.data) continue
    if ((await findServer(paths)) !== undefined) return
    try {
      process.kill(Number(name), signal)
    } catch {} // the process has ended
  }
}

async function openLog(paths: Paths) {
  // the home may belong to another user, and a link in it could lead root anywhere
  const flags =
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const log = await open(paths.log, flags, 0o600).catch((error) => {
    throw unusableHome(paths.home, error)
  })
  try {
    const found = await log.stat()
    if (!found.isFile() || found.nlink > 1)
      throw unusableHome(paths.home, new Error(`${paths.log} is no file of its own`))
    if (found.size > logBytesMax) await log.truncate()
    if (process.getuid?.() === 0) {
      // the owner of the home must be able to write the log later
      const owner = await stat(paths.home)
      await log.chown(owner.uid, owner.gid)
    }
    return log
  } catch (error) {
    await log.close()
    throw error
  }
}

/** The last FATAL or PANIC line of the log, for a server that could not start; else its last line. */
export async function readLastComplaint(paths: Paths): Promise<string> {
  const lines = (await readFile(paths.log, 'utf8').catch(() => '')).trimEnd().split('\n')
  const complaint = lines.findLast((line) => /FATAL|PANIC/.test(line)) ?? lines.at(-1) ?? ''
  return complaint.replace(/^.*?(?=FATAL|PANIC)/, '').trim()
}

/**
 * Starts a server in a session of its own, which outlives this process. If a server runs already, the new one ends by itself.
 */
export async function spawnServer(paths: Paths, account: Account, binaries: Binaries): Promise<ChildProcess> {
  await removeStaleFiles(paths)
  const log = await openLog(paths)
  try {
    const settings = {
      listen_addresses: '',
      // as the server sees it from its data: the path of the home may be longer than that of a socket
      unix_socket_directories: relative(paths.data, paths.socketFolder),
      unix_socket_permissions: '0700',
      port,
      logging_collector: 'off',
    }
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawnAs(account, join(binaries.folder, 'postgres'), ['-D', paths.data, ...args], {
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    })
    child.on('error', () => {}) // its exit tells enough
    child.unref()
    return child
  } finally {
    await log.close()
  }
}

/** Whether the process has ended, or was never started. */
export function hasEnded(child: ChildProcess): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null
}

/** Shuts the server down fast: ends its sessions and writes everything. Returns when the server is gone, or after a minute. */
export async function stopServer(paths: Paths): Promise<void> {
  const pid = await findServer(paths)
  if (pid === undefined) return
  try {
    process.kill(pid, 'SIGINT')
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error
  }
  let end = performance.now() + stopMsMax
  let hasFile = true
  while (performance.now() < end && (await isServerProcess(pid, paths.data))) {
    // the pid file disappears just before the process ends; a server that hangs after that must not hold up this process
    if (hasFile && (await readPid(pidFile(paths))) !== pid) {
      hasFile = false
      end = performance.now() + 1_000
    }
    await sleep(10)
  }
}
