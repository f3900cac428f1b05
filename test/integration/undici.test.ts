/** What leadpush relies on beneath undici: after an upgrade these tests say what is no longer so, and what is no longer needed. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import net from 'node:net'
import { test } from 'node:test'
import { buildConnector, Client } from 'undici'
import { packageRoot } from '../../src/base/package-root.ts'
import { passOverContinue } from '../../src/http/undici.ts'
import { listen } from '../support/sockets.ts'

/** Prints how many pieces of WebAssembly undici compiles for its first connection. */
const countCompiled = `
  let compiled = 0
  for (const name of ['compile', 'Module']) {
    const made = WebAssembly[name]
    WebAssembly[name] = function (...given) { compiled++; return name === 'Module' ? new made(...given) : made(...given) }
  }
  const { Client } = require('undici')
  const server = require('node:http').createServer((_, response) => response.end()).listen(0, '127.0.0.1', async () => {
    await new Client('http://127.0.0.1:' + server.address().port).request({ method: 'GET', path: '/' })
    console.log(compiled)
    process.exit()
  })`

/** A server that sends a 100 that nobody asked for, and then a 200. */
async function startServer() {
  const server = net.createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
  })
  return await listen(server)
}

const connector = buildConnector({})
const connectPassingOver: typeof connector = (target, callback) =>
  connector(target, (error, socket) => {
    if (error) return callback(error, null)
    passOverContinue({ socket, used: false, awaitsAnswer: true, isProxied: false, firstError: undefined }, socket)
    callback(null, socket)
  })

for (const [how, connect, expected] of [
  ['undici by itself still breaks the connection', connector, 'UND_ERR_SOCKET'],
  ['undici reads the bytes that it is given instead', connectPassingOver, 200],
] as const) {
  test(`at a 100 that nobody asked for ${how}`, async (t) => {
    const { port, close } = await startServer()
    t.after(close)
    const client = new Client(`http://127.0.0.1:${port}`, { connect })
    t.after(() => client.destroy())
    const answering = client.request({ method: 'GET', path: '/' })
    const got = await answering.then(
      ({ statusCode }) => statusCode,
      ({ code }) => code,
    )
    assert.equal(got, expected)
  })
}

test('undici parses answers by WebAssembly, and V8 knows the flags that leadpush sets', () => {
  const run = (...args: string[]) => execFileSync(process.execPath, args, { encoding: 'utf8', cwd: packageRoot })
  assert.match(run('-e', countCompiled), /^[1-9]/)
  const known = run('--v8-options')
  for (const flag of ['--wasm-tiering-budget', '--heap-growing-percent'])
    assert.match(known, new RegExp(`^ +${flag} `, 'm'))
})
