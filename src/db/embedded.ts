/**
 * The embedded PostgreSQL in `LEADPUSH_HOME`: made and started when a command needs it, shared by all commands that run at
 * once, stopped by the last one that leaves.
 */
import { constants } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { LeadpushError } from '../base/errors.ts'
import { findOwnPaths, findSocketFolder, isReachable, makeHome, tooLong } from './embedded/own-folders.ts'
import { hasData, type Paths, unusableHome } from './embedded/paths.ts'
import { findServer } from './embedded/postmaster.ts'
import { enter, leave, silenceMsMax, tryEnter } from './embedded/presence.ts'

/** An embedded server at which this process is present, so that no other process stops it. */
export interface EmbeddedServer {
  home: string
  /** A `postgresql:` URL with the folder of the Unix socket as its host and no password. */
  url: string
  /** Stops the server if nobody else uses it. Never throws. */
  leave(): Promise<void>
  /** The folder of the socket under a name that leads to no other; looked at before each connection. Throws as `enterEmbedded`. */
  findHost(): string
  /** Starts the server again if it died. */
  ensureRunning(): Promise<void>
}

function noDatabase(paths: Paths): LeadpushError {
  return new LeadpushError(
    'usage',
    `There is no database yet: DATABASE_URL is not set, and ${paths.home} holds none.`,
    {
      hint: 'Import something first (`leadpush leads import FILE`, `leadpush users import FILE`), or set DATABASE_URL.',
    },
  )
}

/** Whether `home` has a database, running or not. Throws `usage` if that cannot be seen, `database` if it is not this account's alone. */
export const hasEmbedded = async (home: string): Promise<boolean> => hasData(await findOwnPaths(home))

/**
 * Makes this process present at the embedded server of `home`, and starts the server if it does not run. Throws `usage` if `home` has no
 * database and `create` is not set, or if PostgreSQL cannot run here; `database` if the home or its server is not this account's alone, or the server does not start.
 */
export async function enterEmbedded(home: string, options: { create?: boolean }): Promise<EmbeddedServer> {
  const found = await findOwnPaths(home)
  if (!(await hasData(found))) {
    if (!options.create) throw noDatabase(found)
    await makeHome(home)
  }
  const paths = await findOwnPaths(home)
  const enterServer = async () => watch(await enter(paths))
  let presence = await enterServer()
  let entering: Promise<void> | undefined
  let left = false
  return {
    home: paths.home,
    url: paths.url,
    findHost: () => findSocketFolder(paths) ?? paths.socketFolder,
    async ensureRunning() {
      if (left || presence.isAlive()) return
      entering ??= enterServer()
        .then((entered) => {
          presence = entered
        })
        .finally(() => {
          entering = undefined
        })
      await entering
    },
    async leave() {
      if (left) return
      left = true
      await entering?.catch(() => {})
      try {
        const client = presence.isAlive() ? presence.client : await tryEnter(paths)
        if (typeof client !== 'string') await leave(paths, client)
      } catch {} // the server is gone: nothing to stop
    },
  }
}

function watch(client: pg.Client): { client: pg.Client; isAlive(): boolean } {
  let alive = true
  client.on('end', () => {
    alive = false
  })
  return { client, isAlive: () => alive }
}

/**
 * Stops the server of `home`, and no longer keeps it running. `in use`: other processes use it, and the last of them stops
 * it.
 */
export async function stopEmbedded(home: string): Promise<'stopped' | 'in use' | 'not running'> {
  const paths = await findOwnPaths(home)
  if (!(await hasData(paths))) return 'not running'
  await rm(paths.keepMarker, { force: true })
  for (const begin = performance.now(); performance.now() - begin < silenceMsMax; await sleep(20)) {
    const found = await tryEnter(paths)
    if (typeof found !== 'string') return (await leave(paths, found)) === 'stopped' ? 'stopped' : 'in use'
    if (found === 'absent' && (await findServer(paths)) === undefined) return 'not running'
  }
  throw new LeadpushError('database', 'The embedded PostgreSQL does not stop.', { hint: `Its log is ${paths.log}.` })
}

/** Starts the server of `home` and keeps it running after the last process has left, until `stopEmbedded`. */
export async function keepEmbedded(home: string): Promise<{ home: string; url: string }> {
  const paths = await findOwnPaths(home)
  if (!isReachable(paths)) throw tooLong(paths)
  const server = await enterEmbedded(home, {})
  try {
    const { O_WRONLY, O_CREAT, O_NOFOLLOW } = constants
    // never through a link, which may lead anywhere
    const marker = await open(paths.keepMarker, O_WRONLY | O_CREAT | O_NOFOLLOW).catch((error) => {
      throw unusableHome(home, error)
    })
    await marker.close()
  } finally {
    await server.leave()
  }
  return { home: server.home, url: server.url }
}
