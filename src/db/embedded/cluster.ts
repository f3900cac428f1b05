/**
 * Makes the data folder of an embedded server: under a temporary name, renamed into place when it is complete, so that a
 * process may be killed at any moment and any number may try at once. Who may connect is written anew at each start.
 */
import { randomBytes } from 'node:crypto'
import { lchown, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, LeadpushError } from '../../base/errors.ts'
import { type Account, runAs } from './account.ts'
import type { Binaries } from './binaries.ts'
import { databaseName, type Place, roleName, unusableHome } from './place.ts'

const temporaryPrefix = '.new-'
const leftoverAgeMsMax = 3_600_000

/** A name, for use in `home`, of something that is not complete yet. It tells whose it is. */
export function newTemporaryName(): string {
  return `${temporaryPrefix}${process.pid}-${randomBytes(6).toString('hex')}`
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

/** Removes what killed processes left half-made in `home`. */
export async function removeLeftovers(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    const pid = name.startsWith(temporaryPrefix) && Number.parseInt(name.slice(temporaryPrefix.length), 10)
    if (!pid) continue
    const path = join(home, name)
    const found = await lstat(path).catch(() => undefined)
    if (found && isAlive(pid) && Date.now() - found.mtimeMs < leftoverAgeMsMax) continue
    // what was killed may have left an initdb that still writes there: the next start comes by again
    await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
  }
}

/** For a machine that it shares with others; an operator's changes in postgresql.conf stay. */
const settings = [
  'shared_buffers = 128MB',
  'max_connections = 60',
  'max_wal_size = 1GB',
  'wal_level = minimal',
  'max_wal_senders = 0',
  'max_logical_replication_workers = 0',
  'wal_compression = on',
  'jit = off',
  "timezone = 'UTC'",
  // the log is bounded: server events in, statements and their data out
  'log_min_messages = log',
  'log_min_error_statement = panic',
  'log_checkpoints = off',
  'log_autovacuum_min_duration = -1',
  "log_line_prefix = '%m [%p] '",
]
const throwAwaySettings = ['fsync = off', 'synchronous_commit = off', 'full_page_writes = off', 'max_connections = 100']

export interface InitOptions {
  /** It need not outlive a crash of the machine. */
  throwAway: boolean
}

async function initialise(data: string, account: Account, binaries: Binaries, options: InitOptions): Promise<void> {
  const run = async (program: 'initdb' | 'postgres', args: string[], input = '') => {
    const { code, output } = await runAs(account, join(binaries.folder, program), args, input)
    if (code !== 0) throw new Error(`${program} failed: ${output.trim() || `exit ${code}`}`)
  }
  await mkdir(data, { mode: 0o700 })
  if (account.uid !== process.getuid?.()) await lchown(data, account.uid, account.gid)
  await run('initdb', [
    ...[
      '-D',
      data,
      '--username',
      roleName,
      '--encoding=UTF8',
      '--no-locale',
      '--auth-local=peer',
      '--auth-host=reject',
    ],
    '--no-sync',
  ])
  const lines = options.throwAway ? [...settings, ...throwAwaySettings] : settings
  await writeAs(account, join(data, 'postgresql.conf'), `\n# leadpush\n${lines.join('\n')}\n`, '>>')
  const single = ['--single', '-F', '-D', data, '-c', 'log_min_messages=error', 'postgres']
  await run('postgres', single, `create database ${databaseName} strategy file_copy\n`)
  if (options.throwAway) return
  // once for all of it: file by file takes longer than everything else together
  const method = process.platform === 'linux' ? ['--sync-method=syncfs'] : []
  await run('initdb', ['-D', data, '--sync-only', ...method])
}

async function sync(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}

/** Makes `place.data`, unless another process did so in the meantime. */
export async function makeCluster(
  place: Place,
  account: Account,
  binaries: Binaries,
  options: InitOptions,
): Promise<void> {
  const temporary = join(place.home, newTemporaryName())
  try {
    await initialise(temporary, account, binaries, options)
    await rename(temporary, place.data)
    if (!options.throwAway) await sync(place.home)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
    if (codeOf(error) === 'ENOTEMPTY' || codeOf(error) === 'EEXIST') return
    if (error instanceof LeadpushError) throw error
    if (codeOf(error) !== undefined) throw unusableHome(place.home, error)
    throw new LeadpushError('database', `The embedded database could not be made: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/**
 * Writes as the server's user, never as root: the folder is that user's, and a link in it may lead anywhere. Throws where that user
 * may not.
 */
async function writeAs(account: Account, path: string, text: string, how: '>' | '>>'): Promise<void> {
  const { code, output } = await runAs(account, '/bin/sh', ['-c', `umask 077; cat ${how} "$1"`, 'sh', path], text)
  if (code === 0) return
  throw unusableHome(dirname(dirname(path)), new Error(`${path} cannot be written: ${output.trim() || `exit ${code}`}`))
}

async function writeIfOther(path: string, text: string, account: Account): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return
  const temporary = `${path}.${newTemporaryName()}`
  await writeAs(account, temporary, text, '>')
  await rename(temporary, path)
}

/** The system's users that `account` names may connect as the one role, through the socket alone; nobody else. */
export async function writeAccess(place: Place, account: Account): Promise<void> {
  const quote = (name: string) => `"${name.replaceAll('"', '""')}"`
  const users = account.peers.map((name) => `leadpush ${quote(name)} ${roleName}\n`).join('')
  await writeIfOther(join(place.data, 'pg_hba.conf'), 'local all all peer map=leadpush\n', account)
  await writeIfOther(join(place.data, 'pg_ident.conf'), users, account)
}

/** Throws `usage` where the data are of another major version of PostgreSQL than the programs. */
export async function checkVersion(place: Place, binaries: Binaries): Promise<void> {
  const made = Number.parseInt(await readFile(join(place.data, 'PG_VERSION'), 'utf8'), 10)
  if (made === binaries.major) return
  throw new LeadpushError(
    'usage',
    `The embedded database in ${place.home} is of PostgreSQL ${made}, this program's is ${binaries.major}.`,
    {
      hint: `Dump it with a leadpush that has PostgreSQL ${made} and pg_dump, and restore it into a new LEADPUSH_HOME.`,
    },
  )
}
