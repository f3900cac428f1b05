/** The pool of connections: one for each request under way, a bounded number of idle ones, and the addresses they may lead to. */
import { isIP, type LookupFunction, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import { buildConnector, Client, type Dispatcher, EnvHttpProxyAgent } from 'undici'
import { buildSecureContext, type ClientCertificate } from '../base/client-certificate.ts'
import type { Proxies } from '../base/config.ts'
import { packageVersion } from '../base/package-root.ts'
import { type ExchangeSlot, NoConnection } from './exchange.ts'
import { findProxy } from './reach.ts'
import { passOverContinue } from './undici.ts'

/** With a client certificate every peer that asks for one is shown it, but never a proxy: give it for the receiver alone. */
export interface HttpOptions extends ClientCertificate {
  /** The longest that connecting may take, even if a request allows more. */
  timeoutMs: number
  /** Requests under way at once, each on its own connection. Further requests wait in line; their timeout starts after the wait. */
  concurrency: number
  proxies?: Proxies
  /**
   * The addresses that a connection to a host name or an IP address may use, asked for at every connection. When this throws,
   * no connection is made. By default the system's resolver decides.
   */
  findAddresses?: (hostname: string) => Promise<readonly string[]>
}

/** At most one request and one connection at a time, to one origin. */
export interface Slot extends ExchangeSlot {
  origin: string
  dispatcher: Dispatcher
}

/** contract 2: in every request, also in one that asks a proxy for a tunnel. */
export const userAgent = `leadpush/${packageVersion}`

type FindAddresses = NonNullable<HttpOptions['findAddresses']>

function buildLookup(findAddresses: FindAddresses): LookupFunction {
  return (hostname, { all }, callback) => {
    findAddresses(hostname).then(
      (found) => {
        const addresses = found.map((address) => ({ address, family: isIP(address) }))
        if (all) callback(null, addresses)
        else callback(null, addresses[0]?.address ?? '', addresses[0]?.family)
      },
      (error) => callback(error, ''),
    )
  }
}

/** A connection to an IP address makes no lookup, so the address is checked here. */
function guardAddresses(connector: buildConnector.connector, findAddresses: FindAddresses): buildConnector.connector {
  return (target, callback) => {
    if (isIP(target.hostname) === 0) return connector(target, callback)
    findAddresses(target.hostname).then(
      () => connector(target, callback),
      (error) => callback(error, null),
    )
  }
}

function buildSlot(
  origin: string,
  connector: buildConnector.connector,
  secureContext: SecureContext | undefined,
  { timeoutMs, proxies = {} }: HttpOptions,
): Slot {
  const factory = (target: string | URL, options: object): Dispatcher => {
    // for a proxy undici passes a connector that asks for a tunnel
    const { connect = connector } = options as { connect?: buildConnector.connector }
    return new Client(target, {
      pipelining: 1,
      connect: (peer, callback) =>
        connect(peer, (error, socket) => {
          if (error) return callback(new NoConnection('not connected', { cause: error }), null)
          slot.socket = socket as Socket
          slot.used = false
          slot.awaitsAnswer = false
          slot.firstError = undefined
          slot.socket.once('error', (first: Error) => {
            slot.firstError = first
          })
          passOverContinue(slot, slot.socket)
          callback(null, socket as Socket)
        }),
    })
  }
  const { http = '', https = '', except = '' } = proxies
  const proxy = origin.startsWith('https:') ? https : http
  const dispatcher = proxy
    ? new EnvHttpProxyAgent({
        // undici writes a proxy's credentials into `headers`: these two must be one proxy
        httpProxy: proxy,
        httpsProxy: proxy,
        noProxy: except,
        headers: { 'User-Agent': userAgent },
        // an http: target is requested in absolute form: many proxies tunnel to port 443 alone
        proxyTunnel: false,
        proxyTls: { timeout: timeoutMs },
        requestTls: { timeout: timeoutMs, ...(secureContext && { secureContext }) },
        factory,
      })
    : factory(origin, {})
  const slot: Slot = {
    origin,
    dispatcher,
    isProxied: Boolean(findProxy(origin, proxies)),
    socket: undefined,
    used: false,
    awaitsAnswer: false,
    firstError: undefined,
  }
  return slot
}

/**
 * How long no idle connection to an origin is kept after one broke under a request: some receivers promise to keep a connection
 * and close it all the same, which would cost every second attempt.
 */
const mistrustMs = 30_000

/** Idle connections to all origins together; the least recently used goes first. */
const idleMax = 256

export class Connections {
  private readonly options: HttpOptions
  private readonly connector: buildConnector.connector
  private readonly secureContext: SecureContext | undefined
  private readonly slots = new Set<Slot>()
  /** The idle slots, the most recently used at the end. */
  private readonly idle: Slot[] = []
  private underWay = 0
  private readonly waiting: Array<() => void> = []
  /** By origin, until when no connection is kept; the earliest end first. */
  private readonly mistrusted = new Map<string, number>()

  constructor(options: HttpOptions) {
    const { findAddresses, timeoutMs } = options
    this.secureContext = buildSecureContext(options)
    const connector = buildConnector({
      ...(this.secureContext && { secureContext: this.secureContext }),
      ...(findAddresses && { lookup: buildLookup(findAddresses) }),
      timeout: timeoutMs,
      autoSelectFamily: true,
      // per address of a host: the default of 250 ms gives up on distant addresses that work
      autoSelectFamilyAttemptTimeout: 1_000,
    })
    this.options = options
    this.connector = findAddresses ? guardAddresses(connector, findAddresses) : connector
  }

  /** Waits for its turn, then returns a slot for one request to `origin`; `giveBack` must follow. */
  async take(origin: string): Promise<Slot> {
    if (this.underWay < this.options.concurrency) this.underWay++
    else await new Promise<void>((resolve) => this.waiting.push(resolve))
    for (let at = this.idle.length - 1; at >= 0; at--) {
      if (this.idle[at]?.origin === origin) return this.idle.splice(at, 1)[0] as Slot
    }
    const slot = buildSlot(origin, this.connector, this.secureContext, this.options)
    this.slots.add(slot)
    return slot
  }

  giveBack(slot: Slot, isUsable: boolean): void {
    if (isUsable) this.idle.push(slot)
    else this.discard(slot)
    const unused = this.idle.length > idleMax ? this.idle.shift() : undefined
    if (unused) this.discard(unused)
    const next = this.waiting.shift()
    if (next) next()
    else this.underWay--
  }

  mistrust(origin: string): void {
    const nowMs = performance.now()
    this.mistrusted.delete(origin)
    for (const [other, untilMs] of this.mistrusted) {
      if (untilMs > nowMs) break
      this.mistrusted.delete(other)
    }
    this.mistrusted.set(origin, nowMs + mistrustMs)
  }

  mistrusts(origin: string): boolean {
    return (this.mistrusted.get(origin) ?? 0) > performance.now()
  }

  async close(): Promise<void> {
    await Promise.all([...this.slots].map(({ dispatcher }) => dispatcher.close()))
  }

  private discard(slot: Slot): void {
    this.slots.delete(slot)
    void slot.dispatcher.destroy()
  }
}
