/** `npm test`: the integration under Zapier's own test library, against a server on this machine that answers as leadpush does. */
const assert = require('node:assert/strict')
const { createServer } = require('node:http')
const { after, before, test } = require('node:test')
const zapier = require('zapier-platform-core')
const app = require('./index')

const appTester = zapier.createAppTester(app)
const calls = []
let answer = { ok: true, msg: 'Done.' }
const server = createServer(async (request, response) => {
  const pieces = await request.toArray()
  const { pathname, searchParams } = new URL(request.url, 'http://localhost')
  const body = pieces.length > 0 ? JSON.parse(Buffer.concat(pieces)) : undefined
  calls.push({ method: request.method, pathname, query: Object.fromEntries(searchParams), body })
  response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
})

let authData
before(async () => {
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening))
  authData = { baseUrl: ` http://127.0.0.1:${server.address().port}/ `, apiKey: ' key\n' }
})
after(() => server.close())

async function call(operation, bundle = {}) {
  calls.length = 0
  const result = await appTester(operation, { authData, ...bundle })
  return { result, call: calls[0] }
}

test('Zapier finds nothing wrong with it', async () => {
  const { results } = await zapier.createAppHandler(app)({ command: 'validate' })
  assert.deepEqual(results, [])
})

for (const [key, trigger] of Object.entries(app.triggers)) {
  test(`${key}: subscribing and unsubscribing name the hook and the trigger, with the key as it was meant`, async () => {
    const { operation } = trigger
    answer = { ok: true, msg: 'The hook is registered.', id: 'hook-1' }
    const subscribed = await call(operation.performSubscribe, { targetUrl: 'https://hooks.zapier.com/1' })
    assert.deepEqual(subscribed.result, { id: 'hook-1' })
    assert.deepEqual(subscribed.call, {
      method: 'POST',
      pathname: '/api/extern/zapier/subscribe',
      query: { api_key: 'key' },
      body: { hookUrl: 'https://hooks.zapier.com/1', trigger: key },
    })
    for (const [bundle, body] of [
      [{ subscribeData: { id: 'hook-1' }, targetUrl: 'https://hooks.zapier.com/1' }, { id: 'hook-1' }],
      [{ targetUrl: 'https://hooks.zapier.com/1' }, { hookUrl: 'https://hooks.zapier.com/1' }],
      // never `{}`, which would remove all hooks
      [{}, { hookUrl: '' }],
    ]) {
      assert.deepEqual((await call(operation.performUnsubscribe, bundle)).call.body, body)
    }
  })

  test(`${key}: the editor gets leads in the shape of the sample, and a sentence where there are none`, async () => {
    const { operation } = trigger
    answer = { ok: true, msg: 'Leads.', leads: [operation.sample] }
    const listed = await call(operation.performList)
    assert.deepEqual([listed.result, listed.call.query], [[operation.sample], { trigger: key, api_key: 'key' }])
    assert.deepEqual(
      operation.outputFields.map((field) => field.key),
      Object.keys(operation.sample),
    )
    answer = { ok: true }
    await assert.rejects(call(operation.performList), /has no leads in it/)
  })
}

test('no key goes to a base URL without https', async () => {
  calls.length = 0
  for (const baseUrl of [
    'http://leads.example.com',
    'leads.example.com',
    'https://user@leads.example.com',
    'https://a b',
    '',
  ]) {
    await assert.rejects(
      appTester(app.authentication.test, { authData: { ...authData, baseUrl } }),
      /must look like https/,
    )
  }
  assert.equal(calls.length, 0)
})
