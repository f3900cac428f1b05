/**
 * The strict reference receiver (contract 3): takes deliveries on any path, holds each against every rule of contract 4, keeps
 * what is right, and tells what came. Everything about it is bounded: time, connections, bytes.
 */
import { createHash } from 'node:crypto'
import http from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { OpenDatabase } from '../db/open.ts'
import { codeOf } from '../errors.ts'
import { listenOn } from '../listen.ts'
import { checkHead, type Problem } from './check-request.ts'
import { countFaults, type Fault, type Faults } from './faults.ts'
import type { Applied } from './receiver-store.ts'
import { takeDelivery, type Verdict } from './take-delivery.ts'

/** What came, for a live view. Holds neither a user's key nor anything of a lead. */
export interface ReceivedDelivery {
  at: Date
  /** What was answered; null: the connection was dropped. */
  status: number | null
  msg: string
  /** Null where the headers were refused. */
  idempotencyKey: string | null
  dataSource: string | null
  /** The first 8 hexadecimal digits of the SHA-256 of the user's key. */
  user: string | null
  bytes: number
  queries: number
  leads: number
  applied: Applied | null
  /** How often the key came; 0 where that is not known. */
  times: number
  problems: Problem[]
  fault: Fault['kind'] | null
  /** All of that in a line. */
  summary: string
}

export interface ReceiverOptions {
  db: OpenDatabase
  host: string
  /** 0 takes a free one. */
  port: number
  faults?: Faults
  onDelivery?: (delivery: ReceivedDelivery) => void
  /** Trouble of the receiver itself, such as a database that is away. */
  onTrouble?: (error: unknown) => void
}

export interface Receiver {
  url: string
  port: number
  /** Stops accepting, answers what is under way without further delay, and ends the rest after 5 s. */
  close(): Promise<void>
}

const headersTimeoutMs = 10_000
const requestTimeoutMs = 60_000
const connectionsMax = 512
/** Bodies in memory at once, together. */
const heldBytesMax = 256 * 1024 * 1024
/** So much of a body that is refused is read and thrown away, so that its sender reads the answer; more cuts it off. */
const drainedBytesMax = 64 * 1024 * 1024
const closeMs = 5_000

const trouble: Verdict = { status: 503, msg: 'The receiver cannot keep anything just now; try again later.' }

/** The whole body in one Buffer; undefined where it broke off. Without `keep` it is read and thrown away. */
function readBody(request: http.IncomingMessage, keep: number | undefined): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const bytes = Buffer.allocUnsafe(keep ?? 0)
    let at = 0
    request.on('data', (chunk: Buffer) => {
      if (keep !== undefined) chunk.copy(bytes, at)
      at += chunk.length
      if (keep === undefined && at > drainedBytesMax) resolve(bytes)
    })
    request.on('end', () => resolve(keep === undefined || at === keep ? bytes : undefined))
    request.on('close', () => resolve(undefined))
    request.on('error', () => resolve(undefined))
  })
}

function buildSummary(received: Omit<ReceivedDelivery, 'summary'>): string {
  const { status, msg, idempotencyKey, user, bytes, queries, leads, applied, problems } = received
  const what = status === 200 ? `${queries} queries, ${leads} leads, ${bytes} bytes` : `${bytes} bytes`
  const kept = applied ? `: ${applied.added} new, ${applied.changed} changed, ${applied.unchanged} unchanged` : ''
  const wrong = problems.map(({ clause, path, message }) => `; ${path} ${message} (contract ${clause})`).join('')
  return `${status ?? 'dropped'} ${idempotencyKey ?? '-'} user ${user ?? '-'}, ${what}${kept}${applied ? '' : ` – ${msg}`}${wrong}`
}

