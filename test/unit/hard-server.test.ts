import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import net from 'node:net'
import { type TestContext, test } from 'node:test'
import { buildHardServer, type HardServerOptions } from '../../src/http/hard-server.ts'
import { sendRaw } from '../support/sockets.ts'
import { until } from '../support/until.ts'

/** More than the buffers of a connection take from an answer that nobody reads. */
const large = Buffer.alloc(32 * 1024 * 1024)
const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`

async function start(
  t: TestContext,
  options: Partial<HardServerOptions>,
): Promise<{ port: number; sockets: net.Socket[]; server: Server }> {
  const { server, close } = buildHardServer({
    handle: (request, response) => void response.end(request.url === '/large' ? large : 'small'),
    requestMsMax: 60_000,
    stallMsMax: 60_000,
    buildRefusal: (msg) => msg,
    onRefused: () => {},
    ...options,
  })
  t.after(() => close(0))
  const sockets: net.Socket[] = []
  server.on('connection', (socket) => sockets.push(socket))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { port: (server.address() as AddressInfo).port, sockets, server }
}

/** A client that asks, and reads no more than the first bytes of what comes. */
async function askAndStop(port: number, text: string): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  await once(socket, 'data')
  socket.pause()
  return socket
}

test('an answer must be read within its time, also by a client that goes on reading a little', async (t) => {
  // each byte that was read began the time anew
  const { port } = await start(t, { answerMsMax: 300 })
  const socket = await askAndStop(port, ask('/large'))
  let bytes = 0
  socket.on('data', ({ length }) => {
    bytes += length
    socket.pause()
    setTimeout(() => socket.resume(), 20)
  })
  socket.resume()
  await once(socket, 'close')
  assert.ok(bytes < large.length)
})

test('an answer that has been read in time ends no connection', async (t) => {
  const { port } = await start(t, { answerMsMax: 300 })
  const socket = net.connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.write(ask('/small').repeat(2))
  await until('both answers are there', () => text.split('small').length === 3)
  await new Promise((resolve) => setTimeout(resolve, 350))
  socket.write(ask('/small'))
  await until('the third is there', () => text.split('small').length === 4)
  socket.destroy()
})

test('a connection that leaves an answer unread gives way to others, the one that has done so for longest first', async (t) => {
  // they were spared, and everybody who came was closed
  const { port, sockets } = await start(t, { connectionsMax: 3 })
  for (let at = 0; at < 3; at++) await askAndStop(port, ask('/large').repeat(2))
  assert.match(await sendRaw(port, ask('/small').replace('Host', 'Connection: close\r\nHost')), /^HTTP\/1\.1 200 /)
  assert.deepEqual(
    sockets.slice(0, 3).map(({ destroyed }) => destroyed),
    [true, false, false],
  )
})

// Some hundred connections with 2,300 requests each: no answer to anybody for minutes, and a line of the log for each request.
test('a connection has at most 20 requests under way; of what follows the next is refused, and the others are not looked at', async (t) => {
  for (const count of [19, 20, 21, 22, 2_300]) {
    let [handled, refused, seen] = [0, 0, 0]
    const { port, server } = await start(t, {
      handle: (_request, response) => {
        handled++
        setImmediate(() => response.end('done'))
      },
      onRefused: () => refused++,
    })
    server.prependListener('request', () => seen++)
    const close = ask('/').replace('Host', 'Connection: close\r\nHost')
    const answers = (await sendRaw(port, ask('/').repeat(count - 1) + close)).split(/(?=HTTP\/1\.1 )/)
    const refusals = answers.filter((answer) => /^HTTP\/1\.1 503 .*^connection: close/ims.test(answer))
    const excess = Math.min(1, Math.max(0, count - 20))
    assert.deepEqual([handled, refused, refusals.length], [Math.min(count, 20), excess, excess], `${count}`)
    assert.equal(answers.length, handled + excess)
    assert.equal(seen, handled + excess)
  }
})

test('over 1,000 requests under way the connection that has the most gives way, and one with fewer is served', async (t) => {
  const { port, sockets } = await start(t, { handle: () => {}, connectionsMax: 200 })
  const clients: net.Socket[] = []
  const open = async (count: number) => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    clients.push(socket)
    socket.write(ask('/').repeat(count))
    await until('it is there', () => sockets.length === clients.length && (sockets.at(-1)?.bytesRead ?? 0) > 0)
  }
  await open(20)
  for (let at = 0; at < 98; at++) await open(10)
  assert.equal(sockets.filter(({ destroyed }) => destroyed).length, 0)
  await open(1)
  await until('the one with the most is closed', () => sockets[0]?.destroyed === true)
  assert.equal(sockets.filter(({ destroyed }) => destroyed).length, 1)
  for (const client of clients) client.destroy()
})
