/**
 * The HTTP edge: the only file that knows undici. Whatever happens on the wire comes back as a value that says whether
 * anything of the request may have reached the peer; a request is written once, or not at all.
 */
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher, EnvHttpProxyAgent } from 'undici'
import type { Proxies } from '../base/config.ts'
import { packageVersion } from '../base/package-root.ts'
import { Exchange, type ExchangeSlot, type HttpOutcome, Unreached } from './exchange.ts'

export interface HttpPost {
  url: string
  /** Names and values in turn. */
  headers: readonly string[]
  /** Sent with its length as Content-Length. The caller may overwrite it as soon as `post` has settled. */
  body: Buffer | BodyInPieces
  timeoutMs: number
  /** Whether the body of the answer is wanted. */
  keepsAnswer?: boolean
}

/** A body that is made while it is sent; where its pieces throw, the connection is broken. */
export interface BodyInPieces {
  length: number
  pieces: AsyncIterable<Uint8Array>
}

export interface Http {
  /** One POST. Redirects are not followed. The timeout runs from connecting to the end of the response. Never throws. */
  post(request: HttpPost): Promise<HttpOutcome>
  get(url: string, timeoutMs: number): Promise<HttpOutcome>
  head(url: string, timeoutMs: number): Promise<HttpOutcome>
  delete(url: string, timeoutMs: number): Promise<HttpOutcome>
  /** Waits for what is under way, and closes the idle connections. */
  close(): Promise<void>
}

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

const userAgent = `leadpush/${packageVersion}`

/** At most one request and one connection at a time, to one origin. */
interface Slot extends ExchangeSlot {
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

const isBroken = (outcome: HttpOutcome) =>
  outcome.kind === 'no-answer' && outcome.stage === 'request' && outcome.code !== 'TIMEOUT'

export function createHttp(options: HttpOptions): Http {
  const { findAddresses } = options
  const plainConnector = buildConnector({
    ...(findAddresses && { lookup: buildLookup(findAddresses) }),
    timeout: options.timeoutMs,
    autoSelectFamily: true,
    // of several addresses each gets so long; the default of 250 ms gives up on distant ones that are well
    autoSelectFamilyAttemptTimeout: 1_000,
  })
  const connector = findAddresses ? guardAddresses(plainConnector, findAddresses) : plainConnector
  const slots = new Set<Slot>()
  /** Those without a request, the one used last at the end. */
  const idle: Slot[] = []
  let underWay = 0
  const waiting: Array<() => void> = []
  /** Until when no connection to an origin is kept; the one that is over first comes first. */
  const mistrusted = new Map<string, number>()

  const discard = (slot: Slot) => {
    slots.delete(slot)
    void slot.dispatcher.destroy()
  }
  const takeSlot = (origin: string) => {
    for (let at = idle.length - 1; at >= 0; at--) {
      if (idle[at]?.origin === origin) return idle.splice(at, 1)[0] as Slot
    }
    const slot = buildSlot(origin, connector, options)
    slots.add(slot)
    return slot
  }
  const giveBack = (slot: Slot, isUsable: boolean) => {
    if (isUsable) idle.push(slot)
    else discard(slot)
    const unused = idle.length > idleMax ? idle.shift() : undefined
    if (unused) discard(unused)
    const next = waiting.shift()
    if (next) next()
    else underWay--
  }
  const mistrust = (origin: string, nowMs: number) => {
    mistrusted.delete(origin)
    for (const [other, untilMs] of mistrusted) {
      if (untilMs > nowMs) break
      mistrusted.delete(other)
    }
    mistrusted.set(origin, nowMs + mistrustMs)
  }

  const run = (
    slot: Slot,
    request: Dispatcher.DispatchOptions & { origin: string },
    limits: { timeoutMs: number; keepsAnswer: boolean },
  ) =>
    new Promise<HttpOutcome>((resolve) => {
      const dispatch = (exchange: Exchange) => void slot.dispatcher.dispatch(request, exchange)
      const exchange = new Exchange(slot, limits, dispatch, (outcome) => {
        const reached = outcome.kind === 'answer' || outcome.sent
        // a connection that is still being made, or was not, goes: the next request begins afresh
        giveBack(slot, reached)
        if (outcome.reused && isBroken(outcome)) mistrust(slot.origin, performance.now())
        resolve(outcome)
      })
      exchange.begin()
    })

  const send = async (
    url: string,
    timeoutMs: number,
    rest: Pick<Dispatcher.DispatchOptions, 'method' | 'headers' | 'body'>,
    keepsAnswer = false,
  ) => {
    const { origin, pathname, search } = parseUrl(url)
    if (underWay < options.concurrency) underWay++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    const slot = takeSlot(origin)
    const path = pathname + search
    const reset = (mistrusted.get(origin) ?? 0) > performance.now()
    // undici's own timeouts are off: they start anew with each phase
    return run(slot, { origin, path, reset, headersTimeout: 0, bodyTimeout: 0, ...rest }, { timeoutMs, keepsAnswer })
  }

  return {
    post({ url, headers, body, timeoutMs, keepsAnswer }) {
      const all = [...headers, 'User-Agent', userAgent]
      if (Buffer.isBuffer(body)) return send(url, timeoutMs, { method: 'POST', headers: all, body }, keepsAnswer)
      const { length, pieces } = body
      const measured = [...all, 'Content-Length', String(length)]
      // undici takes any iterable; its types know streams alone
      const stream = pieces as unknown as Dispatcher.DispatchOptions['body'] & object
      return send(url, timeoutMs, { method: 'POST', headers: measured, body: stream }, keepsAnswer)
    },
    get: (url, timeoutMs) => send(url, timeoutMs, { method: 'GET', headers: ['User-Agent', userAgent] }),
    head: (url, timeoutMs) => send(url, timeoutMs, { method: 'HEAD', headers: ['User-Agent', userAgent] }),
    delete: (url, timeoutMs) => send(url, timeoutMs, { method: 'DELETE', headers: ['User-Agent', userAgent] }),
    async close() {
      await Promise.all([...slots].map(({ dispatcher }) => dispatcher.close()))
    },
  }
}

let parsed = new URL('http://localhost/')
let parsedFrom = parsed.href

/** Nearly every request goes to the URL of the one before it. */
function parseUrl(url: string): URL {
  if (url !== parsedFrom) {
    parsed = new URL(url)
    parsedFrom = url
  }
  return parsed
}
