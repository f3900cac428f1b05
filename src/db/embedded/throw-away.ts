/**
 * An embedded server in a temporary folder of its own, for the demo, the tests and a restore. A small watcher process ends the
 * server and removes the folder when this process leaves, or dies in any way.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LeadpushError, messageOf } from '../../base/errors.ts'
import type { Binaries } from './binaries.ts'
import { findSocketFolder, isReachable } from './own-folders.ts'
import { findPaths, type Paths, urlOf } from './paths.ts'
import { endQuietly, enter } from './presence.ts'

/** A running throw-away server. */
export interface ThrowAwayServer {
  home: string
  /** A `postgresql:` URL with the folder of the Unix socket as its host and no password. */
  url: string
  /** Ends the server and removes its folders. Never throws. */
  leave(): Promise<void>
}

/**
 * A shell script that waits for the end of its input, which comes when this process dies in any way. $1: home.
 */
const watcher = `
read -r nothing
data=$1/data
# as isServerProcess has it: the file may belong to another user, and hold any number
is_server() {
  case $1 in '' | *[!0-9]* | 0* | 1) return 1 ;; esac
  if [ -d /proc/self ]; then
    [ "$(cat "/proc/$1/comm")" = postgres ] || return 1
    folder=$(readlink "/proc/$1/cwd") || folder=$data
    [ "$folder" = "$data" ]
  else
    case $(ps -o comm= -p "$1") in *postgres*) ;; *) return 1 ;; esac
  fi
}
pid=
[ ! -s "$data/postmaster.pid" ] || read -r pid < "$data/postmaster.pid"
if is_server "$pid" && kill -QUIT "$pid"; then
  tries=0
  while is_server "$pid" && [ $tries -lt 100 ]; do
    # a process that nobody reaps looks alive for ever
    [ -e "$data/postmaster.pid" ] || tries=$((tries + 5))
    tries=$((tries + 1))
    sleep 0.05
  done
  [ ! -e "$data/postmaster.pid" ] || ! is_server "$pid" || kill -KILL "$pid"
fi
for try in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$1"
  [ -e "$1" ] || exit 0
  sleep 0.2
done
`

function startWatcher(paths: Paths): ChildProcess {
  const child = spawn('/bin/sh', ['-c', watcher, 'sh', paths.home], {
    cwd: '/',
    detached: true,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.on('error', () => {})
  child.unref()
  const input = child.stdin as (typeof child)['stdin'] & { unref?(): void }
  input?.on('error', () => {})
  input?.unref?.()
  return child
}

async function endBy(watching: ChildProcess, paths: Paths): Promise<void> {
  if (watching.pid !== undefined && watching.exitCode === null && watching.signalCode === null) {
    const ended = once(watching, 'exit')
    watching.ref()
    watching.stdin?.end()
    await ended
  }
  await rm(paths.home, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
}

async function makeTemporaryFolder(folder: string, prefix: string): Promise<string> {
  try {
    return await realpath(await mkdtemp(join(folder, prefix)))
  } catch (error) {
    throw new LeadpushError('usage', `No temporary folder can be made in ${folder}: ${messageOf(error)}`, {
      hint: 'Set TMPDIR to a folder that can be written to.',
      cause: error,
    })
  }
}

/**
 * Starts a server in a new folder in `folder`, by default the one for temporary files. `throwAway: false`: the data are on disk once the
 * server has stopped. Throws `usage` if PostgreSQL cannot run here, `database` if the server does not start.
 */
export async function startThrowAway({
  folder = tmpdir(),
  prefix = 'leadpush-',
  ...options
}: {
  binaries?: Binaries | undefined
  folder?: string
  prefix?: string
  throwAway?: boolean
} = {}): Promise<ThrowAwayServer> {
  const home = await makeTemporaryFolder(folder, prefix)
  const paths = await findPaths(home)
  const watching = startWatcher(paths)
  try {
    if (process.getuid?.() === 0) await chmod(home, 0o711)
    await endQuietly(await enter(paths, { throwAway: true, ...options }))
    // where the path is too long, the name of it holds as long as this process lives, as the server does
    const url = isReachable(paths) ? paths.url : urlOf(findSocketFolder(paths) ?? paths.socketFolder)
    return { home, url, leave: () => endBy(watching, paths) }
  } catch (error) {
    await endBy(watching, paths)
    throw error
  }
}
