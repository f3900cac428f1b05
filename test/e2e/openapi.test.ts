/** What is on the wire is what the OpenAPI document says: a push, a trigger, and every answer of every endpoint. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type ReceivedHookCall, startHookReceiver } from '../support/hook-receiver.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { Traffic } from '../support/openapi.ts'
import { createKeys, startServe } from '../support/serve.ts'
import { startWay } from '../support/way.ts'

const traffic = new Traffic()
const full = {
  href: hrefOf('Ä full one'.replaceAll(' ', '-')), postalCode: 'K1A 0B1', price: 1.5, rawListingDate: 'yesterday', sqft: 900, bedrooms: 2, bathrooms: 1.5,
  yearBuilt: 1950, description: 'Sunny', propertyType: 'condo', contactName: 'Owner', contactPhone: '512-555-0100',
  contactEmail: 'owner-1@example.com', fullAddress: '1 Example Street', address: '1 Example Street', secondAddress: 'Unit 1',
  city: 'Ottawa', state: 'ON', country: 'CA',
} // biome-ignore format: a list
const queries = [
  { type: 'zipcode', value: '78704', radius: 2.5 },
  { type: 'text', value: 'sunny', radius: 0 },
]
const users = makeUsers(2).map((user) => ({ ...user, queries }))
const house = await buildHouse({
  leads: [full, { href: hrefOf('bare'), postalCode: '78704' }],
  users: [...users, { ...users[0], email: 'hooks@example.com', subscribed: false }],
  answer: ({ key }) => (house.receiver.keys().get(key)?.length === 1 ? 503 : 200),
})
const insecure = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
const platform = await startHookReceiver()
after(() => platform.close())

test('the requests of a push and their headers, first and second attempts', async () => {
  assert.equal((await house.call('push --all')).code, 0)
  assert.equal(house.receiver.requests.length, 4)
  for (const request of house.receiver.requests) traffic.request('delivery', request)
  const [request] = house.receiver.requests
  assert.ok(request)
  assert.equal(request.json.fsbos.length, 2)
  // the check itself refuses a header that is missing, and one too many
  const { 'x-idempotency-key': _, ...without } = request.headers
  assert.throws(() => traffic.request('delivery', { ...request, headers: without }), /x-idempotency-key/)
  const more = { ...request.headers, 'x-more': '1' }
  assert.throws(() => traffic.request('delivery', { ...request, headers: more }), /x-more/)
  const body = String(request.body).replace('"price":1.5', '"price":"1.5"')
  assert.throws(() => traffic.request('delivery', { ...request, body }), /price/)
  house.receiver.requests.length = 0
  house.receiver.answer = () => 200
  assert.equal((await house.call('push --all --force --yes', { env: { LEADPUSH_COMPRESS: 'gzip' } })).code, 0)
  for (const { headers, plain } of house.receiver.requests) {
    assert.equal(headers['content-encoding'], 'gzip')
    traffic.request('delivery', { headers, body: plain })
  }
})

test('every answer of every endpoint with its headers, and the requests of triggers', async () => {
  const endpoints = [
    { id: 'test', method: 'GET' },
    { id: 'sample', method: 'GET' },
    {
      id: 'subscribe',
      method: 'POST',
      body: { hookUrl: platform.url('/hook'), trigger: ['new_lead', 'price_change'] },
    },
    { id: 'unsubscribe', method: 'PUT', body: { hookUrl: 'https://192.0.2.1/none' } },
  ]
  const keys = await createKeys(
    house,
    endpoints.map(() => 'hooks@example.com'),
  )
  const way = await startWay(house.database.url)
  const serve = await startServe(house, { ...insecure, DATABASE_URL: way.url, LEADPUSH_LIMIT_KEY: '2' })
  after(() => serve.program.kill('SIGKILL'))
  const body = Buffer.alloc(65_537, 'x')
  for (const [at, { id, ...ask }] of endpoints.entries()) {
    const key = keys[at]?.apiKey
    const answers = [
      [200, { ...ask, path: id, key }],
      [413, { ...ask, path: id, key, body }],
      [429, { ...ask, path: id, key }],
      [401, { ...ask, path: id, key: 'unknown' }],
      [422, { ...ask, path: id }],
      [405, { ...ask, path: id, method: 'DELETE' }],
      [404, { ...ask, path: `/api/extern/other/${id}` }],
    ] as const
    for (const [status, asked] of answers) assert.equal(traffic.answer(id, await serve.ask(asked)), status, id)
  }
  const inside = ['healthz', 'readyz', 'metrics', 'openapi']
  const pathOf = (id: string) => (id === 'openapi' ? '/openapi.json' : `/${id}`)
  for (const id of inside) {
    assert.equal(traffic.answer(id, await serve.ask({ path: pathOf(id) })), 200)
    assert.equal(traffic.answer(id, await serve.ask({ path: pathOf(id), method: 'POST' })), 405)
  }
  const document = await serve.ask({ path: '/openapi.json' })
  assert.deepEqual(document.json, traffic.document)

  way.refuse()
  for (const { id, ...ask } of endpoints) {
    assert.equal(traffic.answer(id, await serve.ask({ ...ask, path: id, key: 'unknown' })), 503)
  }
  assert.equal(traffic.answer('readyz', await serve.ask({ path: '/readyz' })), 503)
  const unseen = [...traffic.documented].filter(
    (what) => !traffic.seen.has(what) && !/ default$|^(delivery|new_lead|price_change|lead_gone) /.test(what),
  )
  assert.deepEqual(unseen, [])

  await house.put('leads', [
    { ...full, href: hrefOf('new') },
    { href: hrefOf('new-bare'), postalCode: '78704' },
  ])
  assert.equal((await house.call('trigger', { env: insecure })).code, 0)
  assert.equal(platform.of('/hook').length, 2)
  for (const call of platform.of('/hook')) traffic.request('new_lead', call)
  await house.put('leads', [{ href: hrefOf('new'), price: full.price + 1 }])
  assert.equal((await house.call('trigger', { env: insecure })).code, 0)
  assert.equal(platform.of('/hook').length, 3)
  traffic.request('price_change', platform.of('/hook')[2] as ReceivedHookCall)
  // the signatures of both secrets
  assert.equal((await house.call(`integrations rotate ${keys[2]?.id}`)).code, 0)
  await house.put('leads', [{ href: hrefOf('new'), price: full.price }])
  assert.equal((await house.call('trigger', { env: insecure })).code, 0)
  assert.match(String(platform.of('/hook')[3]?.headers['webhook-signature']), /^v1,\S+ v1,\S+$/)
  traffic.request('price_change', platform.of('/hook')[3] as ReceivedHookCall)
})
