/**
 * Finds the way for a new connection: the first host in `DATABASE_URL` that is a primary, with TLS as libpq understands `sslmode`. `pg`
 * itself knows one host and one way.
 */
import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { readPostgresVariables, type SettingsSource } from '../base/config.ts'
import { type DatabaseAddress, parseDatabaseUrl, sslModes } from '../base/database-url.ts'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { DatabaseTrouble, isAbsence, markTrouble, ReadOnlyServer, type Writability, writability } from './away.ts'
import { BoundedClient, processIdOf, type Way } from './client.ts'

/** None of several hosts can be used; the message has the reason for each. */
class NoServer extends DatabaseTrouble {
  readonly code: string | undefined
  constructor(message: string, code: string | undefined) {
    super(message)
    this.code = code
  }
}

/** For so long a server that was found to be a primary is not checked again: connections are often made in bursts. */
const trustMs = 1_000
/** The longest wait for a connection, unless `connect_timeout` says otherwise. */
const connectMsMax = 5_000

type SslMode = (typeof sslModes)[number]

function findSslMode({ parameters }: DatabaseAddress, fallback: string | undefined): SslMode {
  const given = parameters.get('sslmode') ?? fallback
  if (!given) return 'disable'
  const mode = sslModes.find((each) => each === given)
  if (mode) return mode
  throw new LeadpushError('usage', `PGSSLMODE: is not one of ${sslModes.join(', ')}.`)
}

function readFile(name: string, path: string | undefined): string | undefined {
  if (!path) return undefined
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new LeadpushError('usage', `DATABASE_URL: its ${name} cannot be read: ${messageOf(error)}`, {
      hint: 'Nothing was done. Put the file there, or correct its name in DATABASE_URL.',
      cause: error,
    })
  }
}

/** The tries of libpq for each `sslmode`, in their order. Throws `usage` for a file that cannot be read. */
function findSslWays(address: DatabaseAddress, fallback: string | undefined): Way['ssl'][] {
  const { parameters } = address
  const mode = findSslMode(address, fallback)
  if (mode === 'disable') return [false]
  const authority = parameters.get('sslrootcert')
  const ca = authority === 'system' ? undefined : readFile('sslrootcert', authority)
  const cert = readFile('sslcert', parameters.get('sslcert'))
  const key = readFile('sslkey', parameters.get('sslkey'))
  const own = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
  const unverified = { ...own, rejectUnauthorized: false }
  if (mode === 'allow') return [false, unverified]
  if (mode === 'prefer') return [unverified, false]
  if (mode === 'verify-full') return [own]
  if (mode === 'require' && !ca) return [unverified]
  return [{ ...own, checkServerIdentity: () => undefined }]
}

const nameOf = ({ host, port }: Way) => (host.startsWith('/') ? host : `${host}:${port}`)

/** Finds the server for each connection to the database of one URL. */
export class Route {
  /** The settings for `pg`, except host, port and TLS. */
  readonly config: pg.ClientConfig
  /** Connecting is given up after so long. */
  readonly connectMsMax: number
  /** Host and port of every server, for people. */
  readonly servers: string
  /** The database and its servers as in the URL, for people. */
  readonly description: string
  private readonly ways: Way[]
  private readonly attributes: string
  private readonly findHost: (() => string) | undefined
  private found: { way: Way; atMs: number } | undefined
  private finding: Promise<Way> | undefined

  /**
   * `env` may have libpq's variables; `findHost` gives a single server's host at each connection. Throws `usage` for a file in the URL that
   * cannot be read.
   */
  constructor(
    databaseUrl: string,
    options: {
      connectMsMax?: number | undefined
      env?: SettingsSource['env'] | undefined
      findHost?: (() => string) | undefined
    } = {},
  ) {
    this.findHost = options.findHost
    const address = parseDatabaseUrl(databaseUrl)
    const { hosts, parameters } = address
    const fallback = readPostgresVariables(options.env ?? {})
    const given = hosts.length > 0 ? hosts : [{ host: '', port: undefined }]
    // TLS is not spoken through a Unix socket
    const ssl = given.every(({ host }) => host.startsWith('/'))
      ? [false as const]
      : findSslWays(address, fallback.sslMode)
    this.ways = given.flatMap(({ host, port }) => {
      const server = { host: host || fallback.host, port: port ?? fallback.port }
      return (server.host.startsWith('/') ? [false as const] : ssl).map((each) => ({ ...server, ssl: each }))
    })
    // libpq's default is `any`; several hosts without the parameter are a cluster, and only its primary can be written to
    this.attributes = parameters.get('target_session_attrs') ?? (given.length > 1 ? 'read-write' : 'any')
    const seconds = Number(parameters.get('connect_timeout') ?? 0)
    const own = seconds > 0 ? seconds * 1_000 : connectMsMax
    this.connectMsMax = Math.min(own, options.connectMsMax ?? own)
    this.servers = [...new Set(this.ways.map(nameOf))].join(', ')
    const places = hosts.map(({ host, port }) => `${host || 'localhost'}${port === undefined ? '' : `:${port}`}`)
    this.description = `${address.database ?? address.user ?? 'the database'} at ${places.join(', ') || 'localhost'}`
    const text = (name: string) => (parameters.get(name) ? { [name]: parameters.get(name) } : {})
    this.config = {
      user: address.user,
      password: address.password,
      database: address.database,
      keepAlive: parameters.get('keepalives') !== '0',
      keepAliveInitialDelayMillis: Number(parameters.get('keepalives_idle') ?? 0) * 1_000,
      ...text('application_name'),
      ...text('fallback_application_name'),
      ...text('options'),
      ...text('sslnegotiation'),
      // pg uses it only for `sslnegotiation`; each way has its own
      ssl: ssl[0] ?? false,
    }
  }

