/**
 * Opens the database that the settings name: the one at `DATABASE_URL`, or the embedded one. Checks that it is one that
 * leadpush can work with and that its schema is the program's. Only this folder knows `pg`.
 */
import type { EventEmitter } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { codeOf, LeadpushError } from '../base/errors.ts'
import { asDatabaseError, onDatabaseAway, rideOut, SilentDatabase } from './away.ts'
import { enterEmbedded } from './embedded.ts'
import { migrate, schemaState } from './migrate.ts'
import type { Tables } from './tables.ts'

export type Database = Kysely<Tables>

export interface OpenDatabase {
  db: Database
  /** For copies in and out and whatever else needs one connection of its own. */
  pool: pg.Pool
  embedded: boolean
  /** The migrations that opening it applied. */
  migrated: string[]
  /** For people: where it is, never with a password. */
  description: string
  close(): Promise<void>
}

export interface OpenOptions {
  /** Make the embedded database where there is none; otherwise that is a `usage` error. */
  create?: boolean
  /**
   * `current` (the default) refuses a schema that is behind; `any` takes what is there. The embedded one is migrated in both
   * cases, and left alone with `untouched`.
   */
  schema?: 'current' | 'any' | 'untouched'
  connectionsMax?: number
  /** For commands of short statements: a connection on which nothing comes for so long is given up. */
  silentMsMax?: number
}

const int8 = 20
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')) as pg.CustomTypesConfig['getTypeParser'],
}

/** A lone % is itself, as it is for pg. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function describe(databaseUrl: string): string {
  if (!URL.canParse(databaseUrl)) return 'the one that DATABASE_URL names'
  const url = new URL(databaseUrl)
  const host = url.searchParams.get('host') ?? url.host
  return `${decode(url.pathname.slice(1)) || url.username} at ${decode(host) || 'localhost'}`
}

const schemaHints = {
  behind: 'Run `leadpush migrate` first.',
  newer: 'Run the newest version of leadpush on this machine too.',
} as const

async function checkServer(db: Database): Promise<void> {
  const { rows } = await sql<{ version: number; encoding: string }>`
    select current_setting('server_version_num')::integer as version, current_setting('server_encoding') as encoding
  `.execute(db)
  const { version = 0, encoding = '' } = rows[0] ?? {}
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
}

async function checkSchema(db: Database): Promise<void> {
  const state = await schemaState(db)
  if (state === 'current') return
  const message =
    state === 'behind'
      ? 'The schema of the database is behind this program.'
      : 'The database is newer than this program.'
  throw new LeadpushError('usage', message, { hint: schemaHints[state] })
}

/** A database that takes leave for longer takes none: its machine may be gone. */
const leaveMsMax = 2_000

/** What is beneath a client, of which pg says nothing. */
const connectionOf = (client: pg.ClientBase) =>
  (client as unknown as { connection: EventEmitter & { stream: Socket } }).connection

export const streamOf = (client: pg.ClientBase) => connectionOf(client).stream

/** Without a password pg gives up and leaves the connection open: the server would end it a minute later, and only then this process. */
class Client extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    const connection = connectionOf(this)
    connection.on('error', () => connection.stream.destroy())
  }
}

/** A request to cancel has so long to arrive. */
const cancelMsMax = 5_000

/** Asks the server to end what the connection is at, where it still hears: nobody waits for it, and it must not be done later. */
function cancel(client: pg.PoolClient): void {
  const { processID, secretKey, host, port } = client as unknown as Record<
    'processID' | 'secretKey' | 'port',
    number
  > & {
    host: string
  }
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
  socket.on('error', () => {})
  socket.setTimeout(cancelMsMax, () => socket.destroy())
  socket.unref()
  // PostgreSQL's documentation of the protocol, "CancelRequest"
  const request = Buffer.alloc(16)
  for (const [at, word] of [16, 80_877_102, processID, secretKey].entries()) request.writeInt32BE(word, at * 4)
  socket.end(request)
}

/**
 * Throws `usage` where there is no embedded database yet or the schema is not the program's, `database` where PostgreSQL
 * cannot be reached or used. Close it in every case, or the embedded server stays.
 */
export async function openDatabase(
  settings: { databaseUrl: string | undefined; home: string },
  options: OpenOptions = {},
): Promise<OpenDatabase> {
  const server = settings.databaseUrl === undefined ? await enterEmbedded(settings.home, options) : undefined
  const pool = new pg.Pool({
    Client,
    connectionString: server?.url ?? settings.databaseUrl,
    max: options.connectionsMax ?? 8,
    connectionTimeoutMillis: Math.min(10_000, options.silentMsMax ?? 10_000),
    keepAlive: true,
    types,
    // what PGSSLMODE asks for is not meant for a socket of our own
    ...(server && { ssl: false }),
  })
  // an idle connection that breaks is the pool's affair; a statement that meets a broken one throws by itself
  pool.on('error', () => {})
  const streams = new Set<Socket>()
  pool.on('connect', (client) => {
    client.on('error', () => {})
    const stream = streamOf(client)
    streams.add(stream)
    stream.once('close', () => streams.delete(stream))
    const { silentMsMax } = options
    // neither the kernel nor pg notices in time that the other end is gone without a word; our own server is on this
    // machine, and may be migrating
    if (silentMsMax !== undefined && !server) {
      stream.setTimeout(silentMsMax, () => {
        cancel(client)
        stream.destroy(new SilentDatabase(silentMsMax))
      })
    }
  })
  const forget = server ? onDatabaseAway(() => server.ensureRunning()) : () => {}
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  const opened: OpenDatabase = {
    db,
    pool,
    embedded: server !== undefined,
    migrated: [],
    description: server ? `embedded, in ${server.home}` : describe(settings.databaseUrl ?? ''),
    close: async () => {
      forget()
      const timer = setTimeout(() => {
        for (const stream of streams) stream.destroy()
      }, leaveMsMax)
      await db.destroy()
      clearTimeout(timer)
      await server?.leave()
    },
  }
  try {
    await checkServer(db).catch((error) => {
      // it is there, and starts, stops or recovers: that passes
      if (codeOf(error) !== '57P03') throw error
      return rideOut(() => checkServer(db))
    })
    if (options.schema === 'untouched') return opened
    if (server) opened.migrated = await migrate(db)
    else if (options.schema !== 'any') await checkSchema(db)
    return opened
  } catch (error) {
    await opened.close()
    throw asDatabaseError(error)
  }
}
