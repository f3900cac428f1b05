/** The inbound endpoints through the program (contract 5): what they answer, and what an operator sees of `serve`. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { after, test } from 'node:test'
import { registerHook } from '../../src/integrations/hooks.ts'
import { type FoundIntegration, findIntegrationByKey } from '../../src/integrations/integrations.ts'
import { sampleAnswerSchema } from '../../src/server/answers.ts'
import { createDatabase } from '../support/database.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { callProgram, startProgram } from '../support/program.ts'
import { assertAnswer, createKeys, startServe } from '../support/serve.ts'
import { findClosedPort, sendRaw } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const contact = 'owner-1@example.com'
const users = [...makeUsers(3), { ...makeUsers(1, 3)[0], subscribed: false }]
const house = await buildHouse({ users, leads: [{ href: hrefOf('a'), postalCode: '78704', contactEmail: contact }] })
const keys = await createKeys(
  house,
  users.map(({ email }) => email ?? ''),
)
const [key = '', key1 = '', key2 = '', key3 = ''] = keys.map(({ apiKey }) => apiKey)
const insecure = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
const serve = await startServe(house, insecure)
after(() => serve.program.kill('SIGKILL'))
const put = (key: string, path = 'unsubscribe', body?: string | object) =>
  serve.ask({ method: 'PUT', path, key, ...(body !== undefined && { body }) })

async function countHooks(key: string): Promise<number> {
  const at = keys.findIndex(({ apiKey }) => apiKey === key)
  const { json } = await house.call('integrations list --json')
  return json[at].hooks.length
}

test('test tells whose integration it is, and the time with its offset', async () => {
  const before = Date.now()
  const answered = await serve.ask({ key })
  assert.equal(assertAnswer(answered), 200)
  const { ok: _, msg: __, date, ...rest } = answered.json
  assert.deepEqual(rest, { userEmail: 'user-0@example.com' })
  assert.match(date, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/)
  assert.ok(Math.abs(Date.parse(date) - before) < 60_000)
})

test('sample gives leads of the user as the trigger sends them', async () => {
  const answered = await serve.ask({ path: 'sample', key })
  assert.equal(assertAnswer(answered), 200)
  sampleAnswerSchema.parse(answered.json)
  assert.deepEqual(
    answered.json.leads.map(({ href, trigger, contactEmail }: Record<string, unknown>) => [
      href,
      trigger,
      contactEmail,
    ]),
    [[hrefOf('a'), 'new_lead', contact]],
  )
})

test('sample shows another trigger when it is asked for it by name', async () => {
  const ask = (query: string) => serve.ask({ path: `sample?${query}`, key })
  const change = await ask('trigger=price_change')
  assert.equal(assertAnswer(change), 200)
  sampleAnswerSchema.parse(change.json)
  assert.deepEqual(
    change.json.leads.map(({ href, trigger }: Record<string, unknown>) => [href, trigger]),
    [[hrefOf('a'), 'price_change']],
  )
  const [{ id, price, previousPrice }] = change.json.leads
  assert.ok(previousPrice > price)
  const lead = await ask('trigger=')
  assert.deepEqual([assertAnswer(lead), lead.json.leads[0].trigger], [200, 'new_lead'])
  assert.notEqual(id, lead.json.leads[0].id)
  for (const query of ['trigger=sold', 'trigger=new_lead&trigger=price_change']) {
    const refused = await ask(query)
    assert.equal(assertAnswer(refused), 422)
    // a list was refused with the advice to give a list
    assert.match(refused.json.msg, /`new_lead`, `price_change`, and `lead_gone`\. Give one of them, once\.$/)
  }
})

// A search that took long was taken for an absent database: a 503 and a warning, and the statement went on for nobody.
test('a sample that takes too long shows what there is by then, and leaves no statement behind', async () => {
  const { pool, close } = await house.database.open()
  const [blocker, looker] = [await pool.connect(), await pool.connect()]
  try {
    await blocker.query('begin; lock table leads in access exclusive mode')
    const answered = await serve.ask({ path: 'sample', key })
    assert.equal(assertAnswer(answered), 200)
    sampleAnswerSchema.parse(answered.json)
    assert.equal(answered.json.leads.length, 3)
    const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    assert.equal((await looker.query(waiting)).rowCount, 0)
    assert.doesNotMatch(serve.program.stderr(), /did not answer/)
  } finally {
    await blocker.query('rollback')
    for (const client of [blocker, looker]) client.release()
    await close()
  }
})

test('a hook is for the triggers that it asks for; the same URL again replaces them where it names some', async () => {
  const hookUrl = 'https://192.0.2.1/kinds'
  const subscribe = (more: object) =>
    serve.ask({ method: 'POST', path: 'subscribe', key: key3, body: { hookUrl, ...more } })
  const triggers = async () => {
    const { json } = await house.call('integrations list --json')
    return json.flatMap(({ hooks }) => hooks).find(({ url }: { url: string }) => url === hookUrl)?.triggers
  }
  for (const trigger of ['sold', '', [], ['new_lead', 'sold'], 1, {}, false]) {
    const refused = await subscribe({ trigger })
    assert.equal(assertAnswer(refused), 422, JSON.stringify(trigger))
    assert.match(refused.json.msg, /`trigger`.*`new_lead`, `price_change`, and `lead_gone`/)
  }
  assert.equal(await triggers(), undefined)
  const ids = new Set<string>()
  const before = 'The hook was registered before.'
  // it said the same whether or not it had changed something
  for (const [more, expected, said] of [
    [{}, ['new_lead'], 'The hook is registered.'],
    [{ trigger: 'price_change' }, ['price_change'], `${before} Its triggers changed: it now gets price_change.`],
    [{ trigger: null }, ['price_change'], before],
    [{}, ['price_change'], before],
    [
      { trigger: ['price_change', 'new_lead', 'price_change'] },
      ['new_lead', 'price_change'],
      `${before} Its triggers changed: it now gets new_lead and price_change.`,
    ],
    [{ trigger: ['new_lead', 'price_change'] }, ['new_lead', 'price_change'], before],
    [{ trigger: ['new_lead'] }, ['new_lead'], `${before} Its triggers changed: it now gets new_lead.`],
  ] as const) {
    const { json } = await subscribe(more)
    ids.add(json.id)
    assert.ok(json.msg.startsWith(said) && (said !== before || json.msg === before), json.msg)
    assert.deepEqual(await triggers(), expected)
  }
  assert.equal(ids.size, 1)
  await put(key3, 'unsubscribe', { hookUrl })
  await subscribe({ trigger: null })
  assert.deepEqual(await triggers(), ['new_lead'])
  await put(key3, 'unsubscribe', { hookUrl })
})

test('the same URL again is the same hook, another URL another one; unsubscribe removes one or all of them', async () => {
  const first = await serve.subscribe(key3, 'a')
  assert.equal(assertAnswer(first), 200)
  const again = await serve.subscribe(key3, 'a')
  assert.deepEqual([assertAnswer(again), again.json.id], [200, first.json.id])
  const ids: string[] = [first.json.id]
  for (const name of ['b', 'c', 'd', 'e']) ids.push((await serve.subscribe(key3, name)).json.id)
  assert.equal(new Set(ids).size, 5)

  // what names no hook of the integration removes nothing, however it is written
  const other = await serve.subscribe(key2, 'a')
  const nothing = [
    () => put(key3, `unsubscribe?id=${other.json.id}`),
    () => put(key3, 'unsubscribe?id='),
    () => put(key3, `unsubscribe?id=${ids[0]}&id=${ids[1]}`),
    () => put(key3, 'unsubscribe', { id: 'none' }),
    () => put(key3, 'unsubscribe', { id: { toString: 1 } }),
    () => put(key3, 'unsubscribe', { hookUrl: 'https://192.0.2.1/z' }),
    () => put(key3, 'unsubscribe', '\ufeff{"hookUrl":"https://192.0.2.1/z"}'),
  ]
  for (const remove of nothing) assert.equal(assertAnswer(await remove()), 200)
  // a platform that had lost a hook's id got a 200, as if the hook had been removed
  for (const lost of [{ id: null }, { id: '' }, { hookUrl: null }, { id: ids[0], hookUrl: '' }])
    assert.equal(assertAnswer(await put(key3, 'unsubscribe', lost)), 422, JSON.stringify(lost))
  assert.equal(assertAnswer(await put(key3, `unsubscribe?id=${other.json.id}`, { id: null })), 200)
  assert.equal(await countHooks(key3), 5)

  assert.equal(assertAnswer(await put(key3, `unsubscribe?id=${ids[0]}`)), 200)
  assert.equal(assertAnswer(await put(key3, 'unsubscribe', { id: ids[1] })), 200)
  assert.equal(assertAnswer(await put(key3, 'unsubscribe', { hookUrl: 'https://192.0.2.1/c' })), 200)
  assert.equal(await countHooks(key3), 2)
  const returned = await serve.subscribe(key3, 'a')
  assert.notEqual(returned.json.id, ids[0])
  for (const bare of [undefined, '', 'no JSON', '{}', '[]', 'null', '"id"', { other: 1 }]) {
    await serve.subscribe(key3, 'again')
    assert.equal(assertAnswer(await put(key3, 'unsubscribe', bare)), 200, String(bare))
    assert.equal(await countHooks(key3), 0, String(bare))
  }
  const said = []
  for (const names of [['a', 'b'], ['a'], []]) {
    for (const name of names) await serve.subscribe(key3, name)
    said.push((await put(key3, 'unsubscribe')).json.msg)
  }
  assert.deepEqual(said, [
    'All 2 hooks of the integration are removed.',
    'The one hook of the integration is removed.',
    'The integration had no hooks.',
  ])
  assert.equal(await countHooks(key2), 1)
})

test('with LEADPUSH_HOOK_HOSTS a hook at another host is a 422, also one that was registered before', async () => {
  const before = await serve.subscribe(key2, 'a')
  assert.equal(assertAnswer(before), 200)
  const narrow = await startServe(house, { ...insecure, LEADPUSH_HOOK_HOSTS: '192.0.2.2,*.example.com' })
  try {
    const subscribe = (hookUrl: string) =>
      narrow.ask({ method: 'POST', path: 'subscribe', key: key2, body: { hookUrl } })
    assert.equal(assertAnswer(await subscribe('https://192.0.2.2/here')), 200)
    for (const hookUrl of ['https://192.0.2.1/a', 'https://192.0.2.3/a', 'https://example.com/a']) {
      const refused = await subscribe(hookUrl)
      assert.equal(assertAnswer(refused), 422)
      assert.match(refused.json.msg, /host that is not allowed here/)
    }
  } finally {
    narrow.program.kill('SIGTERM')
    await narrow.program.done
  }
  await put(key2, 'unsubscribe', { hookUrl: 'https://192.0.2.2/here' })
})

// Registering a hook again resolved its name again: while DNS was away its platform got a 422, and gave up.
test('a URL that is registered already needs no DNS', async () => {
  // no server is asked for a name that can be none
  const hookUrl = `https://${'x'.repeat(64)}.invalid/hook`
  const subscribe = () => serve.ask({ method: 'POST', path: 'subscribe', key: key2, body: { hookUrl } })
  assert.equal(assertAnswer(await subscribe()), 422)
  const opened = await house.database.open()
  const { id, userId } = (await findIntegrationByKey(opened.db, key2)) as FoundIntegration
  const registered = await registerHook(opened.db, { id, userId }, hookUrl)
  await opened.close()
  const again = await subscribe()
  assert.deepEqual([assertAnswer(again), again.json.id], [200, typeof registered === 'object' && registered.hookId])
  await put(key2)
})

test('a URL at an address that is not public is a 422, also one that was registered before', async () => {
  // 200 was answered for a hook that no connection could reach any more
  const subscribeAt = ({ ask }: Pick<typeof serve, 'ask'>, hookUrl: string) =>
    ask({ method: 'POST', path: 'subscribe', key: key2, body: { hookUrl } })
  const urls = ['https://127.0.0.1/hook', 'https://localhost/hook']
  for (const hookUrl of urls) assert.equal(assertAnswer(await subscribeAt(serve, hookUrl)), 200)
  const strict = await startServe(house)
  try {
    for (const hookUrl of urls) {
      const refused = await subscribeAt(strict, hookUrl)
      assert.equal(assertAnswer(refused), 422)
      assert.match(refused.json.msg, /public addresses alone/)
    }
  } finally {
    strict.program.kill('SIGTERM')
    await strict.program.done
  }
  await put(key2)
})

test('the hundredth hook is registered, the one after it is a 422', async () => {
  const answers = []
  for (let at = 1; at <= 100; at++) answers.push((await serve.subscribe(key1, `${at}`)).status)
  assert.ok(answers.every((status) => status === 200))
  const more = await serve.subscribe(key1, '101')
  assert.equal(assertAnswer(more), 422)
  assert.equal((await serve.subscribe(key1, '100')).status, 200)
  await put(key1)
})

test('a body that is no object with hookUrl, or whose URL is not acceptable, is a 422; its Content-Type does not matter', async () => {
  const post = (body: string | object, type?: string) =>
    serve.ask({
      method: 'POST',
      path: 'subscribe',
      key: key2,
      body,
      ...(type && { headers: { 'Content-Type': type } }),
    })
  for (const body of [
    '',
    ' ',
    '{',
    'hookUrl=https://192.0.2.1/',
    '[]',
    'null',
    '"https://192.0.2.1/"',
    '{}',
    { hookUrl: 1 },
  ]) {
    assert.equal(assertAnswer(await post(body)), 422, JSON.stringify(body))
  }
  const refused = ['', 'ftp://192.0.2.1/', 'https://user:password@192.0.2.1/', `https://192.0.2.1/${'x'.repeat(2_031)}`]
  for (const hookUrl of refused) assert.equal(assertAnswer(await post({ hookUrl })), 422, hookUrl)
  const body = { hookUrl: `https://192.0.2.1/${'x'.repeat(2_030)}` }
  for (const type of [
    'application/json',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; x',
    ';;',
    'a/b; c',
  ]) {
    assert.equal((await post(body, type)).status, 200, type)
  }
})

test('/metrics counts requests, /openapi.json is what the command prints, /readyz and /healthz say that all is well', async () => {
  for (const path of ['/healthz', '/readyz']) {
    assert.equal(assertAnswer(await serve.ask({ path })), 200)
    assert.deepEqual([(await serve.ask({ path, method: 'HEAD' })).status], [200])
  }
  await serve.ask({ path: '/nowhere', method: 'DELETE' })
  const { text } = await serve.ask({ path: '/metrics' })
  assert.match(
    text,
    /^leadpush_http_request_duration_seconds_count\{method="GET",route="\/api\/extern\/zapier\/test",status="200"\} [1-9]/m,
  )
  assert.match(text, /^leadpush_http_request_duration_seconds_count\{method="other",route="none",status="404"\} [1-9]/m)
  for (const name of [
    'leadpush_push_processes',
    'leadpush_push_processes_waiting',
    'leadpush_subscription_pushes_owed',
    'leadpush_triggers_due',
    'leadpush_hooks_off',
  ])
    assert.match(text, new RegExp(`^${name} \\d+$`, 'm'))
  assert.ok(!text.includes(key))
  const printed = await house.call('openapi')
  assert.equal(printed.code, 0, printed.stderr)
  const { json } = await serve.ask({ path: '/openapi.json' })
  assert.deepEqual(JSON.parse(printed.stdout), json)
  assert.equal(json.openapi, '3.1.0')
  assert.deepEqual(Object.keys(json.paths), [
    ...['test', 'sample', 'subscribe', 'unsubscribe'].map((name) => `/api/extern/zapier/${name}`),
    ...['/healthz', '/readyz', '/metrics', '/openapi.json'],
  ])
  assert.deepEqual(Object.keys(json.webhooks), ['delivery', 'new_lead', 'price_change', 'lead_gone'])
  assert.deepEqual(json.components.schemas.NewLead.required.length, 23)
})

test('the log is JSON, a line a request, and holds neither a key, nor a query, nor a contact', async () => {
  await serve.ask({ path: 'sample', key })
  const [id] = keys.map((made) => made.id)
  const find = () =>
    serve.log().findLast(({ route, method }) => route === '/api/extern/zapier/sample' && method === 'GET')
  await until('the request is logged', () => find() !== undefined)
  const { time, durationMs, ...line } = find()
  assert.deepEqual(line, {
    level: 'info',
    msg: 'request',
    method: 'GET',
    route: '/api/extern/zapier/sample',
    status: 200,
    integration: id,
    address: '127.0.0.1',
  })
  assert.ok(Date.parse(time) > 0 && durationMs > 0)
  const written = serve.program.stderr()
  for (const secret of [key, key1, contact, 'api_key', 'receiver_key', 'key-0'])
    assert.ok(!written.includes(secret), secret)
  assert.equal(serve.program.stdout(), `leadpush serve listening on http://127.0.0.1:${serve.port}\n`)
})

test('an error that nobody expects is a 500, and the log has it without a key or a contact', async () => {
  const { pool, close } = await house.database.open()
  const before = serve.log().length
  await pool.query('update lead_versions set json = left(json, -1)')
  const { status, json } = await serve.ask({ path: 'sample', key })
  await pool.query(`update lead_versions set json = json || '}'`)
  await close()
  assert.deepEqual(
    [status, json],
    [500, { ok: false, msg: 'Something went wrong inside leadpush: its log has the error.' }],
  )
  const told = () => serve.log().slice(before).filter(({ level }) => level === 'error') // biome-ignore format: short
  // serve answers before this process has read what serve logged
  await until('the error is logged', () => told().length > 0)
  assert.equal(told().length, 1)
  const text = JSON.stringify(serve.log().slice(before))
  assert.match(text, /in JSON at position \d+/)
  for (const secret of [contact, key, 'key-0']) assert.ok(!text.includes(secret), secret)
  assert.equal((await serve.ask({ path: 'sample', key })).status, 200)
})

test('SIGTERM: requests under way are answered, nobody else is let in, and the exit code is 0', async () => {
  const ending = await startServe(house, { ...insecure, LEADPUSH_LOG_FORMAT: 'pretty', LEADPUSH_AUTOMATION: 'n8n' })
  const idle = sendRaw(ending.port, 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
  const silent = sendRaw(ending.port)
  const body = JSON.stringify({ hookUrl: 'https://192.0.2.1/late' })
  const late = net.connect(ending.port, '127.0.0.1')
  let answer = ''
  late.setEncoding('utf8').on('data', (text) => (answer += text))
  late.write(
    `POST /api/extern/n8n/subscribe?api_key=${key2} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  // its head has been read by then, and the connections before it are open
  await until('it may send its body', () => answer.startsWith('HTTP/1.1 100 Continue'))
  ending.program.kill('SIGTERM')
  await ending.program.waitFor(/SIGTERM: answering the requests under way/)
  assert.match(await idle, /200 OK/)
  assert.equal(await silent, '')
  await assert.rejects(ending.ask({ path: '/healthz' }))
  late.write(body)
  await once(late, 'close')
  assert.match(answer, /HTTP\/1\.1 200 OK.*"ok":true/s)
  const { code, stderr } = await ending.program.done
  assert.equal(code, 0, stderr)
})

test('serve ends with 2 at once where it could not work, and says why', async () => {
  const { LEADPUSH_RECEIVER_URL: _, ...unset } = house.env
  const run = (env: Record<string, string>, ...args: string[]) => callProgram(['serve', ...args], { env })
  const without = await run(unset, '--port', '0')
  assert.equal(without.code, 2)
  assert.match(without.stderr, /^\{.*LEADPUSH_RECEIVER_URL: is not set/)
  const wrong = await run(
    { ...house.env, LEADPUSH_TRUST_PROXY: '10.0.0.0/00', LEADPUSH_LIMIT_KEY: '0', LEADPUSH_AUTOMATION: 'a/b' },
    '--port',
    '65536',
  )
  assert.equal(wrong.code, 2)
  for (const name of ['LEADPUSH_TRUST_PROXY', 'LEADPUSH_LIMIT_KEY', 'LEADPUSH_AUTOMATION', '--port'])
    assert.match(wrong.stderr, new RegExp(name))
  const taken = await run(house.env, '--port', String(serve.port))
  assert.equal(taken.code, 2)
  assert.match(taken.stderr, /--host and --port.*EADDRINUSE/)
  const older = await createDatabase()
  const opened = await older.open()
  await opened.pool.query('delete from schema_migrations where name = (select max(name) from schema_migrations)')
  await opened.close()
  const behind = await run({ ...house.env, DATABASE_URL: older.url }, '--port', '0')
  assert.equal(behind.code, 2)
  assert.match(behind.stderr, /leadpush migrate/)
  assert.equal((await run({ ...house.env, LEADPUSH_LIMIT_ADDRESS: 'off' }, '--bogus')).code, 2)
  const down = await run(
    { ...house.env, DATABASE_URL: `postgresql://127.0.0.1:${await findClosedPort()}/x` },
    '--port',
    '0',
  )
  assert.equal(down.code, 3)
})

test('it listens where it is told, on IPv6 too', async (t) => {
  const program = startProgram(['serve', '--host', '::1', '--port', '0'], { env: { ...house.env, LEADPUSH_PORT: '1' } })
  try {
    await program.waitFor(/^leadpush serve listening on http:\/\/\[::1\]:\d+\n/)
  } catch (error) {
    if (/EADDRNOTAVAIL|EAFNOSUPPORT/.test(program.stderr())) return t.skip('there is no IPv6 here')
    throw error
  } finally {
    program.kill('SIGKILL')
  }
})
