/** The inbound endpoints through the program (contract 5), as a platform and an operator meet them. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sampleAnswerSchema } from '../../src/server/answers.ts'
import { createDatabase } from '../support/database.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { runProgram, startProgram } from '../support/program.ts'
import { assertAnswer, createKeys, startServe } from '../support/serve.ts'
import { findClosedPort, sendRaw } from '../support/sockets.ts'
import { startWay } from '../support/way.ts'

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
  const { json } = await house.run('integrations list --json')
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
    () => put(key3, 'unsubscribe', { id: null }),
    () => put(key3, 'unsubscribe', { id: { toString: 1 } }),
    () => put(key3, 'unsubscribe', { hookUrl: 'https://192.0.2.1/z' }),
  ]
  for (const remove of nothing) assert.equal(assertAnswer(await remove()), 200)
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
  assert.equal(await countHooks(key2), 1)
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

test('paths are exact and methods are told: nothing else is served', async () => {
  for (const path of [
    '/',
    '/api',
    '/api/extern/zapier',
    '/api/extern/zapier/',
    '/api/extern/other/test',
    '/api/extern/zapier/test/',
    '/api/extern/zapier/Test',
    '/API/extern/zapier/test',
    '//api/extern/zapier/test',
    '/api/extern//zapier/test',
    '/api/extern/zapier/test;x',
    '/api/extern/zapier/test%2F',
    '/api/extern/zapier/%zz',
    '/api/extern/zapier/../zapier/test',
    '/api/extern/zapier/test%00',
    '/healthz/',
  ]) {
    // biome-ignore format: a list
    for (const method of ['GET', 'PUT', 'DELETE'])
      assert.equal(assertAnswer(await serve.ask({ method, path, key })), 404, `${method} ${path}`)
  }
  assert.equal((await serve.ask({ path: '/api/extern/zapier/%74est', key })).status, 200)
  for (const [path, allowed] of [
    ['test', 'GET'],
    ['sample', 'GET'],
    ['subscribe', 'POST'],
    ['unsubscribe', 'PUT'],
    ['/healthz', 'GET, HEAD'],
    ['/metrics', 'GET, HEAD'],
  ] as const) {
    // biome-ignore format: a list
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY']) {
      if (allowed.split(', ').includes(method)) continue
      const answered = await serve.ask({ method, path, key })
      assert.deepEqual([answered.status, answered.headers.allow], [405, allowed], `${method} ${path}`)
      if (method !== 'HEAD') assertAnswer(answered)
    }
  }
})

test('what is wrong is looked for in the order of the contract', async () => {
  const way = await startWay(house.database.url)
  const strict = await startServe(house, {
    ...insecure, DATABASE_URL: way.url, LEADPUSH_LIMIT_ADDRESS: '2', LEADPUSH_LIMIT_KEY: '3', LEADPUSH_TRUST_PROXY: '127.0.0.0/8',
  }) // biome-ignore format: short
  let addresses = 0
  const fresh = () => ({ 'X-Forwarded-For': `198.51.100.${++addresses}` })
  const over = fresh()
  const body = 'x'.repeat(65_537)
  const ask = (headers: Record<string, string>, more: Parameters<typeof strict.ask>[0] = {}) =>
    strict.ask({ method: 'POST', path: 'subscribe', body, headers, ...more })
  try {
    assert.equal(assertAnswer(await ask(over)), 422)
    assert.equal(assertAnswer(await ask(over, { key: 'unknown' })), 401)
    way.swallow({ all: true })
    assert.equal(assertAnswer(await ask(over, { method: 'GET', path: 'nowhere' })), 404)
    assert.equal(assertAnswer(await ask(over, { method: 'GET' })), 405)
    const limited = await ask(over)
    assert.equal(assertAnswer(limited), 429)
    assert.match(limited.json.msg, /address/)
    assert.equal(assertAnswer(await ask(over, { key, path: 'test', method: 'GET' })), 429)
    for (const path of ['subscribe', 'subscribe?api_key=', `subscribe?api_key=${key}&api_key=${key}`])
      assert.equal(assertAnswer(await ask(fresh(), { path })), 422, path)
    const askedAt = performance.now()
    assert.equal(assertAnswer(await ask(fresh(), { key: 'unknown' })), 503)
    assert.ok(performance.now() - askedAt < 6_000)
    assert.equal((await strict.ask({ path: '/healthz' })).status, 200)
    assert.equal(assertAnswer(await strict.ask({ path: '/readyz' })), 503)
    way.mend()
    for (const until = Date.now() + 20_000; (await strict.ask({ path: '/readyz' })).status !== 200; )
      assert.ok(Date.now() < until)
    assert.equal(assertAnswer(await ask(fresh(), { key: 'unknown' })), 401)
    // an outage is told once, and its end
    await strict.program.waitFor(/The database answers again/)
    const said = strict.log().flatMap(({ level, msg }) => (level === 'error' || /again/.test(msg) ? [msg] : []))
    assert.deepEqual(said, ['The database did not answer within 2 s.', 'The database answers again.'])
    const from = fresh()
    assert.equal(assertAnswer(await ask(from, { key })), 413)
    assert.equal(assertAnswer(await ask(from, { key, body: 'x'.repeat(65_536) })), 422)
    assert.equal(assertAnswer(await ask(from, { key, body: '{}' })), 422)
    const tooMany = await ask(fresh(), { key })
    assert.equal(assertAnswer(tooMany), 429)
    assert.match(tooMany.json.msg, /key/)
    assert.equal(assertAnswer(await ask(fresh(), { key: key1, body: '{}' })), 422)
    way.refuse()
    assert.equal(assertAnswer(await ask(fresh(), { key })), 503)
  } finally {
    strict.program.kill('SIGTERM')
  }
  assert.equal((await strict.program.done).code, 0)
})

test('the address is that of the last proxy that is not trusted, whatever a caller writes before it', async () => {
  const limited = await startServe(house, {
    LEADPUSH_LIMIT_ADDRESS: '1',
    LEADPUSH_TRUST_PROXY: '127.0.0.1,10.0.0.0/8,2001:db8::/32',
  })
  const ask = (forwarded?: string) =>
    limited.ask(forwarded === undefined ? {} : { headers: { 'X-Forwarded-For': forwarded } })
  const statuses = async (...all: (string | undefined)[]) => {
    const answers = []
    for (const forwarded of all) answers.push((await ask(forwarded)).status)
    return answers
  }
  try {
    assert.deepEqual(await statuses('198.51.100.1', '198.51.100.1', '198.51.100.2'), [422, 429, 422])
    assert.deepEqual(
      await statuses('203.0.113.9, 198.51.100.1', '198.51.100.1, 10.1.2.3, 10.9.9.9', '198.51.100.1, 2001:db8::1'),
      [429, 429, 429],
    )
    assert.deepEqual(
      await statuses('198.51.100.1, 203.0.113.9', '198.51.100.1:4711', '[2001:dead::1]:99', '2001:dead::1'),
      [422, 429, 422, 429],
    )
    // what is no address is the proxy's own
    assert.deepEqual(await statuses('nonsense', undefined, 'x'.repeat(5_000)), [422, 429, 429])
    assert.equal((await limited.ask({ key, headers: { 'X-Forwarded-For': '203.0.113.77' } })).status, 200)
  } finally {
    limited.program.kill('SIGKILL')
  }
})

test('without trusted proxies X-Forwarded-For says nothing; good requests do not count, answers at once do not slip through', async () => {
  const limited = await startServe(house, { LEADPUSH_LIMIT_ADDRESS: '5', LEADPUSH_LIMIT_KEY: 'off' })
  try {
    const good = await Promise.all(Array.from({ length: 20 }, () => limited.ask({ key })))
    assert.ok(good.every(({ status }) => status === 200))
    const bad = await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        limited.ask({ key: 'unknown', headers: { 'X-Forwarded-For': `198.51.100.${at}` } }),
      ),
    )
    assert.deepEqual(
      [401, 429].map((wanted) => bad.filter(({ status }) => status === wanted).length),
      [5, 25],
    )
  } finally {
    limited.program.kill('SIGKILL')
  }
})

test('HTTP of every kind gets an answer in JSON: old, odd, broken, too long', async () => {
  const path = `/api/extern/zapier/test?api_key=${key}`
  const head = 'Host: a\r\nConnection: close\r\n'
  for (const [request, status] of [
    [`GET ${path} HTTP/1.0\r\n\r\n`, 200],
    [`GET http://elsewhere.example${path} HTTP/1.1\r\n${head}\r\n`, 200],
    [`GET ${path} HTTP/1.1\r\n${head}Expect: something\r\n\r\n`, 200],
    [`GET ${path} HTTP/1.1\r\n${head}Upgrade: websocket\r\n\r\n`, 200],
    [`GET ${path} HTTP/1.1\r\n${head}Content-Length: 5\r\n\r\nhello`, 200],
    [`GET ${path} HTTP/1.1\r\n${head}Content-Length: 65537\r\n\r\nhello`, 413],
    [`GET ${path} HTTP/1.1\r\n\r\n`, 400],
    [`OPTIONS * HTTP/1.1\r\n${head}\r\n`, 404],
    [`CONNECT elsewhere.example:443 HTTP/1.1\r\n${head}\r\n`, 400],
    ['nonsense\r\n\r\n', 400],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc', 400],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    [`GET ${path} HTTP/1.1\r\n${head}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`, 400],
    [`GET /${'x'.repeat(17_000)} HTTP/1.1\r\n${head}\r\n`, 431],
    [`GET ${path} HTTP/1.1\r\n${head}X: ${'x'.repeat(17_000)}\r\n\r\n`, 431],
  ] as const) {
    const [answer = '', text = ''] = (await sendRaw(serve.port, request)).split('\r\n\r\n')
    const { ok, msg } = JSON.parse(text)
    assert.deepEqual(
      [Number(answer.slice(9, 12)), ok, typeof msg],
      [status, status === 200, 'string'],
      request.slice(0, 200),
    )
    assert.match(answer, /content-type: application\/json/i)
  }
})

test('a body that is refused is not waited for, and its sender can read the answer all the same', async () => {
  const path = `/api/extern/zapier/subscribe?api_key=${key}`
  const send = (length: number, more = '') =>
    sendRaw(serve.port, `POST ${path} HTTP/1.1\r\nHost: a\r\n${more}Content-Length: ${length}\r\n\r\n`)
  // the key is checked and the body refused before anything of it came
  const continued = await send(65_537, 'Expect: 100-continue\r\n')
  assert.match(continued, /^HTTP\/1\.1 413 /)
  const big = Buffer.alloc(5_000_000, 'x')
  for (const headers of [{}, { Connection: 'close' }]) {
    assert.equal((await serve.ask({ method: 'POST', path: 'subscribe', key, body: big, headers })).status, 413)
    assert.equal(
      (await serve.ask({ method: 'POST', path: 'subscribe', key: 'unknown', body: big, headers })).status,
      401,
    )
    assert.equal((await serve.ask({ method: 'POST', path: 'nowhere', body: big, headers })).status, 404)
  }
  const inChunks = (body: Buffer) =>
    sendRaw(serve.port, `PUT ${path.replace('subscribe', 'unsubscribe')} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`,
      `${body.length.toString(16)}\r\n`, body, '\r\n0\r\n\r\n') // biome-ignore format: short
  assert.match(await inChunks(big.subarray(0, 65_537)), /^HTTP\/1\.1 413 /)
  assert.match(await inChunks(big.subarray(0, 65_536)), /^HTTP\/1\.1 200 /)
  assert.equal(
    (await serve.ask({ method: 'PUT', path: 'unsubscribe', key, body: '{}', headers: { Expect: '100-continue' } }))
      .status,
    200,
  )
})

test('/metrics counts requests, /openapi.json is what the command prints, /readyz and /healthz say that all is well', async () => {
  for (const path of ['/healthz', '/readyz']) {
    assert.equal(assertAnswer(await serve.ask({ path })), 200)
    assert.deepEqual([(await serve.ask({ path, method: 'HEAD' })).status], [200])
  }
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
  ])
    assert.match(text, new RegExp(`^${name} \\d+$`, 'm'))
  assert.ok(!text.includes(key))
  const printed = await house.run('openapi')
  assert.equal(printed.code, 0, printed.stderr)
  const { json } = await serve.ask({ path: '/openapi.json' })
  assert.deepEqual(JSON.parse(printed.stdout), json)
  assert.equal(json.openapi, '3.1.0')
  assert.deepEqual(
    Object.keys(json.paths),
    ['test', 'sample', 'subscribe', 'unsubscribe'].map((name) => `/api/extern/zapier/${name}`),
  )
  assert.deepEqual(Object.keys(json.webhooks), ['delivery', 'new_lead'])
  assert.deepEqual(json.components.schemas.NewLead.required.length, 23)
})

test('the log is JSON, a line a request, and holds neither a key, nor a query, nor a contact', async () => {
  await serve.ask({ path: 'sample', key })
  const [id] = keys.map((made) => made.id)
  const find = () =>
    serve.log().findLast(({ route, method }) => route === '/api/extern/zapier/sample' && method === 'GET')
  while (find() === undefined) await sleep(20)
  const { time, durationMs, ...line } = find()
  assert.deepEqual(line, {
    level: 'info', msg: 'request', method: 'GET', route: '/api/extern/zapier/sample', status: 200, integration: id, address: '127.0.0.1',
  }) // biome-ignore format: short
  assert.ok(Date.parse(time) > 0 && durationMs > 0)
  const written = serve.program.stderr()
  for (const secret of [key, key1, contact, 'api_key', 'receiver_key', 'key-0'])
    assert.ok(!written.includes(secret), secret)
  assert.equal(serve.program.stdout(), `leadpush serve listening on http://127.0.0.1:${serve.port}\n`)
})

test('SIGTERM: what is under way is answered, nobody else is let in, and the end is 0', async () => {
  const ending = await startServe(house, { ...insecure, LEADPUSH_LOG_FORMAT: 'pretty', LEADPUSH_AUTOMATION: 'n8n' })
  const idle = sendRaw(ending.port, 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
  const silent = sendRaw(ending.port)
  const body = JSON.stringify({ hookUrl: 'https://192.0.2.1/late' })
  const late = net.connect(ending.port, '127.0.0.1')
  let answer = ''
  late.setEncoding('utf8').on('data', (text) => (answer += text))
  late.write(
    `POST /api/extern/n8n/subscribe?api_key=${key2} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  await sleep(300)
  const beganAt = performance.now()
  ending.program.kill('SIGTERM')
  await ending.program.waitFor(/SIGTERM: answering what is under way/)
  assert.match(await idle, /200 OK/)
  assert.equal(await silent, '')
  await assert.rejects(ending.ask({ path: '/healthz' }))
  late.write(body)
  await once(late, 'close')
  assert.match(answer, /^HTTP\/1\.1 200 OK.*"ok":true/s)
  const { code, stderr } = await ending.program.done
  assert.equal(code, 0, stderr)
  assert.ok(performance.now() - beganAt < 10_000)
})

test('serve ends with 2 at once where it could not work, and says why', async () => {
  const { LEADPUSH_RECEIVER_URL: _, ...unset } = house.env
  const run = (env: Record<string, string>, ...args: string[]) => runProgram(['serve', ...args], { env })
  const without = await run(unset, '--port', '0')
  assert.equal(without.code, 2)
  assert.match(without.stderr, /^\{.*LEADPUSH_RECEIVER_URL: is not set/)
  const wrong = await run(
    { ...house.env, LEADPUSH_TRUST_PROXY: 'proxy', LEADPUSH_LIMIT_KEY: '0', LEADPUSH_AUTOMATION: 'a/b' },
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
