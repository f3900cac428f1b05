/** A receiver behind mutual TLS, as the real program meets it: who is shown the client certificate, and who is not. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import { after, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { addHook } from '../support/hooks.ts'
import { buildHouse, makeUsers } from '../support/house.ts'
import { certificate, listen } from '../support/sockets.ts'

const lead = (name: string) => ({ href: `https://listings.example/${name}`, postalCode: '78704' })
const house = await buildHouse({ leads: [lead('a')], users: makeUsers(2) })

const read = (file: string) => readFileSync(certificate(file), 'utf8')

/** Demands a certificate on `/leads`, at the handshake where it is `strict`; notes who showed one. */
async function startSecure(version: 'TLSv1.2' | 'TLSv1.3', strict: boolean) {
  const seen: string[] = []
  const server = https.createServer(
    {
      key: read('localhost.key'),
      cert: read('localhost.pem'),
      ca: read('client-ca.pem'),
      requestCert: true,
      rejectUnauthorized: strict,
      minVersion: version,
      maxVersion: version,
    },
    (request, response) => {
      const shown = (request.socket as TLSSocket).getPeerCertificate().subject?.CN ?? 'nobody'
      seen.push(`${request.method} ${request.url} ${shown}`)
      request.resume().on('end', () => response.writeHead(200).end())
    },
  )
  const listening = await listen(server)
  after(() => listening.close())
  return { seen, origin: `https://localhost:${listening.port}` }
}

/** A proxy that makes tunnels. */
async function startTunnels() {
  const asked: string[] = []
  const server = http.createServer().on('connect', (request, socket) => {
    asked.push(request.url ?? '')
    const [host, port] = (request.url ?? '').split(':')
    const onward = net.connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  const listening = await listen(server)
  after(() => listening.close())
  return { asked, url: `http://127.0.0.1:${listening.port}` }
}

const trust = { NODE_EXTRA_CA_CERTS: certificate('ca.pem') }
const client = {
  LEADPUSH_CLIENT_CERT_FILE: certificate('client.pem'),
  LEADPUSH_CLIENT_KEY_FILE: certificate('client.key'),
}
const push = 'push --user user-0@example.com --json'
const shown = 'POST /leads leadpush test client'

test('a receiver that demands a client certificate gets it, with TLS 1.2 directly, and with TLS 1.3 through a tunnel', async () => {
  const tunnels = await startTunnels()
  for (const [version, way] of [
    ['TLSv1.2', {}],
    ['TLSv1.3', { HTTPS_PROXY: tunnels.url }],
  ] as const) {
    const { seen, origin } = await startSecure(version, true)
    const env = { ...trust, ...client, LEADPUSH_RECEIVER_URL: `${origin}/leads`, ...way }
    const { code, stdout, stderr } = await house.run(push, { env })
    assert.equal(code, 0, stdout + stderr)
    assert.deepEqual(seen, [shown])
  }
  assert.equal(tunnels.asked.length, 1)
})

test('without the certificate the message says what is missing; one of another authority or an expired one is refused', async () => {
  const { seen, origin } = await startSecure('TLSv1.3', true)
  const env = { ...trust, LEADPUSH_RECEIVER_URL: `${origin}/leads` }
  const without = await house.run(push, { env })
  assert.equal(without.code, 1)
  assert.match(without.json[0].error, /it demands a client certificate \(ERR_SSL_\w+\)/)
  const asked = await house.run('validate --quick --json', { env })
  const check = asked.json.find(({ code }) => code === 'receiver')
  assert.match(`${check.type}: ${check.message}. ${check.hint}`, /^problem: .*it demands a client certificate.*LEADPUSH_CLIENT_CERT/)
  const over = await house.run(push, { env: { ...env, ...client, LEADPUSH_CLIENT_CERT_FILE: certificate('client-expired.pem') } })
  assert.equal(over.code, 1)
  assert.deepEqual(seen, [])
  const shows = await house.run('validate --quick --json', { env: { ...env, ...client } })
  assert.deepEqual(shows.json.filter(({ code }) => /^(receiver|client-certificate)$/.test(code)), [])
  assert.deepEqual(seen, ['HEAD /leads leadpush test client'])
}) // biome-ignore format: long lines

test('neither the dead man’s switch nor a hook is shown the certificate', async () => {
  const { seen, origin } = await startSecure('TLSv1.3', false)
  const opened = await house.database.open()
  await addHook(opened, 'user-1@example.com', `${origin}/hook`)
  await opened.close()
  const env = {
    ...trust,
    ...client,
    LEADPUSH_RECEIVER_URL: `${origin}/leads`,
    LEADPUSH_PING_URL: `${origin}/ping`,
    LEADPUSH_ALLOW_INSECURE_HOOKS: '1',
  }
  const weekly = await house.run('push --all', { env })
  assert.equal(weekly.code, 0, weekly.stderr)
  await house.put('leads', [lead('b')])
  const sent = await house.run('trigger', { env })
  assert.equal(sent.code, 0, sent.stdout + sent.stderr)
  assert.deepEqual(seen.toSorted(), [
    'GET /ping nobody',
    'GET /ping/start nobody',
    'POST /hook nobody',
    // two weekly ones, and what registering the hook owes
    ...[shown, shown, shown],
  ])
})
