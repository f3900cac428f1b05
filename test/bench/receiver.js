// The cheapest receiver that still tells who got what: counts the bytes of each request, and answers 200 when all have come.
// Its parent asks with a message, and gets what came since it asked last, and the processor time for it. With an argument all
// connections together are read at that many Mbit/s, as if they shared one line.
import { createServer, Socket } from 'node:net'

const answer = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}')
const headEnd = Buffer.from('\r\n\r\n')

let requests = 0
let bytes = 0
let keys = new Set()
let users = new Set()
let cpu = process.cpuUsage()

/** 0: as fast as it goes. */
const lineBytesPerMs = Number(process.argv[2] ?? 0) * 125
let lineFreeAt = 0

/** Counts bytes that came over the line; false: the socket waits until the line has carried them. */
function carry(socket, length) {
  if (lineBytesPerMs === 0) return true
  const now = performance.now()
  lineFreeAt = Math.max(lineFreeAt, now) + length / lineBytesPerMs
  if (lineFreeAt - now < 2) return true
  setTimeout(() => socket.resume(), lineFreeAt - now)
  return false
}

const headerOf = (head, name) => head.match(new RegExp(`^${name}: *(.*)$`, 'im'))?.[1]?.trim()

/** All connections are read into the same memory: what a chunk says is known before the next one comes. */
const buffer = Buffer.allocUnsafeSlow(256 * 1024)

function receive(handle) {
  let rest = 0
  let head = Buffer.alloc(0)
  const read = (length) => {
    let chunk = buffer.subarray(0, length)
    while (chunk.length > 0) {
      if (rest === 0) {
        const seen = head.length > 0 ? Buffer.concat([head, chunk]) : chunk
        const end = seen.indexOf(headEnd)
        if (end < 0) {
          head = Buffer.from(seen)
          return carry(socket, length)
        }
        const text = seen.toString('latin1', 0, end)
        rest = Number(headerOf(text, 'content-length'))
        if (!(rest > 0)) throw new Error(`a request without content-length:\n${text}`)
        requests++
        bytes += rest
        keys.add(headerOf(text, 'x-idempotency-key'))
        users.add(headerOf(text, 'x-service-api-key'))
        head = Buffer.alloc(0)
        chunk = seen.subarray(end + headEnd.length)
      }
      const taken = Math.min(rest, chunk.length)
      rest -= taken
      chunk = chunk.subarray(taken)
      if (rest === 0) socket.write(answer)
    }
    return carry(socket, length)
  }
  const socket = new Socket({ handle, onread: { buffer, callback: read } })
  socket.on('error', () => {})
  socket.setNoDelay(true)
  socket.resume()
}

createServer({ pauseOnConnect: true }, (socket) => {
  // a server makes its sockets itself, without such a buffer
  const handle = socket._handle
  socket._handle = null
  receive(handle)
}).listen(0, '127.0.0.1', function () {
  process.send(this.address().port)
})

process.on('message', () => {
  const { user, system } = process.cpuUsage(cpu)
  process.send({ requests, bytes, keys: keys.size, users: users.size, cpuSeconds: (user + system) / 1e6 })
  requests = 0
  bytes = 0
  keys = new Set()
  users = new Set()
  cpu = process.cpuUsage()
})
