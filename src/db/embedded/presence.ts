/**
 * A process's presence at an embedded server: a connection of its own that holds a shared advisory lock. A process that leaves and finds
 * nobody else present stops the server. All races with other processes are handled here.
 */
import type { ChildProcess } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { locks } from '../locks.ts'
import { findAccount } from './account.ts'
import { type Binaries, findBinaries, findMajor } from './binaries.ts'
import { checkVersion, makeCluster, newTemporaryName, removeLeftovers, writeAccess } from './cluster.ts'
import { anothersFolder, findSocketFolder, makeSocketFolder } from './own-folders.ts'
import { databaseName, hasData, type Paths, port, roleName } from './paths.ts'
import { endOrphans, findServer, hasEnded, readLastComplaint, spawnServer, stopServer } from './postmaster.ts'

const pollMs = 20
/** How long a server may be silent, and how long starting one may fail. */
export const silenceMsMax = 60_000
const failingMsMax = 10_000

/** Why this process is not present: no server, a server that is busy or stopping, a server that is starting. */
export type Absence = 'absent' | 'busy' | 'starting'

/** The meaning of a failed connection; throws an error that waiting does not mend. */
function classify(error: unknown, paths: Paths): Absence {
  const code = codeOf(error)
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return 'absent'
  if (code === '57P03') return /starting up|recovery/.test(messageOf(error)) ? 'starting' : 'busy'
  if (code === 'EACCES' || code?.startsWith('28')) throw anothersFolder(paths.home)
  return 'busy'
}

/** Closes the connection within a second; ignores errors. */
export async function endQuietly(client: pg.Client): Promise<void> {
  await Promise.race([client.end().catch(() => {}), sleep(1_000, undefined, { ref: false })])
}

/**
 * Tries once to be present at a running server. Throws `database` if a folder of it is not this account's alone, or if its data are not of
 * PostgreSQL's version `major`, by default the one that comes along.
 */
export async function tryEnter(paths: Paths, major?: number): Promise<pg.Client | Absence> {
  const host = findSocketFolder(paths)
  if (host === undefined) return 'absent'
  await checkVersion(paths, major ?? (await findMajor()))
  const client = new pg.Client({
    ...{ host, port, user: roleName, database: databaseName },
    ssl: false,
    connectionTimeoutMillis: 5_000,
    query_timeout: 10_000,
    application_name: 'leadpush (presence)',
  })
  client.on('error', () => {}) // callers listen for `end`
  try {
    await client.connect()
    const { rows } = await client.query('select pg_try_advisory_lock_shared($1) as entered', [locks.presence])
    if (rows[0]?.entered) return client
    // the last process that leaves is about to stop the server
    await endQuietly(client)
    return 'busy'
  } catch (error) {
    await endQuietly(client)
    return classify(error, paths)
  }
}

/** How a server is made and started, if that is necessary. */
export interface EnterOptions {
  /** The data need not survive a crash of the machine. */
  throwAway?: boolean
  /** PostgreSQL's programs, instead of those in the npm package. */
  binaries?: Binaries | undefined
}

/** Makes everything missing for a start; returns the function that starts the server. */
async function prepare(paths: Paths, options: EnterOptions) {
  const account = await findAccount(paths)
  await removeLeftovers(paths.home).catch((error) => {
    throw codeOf(error) === 'EACCES' ? anothersFolder(paths.home) : error
  })
  const binaries = options.binaries ?? (await findBinaries(account, paths.home, newTemporaryName()))
  if (!(await hasData(paths))) await makeCluster(paths, account, binaries, { throwAway: options.throwAway === true })
  await checkVersion(paths, binaries.major)
  await writeAccess(paths, account)
  return async () => {
    await makeSocketFolder(paths, account)
    return spawnServer(paths, account, binaries)
  }
}

/**
 * Enters the server of `paths`, also while other processes start or stop it; starts it if it does not run. Throws `usage` if it cannot
 * run here, `database` if it does not start.
 */
export async function enter(paths: Paths, options: EnterOptions = {}): Promise<pg.Client> {
  let start: (() => Promise<ChildProcess>) | undefined
  let child: ChildProcess | undefined
  let failingSince: number | undefined
  let failures = 0
  for (let lastSign = performance.now(); ; await sleep(pollMs)) {
    const found = await tryEnter(paths, options.binaries?.major)
    if (typeof found !== 'string') return found
    if (found === 'starting') lastSign = performance.now()
    if (performance.now() - lastSign > silenceMsMax) throw await startError(paths)
    if (found !== 'absent' || (child && !hasEnded(child)) || (await findServer(paths)) !== undefined) continue

    if (child) {
      failingSince ??= performance.now()
      if (performance.now() - failingSince > failingMsMax) throw await startError(paths)
      // sessions of a killed server end within moments by themselves, unless a statement keeps them busy
      failures++
      if (failures >= 5) await endOrphans(paths, failures >= 10 ? 'SIGKILL' : 'SIGQUIT')
      await sleep(failures * 50)
    }
    start ??= await prepare(paths, options)
    child = await start()
    lastSign = performance.now()
  }
}

async function startError(paths: Paths): Promise<LeadpushError> {
  const complaint = await readLastComplaint(paths)
  return new LeadpushError('database', `The embedded PostgreSQL does not start${complaint && `: ${complaint}`}`, {
    hint: `Its log is ${paths.log}.`,
  })
}

/** The state of the server afterwards: stopped, in use by others, or kept running on request. */
export type Farewell = 'stopped' | 'in use' | 'kept'

/** Gives up the presence of `client`, and stops the server if nobody else is present. */
export async function leave(paths: Paths, client: pg.Client): Promise<Farewell> {
  const tryAlone = async () => {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as alone', [locks.presence])
    return Boolean(rows[0]?.alone)
  }
  try {
    // unlocks first, then asks who is left: if two leave at once, the second sees nobody
    await client.query('select pg_advisory_unlock_shared($1)', [locks.presence])
    // the server may not yet have noticed that another process was killed
    if (!(await tryAlone()) && !(await sleep(50).then(tryAlone))) return 'in use'
    if (await isKept(paths)) return 'kept'
    await stopServer(paths)
    return 'stopped'
  } finally {
    await endQuietly(client)
  }
}

async function isKept(paths: Paths): Promise<boolean> {
  return stat(paths.keepMarker).then(
    () => true,
    () => false,
  )
}
