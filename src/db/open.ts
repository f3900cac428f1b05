/**
 * Opens the database of the settings (`DATABASE_URL`, or the embedded one), and checks that leadpush can use its server and
 * its schema. Only this folder knows `pg`.
 */
import type { Socket } from 'node:net'
import { Kysely, sql } from 'kysely'
import pg from 'pg'
import type { SettingsSource } from '../base/config.ts'
import { codeOf, LeadpushError } from '../base/errors.ts'
import { databaseAwayMsDefault } from '../base/limits.ts'
import { markTrouble, ReadOnlyServer, readOnlyState, type Writability, writability } from './away.ts'
import { BoundedPool, onServerError, streamOf } from './client.ts'
import { Dialect } from './dialect.ts'
import { type EmbeddedServer, enterEmbedded } from './embedded.ts'
import { migrate, schemaError, schemaState } from './migrate.ts'
import { givePatience, Patience } from './patience.ts'
import { Route, routedClient } from './route.ts'
import { SilenceWatch } from './silence.ts'
import type { Tables } from './tables.ts'

/** Kysely over the tables of leadpush, on the pool or in a transaction. */
export type Database = Kysely<Tables>

/** A checked database with its connections; `close` ends them. */
export interface OpenDatabase {
  db: Database
  /** Tries each statement once, where a caller waits for the answer; `rideOut` has the patience all the same. */
  hasty: Database
  patience: Patience
  /** For work on one connection of its own: COPY, temporary tables. */
  pool: pg.Pool
  embedded: boolean
  /** Names of the migrations that were applied while opening. */
  migrated: string[]
  /** The place of the database, for people; never with a password. */
  description: string
  close(): Promise<void>
}

/** The caller's requirements. */
export interface OpenOptions {
  /** The environment with libpq's variables. */
  env?: SettingsSource['env']
  /** Makes the embedded database if there is none; without it that is a `usage` error. */
  create?: boolean
  /**
   * `current` (the default) refuses a schema that is behind; `any` accepts every schema; `untouched` does too, and does not
   * migrate the embedded database, which the other two do.
   */
  schema?: 'current' | 'any' | 'untouched'
  connectionsMax?: number
  /** For commands with short statements: gives up a connection that is silent for so long. */
  silentMsMax?: number
  /** How long an absence is ridden out; without it, the default. */
  awayMsMax?: number
  /** The caller writes: a standby is refused. */
  writes?: boolean
  /** Called when commits begin to wait for a standby that is not there, and when they no longer do. */
  onHang?: (text: string) => void
  /** The caller writes: an absence at the start is ridden out too. Called with news of absences, unless `patience` has another listener. */
  onAway?: (text: string) => void
}

const int8 = 20
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')) as pg.CustomTypesConfig['getTypeParser'],
}

async function checkServer(db: Database, writes: boolean): Promise<void> {
  const { rows } = await sql<Writability & { version: number; encoding: string }>`
    select current_setting('server_version_num')::integer as version, current_setting('server_encoding') as encoding,
      ${sql.raw(writability)}
  `.execute(db)
  const [server = { version: 0, encoding: '', standby: false, reads: false, settled: false }] = rows
  const { version, encoding, standby, reads } = server
  if (version < 150_000) {
    throw new LeadpushError(
      'database',
      `PostgreSQL ${Math.floor(version / 10_000)} is too old: leadpush needs 15 or newer.`,
    )
  }
  if (encoding !== 'UTF8') {
    throw new LeadpushError('database', `The database's encoding is ${encoding}: leadpush needs UTF8.`, {
      hint: "Make one with `create database leadpush encoding 'UTF8' template template0`.",
    })
  }
  if (writes && (standby || reads)) throw new ReadOnlyServer(server)
}

/** Whether the server is a standby, or takes no writes for another reason. Throws the database's errors. */
export async function findReadOnly(db: Database): Promise<ReadOnlyServer | undefined> {
  try {
    await checkServer(db, true)
    return undefined
  } catch (error) {
    if (error instanceof ReadOnlyServer) return error
    throw error
  }
}

async function checkSchema(db: Database): Promise<void> {
  const state = await schemaState(db)
  if (state !== 'current') throw schemaError(state)
}

/** Trouble at the start of a command that waiting does not mend: a host name that DNS does not know, a standby that stays one. */
const isMistake = (error: unknown) =>
  codeOf(error) === 'ENOTFOUND' || (error instanceof ReadOnlyServer && error.isSettled)

