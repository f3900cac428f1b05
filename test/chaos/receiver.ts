/**
 * The receiver, a process of its own: writes down every request before it answers, and drops, delays, refuses or answers it
 * as the seed has it; for a while it lets few through, refuses everybody or is gone, as it is told. Started with the folder for its logs and the seed; the path of a request is
 * `/ROUND/PROCESS/TEMPER`, and each round has a log.
 */
import { createHash } from 'node:crypto'
import { openSync, writeSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from './random.ts'

/** A line of the log. `answered` is written before the answer; `closed`: the sender left without one. */
export type Logged =
  | (At & { event: 'came'; key: string; userKey: string; process: number })
  | (At & { event: 'read'; sha256: string; bytes: number })
  | (At & Answer & { event: 'answered' })
  | (At & { event: 'closed' })

/** `atMs` is the order of what happens; `wallMs` is the time of the clock by which the database measures pauses. */
interface At {
  id: number
  atMs: number
  wallMs: number
}

export interface Answer {
  status: number
  how: 'whole' | 'partly' | 'dropped'
  /** What the `Retry-After` of a 429 or 503 asks for. */
  retryMs?: number
  /** Everybody is refused. */
  refusing?: boolean
}

export type Temper = 'calm' | 'well' | 'rough' | 'failing' | 'throttling' | 'down'

/** For so long it is not there, answers 503, or lets few through. */
export interface Command {
  mode: 'close receiver' | 'refuse' | 'throttle'
  forMs: number
}

interface Mood {
  delayMs: number
  how: Answer['how']
  /** Drops without having read the body. */
  unread: boolean
  status: number
  headers: Record<string, string>
  retryMs: number
}

const faults = { calm: 0, well: 0.05, rough: 0.35, failing: 0.75, throttling: 0.05, down: 1 }
/**
 * So many are let through in so long: while it throttles, and by a receiver that always does. One that asked for less at random,
 * however slowly it is asked, would bring every push to a standstill.
 */
const throttled = { requests: 2, always: 5, inMs: 200 }

/** With a `Retry-After` in seconds, as a date, or without one. */
function busy(random: Random, status: 429 | 503): Required<Pick<Mood, 'status' | 'headers' | 'retryMs'>> {
  const seconds = random.one([undefined, undefined, undefined, 0, 1])
  if (seconds === undefined) return { status, headers: {}, retryMs: 0 }
  if (random.chance(0.7)) return { status, headers: { 'Retry-After': `${seconds}` }, retryMs: seconds * 1_000 }
  const [date, at] = [Date.now(), Date.now() + seconds * 1_000].map((ms) => new Date(ms).toUTCString()) as [
    string,
    string,
  ]
  return { status, headers: { Date: date, 'Retry-After': at }, retryMs: seconds * 1_000 }
}

function findMood(random: Random, temper: Temper): Mood {
  if (temper === 'calm')
    return { delayMs: random.from(5, 30), how: 'whole', unread: false, status: 200, headers: {}, retryMs: 0 }
  const delayMs = random.chance(0.7) ? random.from(10, 120) : random.from(120, 400)
  const well: Mood = {
    delayMs,
    how: 'whole',
    unread: false,
    status: random.one([200, 200, 201, 204]),
    headers: {},
    retryMs: 0,
  }
  if (!random.chance(faults[temper])) return well
  const what = temper === 'down' ? random.one([2, 3, 7, 9]) : random.from(1, 12)
  if (what === 1) return { ...well, how: 'dropped', unread: true }
  if (what === 2) return { ...well, how: 'dropped' }
  if (what === 3) return { ...well, how: 'partly', status: 200 }
  // longer than the sender's patience, and then a success that comes too late
  if (what === 4) return { ...well, delayMs: 900 }
  if (what === 5) return { ...well, status: 409 }
  if (what === 6) return { ...well, status: 302, headers: { Location: '/elsewhere' } }
  if (what <= 8) return { ...well, status: 500 }
  if (what <= 10) return { ...well, status: 503 }
  return { ...well, status: random.one([400, 422]) }
}

/** What it was told to be for a while. */
class Modes {
  private readonly endsAt = { refuse: 0, throttle: 0 }
  private passed = { window: 0, requests: 0 }

  set({ mode, forMs }: Command): void {
    if (mode !== 'close receiver') this.endsAt[mode] = performance.now() + forMs
  }

  get isRefusing(): boolean {
    return performance.now() < this.endsAt.refuse
  }

  /** Whether a request that comes now is one too many. */
  isThrottled(temper: Temper): boolean {
    const now = performance.now()
    const window = Math.floor(now / throttled.inMs)
    if (window !== this.passed.window) this.passed = { window, requests: 0 }
    this.passed.requests++
    if (now < this.endsAt.throttle) return this.passed.requests > throttled.requests
    return temper === 'throttling' && this.passed.requests > throttled.always
  }
}

async function readBody(request: http.IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk)
    return Buffer.concat(chunks)
  } catch {
    return undefined
  }
}

