/** The app of examples/zapier against a running `leadpush serve`, called as Zapier calls it (contract 5 and 6). */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { leadFields } from '../../src/leads/lead.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { cleanEnvironment, startProgram } from '../support/program.ts'
import { findClosedPort } from '../support/sockets.ts'
import { installZapierApp, startZapierApp, type ZapierAnswer } from '../support/zapier-app.ts'

const skip = installZapierApp() ?? false
const fieldNames = ['id', 'trigger', 'occurredAt', ...leadFields.map(({ name }) => name)]
const trigger = 'triggers.new_lead.operation'
const priceChange = 'triggers.price_change.operation'

const house = await buildHouse({
  leads: [{ href: hrefOf('before'), postalCode: '78704' }],
  users: makeUsers(1).map((user) => ({ ...user, subscribed: false })),
})
const app = skip ? undefined : startZapierApp()
const platform = await startHookReceiver()
after(() => platform.close())

const insecure = { env: { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' } }
const keyMinuteMax = 30
const serve = startProgram(['serve', '--port', '0'], {
  env: { ...house.env, ...insecure.env, LEADPUSH_LIMIT_KEY: String(keyMinuteMax) },
  timeoutMs: 120_000,
})
after(() => serve.kill('SIGKILL'))
const [, baseUrl = ''] = await serve.waitFor(/listening on (\S+)/)

async function createConnection(): Promise<{ baseUrl: string; apiKey: string }> {
  const { json, stderr } = await house.call('integrations create --user user-0@example.com --json')
  assert.ok(json[0], stderr)
  return { baseUrl, apiKey: json[0].apiKey }
}

const connection = await createConnection()
const keys = [connection.apiKey]

async function call(path: string, authData: object, bundle: object = {}): Promise<ZapierAnswer> {
  const answer = await app?.call(path, { authData, ...bundle })
  assert.ok(answer)
  for (const key of keys) assert.ok(!JSON.stringify(answer).includes(key), 'a key in what Zapier gets')
  return answer
}

/** The error of a call, which must be of that kind; what of it Zapier shows to a person, and when it tries again. */
async function fails(kind: string, path: string, authData: object, bundle?: object) {
  const { error } = await call(path, authData, bundle)
  assert.equal(error?.name, kind, error?.message)
  const { message, delay } = error.message.startsWith('{') ? JSON.parse(error.message) : error
  return { message: String(message), delay }
}

async function listHooks(): Promise<string[]> {
  const { json } = await house.call('integrations list --json')
  return json.flatMap(({ hooks }) => hooks.map(({ url }: { url: string }) => url))
}

test('Zapier finds the app valid, and its fields are those of a trigger, in name and type', { skip }, async () => {
  assert.deepEqual((await call('validate', {})).results, [])
  const { results: fields } = await call(`${trigger}.outputFields`, {})
  assert.deepEqual(
    fields.map(({ key }: { key: string }) => key),
    fieldNames,
  )
  for (const { name, kind } of leadFields) {
    assert.equal(fields.find(({ key }: { key: string }) => key === name).type, kind)
  }
  assert.deepEqual(Object.keys((await call(`${trigger}.sample`, {})).results), fieldNames)
})

test('its own tests pass, where leadpush is not', { skip }, () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--test', 'app.test.js'], {
    cwd: join(packageRoot, 'examples', 'zapier'),
    env: cleanEnvironment(),
    encoding: 'utf8',
    timeout: 240_000,
  })
  assert.equal(status, 0, `${stdout}\n${stderr}`)
})

test('a connection is tested, and has the name of its user, however it was pasted', { skip }, async () => {
  for (const [url, apiKey] of [
    [baseUrl, connection.apiKey],
    [` ${baseUrl}/\n`, ` ${connection.apiKey}\n`],
  ]) {
    const { results } = await call('authentication.test', { baseUrl: url, apiKey })
    assert.deepEqual(results, { userEmail: 'user-0@example.com' })
    const label = await call('authentication.connectionLabel', connection, { inputData: results })
    assert.equal(label.results, 'user-0@example.com')
  }
})

test('a bad key asks to connect anew; no key or a wrong base URL says what is wrong', { skip }, async () => {
  const { message } = await fails('ExpiredAuthError', 'authentication.test', { ...connection, apiKey: 'x'.repeat(20) })
  assert.match(message, /unknown or was revoked/)
  for (const apiKey of ['', undefined]) {
    const missing = await fails('AppError', 'authentication.test', { ...connection, apiKey })
    assert.match(missing.message, /key is missing/)
  }
  for (const [url, pattern] of [
    [`${baseUrl}/elsewhere`, /nothing at this path/],
    [baseUrl.replace('http://', ''), /must look like https/],
    [`${baseUrl}?a=1`, /must look like https/],
    ['http://leads.example.com', /must look like https/],
    [undefined, /must look like https/],
  ] as const) {
    assert.match((await fails('AppError', 'authentication.test', { ...connection, baseUrl: url })).message, pattern)
  }
})

