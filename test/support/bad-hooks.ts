/** Hooks that misbehave in every way that a server can, on real sockets. */
import net from 'node:net'
import { type Listening, listen, readRequests } from './sockets.ts'

/** What a hook does with a request, or with a connection. */
type Behaviour = (socket: net.Socket) => void

const end = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const answer =
  (text: string): Behaviour =>
  (socket) =>
    socket.write(text)

/** Writes `text` first and `piece` again and again, as long as the other side takes it. */
const drip =
  (text: string, piece: string, everyMs = 50): Behaviour =>
  (socket) => {
    socket.write(text)
    const timer = setInterval(() => socket.write(piece), everyMs)
    socket.on('close', () => clearInterval(timer))
  }

function flood(text: string, piece: string): Behaviour {
  return (socket) => {
    socket.write(text)
    const more = () => {
      while (!socket.destroyed && socket.write(piece));
    }
    socket.on('drain', more)
    more()
  }
}

/** What hooks do once a request has come, by name. */
export const misbehaviours: Record<string, Behaviour> = {
  'never answers': () => {},
  'drips its head': drip('HTTP/1.1 200 OK\r\n', 'x'),
  'drips header fields': drip('HTTP/1.1 200 OK\r\n', 'x-more: 1\r\n'),
  'drips its body': drip('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n', 'x'),
  'drips chunks': drip('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n', '1\r\nx\r\n'),
  'drips interim answers': drip('', 'HTTP/1.1 103 Early Hints\r\n\r\n'),
  'floods interim answers': flood('', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)),
  'floods its head': flood('HTTP/1.1 200 OK\r\n', `x-more: ${'x'.repeat(4_000)}\r\n`),
  'floods an error': flood('HTTP/1.1 500 Oops\r\n\r\n', 'x'.repeat(16_384)),
  'promises more than it sends': answer('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfew'),
  'ends in the middle of its head': (socket) => socket.end('HTTP/1.1 200'),
  'ends before its answer': (socket) => socket.end(),
  resets: (socket) => socket.resetAndDestroy(),
  'resets in its body': (socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfew', () => socket.resetAndDestroy()),
  'redirects to itself': answer('HTTP/1.1 307 Again\r\nlocation: /\r\ncontent-length: 0\r\n\r\n'),
  'redirects to where nobody may look': answer(
    'HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/\r\ncontent-length: 0\r\n\r\n',
  ),
  'asks for a day': answer('HTTP/1.1 503 Busy\r\nretry-after: 86400\r\ncontent-length: 0\r\n\r\n'),
  'asks for a century': answer('HTTP/1.1 429 Slow\r\nretry-after: 3153600000\r\ncontent-length: 0\r\n\r\n'),
  'asks for nonsense': answer('HTTP/1.1 429 Slow\r\nretry-after: -1, soon\r\ncontent-length: 0\r\n\r\n'),
  'answers 500': answer('HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n'),
  'answers 404': answer('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n'),
  'answers a status that does not exist': answer('HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n'),
  'speaks another protocol': (socket) => socket.end('220 mail.example.com ESMTP\r\n'),
  'speaks two lengths': answer('HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok'),
  'sends bytes at random': (socket) => socket.end(Buffer.from([0, 255, 1, 254, 10, 13, 10, 13, 0])),
}

/** What hooks do as soon as somebody connects; they are called by `https:`. */
const secureMisbehaviours: Record<string, Behaviour> = {
  'never begins with TLS': () => {},
  'answers TLS with HTTP': (socket) => socket.end(end),
  'answers TLS with garbage': (socket) => socket.end(Buffer.alloc(64, 0x16)),
  'drips TLS': drip('', '\x16'),
  'ends TLS at once': (socket) => socket.end(),
  'resets TLS': (socket) => socket.resetAndDestroy(),
}

export interface BadHooks {
  /** The URLs, by what is wrong with them. */
  urls: Map<string, string>
  /** How many connections have come to a hook. */
  connections(name: string): number
  close(): Promise<void>
}

/** Starts a server for each way to misbehave; the last one is a port where nobody listens. */
export async function startBadHooks(): Promise<BadHooks> {
  const servers = new Map<string, Listening>()
  const urls = new Map<string, string>()
  const start = async (name: string, scheme: string, server: net.Server) => {
    const listening = await listen(server)
    servers.set(name, listening)
    urls.set(name, `${scheme}://127.0.0.1:${listening.port}/`)
  }
  for (const [name, behave] of Object.entries(misbehaviours)) {
    const server = net.createServer({ allowHalfOpen: true }, (socket) => readRequests(socket, () => behave(socket)))
    await start(name, 'http', server)
  }
  for (const [name, behave] of Object.entries(secureMisbehaviours)) {
    await start(name, 'https', net.createServer(behave))
  }
  const gone = await listen(net.createServer())
  await gone.close()
  urls.set('refuses connections', `http://127.0.0.1:${gone.port}/`)
  return {
    urls,
    connections: (name) => servers.get(name)?.connections() ?? 0,
    close: async () => {
      await Promise.all([...servers.values()].map((server) => server.close()))
    },
  }
}
