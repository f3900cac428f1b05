/**
 * A process's presence at an embedded server: a connection of its own that holds a shared advisory lock. Whoever leaves and
 * finds nobody else stops the server. All races with other processes that come and go are ridden out here.
 */
import type { ChildProcess } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { locks } from '../locks.ts'
import { findAccount } from './account.ts'
import { type Binaries, findBinaries } from './binaries.ts'
import { checkVersion, makeCluster, newTemporaryName, removeLeftovers, writeAccess } from './cluster.ts'
import { hasData, makeSocketFolder, type Place, removeOutsideFolder } from './place.ts'
import { endOrphans, findServer, hasEnded, readLastComplaint, spawnServer, stopServer } from './postmaster.ts'

const pollMs = 20
/** How long a server may be there and give no sign, and how long starting one may fail. */
const silenceMsMax = 60_000
const failingMsMax = 10_000

export type Absence = 'absent' | 'busy' | 'starting'

/** Says how a failed connection is to be taken; throws what waiting does not mend. */
function classify(error: unknown, place: Place): Absence {
  const code = codeOf(error)
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return 'absent'
  if (code === '57P03') return /starting up|recovery/.test(messageOf(error)) ? 'starting' : 'busy'
  if (code === 'EACCES' || code?.startsWith('28')) throw anothersHome(place, error)
  return 'busy'
}

function anothersHome(place: Place, error: unknown): LeadpushError {
  return new LeadpushError('usage', `The embedded database in ${place.home} belongs to another user.`, {
    hint: 'Run the command as that user, or set LEADPUSH_HOME to a folder of your own.',
    cause: error,
  })
}

export async function endQuietly(client: pg.Client): Promise<void> {
  await Promise.race([client.end().catch(() => {}), sleep(1_000, undefined, { ref: false })])
}

/** One try to be present at a running server. */
export async function tryEnter(place: Place): Promise<pg.Client | Absence> {
  const client = new pg.Client({
    connectionString: place.url,
    ssl: false,
    connectionTimeoutMillis: 5_000,
    query_timeout: 10_000,
    application_name: 'leadpush (presence)',
  })
  client.on('error', () => {}) // `isPresent` looks for itself
  try {
    await client.connect()
    const { rows } = await client.query('select pg_try_advisory_lock_shared($1) as entered', [locks.presence])
    if (rows[0]?.entered) return client
    // the last process to leave is about to stop the server
    await endQuietly(client)
    return 'busy'
  } catch (error) {
    await endQuietly(client)
    return classify(error, place)
  }
}

export interface EnterOptions {
  /** Made without regard for a crash of the machine. */
  throwAway?: boolean
  /** Instead of those of the npm package. */
  binaries?: Binaries
}

/** Everything that a start needs, made where it is missing. */
async function prepare(place: Place, options: EnterOptions) {
  const account = await findAccount(place)
  await removeLeftovers(place.home).catch((error) => {
    throw codeOf(error) === 'EACCES' ? anothersHome(place, error) : error
  })
  const binaries = options.binaries ?? (await findBinaries(account, place.home, newTemporaryName()))
  if (!(await hasData(place))) await makeCluster(place, account, binaries, { throwAway: options.throwAway === true })
  await checkVersion(place, binaries)
  await writeAccess(place, account)
  return async () => {
    await makeSocketFolder(place, account)
    return spawnServer(place, account, binaries)
  }
}

/** Enters the server of `place`, whatever others do with it at the same time; starts it where it does not run. */
export async function enter(place: Place, options: EnterOptions = {}): Promise<pg.Client> {
  let start: (() => Promise<ChildProcess>) | undefined
  let child: ChildProcess | undefined
  let failingSince: number | undefined
  let failures = 0
  for (let lastSign = Date.now(); ; await sleep(pollMs)) {
    const found = await tryEnter(place)
    if (typeof found !== 'string') return found
    if (found === 'starting') lastSign = Date.now()
    if (Date.now() - lastSign > silenceMsMax) throw await startError(place)
    if (found !== 'absent' || (child && !hasEnded(child)) || (await findServer(place)) !== undefined) continue

    if (child) {
      failingSince ??= Date.now()
      if (Date.now() - failingSince > failingMsMax) throw await startError(place)
      // sessions of a killed server end within moments by themselves, unless they are deep in a statement
      failures++
      if (failures >= 5) await endOrphans(place, failures >= 10 ? 'SIGKILL' : 'SIGQUIT')
      await sleep(failures * 50)
    }
    start ??= await prepare(place, options)
    child = await start()
    lastSign = Date.now()
  }
}

async function startError(place: Place): Promise<LeadpushError> {
  const complaint = await readLastComplaint(place)
  return new LeadpushError('database', `The embedded PostgreSQL does not start${complaint && `: ${complaint}`}`, {
    hint: `Its log is ${place.log}.`,
  })
}

export type Farewell = 'stopped' | 'in use' | 'kept'

/** Gives up the presence that `client` is, and stops the server if nobody else is present. */
export async function leave(place: Place, client: pg.Client): Promise<Farewell> {
  const tryAlone = async () => {
    const { rows } = await client.query('select pg_try_advisory_lock($1) as alone', [locks.presence])
    return Boolean(rows[0]?.alone)
  }
  try {
    // first out, then the question who is left: of two that leave at once the second sees nobody
    await client.query('select pg_advisory_unlock_shared($1)', [locks.presence])
    // the server may not have noticed yet that another process was killed
    if (!(await tryAlone()) && !(await sleep(50).then(tryAlone))) return 'in use'
    if (await isKept(place)) return 'kept'
    await stopServer(place)
    await removeOutsideFolder(place)
    return 'stopped'
  } finally {
    await endQuietly(client)
  }
}

async function isKept(place: Place): Promise<boolean> {
  return stat(place.keepMarker).then(
    () => true,
    () => false,
  )
}
