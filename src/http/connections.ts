/** The connections that requests go over: one for each that is under way, and some kept without one; where they may go. */
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher, EnvHttpProxyAgent } from 'undici'
import type { Proxies } from '../base/config.ts'
import { type ExchangeSlot, Unreached } from './exchange.ts'

export interface HttpOptions {
  /** The longest that connecting may take, whatever a request allows. */
  timeoutMs: number
  /** Requests under way at once, each with a connection of its own; more than that wait in line, their timeout not yet running. */
  concurrency: number
  proxies?: Proxies
  /**
   * Where a connection to a host name or an IP address may go: asked at every connection, which goes to one of these
   * addresses or, when this throws, nowhere. By default what the system says.
   */
  findAddresses?: (hostname: string) => Promise<readonly string[]>
}

/** At most one request and one connection at a time, to one origin. */
export interface Slot extends ExchangeSlot {
  origin: string
  dispatcher: Dispatcher
}

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

/** A connection to an IP address looks nothing up: that one is asked for here. */
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
  { timeoutMs, proxies = {} }: HttpOptions,
): Slot {
  const factory = (target: string | URL, options: object): Dispatcher => {
    // a proxy brings a connector of its own, which asks it for a tunnel
    const { connect = connector } = options as { connect?: buildConnector.connector }
    return new Client(target, {
      pipelining: 1,
      connect: (peer, callback) =>
        connect(peer, (error, socket) => {
          if (error) return callback(new Unreached('not connected', { cause: error }), null)
          slot.socket = socket as Socket
          slot.used = false
          callback(null, socket as Socket)
        }),
    })
  }
  const { http = '', https = '', except = '' } = proxies
  const dispatcher = (origin.startsWith('https:') ? https : http)
    ? new EnvHttpProxyAgent({
        httpProxy: http,
        httpsProxy: https,
        noProxy: except,
        // a plain http: target goes through in absolute form, as proxies expect it: many tunnel to port 443 alone
        proxyTunnel: false,
        proxyTls: { timeout: timeoutMs },
        requestTls: { timeout: timeoutMs },
        factory,
      })
    : factory(origin, {})
  const slot: Slot = { origin, dispatcher, socket: undefined, used: false }
  return slot
}

/**
 * Some receivers promise to keep a connection and close it all the same; every second attempt would be lost on them. Where
 * a kept connection broke under a request, none is kept to that origin for so long.
 */
const mistrustMs = 30_000

/** Connections without a request, to all origins together; those that were used last. */
const idleMax = 256

export class Connections {
  private readonly options: HttpOptions
  private readonly connector: buildConnector.connector
  private readonly slots = new Set<Slot>()
  /** Those without a request, the one used last at the end. */
  private readonly idle: Slot[] = []
  private underWay = 0
  private readonly waiting: Array<() => void> = []
  /** Until when no connection to an origin is kept; the one that is over first comes first. */
  private readonly mistrusted = new Map<string, number>()

  constructor(options: HttpOptions) {
    const { findAddresses, timeoutMs } = options
    const connector = buildConnector({
      ...(findAddresses && { lookup: buildLookup(findAddresses) }),
      timeout: timeoutMs,
      autoSelectFamily: true,
      // of several addresses each gets so long; the default of 250 ms gives up on distant ones that are well
      autoSelectFamilyAttemptTimeout: 1_000,
    })
    this.options = options
    this.connector = findAddresses ? guardAddresses(connector, findAddresses) : connector
  }

  /** A place for one request to `origin`, when it is its turn; whoever takes it gives it back. */
  async take(origin: string): Promise<Slot> {
    if (this.underWay < this.options.concurrency) this.underWay++
    else await new Promise<void>((resolve) => this.waiting.push(resolve))
    for (let at = this.idle.length - 1; at >= 0; at--) {
      if (this.idle[at]?.origin === origin) return this.idle.splice(at, 1)[0] as Slot
    }
    const slot = buildSlot(origin, this.connector, this.options)
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
