/**
 * The HTTP edge: the only file that knows undici. Whatever happens on the wire comes back as a value that says whether
 * anything of the request may have reached the peer; a request is written once, or not at all.
 */
import type { Socket } from 'node:net'
import { Agent, buildConnector, Client, type Dispatcher, EnvHttpProxyAgent } from 'undici'
import type { Proxies } from './config.ts'
import { codeOf } from './errors.ts'
import { describeTrouble, type TroubleStage } from './http-trouble.ts'
import { responseBytesMax } from './limits.ts'
import { packageVersion } from './root.ts'

export interface HttpAnswer {
  kind: 'answer'
  status: number
  /** These headers as they came. */
  retryAfter: string | undefined
  date: string | undefined
  complete: true
}

export interface HttpNoAnswer {
  kind: 'no-answer'
  /** false: certainly nothing of the request reached the peer. */
  sent: boolean
  stage: TroubleStage
  /** One line in plain words, without secrets and without text from the peer. */
  error: string
  code: string | undefined
}

export type HttpOutcome = HttpAnswer | HttpNoAnswer

export interface HttpPost {
  url: string
  /** Names and values in turn. */
  headers: readonly string[]
  /** Sent with its length as Content-Length. The caller may overwrite it as soon as `post` has settled. */
  body: Buffer
  timeoutMs: number
}

export interface Http {
  /** One POST. Redirects are not followed. The timeout runs from connecting to the end of the response. Never throws. */
  post(request: HttpPost): Promise<HttpOutcome>
  get(url: string, timeoutMs: number): Promise<HttpOutcome>
  /** Waits for what is under way, and closes the idle connections. */
  close(): Promise<void>
}

export interface HttpOptions {
  /** The longest that connecting may take, whatever a request allows. */
  timeoutMs: number
  /** Requests under way at once, each with a connection of its own; more than that wait in line, their timeout not yet running. */
  concurrency: number
  proxies?: Proxies
}

const userAgent = `leadpush/${packageVersion}`

/** What connecting failed with, wrapped: undici connects again at once, without end, when it sees some of its own errors. */
class Unreached extends Error {}

const over = new Error('over')

/** A place of the concurrency: at most one request and one connection to its target at a time. */
interface Slot {
  direct: Dispatcher
  proxied: Dispatcher | undefined
  /** The connection made last. */
  socket: Socket | undefined
}

function buildSlot(connector: buildConnector.connector, { timeoutMs, proxies = {} }: HttpOptions): Slot {
  const factory = (origin: string | URL, options: object): Dispatcher => {
    // a proxy brings a connector of its own, which asks it for a tunnel
    const { connect = connector } = options as { connect?: buildConnector.connector }
    return new Client(origin, {
      pipelining: 1,
      connect: (target, callback) =>
        connect(target, (error, socket) => {
          if (error) return callback(new Unreached('not connected', { cause: error }), null)
          slot.socket = socket as Socket
          callback(null, socket as Socket)
        }),
    })
  }
  const { http = '', https = '', except = '' } = proxies
  const slot: Slot = {
    direct: new Agent({ factory }),
    proxied:
      http || https
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
        : undefined,
    socket: undefined,
  }
  return slot
}

const first = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value)

