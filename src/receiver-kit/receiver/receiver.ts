/**
 * The strict reference receiver (contract 3): takes deliveries on any path, checks each against every rule of contract 4, stores the
 * right ones, and reports every request. Time, connections and bytes are bounded.
 */
import { createHash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type http from 'node:http'
import { bodyBytesMax } from '../../base/limits.ts'
import { buildHardServer, jsonType } from '../../http/hard-server.ts'
import { listenOn } from '../../http/listen.ts'
import { type CheckedHead, checkHead, type RequestProblem } from './check-request.ts'
import type { Fault } from './faults.ts'
import { createJudge, type JudgeOptions } from './judge.ts'
import { nothing, readBody } from './read-body.ts'
import type { Applied } from './receiver-store.ts'
import type { TakenDelivery } from './take-delivery.ts'

/** A request as the live view shows it: without the user's key and without leads. */
export interface ReceivedDelivery {
  at: Date
  /** The status of the answer; null: none, the connection was dropped or the sender broke off. */
  status: number | null
  msg: string
  /** Null if the headers were refused. */
  idempotencyKey: string | null
  dataSource: string | null
  /** The first 8 hexadecimal digits of the SHA-256 of the user's key. */
  user: string | null
  bytes: number
  /** From the request's headers to its answer. */
  durationMs: number
  queries: number
  leads: number
  applied: Applied | null
  /** How often the key came; 0 if unknown. */
  times: number
  problems: RequestProblem[]
  fault: Fault['kind'] | null
}

export interface ReceiverOptions extends JudgeOptions {
  host: string
  /** 0 takes a free one. */
  port: number
  onDelivery?: (delivery: ReceivedDelivery) => void
  /** Trouble of the receiver itself, such as a database that is away. */
  onTrouble?: (error: unknown) => void
}

export interface ReferenceReceiver {
  url: string
  port: number
  /** Stops accepting, answers requests under way without further delay, and ends the rest after 5 s. */
  close(): Promise<void>
}

const requestMsMax = 60_000
const stallMsMax = 60_000
/** Bodies in memory at once, together. */
const heldBytesMax = 256 * 1024 * 1024
const closeMs = 5_000

const trouble: TakenDelivery = { status: 503, msg: 'The receiver cannot keep anything just now; try again later.' }

function buildAnswer({ status, msg, problems = [], body, queries, leads }: TakenDelivery): string {
  const ok = status === 200
  const counts = ok ? { queries, leads, ...body } : {}
  return JSON.stringify({ ok, msg, ...counts, ...(ok && problems.length === 0 ? {} : { problems }) })
}

/** The answer to bytes that are not HTTP, too long, or too slow. */
const buildParserRefusal = (msg: string) => {
  const problems: RequestProblem[] = [{ clause: '4.1', path: 'request', message: msg }]
  return buildAnswer({ status: 400, msg, problems })
}

function tell(
  head: CheckedHead | undefined,
  length: number,
  startedMs: number,
  verdict: TakenDelivery,
): ReceivedDelivery {
  const { receiverKey, dataSource, idempotencyKey } = head && 'head' in head ? head.head : {}
  return {
    at: new Date(),
    status: verdict.status || null,
    msg: verdict.msg,
    idempotencyKey: idempotencyKey ?? null,
    dataSource: dataSource ?? null,
    user: receiverKey === undefined ? null : createHash('sha256').update(receiverKey).digest('hex').slice(0, 8),
    bytes: length,
    durationMs: Math.round(performance.now() - startedMs),
    queries: verdict.queries ?? 0,
    leads: verdict.leads ?? 0,
    applied: verdict.applied ?? null,
    times: verdict.times ?? 0,
    problems: verdict.problems ?? [],
    fault: verdict.fault ?? null,
  }
}

/** Throws `usage` if it cannot listen there. */
export async function startReceiver(options: ReceiverOptions): Promise<ReferenceReceiver> {
  const closing = new AbortController()
  // each delayed request listens
  setMaxListeners(0, closing.signal)
  const judge = createJudge(options, closing.signal)
  let heldBytes = 0

  const answer = (response: http.ServerResponse, verdict: TakenDelivery) => {
    const { status } = verdict
    const text = buildAnswer(verdict)
    const headers: http.OutgoingHttpHeaders = {
      'Content-Type': jsonType,
      'Content-Length': Buffer.byteLength(text),
      'Accept-Encoding': 'gzip',
    }
    if (status === 405) headers.Allow = 'POST'
    if (status === 503) headers['Retry-After'] = 1
    if (closing.signal.aborted || !response.req.complete) headers.Connection = 'close'
    response.writeHead(status, headers).end(text)
  }

  const handle = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    const startedMs = performance.now()
    const checked = checkHead(request)
    const length = 'head' in checked ? checked.head.length : 0
    // a compressed body is held decoded too
    const held = length + ('head' in checked && checked.head.gzip ? bodyBytesMax : 0)
    const hasRoom = heldBytes + held <= heldBytesMax
    const keep = 'head' in checked && hasRoom ? length : undefined
    const asks = request.headers.expect?.toLowerCase() === '100-continue'
    const heldNow = keep === undefined ? 0 : held
    heldBytes += heldNow
    try {
      if (asks && keep !== undefined) response.writeContinue()
      // a sender that asks before sending a body need not send a refused one
      const read = asks && keep === undefined ? nothing : await readBody(request, keep)
      const verdict = await judge(checked, read).catch((error) => {
        options.onTrouble?.(error)
        return trouble
      })
      options.onDelivery?.(tell(checked, read.length, startedMs, verdict))
      if (verdict.status === 0) request.socket.destroy()
      else answer(response, verdict)
    } finally {
      heldBytes -= heldNow
    }
  }

  const { server, close } = buildHardServer({
    handle: (request, response) => void handle(request, response),
    requestMsMax,
    stallMsMax: stallMsMax + (options.faults?.delayMs ?? 0),
    buildRefusal: buildParserRefusal,
    onRefused({ status, msg, isSeen }) {
      if (!isSeen) options.onDelivery?.(tell(undefined, 0, performance.now(), { status, msg }))
    },
  })
  const { url, port } = await listenOn(server, options.host, options.port)
  return {
    url,
    port,
    async close() {
      closing.abort()
      await close(closeMs)
    },
  }
}
