/**
 * Decides as which user the embedded server runs. PostgreSQL refuses root: for root it runs as the system user `leadpush` or `postgres`,
 * else as `nobody`. If none of them can enter the folders, it runs in a user namespace in which root's files belong to an ordinary user.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { codeOf, LeadpushError } from '../../base/errors.ts'
import { anothersFolder } from './own-folders.ts'
import type { Paths } from './paths.ts'

const nobody = 65_534
/** The owners of data that root makes: the first that can enter the home. Other services may run as `nobody` too. */
const usersForRoot = ['leadpush', 'postgres', 'nobody']

/** A user that runs PostgreSQL's programs. */
export interface Account {
  /** The owner of the server's files, as this process sees it. */
  uid: number
  gid: number
  /** A program with arguments in front of each command; empty for none. */
  wrapper: readonly string[]
  /** The system users who may connect, by the names that the server sees. */
  peers: readonly string[]
}

/** A line of /etc/passwd. */
export interface SystemUser {
  name: string
  uid: number
  gid: number
}

async function readPasswd(): Promise<SystemUser[]> {
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
    return undefined // in a container the id may have no name
  }
}

/** Starts one of PostgreSQL's programs as `account`, with a minimal environment that holds no secrets. */
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

/**
 * Runs a program to its end, two minutes at most. `code` is null if the program could not be started or was killed; `output` has the last
 * 8,000 characters that it wrote. Never rejects.
 */
export function runAs(
  account: Account,
  file: string,
  args: readonly string[],
  input = '',
): Promise<{ code: number | null; output: string }> {
  return new Promise((done) => {
    // detached from the terminal: a Ctrl-C is for this process, which then ends in its own order
    const child = spawnAs(account, file, args, { stdio: 'pipe', detached: true })
    // not spawn's own timeout, which would keep this process alive if the program cannot be started
    const timer = setTimeout(() => child.kill('SIGKILL'), programMsMax)
    let output = ''
    const collect = (chunk: Buffer) => {
      output = (output + chunk).slice(-8_000)
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    child.stdin?.on('error', () => {}) // the program may end before it has read everything
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
 * Maps this process's user to another id in a namespace of its own. That id must not be 65534, which means all other users there.
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

/** Whether the data of `paths` belong to `nobody`. Other services may run as `nobody`, and could read and change them. */
export const belongsToNobody = async ({ data }: Pick<Paths, 'data'>): Promise<boolean> =>
  (await ownerOf(data))?.uid === nobody

/**
 * Finds the user for the server of `paths`, whose home must exist: the owner of its data, if it has any. `users` are those of this
 * machine. Throws `usage` if PostgreSQL cannot run for this user and this home, `database` if the data belong to another.
 */
export async function findAccount(paths: Paths, users?: readonly SystemUser[]): Promise<Account> {
  const [uid, gid] = [process.getuid?.() ?? -1, process.getgid?.() ?? -1]
  const owner = await ownerOf(paths.data)
  if (uid === 0) return findAccountForRoot(paths, owner, users ?? (await readPasswd()))
  if (owner && owner.uid !== uid) throw anothersFolder(paths.data)
  const name = ownName()
  if (name !== undefined) return { uid, gid, wrapper: [], peers: [name, 'root'] }
  const namespace = await findNamespace(uid, gid)
  if (namespace) return namespace
  throw new LeadpushError('usage', `The embedded PostgreSQL cannot run as user ${uid}, which has no name.`, {
    hint: 'Add the user to /etc/passwd, or set DATABASE_URL to a PostgreSQL server.',
  })
}

async function findAccountForRoot(
  paths: Paths,
  owner: { uid: number; gid: number } | undefined,
  users: readonly SystemUser[],
): Promise<Account> {
  const named = usersForRoot.flatMap((name) => users.find((user) => user.name === name) ?? [])
  const candidates = owner ? [owner] : [...named, { uid: nobody, gid: nobody }]
  for (const { uid, gid } of candidates.filter(({ uid }) => uid !== 0)) {
    const name = users.find((user) => user.uid === uid)?.name
    const peers = uid !== nobody && name ? [name, 'root'] : ['root']
    const account = { uid, gid, wrapper: [], peers }
    if (await canEnter(account, paths.home)) return account
  }
  const namespace = owner === undefined || owner.uid === 0 ? await findNamespace(0, 0) : undefined
  if (namespace) return namespace
  const whoElse = owner ? `user ${owner.uid}` : 'another user'
  throw new LeadpushError('usage', `PostgreSQL refuses to run as root, and ${whoElse} cannot enter ${paths.home}.`, {
    hint:
      'Make the folder and those above it enterable (chmod a+x), set LEADPUSH_HOME to one that is, run the command as ' +
      'another user, or set DATABASE_URL to a PostgreSQL server.',
  })
}