function serve(folder: string, seed: string, modes: Modes): http.Server {
  const logs = new Map<string, number>()
  const times = new Map<string, number>()
  let ids = 0
  return http.createServer(async (request, response) => {
    if (request.method === 'HEAD') {
      return void response.writeHead(modes.isRefusing || request.url?.endsWith('/down') ? 503 : 200).end()
    }
    const id = ++ids
    const [, round = '', sender = '', temper = ''] = (request.url ?? '').split('/')
    const file = logs.get(round) ?? openSync(`${folder}/${round}.log`, 'a')
    logs.set(round, file)
    const log = (line: Record<string, unknown>) =>
      writeSync(file, `${JSON.stringify({ id, atMs: performance.now(), wallMs: Date.now(), ...line })}\n`)
    const key = String(request.headers['x-idempotency-key'])
    const nth = (times.get(round + key) ?? 0) + 1
    times.set(round + key, nth)
    log({ event: 'came', key, userKey: String(request.headers['x-service-api-key']), process: Number(sender) })
    let answered = false
    response.on('close', () => {
      if (!answered) log({ event: 'closed' })
    })
    const random = new Random(seed, round, key, nth)
    let mood = findMood(random, temper as Temper)
    if (modes.isThrottled(temper as Temper))
      mood = { ...mood, unread: false, delayMs: 5, how: 'whole', ...busy(random, 429) }
    if (!mood.unread) {
      const body = await readBody(request)
      if (body === undefined) return
      log({ event: 'read', sha256: createHash('sha256').update(body).digest('hex'), bytes: body.length })
      await sleep(mood.delayMs)
    }
    if (response.closed || request.socket.destroyed) return
    answered = true
    // as late as this: nobody is answered otherwise once the first was refused
    const refusing = modes.isRefusing
    if (refusing) mood = { ...mood, how: 'whole', ...busy(random, 503) }
    const answer: Answer = { status: mood.status, how: mood.how, ...(refusing && { refusing }) }
    if (mood.how === 'whole') answer.retryMs = mood.retryMs
    log({ event: 'answered', ...answer })
    if (mood.how === 'dropped') request.socket.destroy()
    else if (mood.how === 'partly') {
      response.writeHead(mood.status, { 'Content-Length': '100' })
      response.write('{"ok":', () => request.socket.destroy())
    } else response.writeHead(mood.status, mood.headers).end(mood.status === 204 ? undefined : '{"ok":true}')
  })
}

/** Listens, tells its port, and does as it is told. */
function main(folder: string, seed: string): void {
  const modes = new Modes()
  const server = serve(folder, seed, modes)
  // an attempt on a connection that has just been closed would be recorded and never come
  server.keepAliveTimeout = 0
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    process.on('message', async (command: Command) => {
      modes.set(command)
      if (command.mode !== 'close receiver' || !server.listening) return
      server.close()
      for (const socket of sockets) socket.destroy()
      await sleep(command.forMs)
      server.listen(port, '127.0.0.1')
    })
    process.send?.(port)
  })
  process.on('disconnect', () => process.exit())
}

const [, , folder = '', seed = ''] = process.argv
if (process.send) main(folder, seed)
