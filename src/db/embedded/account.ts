/**
 * As whom the embedded server runs. PostgreSQL refuses root: as root it runs as `nobody`, or, where that user cannot enter
 * the folders, in a user namespace in which root's files are those of an ordinary user.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { codeOf, LeadpushError } from '../../base/errors.ts'
import type { Place } from './place.ts'

const nobody = 65_534

export interface Account {
  /** Whose the server's files are, as seen from here. */
  uid: number
  gid: number
  /** A program, with its arguments, that starts the server's programs. */
  wrapper: readonly string[]
  /** The system's names of who may connect, as the server sees them. */
  peers: readonly string[]
}

async function readPasswd(): Promise<{ name: string; uid: number; gid: number }[]> {
  const text = await readFile('/etc/passwd', 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':')
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : []
  })
}

function ownName(): string | undefined {
  try {
    return userInfo().username
  } catch {
    return undefined // a container may run with an id that has no name
  }
}

/** Starts one of the server's programs, with no more of the environment than it needs: none of the secrets in it. */
export function spawnAs(account: Account, file: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const [program = file, ...rest] = [...account.wrapper, file, ...args]
  const identity = account.uid === process.getuid?.() ? {} : { uid: account.uid, gid: account.gid }
  return spawn(program, rest, {
    ...options,
    ...identity,
    cwd: '/',
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' },
  })
}

const programMsMax = 120_000

/** Runs a program to its end. `code` is null where it could not be started or was killed; `output` is what it wrote. */
export function runAs(
  account: Account,
  file: string,
  args: readonly string[],
  input = '',
): Promise<{ code: number | null; output: string }> {
  return new Promise((done) => {
    // apart from this process's terminal: a Ctrl-C is for this process, which then comes to its own end
    const child = spawnAs(account, file, args, { stdio: 'pipe', detached: true })
    // not spawn's own: where the program cannot be started, that one keeps this process until it fires
    const timer = setTimeout(() => child.kill('SIGKILL'), programMsMax)
    let output = ''
    const collect = (chunk: Buffer) => {
      output = (output + chunk).slice(-8_000)
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.stdin?.on('error', () => {}) // it may end before it has read all
    child.stdin?.end(input)
    const end = (code: number | null, text: string) => {
      clearTimeout(timer)
      done({ code, output: text })
    }
    child.on('error', (error) => end(null, error.message))
    child.on('close', (code) => end(code, output))
  })
}

async function canEnter(account: Account, folder: string): Promise<boolean> {
  return (await runAs(account, '/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder])).code === 0
}

/**
 * This process's user under another id in a namespace of its own. That id must not be 65534, or others, who all appear as
 * 65534 there, would look like it.
 */
async function findNamespace(uid: number, gid: number): Promise<Account | undefined> {
  const inside = (await readPasswd()).find((entry) => entry.uid !== 0 && entry.uid !== nobody)
  if (process.platform !== 'linux' || !inside) return undefined
  const wrapper = ['unshare', '--user', `--map-user=${inside.uid}`, `--map-group=${inside.gid}`, '--']
  const account = { uid, gid, wrapper, peers: [inside.name] }
  return (await runAs(account, 'true', [])).code === 0 ? account : undefined
}

async function ownerOf(path: string): Promise<{ uid: number; gid: number } | undefined> {
  return stat(path).catch((error) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  })
}

/** `place.home` must be there. Throws `usage` where PostgreSQL cannot be run for this user and this home. */
export async function findAccount(place: Place): Promise<Account> {
  const [uid, gid] = [process.getuid?.() ?? -1, process.getgid?.() ?? -1]
  const owner = await ownerOf(place.data)
  if (uid === 0) return findAccountForRoot(place, owner)
  if (owner && owner.uid !== uid) {
    throw new LeadpushError('usage', `The embedded database in ${place.home} belongs to another user.`, {
      hint: 'Run the command as that user, or set LEADPUSH_HOME to a folder of your own.',
    })
  }
  const name = ownName()
  if (name !== undefined) return { uid, gid, wrapper: [], peers: [name, 'root'] }
  const namespace = await findNamespace(uid, gid)
  if (namespace) return namespace
  throw new LeadpushError('usage', `The embedded PostgreSQL cannot run as user ${uid}, which has no name.`, {
    hint: 'Add the user to /etc/passwd, or set DATABASE_URL to a PostgreSQL server.',
  })
}

async function findAccountForRoot(place: Place, owner: { uid: number; gid: number } | undefined): Promise<Account> {
  const passwd = await readPasswd()
  const user = passwd.find((entry) => entry.uid === nobody) ?? passwd.find((entry) => entry.name === 'nobody')
  const { uid, gid } = owner ?? { uid: user?.uid ?? nobody, gid: user?.uid === nobody ? nobody : (user?.gid ?? nobody) }
  const name = passwd.find((entry) => entry.uid === uid)?.name
  const peers = owner && owner.uid !== nobody && name ? [name, 'root'] : ['root']
  const account = { uid, gid, wrapper: [], peers }
  if (uid !== 0 && (await canEnter(account, place.home))) return account
  const namespace = owner === undefined || uid === 0 ? await findNamespace(0, 0) : undefined
  if (namespace) return namespace
  throw new LeadpushError('usage', `PostgreSQL refuses to run as root, and user ${uid} cannot enter ${place.home}.`, {
    hint:
      'Make the folder and those above it enterable (chmod a+x), set LEADPUSH_HOME to one that is, run the command as ' +
      'another user, or set DATABASE_URL to a PostgreSQL server.',
  })
}
