/**
 * Makes the data folder of an embedded server under a temporary name and renames it when it is complete: a process may be
 * killed at any moment, and any number may try at once. The files that say who may connect are checked at each start.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { lchown, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf, LeadpushError } from '../../base/errors.ts'
import { type Account, runAs } from './account.ts'
import type { Binaries } from './binaries.ts'
import { databaseName, type Paths, roleName, unusableHome } from './paths.ts'

const temporaryPrefix = '.new-'

/**
 * When process `pid` began, in ticks since the boot, which tells it from a later process with the same id. 0 if the system does not say;
 * undefined if there is no such process.
 */
function findBeginning(pid: number): number | undefined {
  if (process.platform === 'linux') {
    try {
      // the name of the program, in brackets, may have any characters
      const [state = '', ...facts] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      return /[ZX]/.test(state) ? undefined : Number(facts[18])
    } catch {
      return undefined
    }
  }
  try {
    process.kill(pid, 0)
    return 0
  } catch (error) {
    return codeOf(error) === 'EPERM' ? 0 : undefined
  }
}

/** A name in `home` for something incomplete, with the id of the process that makes it. */
export function newTemporaryName(): string {
  return `${temporaryPrefix}${process.pid}-${findBeginning(process.pid)}-${randomBytes(6).toString('hex')}`
}

/** Removes the incomplete work of killed processes in `home`. */
export async function removeLeftovers(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    if (!name.startsWith(temporaryPrefix)) continue
    const [pid, beginning] = name.slice(temporaryPrefix.length).split('-').map(Number)
    if (!pid) continue
    const found = findBeginning(pid)
    if (found !== undefined && found === beginning) continue
    // a killed process may have left an initdb that still writes there: the next start tries again
    await rm(join(home, name), { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
  }
}

/** Modest values, since the server shares its machine. An operator's later changes in postgresql.conf stay. */
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
  // a bounded log: server events, but no statements, which have data
  'log_min_messages = log',
  'log_min_error_statement = panic',
  'log_checkpoints = off',
  'log_autovacuum_min_duration = -1',
  "log_line_prefix = '%m [%p] '",
]
const throwAwaySettings = ['fsync = off', 'synchronous_commit = off', 'full_page_writes = off', 'max_connections = 100']

/** How a new data folder is made. */
export interface InitOptions {
  /** The data need not survive a crash of the machine. */
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
  // one sync for all files: syncing file by file would take longer than everything else together
  const method = process.platform === 'linux' ? ['--sync-method=syncfs'] : []
  await run('initdb', ['-D', data, '--sync-only', ...method])
}

/** Puts the names in `folder` on disk. */
export async function sync(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}

/**
 * Makes `paths.data`, unless another process did so meanwhile. Throws `usage` if the home cannot be written, `database` if initdb fails.
 */
export async function makeCluster(
  paths: Paths,
  account: Account,
  binaries: Binaries,
  options: InitOptions,
): Promise<void> {
  const temporary = join(paths.home, newTemporaryName())
  try {
    await initialise(temporary, account, binaries, options)
    await rename(temporary, paths.data)
    if (!options.throwAway) await sync(paths.home)
  } catch (error) {
    await rm(temporary, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
    if (codeOf(error) === 'ENOTEMPTY' || codeOf(error) === 'EEXIST') return
    if (error instanceof LeadpushError) throw error
    if (codeOf(error) !== undefined) throw unusableHome(paths.home, error)
    throw new LeadpushError('database', `The embedded database could not be made: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/**
 * Writes as the server's user, never as root: the folder belongs to that user, and a link in it may lead anywhere. Throws `usage` if that
 * user may not write there.
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

/** Lets the system users in `account.peers` connect as the one role through the socket, and nobody else. */
export async function writeAccess(paths: Paths, account: Account): Promise<void> {
  const quote = (name: string) => `"${name.replaceAll('"', '""')}"`
  const users = account.peers.map((name) => `leadpush ${quote(name)} ${roleName}\n`).join('')
  await writeIfOther(join(paths.data, 'pg_hba.conf'), 'local all all peer map=leadpush\n', account)
  await writeIfOther(join(paths.data, 'pg_ident.conf'), users, account)
}

/** Throws `database` if the data are of another major version of PostgreSQL than `major`. */
export async function checkVersion(paths: Paths, major: number): Promise<void> {
  const made = Number.parseInt(await readFile(join(paths.data, 'PG_VERSION'), 'utf8'), 10)
  if (made === major) return
  throw new LeadpushError(
    'database',
    `The embedded database in ${paths.home} is of PostgreSQL ${made}, this program's is ${major}.`,
    {
      hint:
        `Save it with the leadpush that made it (\`leadpush db backup FILE\`), set LEADPUSH_HOME to another folder, and restore ` +
        'it there with this one (`leadpush db restore FILE`).',
    },
  )
}
