/**
 * The server process of an embedded database: whether it is there, starting it apart from this process, stopping it, and
 * clearing away what a killed one left.
 */

import type { ChildProcess } from 'node:child_process'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { link, open, readdir, readFile, readlink, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { codeOf } from '../../base/errors.ts'
import { type Account, spawnAs } from './account.ts'
import type { Binaries } from './binaries.ts'
import { type Place, port, unusableHome } from './place.ts'

const logBytesMax = 1_000_000
const stopMsMax = 60_000
/** A server that was killed while it made its pid file leaves an empty one; a living one fills it at once. */
const emptyPidFileMsMax = 2_000

/** Whether process `pid` is a living PostgreSQL on these data, not one to which the system gave the same id later. */
async function isServerProcess(pid: number, data: string): Promise<boolean> {
  if (process.platform !== 'linux') {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'state=,comm=', '-p', String(pid)]).catch(() => ({
      stdout: '',
    }))
    return /postgres/.test(stdout) && !stdout.trim().startsWith('Z')
  }
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const [, name, state = ''] = /^\d+ \((.*)\) (\w)/s.exec(status) ?? []
  if (name !== 'postgres' || /[ZX]/.test(state)) return false
  const folder = await readlink(`/proc/${pid}/cwd`).catch(() => data)
  return folder === data
}

async function readPid(path: string): Promise<number | 'empty' | undefined> {
  const text = await readFile(path, 'utf8').catch((error) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  })
  return text === undefined ? undefined : Number.parseInt(text, 10) || 'empty'
}

const pidFile = (place: Place) => join(place.data, 'postmaster.pid')

/** The server's process id, also while it starts or stops. */
export async function findServer(place: Place): Promise<number | undefined> {
  const pid = await readPid(pidFile(place))
  return typeof pid === 'number' && (await isServerProcess(pid, place.data)) ? pid : undefined
}

async function isStale(path: string, data: string): Promise<boolean> {
  const pid = await readPid(path)
  if (pid === undefined) return false
  if (pid !== 'empty') return !(await isServerProcess(pid, data))
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs > emptyPidFileMsMax
}

/** PostgreSQL removes such files itself, unless the id belongs to another process by now, a zombie too, or is missing. */
async function removeStaleFiles(place: Place): Promise<void> {
  for (const path of [pidFile(place), join(place.socketFolder, `.s.PGSQL.${port}.lock`)]) {
    if (!(await isStale(path, place.data))) continue
    // another process may do the same, and start a server in between: look at what was taken away, and bring it back
    const taken = `${path}.${randomBytes(6).toString('hex')}`
    await rename(path, taken).catch(() => {})
    const pid = await readPid(taken)
    if (typeof pid === 'number' && (await isServerProcess(pid, place.data))) await link(taken, path).catch(() => {})
    await rm(taken, { force: true })
  }
}

/**
 * Ends the sessions of a server that was killed: while they run, PostgreSQL starts no other on the same data. Only for
 * when there is no server. Linux alone tells whose they are; elsewhere they end by themselves.
 */
export async function endOrphans(place: Place, signal: 'SIGQUIT' | 'SIGKILL'): Promise<void> {
  const processes = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  for (const name of processes) {
    const title = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    // a server, which another process may be starting, has its path and arguments there
    if (!title.startsWith('postgres: ')) continue
    if ((await readlink(`/proc/${name}/cwd`).catch(() => '')) !== place.data) continue
    if ((await findServer(place)) !== undefined) return
    try {
      process.kill(Number(name), signal)
    } catch {} // it ended by itself
  }
}

async function openLog(place: Place) {
  // the home may be another user's, and a link there lead root anywhere
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const log = await open(place.log, flags, 0o600).catch((error) => {
    throw unusableHome(place.home, error)
  })
  try {
    const found = await log.stat()
    if (!found.isFile() || found.nlink > 1) throw unusableHome(place.home, new Error(`${place.log} is no file of its own`))
    if (found.size > logBytesMax) await log.truncate()
    if (process.getuid?.() === 0) {
      // in the home of another user, who must be able to write it later
      const owner = await stat(place.home)
      await log.chown(owner.uid, owner.gid)
    }
    return log
  } catch (error) {
    await log.close()
    throw error
  }
} // biome-ignore format: long lines

/** The last thing that a server said when it could not start. */
export async function readLastComplaint(place: Place): Promise<string> {
  const lines = (await readFile(place.log, 'utf8').catch(() => '')).trimEnd().split('\n')
  const complaint = lines.findLast((line) => /FATAL|PANIC/.test(line)) ?? lines.at(-1) ?? ''
  return complaint.replace(/^.*?(?=FATAL|PANIC)/, '').trim()
}

/** Starts a server in a session of its own, which outlives this process. It ends by itself where there is one already. */
export async function spawnServer(place: Place, account: Account, binaries: Binaries): Promise<ChildProcess> {
  await removeStaleFiles(place)
  const log = await openLog(place)
  try {
    const folders = `"${place.socketFolder.replaceAll('"', '""')}"`
    const settings = {
      listen_addresses: '',
      unix_socket_directories: folders,
      unix_socket_permissions: '0700',
      port,
      logging_collector: 'off',
    }
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawnAs(account, join(binaries.folder, 'postgres'), ['-D', place.data, ...args], {
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    })
    child.on('error', () => {}) // the exit says enough
    child.unref()
    return child
  } finally {
    await log.close()
  }
}

export function hasEnded(child: ChildProcess): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null
}

/** A fast shutdown: sessions are ended, everything is written. Returns when the server is gone, or after a minute. */
export async function stopServer(place: Place): Promise<void> {
  const pid = await findServer(place)
  if (pid === undefined) return
  try {
    process.kill(pid, 'SIGINT')
  } catch (error) {
    if (codeOf(error) !== 'ESRCH') throw error
  }
  let end = Date.now() + stopMsMax
  let hasFile = true
  while (Date.now() < end && (await isServerProcess(pid, place.data))) {
    // the file goes just before the process; a process that can't go on then must not hold up this one
    if (hasFile && (await readPid(pidFile(place))) !== pid) {
      hasFile = false
      end = Date.now() + 1_000
    }
    await sleep(10)
  }
}
