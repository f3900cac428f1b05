/**
 * The hardened HTTP server under the endpoints and the reference receiver. Connections are bounded in time, bytes and number;
 * silent or slow clients shut nobody out; input that is no HTTP gets an answer in JSON too.
 */
import http from 'node:http'
import type { Socket } from 'node:net'
import { codeOf } from '../base/errors.ts'
import { UnreadAnswers } from './unread-answers.ts'

const headBytesMax = 16 * 1024
const headMsMax = 5_000
/** Longer than usual proxies keep an idle connection, so that the proxy closes it first. */
const keepAliveMs = 65_000
const defaultAnswerMsMax = 10_000
/** Under the usual limit of 1,024 open files. */
const defaultConnectionsMax = 500
/** All requests under way. Only pipelining, which lets one connection have many, reaches it: others have one each. */
const requestsMax = 1_000
/** Requests under way of one connection. A proxy, a platform and a browser have one at a time. */
const requestsEachMax = 20
/** A client that is still sending must be able to read its answer before the connection goes. */
const lingerMs = 2_000

export interface HardServerOptions {
  /** Also gets requests with `Expect: 100-continue`, before the sender is told to go on. */
  handle: http.RequestListener
  /** How long a request may take to arrive. */
  requestMsMax: number
  /** The longest silence on a connection with a request under way, for instance while the client does not read the answer. */
  stallMsMax: number
  /** How long a client may take to read an answer, from its first byte to its last: 10 s unless a test gives another. */
  answerMsMax?: number
  /** 500 unless a test gives another. */
  connectionsMax?: number
  /** The body of an answer that is not the handler's. */
  buildRefusal(msg: string): string
  /** Called for each refusal by the server itself; `isSeen`: the handler had the beginning of the request. */
  onRefused(refused: { status: number; address: string; msg: string; isSeen: boolean }): void
}

export interface HardServer {
  server: http.Server
  /** Takes no new connections and requests. Closes idle connections now, and the others after `graceMs`. */
  close(graceMs: number): Promise<void>
}

export const jsonType = 'application/json; charset=utf-8'
/** In every answer: e-mails and contacts in it are for no cache (contract 5.1). */
const cacheControl = 'no-store'

/** By connection, the answer to its last request until that is sent in full. */
type Connections = Map<Socket, http.ServerResponse | undefined>

const parserAnswers: Readonly<Record<string, readonly [status: number, msg: string]>> = {
  HPE_HEADER_OVERFLOW: [431, `The headers are too long: at most ${headBytesMax} bytes.`],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request took too long to arrive.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'The chunk extensions of the body are too long.'],
}

