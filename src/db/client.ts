/**
 * The client and the pool of `pg`. They mark errors of a connection as trouble with the database. Everything that leadpush uses of `pg`
 * beyond its documentation is in this file; `test/integration/client.test.ts` shows after an upgrade whether it still exists.
 */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { ConnectionOptions, TLSSocket } from 'node:tls'
import pg from 'pg'
import { markTrouble, SilentDatabase } from './away.ts'

/** One way to one server. */
export interface Way {
  host: string
  port: number
  ssl: false | ConnectionOptions
}

interface HiddenConnection extends EventEmitter {
  stream: Socket
  ssl: Way['ssl']
  sslNegotiation: string
  connect(port: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
}

/** Fields of a client that pg's types do not show. */
interface Hidden extends Way {
  connection: HiddenConnection
  connectionParameters: { host: string; port: number }
  processID: number
  secretKey: number
  readyForQuery: boolean
  _queryable: boolean
  _ending: boolean
}

const hidden = (client: pg.ClientBase) => client as unknown as Hidden

/** The socket of a client. */
export const streamOf = (client: pg.ClientBase): Socket => hidden(client).connection.stream

/** The id of the server's process, as the server or a pooler named it when the connection was made. */
export const processIdOf = (client: pg.ClientBase): number => hidden(client).processID

/** Whether no statement is under way on the connection. */
export const isReady = (client: pg.ClientBase): boolean => hidden(client).readyForQuery

export const isEncrypted = (client: pg.ClientBase): boolean => (streamOf(client) as TLSSocket).encrypted === true

/** Whether the connection can no longer carry out statements. */
const isGone = (client: pg.ClientBase) => !hidden(client)._queryable || hidden(client)._ending

/** Calls `listener` with the SQLSTATE of each error from the server. */
export function onServerError(client: pg.ClientBase, listener: (sqlState: string | undefined) => void): void {
  hidden(client).connection.on('errorMessage', ({ code }: pg.DatabaseError) => listener(code))
}

/** The longest wait for a cancel request, or for the end of the cancelled statement. */
const cancelMsMax = 5_000

/** Asks the server to cancel the client's statement, by the same way as the client; a PgBouncer passes that on. Nobody waits for it. */
export function cancelStatement(client: pg.ClientBase): void {
  const { host, port, processID, secretKey, connection } = hidden(client)
  const { ssl, sslNegotiation } = connection
  const own = new pg.Connection({ ssl, sslNegotiation } as object) as unknown as HiddenConnection
  const ask = () => {
    own.cancel(processID, secretKey)
    own.stream.end()
  }
  own.on('error', () => {})
  own.on('sslconnect', ask)
  own.on('connect', () => {
    if (!ssl) ask()
    else if (sslNegotiation !== 'direct') own.requestSsl()
  })
  const socket = own.stream.unref()
  // it must not take effect later
  socket.setTimeout(cancelMsMax, () => socket.destroy())
  if (host.startsWith('/')) own.connect(`${host}/.s.PGSQL.${port}`)
  else own.connect(port, host)
}

/**
 * Cancels the client's statement when `signal` aborts; if the statement does not end, the connection is closed. The client must not be
 * used for other work after that, since the request may still be on its way. Returns a function that ends the listening.
 */
export function cancelOn(client: pg.ClientBase, signal: AbortSignal): () => void {
  let timer: NodeJS.Timeout | undefined
  const cancel = () => {
    cancelStatement(client)
    timer = setTimeout(() => streamOf(client).destroy(), cancelMsMax)
  }
  signal.addEventListener('abort', cancel, { once: true })
  return () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}

/** A client that connects within `connectMsMax`, leaves nothing behind when it cannot, and marks the errors of its connection. */
export class BoundedClient extends pg.Client {
  private readonly connectMsMax: number

  constructor(config: pg.ClientConfig, connectMsMax: number) {
    super(config)
    this.connectMsMax = connectMsMax
    // a statement on a broken connection throws by itself
    this.on('error', markTrouble)
  }

  /** Connects to `way`; without it, as the client's settings say. */
  async open(way?: Way): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    let fail: (error: Error) => void = () => {}
    if (way) {
      const { host, port, ssl } = way
      // pg reads these when it connects; a pool makes the client before its host can be known
      Object.assign(hidden(this), { host, port, ssl })
      Object.assign(hidden(this).connectionParameters, { host, port })
      hidden(this).connection.ssl = ssl
    }
    try {
      await new Promise<void>((resolve, reject) => {
        fail = reject
        // pg reports some trouble with a password only by this event
        this.once('error', fail)
        timer = setTimeout(() => reject(new SilentDatabase(this.connectMsMax)), this.connectMsMax)
        super.connect((error: Error | null) => (error ? reject(error) : resolve()))
      })
    } catch (error) {
      // pg may leave it open without a password
      streamOf(this).destroy()
      throw markTrouble(error)
    } finally {
      clearTimeout(timer)
      this.off('error', fail)
    }
  }

  /** Like pg's own, in all its forms. It marks an error that the statement has from its connection. */
  override query(...given: never[]): never {
    const mark = (error: unknown) => (isGone(this) ? markTrouble(error) : error)
    const args: unknown[] = [...given]
    const [statement, last] = [args[0] as { handleError?(...told: unknown[]): void }, args.at(-1)]
    if (typeof last === 'function')
      args[args.length - 1] = (error: unknown, result: unknown) => last(mark(error), result)
    if (statement?.handleError) {
      const tell = statement.handleError.bind(statement)
      statement.handleError = (error, ...rest) => tell(mark(error), ...rest)
    }
    const result = (super.query as (...each: unknown[]) => unknown).apply(this, args)
    if (result instanceof Promise) result.catch(mark)
    return result as never
  }

  /** Ends the connection, even if nobody answers; no process waits for that. */
  leave(): void {
    const stream = streamOf(this)
    stream.unref()
    stream.setTimeout(this.connectMsMax, () => stream.destroy())
    this.end().catch(() => {})
  }
}

/** A pool that marks its own errors: no connection in time. */
export class BoundedPool extends pg.Pool {
  override connect(...given: never[]): never {
    // it was ended, which is not trouble with the database
    const mark = (error: unknown) => (this.ending ? error : markTrouble(error))
    const [tell] = given as ((error: unknown, ...rest: unknown[]) => void)[]
    if (tell) return super.connect((error, ...rest) => tell(mark(error), ...rest)) as never
    const connecting = super.connect()
    connecting.catch(mark)
    return connecting as never
  }
}
