/**
 * The embedded PostgreSQL in `LEADPUSH_HOME`: made and started when a command needs it, shared by all commands that run at
 * once, stopped by the last that leaves.
 */
import { constants } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { LeadpushError } from '../base/errors.ts'
import { findPlace, hasData, makeHome, type Place, unusableHome } from './embedded/place.ts'
import { findServer } from './embedded/postmaster.ts'
import { enter, leave, tryEnter } from './embedded/presence.ts'

export interface EmbeddedServer {
  home: string
  /** With the folder of the Unix socket as host; there is no password. */
  url: string
  /** Stops the server if nobody else uses it. Never throws. */
  leave(): Promise<void>
  /** Starts the server again where it died. */
  ensureRunning(): Promise<void>
}

function noDatabase(place: Place): LeadpushError {
  return new LeadpushError(
    'usage',
    `There is no database yet: DATABASE_URL is not set, and ${place.home} holds none.`,
    {
      hint: 'Import something first (`leadpush leads import FILE`, `leadpush users import FILE`), or set DATABASE_URL.',
    },
  )
}

/** Whether there is one in `home`, running or not. Throws `usage` where that cannot be seen. */
export const hasEmbedded = async (home: string): Promise<boolean> => hasData(await findPlace(home))

/**
 * Makes this process present at the embedded server of `home`, and starts it where it does not run. Throws `usage` where
 * there is no database yet and `create` is not set, or where it cannot be run here; `database` where it does not start.
 */
export async function enterEmbedded(home: string, options: { create?: boolean }): Promise<EmbeddedServer> {
  if (!(await hasData(await findPlace(home)))) {
    if (!options.create) throw noDatabase(await findPlace(home))
    await makeHome(home)
  }
  const place = await findPlace(home)
  const enterPlace = async () => watch(await enter(place))
  let presence = await enterPlace()
  let entering: Promise<void> | undefined
  let left = false
  return {
    home: place.home,
    url: place.url,
    async ensureRunning() {
      if (left || presence.isAlive()) return
      entering ??= enterPlace()
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
        const client = presence.isAlive() ? presence.client : await tryEnter(place)
        if (typeof client !== 'string') await leave(place, client)
      } catch {} // the server went away: there is nothing to stop
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

/** Stops the server of `home`; where processes use it, the last of them does so when it leaves. */
export async function stopEmbedded(home: string): Promise<'stopped' | 'in use' | 'not running'> {
  const place = await findPlace(home)
  if (!(await hasData(place))) return 'not running'
  await rm(place.keepMarker, { force: true })
  for (;;) {
    const found = await tryEnter(place)
    if (typeof found !== 'string') return (await leave(place, found)) === 'stopped' ? 'stopped' : 'in use'
    if (found === 'absent' && (await findServer(place)) === undefined) return 'not running'
    await sleep(20)
  }
}

/** Starts the server of `home`, and lets it run after the last process has left, until `stopEmbedded`. */
export async function keepEmbedded(home: string): Promise<{ home: string; url: string }> {
  const server = await enterEmbedded(home, {})
  try {
    const { O_WRONLY, O_CREAT, O_NOFOLLOW } = constants
    // a link there must lead nowhere
    const marker = await open((await findPlace(home)).keepMarker, O_WRONLY | O_CREAT | O_NOFOLLOW).catch((error) => {
      throw unusableHome(home, error)
    })
    await marker.close()
  } finally {
    await server.leave()
  }
  return { home: server.home, url: server.url }
}