/** One request, from dispatch to its outcome. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #slot: Slot
  readonly #settle: (outcome: HttpOutcome, reusable: boolean) => void
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | undefined
  #settled = false
  #ended = false
  #status = 0
  #retryAfter: string | undefined
  #date: string | undefined
  #bytes = 0

  constructor(slot: Slot, timeoutMs: number, settle: (outcome: HttpOutcome, reusable: boolean) => void) {
    this.#slot = slot
    this.#settle = settle
    this.#timer = setTimeout(() => this.#fail('TIMEOUT'), timeoutMs)
  }

  /** From here on bytes may reach the peer. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#settled || this.#controller) {
      // too late, or a second time: undici must not send a request again by itself
      controller.abort(over)
      if (!this.#settled) this.#fail('ECONNRESET')
      return
    }
    this.#controller = controller
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status < 200) return
    this.#status = status
    this.#retryAfter = first(headers['retry-after'])
    this.#date = first(headers.date)
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > responseBytesMax && !this.#settled) this.#answer()
  }

  onResponseEnd(): void {
    if (this.#settled) return
    this.#ended = true
    // a response without a length ends with its connection, but not with a broken one
    if (this.#slot.socket?.errored) this.#fail('ECONNRESET')
    else this.#answer()
  }

  onResponseError(_: unknown, error: Error): void {
    if (!this.#settled) this.#fail(codeOf(error instanceof Unreached ? error.cause : error), error)
  }

  /** Whatever did not come to its end in both directions ends with its connection, so that nothing reads the body any more. */
  #finish(outcome: HttpOutcome): void {
    this.#settled = true
    clearTimeout(this.#timer)
    if (!this.#ended) this.#controller?.abort(over)
    if ((this.#slot.socket?.writableLength ?? 0) > 0) this.#slot.socket?.destroy()
    this.#settle(outcome, this.#controller !== undefined)
  }

  #answer(): void {
    this.#finish({
      kind: 'answer',
      status: this.#status,
      retryAfter: this.#retryAfter,
      date: this.#date,
      complete: true,
    })
  }

  #fail(code: string | undefined, error?: Error): void {
    const stage = this.#status > 0 ? 'response' : this.#controller ? 'request' : 'connect'
    const cause = error instanceof Unreached ? error.cause : error
    const text = describeTrouble(stage, code, cause)
    this.#finish({ kind: 'no-answer', sent: this.#controller !== undefined, stage, error: text, code })
  }
}

export function createHttp(options: HttpOptions): Http {
  const connector = buildConnector({
    timeout: options.timeoutMs,
    autoSelectFamily: true,
    // of several addresses each gets so long; the default of 250 ms gives up on distant ones that are well
    autoSelectFamilyAttemptTimeout: 1_000,
  })
  const slots = new Set<Slot>()
  const free: Slot[] = []
  const waiting: Array<(slot: Slot) => void> = []

  const addSlot = () => {
    const slot = buildSlot(connector, options)
    slots.add(slot)
    return slot
  }
  const discard = (slot: Slot) => {
    slots.delete(slot)
    void slot.direct.destroy()
    void slot.proxied?.destroy()
  }
  const giveBack = (slot: Slot) => {
    const next = waiting.shift()
    if (next) next(slot)
    else free.push(slot)
  }
  const dispatcherOf = (slot: Slot, origin: string) => {
    const proxy = origin.startsWith('https:') ? options.proxies?.https : options.proxies?.http
    return proxy && slot.proxied ? slot.proxied : slot.direct
  }

  const run = (slot: Slot, request: Dispatcher.DispatchOptions & { origin: string }, timeoutMs: number) =>
    new Promise<HttpOutcome>((resolve) => {
      const exchange = new Exchange(slot, timeoutMs, (outcome, reusable) => {
        // a connection that is still being made, or was not, takes its place with it: the next request begins afresh
        if (!reusable) discard(slot)
        giveBack(reusable ? slot : addSlot())
        resolve(outcome)
      })
      try {
        dispatcherOf(slot, request.origin).dispatch(request, exchange)
      } catch (error) {
        exchange.onResponseError(undefined, error as Error)
      }
    })

  const send = async (
    url: string,
    timeoutMs: number,
    rest: Pick<Dispatcher.DispatchOptions, 'method' | 'headers' | 'body'>,
  ) => {
    const slot =
      free.pop() ??
      (slots.size < options.concurrency ? addSlot() : await new Promise<Slot>((resolve) => waiting.push(resolve)))
    const { origin, pathname, search } = parseUrl(url)
    // undici's own timeouts are off: they start anew with each phase
    return run(slot, { origin, path: pathname + search, headersTimeout: 0, bodyTimeout: 0, ...rest }, timeoutMs)
  }

  return {
    post: ({ url, headers, body, timeoutMs }) =>
      send(url, timeoutMs, { method: 'POST', headers: [...headers, 'User-Agent', userAgent], body }),
    get: (url, timeoutMs) => send(url, timeoutMs, { method: 'GET', headers: ['User-Agent', userAgent] }),
    async close() {
      await Promise.all([...slots].flatMap((slot) => [slot.direct.close(), slot.proxied?.close()]))
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
