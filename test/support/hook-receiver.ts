/** An automation platform for tests: takes triggers and DELETEs on any path, keeps them, and answers as the test says. */
import http from 'node:http'
import type { Answer } from './receiver.ts'
import { listen } from './sockets.ts'
import { until } from './until.ts'

export interface ReceivedHookCall {
  method: string
  path: string
  headers: http.IncomingHttpHeaders
  body: string
  // biome-ignore lint/suspicious/noExplicitAny: a trigger may have any fields
  json: any
  webhookId: string
  atMs: number
}

export interface HookReceiver {
  url(path: string): string
  calls: ReceivedHookCall[]
  /** The calls of one path, or of all. */
  of(path?: string): ReceivedHookCall[]
  /** The most calls that were under way to one path at once. */
  peak(path: string): number
  answer: (call: ReceivedHookCall, nth: number) => Answer | Promise<Answer>
  /** Waits until so many calls have come. */
  atLeast(count: number): Promise<void>
  close(): Promise<void>
}

export async function startHookReceiver(answer: HookReceiver['answer'] = () => 200): Promise<HookReceiver> {
  const underWay = new Map<string, number>()
  const peaks = new Map<string, number>()
  const calls: ReceivedHookCall[] = []
  const server = http.createServer(async (request, response) => {
    const path = request.url ?? ''
    underWay.set(path, (underWay.get(path) ?? 0) + 1)
    peaks.set(path, Math.max(peaks.get(path) ?? 0, underWay.get(path) ?? 0))
    response.on('close', () => underWay.set(path, (underWay.get(path) ?? 0) - 1))
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    const call: ReceivedHookCall = {
      method: request.method ?? '',
      path,
      headers: request.headers,
      body,
      json: body === '' ? undefined : JSON.parse(body),
      webhookId: String(request.headers['webhook-id']),
      atMs: performance.now(),
    }
    calls.push(call)
    const given = await receiver.answer(call, calls.length)
    if (given === 'hang') return
    if (given === 'drop') return void request.socket.destroy()
    const { status, headers = {}, body: text = '', delayMs = 0 } = typeof given === 'number' ? { status: given } : given
    setTimeout(() => response.writeHead(status, headers).end(text), delayMs)
  })
  const listening = await listen(server)
  const receiver: HookReceiver = {
    url: (path) => `http://127.0.0.1:${listening.port}${path}`,
    calls,
    of: (path) => calls.filter((call) => path === undefined || call.path === path),
    peak: (path) => peaks.get(path) ?? 0,
    answer,
    atLeast: (count) => until(`${count} calls come`, () => calls.length >= count),
    close: () => listening.close(),
  }
  return receiver
}
