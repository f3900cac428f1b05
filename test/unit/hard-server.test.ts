import assert from 'node:assert/strict'
import { once } from 'node:events'
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
): Promise<{ port: number; sockets: net.Socket[] }> {
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
  return { port: (server.address() as AddressInfo).port, sockets }
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