function answerRaw(socket: Socket, status: number, body: string): void {
  socket.end(
    `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\nContent-Type: ${jsonType}\r\n` +
      `Cache-Control: ${cacheControl}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}

/**
 * Over `most` connections the connection whose request has been awaited for longest is closed, or else the one that has left an answer
 * unread for longest, or else the newcomer.
 */
function makeRoom(connections: Connections, unread: UnreadAnswers, newcomer: Socket, most: number): void {
  if (connections.size <= most) return
  for (const [socket, response] of connections) {
    const isAwaited = response === undefined || !response.req.complete
    if (isAwaited && socket !== newcomer) return void socket.destroy()
  }
  const oldest = unread.oldest ?? newcomer
  oldest.destroy()
}

/** Lets a client that is still sending read its answer: closing a socket with unread bytes would reset it. */
function lingerOn(socket: Socket, connections: Connections): void {
  const closeNow = socket.destroySoon.bind(socket)
  socket.destroySoon = () => {
    if (connections.get(socket)?.req.complete !== false) return closeNow()
    socket.end()
    const timer = setTimeout(() => socket.destroy(), lingerMs)
    socket.once('close', () => clearTimeout(timer))
  }
}

/**
 * How many requests of each connection are under way, also of those whose answers wait for the ones before: these are not told
 * that the connection has gone.
 */
class UnderWay {
  private readonly connections = new Map<Socket, number>()
  /** Connections by the number of their requests: the one with the most is found without a look at each. */
  private readonly byCount = Array.from({ length: requestsEachMax + 2 }, () => new Set<Socket>())
  private requests = 0

  add(socket: Socket): void {
    this.connections.set(socket, 0)
    socket.on('close', () => this.forget(socket))
  }

  count(socket: Socket, more: 1 | -1): void {
    const before = this.connections.get(socket)
    if (before === undefined) return
    this.byCount[before]?.delete(socket)
    this.byCount[before + more]?.add(socket)
    this.connections.set(socket, before + more)
    this.requests += more
  }

  private forget(socket: Socket): void {
    const count = this.connections.get(socket) ?? 0
    this.byCount[count]?.delete(socket)
    this.requests -= count
    this.connections.delete(socket)
  }

  /** Over `requestsMax` the connection with the most requests is closed. False where this one has too many, or the most. */
  hasRoomFor(own: Socket): boolean {
    const count = this.connections.get(own) ?? 0
    if (count > requestsEachMax) return false
    if (this.requests <= requestsMax) return true
    const [most = own] = this.byCount.findLast((sockets) => sockets.size > 0) ?? []
    if (count >= (this.connections.get(most) ?? 0)) return false
    this.forget(most)
    most.destroy()
    return true
  }
}

/**
 * Nothing that came behind this request is looked at: Node.js parses some 2,000 small ones of a chunk at once, and asks before each of
 * them. A parser that is told so reports an error, and the connection ends as after bytes that are no HTTP.
 */
function ignoreRest(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: { onIncoming: () => number } | null }
  if (parser) parser.onIncoming = () => -1
}

/** A server of Node.js within the limits of time and size. */
function createServer({ requestMsMax, stallMsMax }: HardServerOptions, onRequest: http.RequestListener): http.Server {
  const server = http.createServer(
    {
      maxHeaderSize: headBytesMax,
      headersTimeout: headMsMax,
      requestTimeout: requestMsMax,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: 1_000,
      // refused by the endpoints themselves, in JSON
      requireHostHeader: false,
    },
    onRequest,
  )
  server.timeout = stallMsMax
  // all of them: of two Host headers the second may come late
  server.maxHeadersCount = 0
  server.on('checkContinue', onRequest)
  server.on('checkExpectation', onRequest)
  return server
}

export function buildHardServer(options: HardServerOptions): HardServer {
  const {
    handle,
    buildRefusal,
    onRefused,
    answerMsMax = defaultAnswerMsMax,
    connectionsMax = defaultConnectionsMax,
  } = options
  const connections: Connections = new Map()
  const underWay = new UnderWay()
  const unread = new UnreadAnswers(answerMsMax)

  const onRequest = (request: http.IncomingMessage, response: http.ServerResponse) => {
    const { socket } = request
    // the order is that of the last sign of life
    connections.delete(socket)
    connections.set(socket, response)
    underWay.count(socket, 1)
    unread.watch(response)
    response.setHeader('Cache-Control', cacheControl)
    response.once('close', () => {
      underWay.count(socket, -1)
      if (connections.get(socket) !== response || !request.complete) return
      connections.delete(socket)
      if (!socket.destroyed) connections.set(socket, undefined)
    })
    if (underWay.hasRoomFor(socket)) return handle(request, response)
    ignoreRest(socket)
    const msg = 'Too many requests are under way: try again in a second.'
    const body = buildRefusal(msg)
    onRefused({ status: 503, address: socket.remoteAddress ?? '', msg, isSeen: false })
    response
      .writeHead(503, {
        ...{ 'Content-Type': jsonType, 'Content-Length': Buffer.byteLength(body) },
        ...{ 'Retry-After': '1', Connection: 'close' },
      })
      .end(body)
  }

  const refuse = (socket: Socket, status: number, msg: string) => {
    onRefused({ status, address: socket.remoteAddress ?? '', msg, isSeen: connections.get(socket) !== undefined })
    answerRaw(socket, status, buildRefusal(msg))
  }

  const server = createServer(options, onRequest)
  server.on('connection', (socket: Socket) => {
    connections.set(socket, undefined)
    underWay.add(socket)
    socket.on('close', () => connections.delete(socket))
    lingerOn(socket, connections)
    makeRoom(connections, unread, socket, connectionsMax)
  })
  server.on('connect', (_request, socket) => refuse(socket as Socket, 400, 'This is not a proxy.'))
  server.on('clientError', (error, stream) => {
    const socket = stream as Socket
    const response = connections.get(socket)
    // a valid request is answered even when the bytes after it are no HTTP
    if (response?.req.complete && !response.writableFinished) response.once('finish', () => socket.destroySoon())
    else if (!socket.writable || response?.headersSent || socket.bytesRead === 0 || codeOf(error) === 'ECONNRESET') {
      socket.destroy()
    } else {
      const [status, msg] = parserAnswers[codeOf(error) ?? ''] ?? [400, 'This is not a valid HTTP request.']
      refuse(socket, status, msg)
    }
  })

  return {
    server,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const [socket, response] of connections) {
        if (response === undefined) socket.destroy()
        else if (!response.headersSent) response.setHeader('Connection', 'close')
      }
      const timer = setTimeout(() => server.closeAllConnections(), graceMs)
      await closed
      clearTimeout(timer)
    },
  }
}