test('a workflow gets each new lead once while it is on, in the shape that the editor showed', { skip }, async () => {
  const [one, other] = ['/one', '/other'].map((path) => ({ targetUrl: platform.url(path) }))
  const subscribed = await call(`${trigger}.performSubscribe`, connection, one)
  assert.deepEqual(Object.keys(subscribed.results), ['id'])
  const { results: subscribeData } = await call(`${trigger}.performSubscribe`, connection, other)
  assert.deepEqual((await listHooks()).sort(), [platform.url('/one'), platform.url('/other')])

  const { results: leads } = await call(`${trigger}.performList`, connection)
  assert.deepEqual(
    leads.map(({ href }: { href: string }) => href),
    [hrefOf('before')],
  )
  await house.put('leads', [{ href: hrefOf('new'), postalCode: '78704', price: 350_000, contactName: 'Owner' }])
  const sent = await house.run('trigger --json', insecure)
  assert.equal(sent.code, 0, sent.stderr)
  assert.deepEqual(platform.calls.map(({ method, path }) => `${method} ${path}`).sort(), ['POST /one', 'POST /other'])
  const cleanedRequest = platform.of('/one')[0]?.json
  const { results } = await call(`${trigger}.perform`, connection, { cleanedRequest })
  assert.deepEqual(results, [cleanedRequest])
  assert.deepEqual([results[0].href, results[0].price, results[0].contactName], [hrefOf('new'), 350_000, 'Owner'])
  for (const lead of [leads[0], results[0]]) assert.deepEqual(Object.keys(lead), fieldNames)

  await call(`${trigger}.performUnsubscribe`, connection, { ...other, subscribeData })
  // where Zapier has lost the id
  await call(`${trigger}.performUnsubscribe`, connection, { targetUrl: platform.url('/unknown') })
  assert.deepEqual(await listHooks(), [platform.url('/one')])
  // where it has lost both: a request without a name would remove every hook
  const nameless = await fails('AppError', `${priceChange}.performUnsubscribe`, connection, {})
  assert.match(nameless.message, /`hookUrl` is empty/)
  assert.deepEqual(await listHooks(), [platform.url('/one')])
  await call(`${trigger}.performUnsubscribe`, connection, one)
  assert.deepEqual(await listHooks(), [])
})

test('a change of price starts its own workflows, in the shape that the editor showed', { skip }, async () => {
  const bundle = { targetUrl: platform.url('/prices') }
  const { results: subscribeData } = await call(`${priceChange}.performSubscribe`, connection, bundle)
  const { results: shown } = await call(`${priceChange}.performList`, connection)
  platform.calls.length = 0
  await house.put('leads', [{ href: hrefOf('new'), postalCode: '78704', price: 340_000 }])
  await house.put('leads', [{ href: hrefOf('newer'), postalCode: '78704', price: 100_000 }])
  const sent = await house.run('trigger --json', insecure)
  assert.equal(sent.code, 0, sent.stderr)
  const { results: fields } = await call(`${priceChange}.outputFields`, {})
  const [cleanedRequest, ...rest] = platform.of('/prices').map(({ json }) => json)
  const { results } = await call(`${priceChange}.perform`, connection, { cleanedRequest })
  assert.deepEqual(rest, [])
  assert.deepEqual([results[0].trigger, results[0].previousPrice, results[0].price], ['price_change', 350_000, 340_000])
  for (const lead of [shown[0], results[0]]) {
    assert.deepEqual(
      fields.map(({ key }: { key: string }) => key),
      Object.keys(lead),
    )
  }
  await call(`${priceChange}.performUnsubscribe`, connection, { ...bundle, subscribeData })
  assert.deepEqual(await listHooks(), [])
})

test('another server than leadpush never ends a connection, and gets no key through a redirect', { skip }, async () => {
  platform.calls.length = 0
  const stranger = { ...connection, baseUrl: platform.url('') }
  platform.answer = () => 401
  assert.match((await fails('AppError', 'authentication.test', stranger)).message, /answered with 401/)
  platform.answer = () => ({ status: 302, headers: { location: `${baseUrl}/login?x=1` } })
  const redirected = await fails('AppError', `${trigger}.performSubscribe`, stranger, { targetUrl: platform.url('/a') })
  assert.ok(redirected.message.includes(`redirects to ${baseUrl}: check`))
  platform.answer = () => ({ status: 200, body: '<html>' })
  assert.match((await fails('AppError', `${trigger}.performList`, stranger)).message, /not as leadpush does/)
  platform.answer = () => ({ status: 200, headers: { 'content-type': 'application/json' }, body: '{"ok":true}' })
  assert.match((await fails('AppError', `${trigger}.performList`, stranger)).message, /has no leads/)
  platform.answer = () => ({ status: 502, body: '<html>' })
  assert.equal((await fails('ThrottledError', 'authentication.test', stranger)).delay, 60)
  assert.equal(platform.calls.length, 5)
})

test('an outage and too many requests say when to try again, and are never a matter of the key', { skip }, async () => {
  const busy = await createConnection()
  keys.push(busy.apiKey)
  for (let n = 0; n < keyMinuteMax; n++) assert.ok((await call('authentication.test', busy)).results)
  const many = await fails('ThrottledError', 'authentication.test', busy)
  assert.match(many.message, /Too many requests/)
  assert.ok(many.delay >= 1 && many.delay <= 60)

  const nobody = { ...connection, baseUrl: `http://127.0.0.1:${await findClosedPort()}` }
  assert.match((await fails('ThrottledError', 'authentication.test', nobody)).message, /ECONNREFUSED/)

  await house.database.drop()
  for (const path of ['authentication.test', `${trigger}.performList`]) {
    const away = await fails('ThrottledError', path, connection)
    assert.match(away.message, /database is away/)
    assert.equal(away.delay, 5)
  }
})

test('no key is in what Zapier logs', { skip }, () => {
  const log = app?.log() ?? ''
  assert.match(log, /GET http\S+\/api\/extern\/zapier\/test/)
  for (const key of keys) assert.ok(!log.includes(key))
})
