/**
 * An embedded server in a temporary folder of its own, for the demo and the tests. A small process watches over it: when
 * this one leaves, or dies however it may, the server ends and its folder is removed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LeadpushError, messageOf } from '../../base/errors.ts'
import type { Binaries } from './binaries.ts'
import { findPlace, type Place } from './place.ts'
import { endQuietly, enter } from './presence.ts'

export interface ThrowAwayServer {
  home: string
  /** With the folder of the Unix socket as host; there is no password. */
  url: string
  /** Ends the server and removes everything of it. Never throws. */
  leave(): Promise<void>
}

/** Waits for the end of its input, which no death of this process can prevent. $1: home, $2: the socket's folder. */
const watcher = `
read -r nothing
pid=
[ ! -s "$1/data/postmaster.pid" ] || read -r pid < "$1/data/postmaster.pid"
if [ -n "$pid" ] && kill -QUIT "$pid"; then
  tries=0
  while kill -0 "$pid" && [ $tries -lt 100 ]; do
    # a process that nobody reaps looks alive for ever
    [ -e "$1/data/postmaster.pid" ] || tries=$((tries + 5))
    tries=$((tries + 1))
    sleep 0.05
  done
  [ ! -e "$1/data/postmaster.pid" ] || kill -KILL "$pid"
fi
for try in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$1" "$2"
  [ -e "$1" ] || [ -e "$2" ] || exit 0
  sleep 0.2
done
`

function startWatcher(place: Place): ChildProcess {
  const child = spawn('/bin/sh', ['-c', watcher, 'sh', place.home, place.socketFolder], {
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

async function endBy(watching: ChildProcess, place: Place): Promise<void> {
  if (watching.pid !== undefined && watching.exitCode === null && watching.signalCode === null) {
    const ended = once(watching, 'exit')
    watching.ref()
    watching.stdin?.end()
    await ended
  }
  for (const folder of [place.home, place.socketFolder]) {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
  }
}

async function makeTemporaryFolder(folder: string): Promise<string> {
  try {
    return await realpath(await mkdtemp(join(folder, 'leadpush-')))
  } catch (error) {
    throw new LeadpushError('usage', `No temporary folder can be made in ${folder}: ${messageOf(error)}`, {
      hint: 'Set TMPDIR to a folder that can be written to.',
      cause: error,
    })
  }
}

/**
 * In a new folder in `folder`, by default that for temporary files. Throws `usage` where PostgreSQL cannot be run here,
 * `database` where it does not start.
 */
export async function startThrowAway({
  folder = tmpdir(),
  ...options
}: {
  binaries?: Binaries
  folder?: string
} = {}): Promise<ThrowAwayServer> {
  const home = await makeTemporaryFolder(folder)
  const place = await findPlace(home)
  const watching = startWatcher(place)
  try {
    if (process.getuid?.() === 0) await chmod(home, 0o711)
    await endQuietly(await enter(place, { throwAway: true, ...options }))
    return { home, url: place.url, leave: () => endBy(watching, place) }
  } catch (error) {
    await endBy(watching, place)
    throw error
  }
}
