/**
 * The HTTP client: beside `connections.ts` the only file that knows undici. Every outcome on the wire is a value, which says whether
 * the peer may have received any of the request. A request is written once or not at all.
 */
import type { Dispatcher } from 'undici'
import { Connections, type HttpOptions, type Slot, userAgent } from './connections.ts'
import { Exchange, type HttpOutcome } from './exchange.ts'

export interface HttpPost {
  url: string
  /** Names and values in turn. */
  headers: readonly string[]
  /** Sent with its length as Content-Length. The caller may overwrite it as soon as `post` has settled. */
  body: Buffer
  timeoutMs: number
  /** Whether the body of the answer is wanted. */
  keepsAnswer?: boolean
}

export interface Http {
  /** One POST. Redirects are not followed. The timeout runs from connecting to the end of the response. Never throws. */
  post(request: HttpPost): Promise<HttpOutcome>
  get(url: string, timeoutMs: number): Promise<HttpOutcome>
  head(url: string, timeoutMs: number): Promise<HttpOutcome>
  delete(url: string, timeoutMs: number): Promise<HttpOutcome>
  /** Waits for requests under way, and closes the connections. */
  close(): Promise<void>
}

const isBroken = (outcome: HttpOutcome) =>
  outcome.kind === 'no-answer' && outcome.stage === 'request' && outcome.code !== 'TIMEOUT'

export function createHttp(options: HttpOptions): Http {
  const connections = new Connections(options)

  const run = (
    slot: Slot,
    request: Dispatcher.DispatchOptions & { origin: string },
    limits: { timeoutMs: number; keepsAnswer: boolean },
  ) =>
    new Promise<HttpOutcome>((resolve) => {
      const dispatch = (exchange: Exchange) => void slot.dispatcher.dispatch(request, exchange)
      const exchange = new Exchange(slot, limits, dispatch, (outcome) => {
        const reached = outcome.kind === 'answer' || outcome.sent
        // an unfinished connection is dropped: the next request makes its own
        connections.giveBack(slot, reached)
        if (outcome.reused && isBroken(outcome)) connections.mistrust(slot.origin)
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
    const slot = await connections.take(origin)
    const path = pathname + search
    const reset = connections.mistrusts(origin)
    // undici's own timeouts are off: they start anew with each phase
    return run(slot, { origin, path, reset, headersTimeout: 0, bodyTimeout: 0, ...rest }, { timeoutMs, keepsAnswer })
  }

  return {
    post({ url, headers, body, timeoutMs, keepsAnswer }) {
      const all = [...headers, 'User-Agent', userAgent]
      return send(url, timeoutMs, { method: 'POST', headers: all, body }, keepsAnswer)
    },
    get: (url, timeoutMs) => send(url, timeoutMs, { method: 'GET', headers: ['User-Agent', userAgent] }),
    head: (url, timeoutMs) => send(url, timeoutMs, { method: 'HEAD', headers: ['User-Agent', userAgent] }),
    delete: (url, timeoutMs) => send(url, timeoutMs, { method: 'DELETE', headers: ['User-Agent', userAgent] }),
    close: () => connections.close(),
  }
}

let parsed = new URL('http://localhost/')
let parsedFrom = parsed.href

/** Keeps the last result: nearly every request goes to the URL of the request before it. */
function parseUrl(url: string): URL {
  if (url !== parsedFrom) {
    parsed = new URL(url)
    parsedFrom = url
  }
  return parsed
}