/** Rides out an absence of the server. */
const waitUntil = (check: () => Promise<void>, patience: Patience) =>
  patience.rideOut(() =>
    check().catch((error) => {
      throw isMistake(error) ? patience.asTold(error) : error
    }),
  )

/** Connections that are not closed in this time are cut: the database's machine may be gone. */
const leaveMsMax = 2_000

/** Like `enterEmbedded`; errors of the system meanwhile count as trouble with the database. */
async function enter(home: string, options: OpenOptions): Promise<EmbeddedServer> {
  return await enterEmbedded(home, options).catch((error) => {
    throw codeOf(error) === undefined ? error : markTrouble(error)
  })
}

/**
 * Opens the database. Throws `usage` if there is no embedded database yet or the schema is not the program's; `database` if PostgreSQL
 * cannot be reached or used. The caller must close it, or the embedded server keeps running.
 */
export async function openDatabase(
  settings: { databaseUrl: string | undefined; home: string },
  options: OpenOptions = {},
): Promise<OpenDatabase> {
  const server = settings.databaseUrl === undefined ? await enter(settings.home, options) : undefined
  const { silentMsMax: connectMsMax, env } = options
  const findHost = server?.findHost
  const route = new Route(server?.url ?? settings.databaseUrl ?? '', { connectMsMax, env, findHost })
  const waitMsMax = Math.min(10_000, options.silentMsMax ?? 10_000)
  const pool = new BoundedPool({
    ...route.config,
    Client: routedClient(route),
    max: options.connectionsMax ?? 8,
    // each of several servers may be silent
    connectionTimeoutMillis: Math.max(waitMsMax, route.waysCount > 1 ? (route.waysCount + 1) * route.connectMsMax : 0),
    types,
  })
  const { onAway, writes = onAway !== undefined, schema = 'current', awayMsMax = databaseAwayMsDefault } = options
  const patience = new Patience({ awayMsMax, servers: route.servers, remedy: server && (() => server.ensureRunning()) })
  if (onAway) patience.listener = { onAway, onBack: () => onAway('The database answers again: going on.') }
  // the pool replaces an idle connection that breaks; a statement on a broken one throws by itself
  pool.on('error', () => {})
  // a former primary is left
  const left = new WeakSet<object>()
  pool.on('release', (_error, client) => {
    watch?.end(client)
    if (left.has(client)) void client.end().catch(() => {})
  })
  const streams = new Set<Socket>()
  pool.on('connect', (client) => {
    onServerError(client, (code) => {
      if (code !== readOnlyState) return
      left.add(client)
      route.distrust()
    })
    const stream = streamOf(client)
    streams.add(stream)
    stream.once('close', () => streams.delete(stream))
  })
  // neither the kernel nor pg notices in time that the other end is silently gone; the embedded server is on this machine
  const watch = server
    ? undefined
    : new SilenceWatch(route, patience, {
        silentMsMax: options.silentMsMax,
        // `serve` goes on waiting, with the connections that it has
        hangMsMax: writes ? awayMsMax : Number.POSITIVE_INFINITY,
        onHang: options.onHang,
      })
  pool.on('acquire', (client) => watch?.begin(client))
  const db = new Kysely<Tables>({ dialect: new Dialect({ pool }, patience) })
  const hasty = new Kysely<Tables>({ dialect: new Dialect({ pool }) })
  for (const each of [db, hasty]) givePatience(each, patience)
  const opened: OpenDatabase = {
    db,
    hasty,
    patience,
    pool,
    embedded: server !== undefined,
    migrated: [],
    description: server ? `embedded, in ${server.home}` : route.description,
    close: async () => {
      watch?.stop()
      // the pool counts as ended before its connections are: each keeps the process alive until it is closed or cut
      setTimeout(() => {
        for (const stream of streams) stream.destroy()
      }, leaveMsMax).unref()
      if (!pool.ending) await pool.end()
      await server?.leave()
    },
  }
  try {
    const check = async () => {
      await checkServer(hasty, writes)
      // the embedded one is brought up to date instead
      if (schema === 'current' && !server) await checkSchema(hasty)
    }
    await (onAway ? waitUntil(check, patience) : check())
    if (server && schema !== 'untouched') opened.migrated = await migrate(db)
    return opened
  } catch (error) {
    const told = patience.asTold(error)
    await opened.close()
    throw told
  }
}