  /** How many servers and ways may have to be tried for one connection. */
  get waysCount(): number {
    return this.ways.length
  }

  /** The way for a new connection. Throws the error of the server, or of all servers if there are several. */
  async find(): Promise<Way> {
    const [only, ...more] = this.ways
    if (only && this.findHost) return { ...only, host: this.findHost() }
    if (only && more.length === 0 && this.attributes === 'any') return only
    if (this.found && performance.now() - this.found.atMs < trustMs) return this.found.way
    this.finding ??= this.search().finally(() => {
      this.finding = undefined
    })
    return await this.finding
  }

  /** The server that was found last no longer takes connections or writes: the next connection searches anew. */
  distrust(): void {
    this.found = undefined
  }

  private async search(): Promise<Way> {
    const troubles = new Map<string, unknown>()
    for (const [index, way] of this.ways.entries()) {
      try {
        await this.probe(way)
        this.found = { way, atMs: performance.now() }
        return way
      } catch (error) {
        const name = nameOf(way)
        troubles.set(name, error)
        // a server that answers with a refusal ends the search, unless there is another way to ask it
        const next = this.ways[index + 1]
        if (!isAbsence(error) && (next === undefined || nameOf(next) !== name)) throw error
      }
    }
    const errors = [...troubles.values()]
    if (errors.length === 1) throw errors[0]
    const readOnly = errors.find((error) => codeOf(error) === '25006')
    const message = [...troubles].map(([name, error]) => `${name}: ${messageOf(error)}`).join('; ')
    throw new NoServer(message, codeOf(readOnly ?? errors.at(-1)))
  }

  /** Asks on a connection of its own; `processId` is the one that the server named for it. */
  async ask<Row extends pg.QueryResultRow>(text: string): Promise<{ rows: Row[]; processId: number }> {
    return await this.onConnection(await this.find(), async (client) => {
      const { rows } = await client.query<Row>(text)
      return { rows, processId: processIdOf(client) }
    })
  }

  private async probe(way: Way): Promise<void> {
    await this.onConnection(way, async (client) => {
      if (this.attributes === 'any') return
      const [server] = (await client.query<Writability>(`select ${writability}`)).rows
      if (server && (server.standby || (this.attributes === 'read-write' && server.reads)))
        throw new ReadOnlyServer(server)
    })
  }

  private async onConnection<T>(way: Way, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new BoundedClient({ ...this.config, ...way, query_timeout: this.connectMsMax }, this.connectMsMax)
    await client.open()
    try {
      return await work(client)
    } catch (error) {
      // pg's own limit for a query would leave the connection open
      throw markTrouble(error)
    } finally {
      client.leave()
    }
  }
}

/** The class of clients for a pool, each of which asks `route` where to connect. */
export function routedClient(route: Route): typeof pg.Client {
  class RoutedClient extends BoundedClient {
    constructor(config?: pg.ClientConfig) {
      super(config ?? {}, route.connectMsMax)
    }

    private async connectByRoute(): Promise<void> {
      const way = await route.find()
      try {
        await this.open(way)
      } catch (error) {
        route.distrust()
        throw error
      }
    }

    override connect(): Promise<pg.Client>
    override connect(callback: ((error: Error) => void) | ((error: null, client: pg.Client) => void)): void
    override connect(callback?: unknown): Promise<pg.Client> | undefined {
      const connecting = this.connectByRoute().then(() => this)
      if (typeof callback !== 'function') return connecting
      connecting.then(
        () => callback(null, this),
        (error) => callback(error),
      )
      return undefined
    }
  }
  return RoutedClient as unknown as typeof pg.Client
}
