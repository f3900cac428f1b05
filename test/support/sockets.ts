/** Real sockets for tests: servers that do on the wire exactly what a test says, and requests sent byte by byte. */
import net from 'node:net'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

export interface Listening {
  port: number
  /** How many connections have come. */
  connections(): number
  close(): Promise<void>
}

/** Starts a server of any kind on loopback; `close` ends its connections too. */
export async function listen(server: net.Server, options: net.ListenOptions = {}): Promise<Listening> {
  const sockets = new Set<net.Socket>()
  let connections = 0
  server.on('connection', (socket: net.Socket) => {
    connections++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen({ host: '127.0.0.1', port: 0, ...options }, resolve))
  return {
    port: (server.address() as net.AddressInfo).port,
    connections: () => connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/** A whole HTTP request as it came over a socket. */
export interface RawRequest {
  head: string
  body: Buffer
}

/** Calls `onRequest` for each whole request with a Content-Length on the socket. */
export function readRequests(socket: net.Socket, onRequest: (request: RawRequest) => void): void {
  let bytes = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    bytes = Buffer.concat([bytes, chunk])
    for (;;) {
      const end = bytes.indexOf('\r\n\r\n')
      if (end < 0) return
      const head = bytes.subarray(0, end).toString('latin1')
      const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
      if (bytes.length < end + 4 + length) return
      const body = Buffer.from(bytes.subarray(end + 4, end + 4 + length))
      bytes = bytes.subarray(end + 4 + length)
      onRequest({ head, body })
    }
  })
}

/** Whether something on this machine takes connections at the port. */
export async function isListening(port: number, host = '127.0.0.1'): Promise<boolean> {
  const socket = net.connect(port, host)
  return await new Promise<boolean>((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  }).finally(() => socket.destroy())
}

/** A port that was just free. For a while nobody else is given it, which is no promise. */
export async function findFreePort(): Promise<number> {
  const listening = await listen(net.createServer())
  await listening.close()
  return listening.port
}

/** A port on which nothing listens, nor will: the system gives none below 1024 to who asks for any, as tests do. */
export async function findClosedPort(): Promise<number> {
  for (let port = 1_000; ; port--) if (!(await isListening(port))) return port
}

/** Sends bytes, and returns the bytes that come back until the peer closes or resets. */
export function sendRaw(port: number, ...pieces: (string | Buffer)[]): Promise<string> {
  return new Promise((resolve) => {
    const received: Buffer[] = []
    const socket = net.connect(port, '127.0.0.1', () => {
      for (const piece of pieces) socket.write(piece)
    })
    socket.on('data', (chunk) => received.push(chunk))
    socket.on('error', () => {})
    socket.on('close', () => resolve(Buffer.concat(received).toString('utf8')))
  })
}

export const certificate = (file: string): string => join(packageRoot, 'test/support/certificates', file)
