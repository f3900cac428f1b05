/** Hooks over TLS as `trigger` meets them (contract 5.2): to whom no listing goes, also where hooks may be insecure ones. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { after, test } from 'node:test'
import { addHook } from '../support/hooks.ts'
import { buildHouse, makeUsers } from '../support/house.ts'
import { certificate, listen } from '../support/sockets.ts'

const lead = (name: string) => ({ href: `https://listings.example/${name}`, postalCode: '78704' })
const house = await buildHouse({ users: makeUsers(6) })
const read = (file: string) => readFileSync(certificate(file), 'utf8')
const seen: string[] = []

/** Listens; returns its origin under the name that `localhost.pem` is for. */
async function start(scheme: 'http' | 'https', server: http.Server | https.Server): Promise<string> {
  const listening = await listen(server)
  after(() => listening.close())
  return `${scheme}://localhost:${listening.port}`
}

const noting =
  (name: string, status: number, headers: http.OutgoingHttpHeaders = {}): http.RequestListener =>
  (request, response) => {
    seen.push(name)
    request.resume().on('end', () => response.writeHead(status, headers).end())
  }

const startSecure = (name: string, options: https.ServerOptions = {}, status = 200, headers = {}) =>
  start(
    'https',
    https.createServer(
      { key: read('localhost.key'), cert: read('localhost.pem'), ...options },
      noting(name, status, headers),
    ),
  )

test('a listing goes to a hook whose certificate is valid, with TLS 1.2 or newer, and to where no redirect leads', async () => {
  const plain = await start('http', http.createServer(noting('plain', 200)))
  const hooks = {
    good: await startSecure('good'),
    otherName: await startSecure('otherName', { cert: read('elsewhere.pem') }),
    over: await startSecure('over', { cert: read('expired.pem') }),
    old: await startSecure('old', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }),
    redirects: await startSecure('redirects', {}, 307, { Location: `${plain}/inside` }),
    noTls: plain.replace('http:', 'https:'),
  }
  const opened = await house.database.open()
  const names = new Map<string, string>()
  for (const [at, [name, origin]] of Object.entries(hooks).entries())
    names.set((await addHook(opened, `user-${at}@example.com`, `${origin}/${name}`)).id, name)
  await opened.close()
  await house.put('leads', [lead('a')])

  const told = async (env: Record<string, string>) => {
    const { json } = await house.run('trigger --json', { env: { LEADPUSH_ALLOW_INSECURE_HOOKS: '1', ...env } })
    return Object.fromEntries(json.map(({ hook, error }) => [names.get(hook) ?? 'summary', error]))
  }
  const errors = await told({ NODE_EXTRA_CA_CERTS: certificate('ca.pem') })
  assert.deepEqual(seen.toSorted(), ['good', 'redirects'])
  assert.equal(errors.good, null)
  for (const [name, words] of [
    ['otherName', /for another host name/],
    ['over', /CERT_HAS_EXPIRED/],
    ['old', /ERR_SSL|EPROTO/],
    ['redirects', /HTTP 307: a redirect, which is not followed/],
    ['noTls', /ERR_SSL|EPROTO/],
  ] as const)
    assert.match(errors[name], words)

  seen.length = 0
  await house.put('leads', [lead('b')])
  assert.match((await told({})).good, /UNABLE_TO_VERIFY|SELF_SIGNED|UNABLE_TO_GET_ISSUER/)
  assert.deepEqual(seen, [])
})