/** Answers what is no HTTP, too long, or too slow: the parser's errors. */
function answerParserError(error: Error, socket: Socket): void {
  if (!socket.writable || codeOf(error) === 'ECONNRESET') return void socket.destroy()
  const [status, msg] =
    codeOf(error) === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The headers are too long.']
      : codeOf(error) === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request took too long.']
        : ['400 Bad Request', 'This is no valid HTTP request.']
  const body = JSON.stringify({ ok: false, msg, problems: [] })
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`
  socket.end(`${head}\r\n\r\n${body}`)
}

/** Throws `usage` where it cannot listen there. */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { db } = options.db
  const delayMs = options.faults?.delayMs ?? 0
  const nextFault = countFaults(options.faults ?? {})
  const closing = new AbortController()
  const underWay = new WeakMap<Socket, http.ServerResponse>()
  let heldBytes = 0

  const delay = async () => {
    if (delayMs > 0) await wait(delayMs, undefined, { signal: closing.signal }).catch(() => {})
  }

  const judge = async (
    checked: ReturnType<typeof checkHead>,
    bytes: Buffer,
    fault: Fault | undefined,
  ): Promise<Verdict> => {
    if (fault) {
      await delay()
      return fault.kind === 'fail'
        ? { status: fault.status, msg: 'A fault that was asked for.', fault: 'fail' }
        : { status: 0, msg: 'Dropped, as was asked for.', fault: 'drop' }
    }
    if ('head' in checked) return await takeDelivery(db, checked.head, bytes, { delay, delayMs })
    await delay()
    return { ...checked.refusal, msg: 'The request is not a valid delivery.' }
  }

  const report = (checked: ReturnType<typeof checkHead>, bytes: number, verdict: Verdict) => {
    const head = 'head' in checked ? checked.head : undefined
    const received = {
      at: new Date(),
      status: verdict.status || null,
      msg: verdict.msg,
      idempotencyKey: head?.idempotencyKey ?? null,
      dataSource: head?.dataSource ?? null,
      user: head ? createHash('sha256').update(head.receiverKey).digest('hex').slice(0, 8) : null,
      bytes,
      queries: verdict.queries ?? 0,
      leads: verdict.leads ?? 0,
      applied: verdict.applied ?? null,
      times: verdict.times ?? 0,
      problems: verdict.problems ?? [],
      fault: verdict.fault ?? null,
    }
    options.onDelivery?.({ ...received, summary: buildSummary(received) })
  }

  const answer = (response: http.ServerResponse, { status, msg, problems = [], body, queries, leads }: Verdict) => {
    const ok = status === 200
    const text = JSON.stringify({
      ok,
      msg,
      ...(ok ? { queries, leads, ...body } : {}),
      ...(ok && problems.length === 0 ? {} : { problems }),
    })
    const headers: http.OutgoingHttpHeaders = {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(text),
    }
    if (status === 405) headers.Allow = 'POST'
    if (status === 503) headers['Retry-After'] = '1'
    if (closing.signal.aborted || !response.req.complete) headers.Connection = 'close'
    response.writeHead(status, headers).end(text)
  }

  const handle = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    const checked = checkHead(request)
    const length = 'head' in checked ? checked.head.length : undefined
    if (length !== undefined && heldBytes + length > heldBytesMax) {
      request.resume()
      return answer(response, { status: 503, msg: 'Too many deliveries at once; try again later.' })
    }
    heldBytes += length ?? 0
    try {
      const bytes = await readBody(request, length)
      // a sender that broke off is answered by nobody
      if (!bytes) return void request.socket.destroy()
      const verdict = await judge(checked, bytes, nextFault()).catch((error) => {
        options.onTrouble?.(error)
        return trouble
      })
      report(checked, bytes.length, verdict)
      if (verdict.fault === 'drop') request.socket.destroy()
      else answer(response, verdict)
    } finally {
      heldBytes -= length ?? 0
    }
  }

  const server = http.createServer(
    { headersTimeout: headersTimeoutMs, requestTimeout: requestTimeoutMs, connectionsCheckingInterval: 1_000 },
    (request, response) => {
      const { socket } = request
      underWay.set(socket, response)
      void handle(request, response).finally(() => underWay.delete(socket))
    },
  )
  server.maxConnections = connectionsMax
  server.on('clientError', (error, socket) => {
    // what follows a request may be no HTTP, such as a body without its length: that request is answered all the same
    const pending = underWay.get(socket as Socket)
    if (pending?.req.complete) pending.once('finish', () => (socket as Socket).destroySoon())
    else answerParserError(error, socket as Socket)
  })
  const { url, port } = await listenOn(server, options.host, options.port)
  return {
    url,
    port,
    async close() {
      closing.abort()
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeIdleConnections()
      const timer = setTimeout(() => server.closeAllConnections(), closeMs)
      await closed
      clearTimeout(timer)
    },
  }
}
