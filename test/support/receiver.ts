/** A receiver for tests: keeps every request as it came, and answers as the test says. */
import http from 'node:http'
import { gunzipSync } from 'node:zlib'
import { listen } from './sockets.ts'
import { until } from './until.ts'

export interface ReceivedRequest {
  key: string
  method: string
  path: string
  /** The headers as they came, names in their own case. */
  rawHeaders: string[]
  headers: http.IncomingHttpHeaders
  body: Buffer
  /** The body, decoded where it came compressed. */
  plain: Buffer
  json: { queryList: { type: string; value: string; radius: number }[]; fsbos: Record<string, unknown>[] }
  atMs: number
}

/** The answer to a request: a status, with headers; `drop` ends the connection, `hang` never answers. */
export type Answer =
  | number
  | { status: number; headers?: Record<string, string>; body?: string; delayMs?: number }
  | 'drop'
  | 'hang'

export interface TestReceiver {
  url: string
  requests: ReceivedRequest[]
  /** The most requests that were under way at once. */
  peak(): number
  keys(): Map<string, ReceivedRequest[]>
  /** The answer to a HEAD, which is not kept among the requests. */
  head: () => number
  answer: (request: ReceivedRequest, nth: number) => Answer | Promise<Answer>
  close(): Promise<void>
}

export async function startTestReceiver(answer: TestReceiver['answer'] = () => 200, port = 0): Promise<TestReceiver> {
  let underWay = 0
  let peak = 0
  const requests: ReceivedRequest[] = []
  const server = http.createServer(async (request, response) => {
    if (request.method === 'HEAD') return void response.writeHead(receiver.head()).end()
    peak = Math.max(peak, ++underWay)
    response.on('close', () => underWay--)
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return
    }
    const body = Buffer.concat(chunks)
    const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
    const received: ReceivedRequest = {
      key: String(request.headers['x-idempotency-key']),
      method: request.method ?? '',
      path: request.url ?? '',
      rawHeaders: request.rawHeaders,
      headers: request.headers,
      body,
      plain,
      json: JSON.parse(plain.toString()),
      atMs: performance.now(),
    }
    requests.push(received)
    const given = await receiver.answer(received, requests.length)
    if (given === 'hang') return
    if (given === 'drop') return void request.socket.destroy()
    const {
      status,
      headers = {},
      body: text = '{"ok":true}',
      delayMs = 0,
    } = typeof given === 'number' ? { status: given } : given
    setTimeout(() => response.writeHead(status, headers).end(text), delayMs)
  })
  const listening = await listen(server, { port })
  const receiver: TestReceiver = {
    url: `http://127.0.0.1:${listening.port}/leads`,
    requests,
    peak: () => peak,
    keys: () => {
      const keys = new Map<string, ReceivedRequest[]>()
      for (const request of requests) keys.set(request.key, [...(keys.get(request.key) ?? []), request])
      return keys
    },
    head: () => 200,
    answer,
    close: () => listening.close(),
  }
  return receiver
}

/** Waits until so many requests have come. */
export async function requestsAtLeast({ requests }: TestReceiver, count: number): Promise<void> {
  await until(`${count} requests come`, () => requests.length >= count)
}
