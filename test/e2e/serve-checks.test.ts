/** What `serve` checks before an endpoint is reached, and in which order (contract 5.1); HTTP of every kind. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { METHODS } from 'node:http'
import net from 'node:net'
import { after, test } from 'node:test'
import { databaseAnswerMsMax } from '../../src/base/limits.ts'
import { buildHouse, makeUsers } from '../support/house.ts'
import { assertAnswer, createKeys, startServe } from '../support/serve.ts'
import { sendRaw } from '../support/sockets.ts'
import { until } from '../support/until.ts'
import { startWay } from '../support/way.ts'

const house = await buildHouse({ users: makeUsers(2) })
const keys = await createKeys(house, ['user-0@example.com', 'user-1@example.com'])
const [key = '', key1 = ''] = keys.map(({ apiKey }) => apiKey)
const insecure = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
const serve = await startServe(house, insecure)
after(() => serve.program.kill('SIGKILL'))

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
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY']) {
      // Node.js 20.19 does not know QUERY
      if (allowed.split(', ').includes(method) || !METHODS.includes(method)) continue
      const answered = await serve.ask({ method, path, key })
      assert.deepEqual([answered.status, answered.headers.allow], [405, allowed], `${method} ${path}`)
      if (method !== 'HEAD') assertAnswer(answered)
    }
  }
})

test('faults are looked for in the order of the contract', async () => {
  const way = await startWay(house.database.url)
  const strict = await startServe(house, {
    ...insecure,
    DATABASE_URL: way.url,
    LEADPUSH_LIMIT_ADDRESS: '2',
    LEADPUSH_LIMIT_KEY: '3',
    LEADPUSH_TRUST_PROXY: '127.0.0.0/8',
  })
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
    assert.equal(assertAnswer(await ask(fresh(), { key: 'unknown' })), 503)
    assert.equal((await strict.ask({ path: '/healthz' })).status, 200)
    assert.equal(assertAnswer(await strict.ask({ path: '/readyz' })), 503)
    assert.match((await strict.ask({ path: '/metrics' })).text, /^leadpush_database_up 0$/m)
    way.mend()
    await until('it is ready', async () => (await strict.ask({ path: '/readyz' })).status === 200)
    assert.equal(assertAnswer(await ask(fresh(), { key: 'unknown' })), 401)
    // an outage is told once, and its end
    await strict.program.waitFor(/The database answers again/)
    const said = strict.log().flatMap(({ level, msg }) => (level === 'error' || /again/.test(msg) ? [msg] : []))
    assert.deepEqual(said, [
      `The database did not answer within ${databaseAnswerMsMax / 1_000} s.`,
      'The database answers again.',
    ])
    const from = fresh()
    assert.equal(assertAnswer(await ask(from, { key })), 413)
    assert.equal(assertAnswer(await ask(from, { key, body: 'x'.repeat(65_536) })), 422)
    assert.equal(assertAnswer(await ask(from, { key, body: '{}' })), 422)
    const tooMany = await ask(fresh(), { key })
    assert.equal(assertAnswer(tooMany), 429)
    const { text } = await strict.ask({ path: '/metrics' })
    for (const [name, value] of [
      ['database_up', 1],
      ['http_requests_limited_total{limit="address"}', 2],
      ['http_requests_limited_total{limit="key"}', 1],
    ])
      assert.ok(text.includes(`\nleadpush_${name} ${value}\n`), text)
    assert.match(tooMany.json.msg, /key/)
    assert.equal(assertAnswer(await ask(fresh(), { key: key1, body: '{}' })), 422)
    way.refuse()
    assert.equal(assertAnswer(await ask(fresh(), { key })), 503)
  } finally {
    strict.program.kill('SIGTERM')
  }
  assert.equal((await strict.program.done).code, 0)
})

// A caller with a network of IPv6 could take another address for every try; and one bad caller locked out all good ones beside it.
test('the address is that of the last proxy that is not trusted, an IPv6 network is one, and keys that were good get through', async () => {
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
    assert.deepEqual(
      await statuses('2001:dead::2', '2001:dead:0:0:ffff::1', '2001:dead:0:1::1', '::ffff:198.51.100.1'),
      [429, 429, 422, 429],
    )
    // an IPv4 address in IPv6 digits was once one of a single network, and shared its limit with all others
    assert.deepEqual(
      await statuses('::ffff:c633:6401', '::ffff:c633:6409', '0:0:0:0:0:ffff:c633:640a'),
      [429, 422, 422],
    )
    const headers = { 'X-Forwarded-For': '198.51.100.1' }
    assert.equal((await limited.ask({ key, headers })).status, 429)
    assert.equal((await limited.ask({ key, headers: { 'X-Forwarded-For': '203.0.113.77' } })).status, 200)
    assert.equal((await limited.ask({ key, headers })).status, 200)
    const bad = { method: 'POST', path: 'subscribe', body: '{}', headers }
    assert.deepEqual([(await limited.ask({ ...bad, key })).status, (await limited.ask(bad)).status], [422, 429])
    assert.equal((await limited.ask({ key: key1, headers })).status, 429)
    assert.doesNotMatch(limited.program.stderr(), /TRUST_PROXY/)
  } finally {
    limited.program.kill('SIGKILL')
  }
})

// A proxy that writes `address:port` made another trusted one pass for the caller of all requests; an empty header was warned of.
test('a trusted proxy is known by its address, also with its port beside it, and an empty X-Forwarded-For names nobody', async () => {
  const trusted = '127.0.0.1,10.0.0.2,2001:db8::2'
  const limited = await startServe(house, { LEADPUSH_LIMIT_ADDRESS: '1', LEADPUSH_TRUST_PROXY: trusted })
  const ask = async (forwarded: string) => (await limited.ask({ headers: { 'X-Forwarded-For': forwarded } })).status
  try {
    const statuses = []
    for (const forwarded of [
      '198.51.100.1, 10.0.0.2:4711',
      '198.51.100.2,10.0.0.2:4712',
      '198.51.100.3:80, [2001:db8::2]:4713',
      '198.51.100.1:99, [::ffff:10.0.0.2]:4714',
      '',
      ' , ',
    ])
      statuses.push(await ask(forwarded))
    assert.deepEqual(statuses, [422, 422, 422, 429, 422, 429])
    // it was a fault of leadpush itself, with a stack in the log
    assert.equal(await ask('fe80::1%a-b'), 422)
    // a key that was revoked was free of the limit for an hour
    const [{ apiKey: revoked = '', id = 0 } = {}] = await createKeys(house, ['user-1@example.com'])
    const headers = { 'X-Forwarded-For': '198.51.100.77' }
    assert.equal((await limited.ask({ key: revoked, headers })).status, 200)
    assert.equal((await house.call(`integrations revoke ${id}`)).code, 0)
    assert.equal((await limited.ask({ key: revoked, headers })).status, 401)
    assert.equal((await limited.ask({ key: revoked, headers })).status, 429)
    const { text } = await limited.ask({ path: '/metrics' })
    assert.match(text, /^leadpush_http_requests_forwarded_untrusted_total 0$/m)
  } finally {
    limited.program.kill('SIGKILL')
  }
})

// Behind a proxy that was not named, all callers had one address, and nothing said so until one of them locked out the others.
test('without trusted proxies X-Forwarded-For says nothing, and is warned of once; good requests do not count, answers at once do not slip through', async () => {
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
    await limited.program.waitFor(/LEADPUSH_TRUST_PROXY/)
    const warnings = limited.log().filter(({ level }) => level === 'warn')
    assert.equal(warnings.length, 1)
    assert.match(warnings[0].msg, /^A proxy at 127\.0\.0\.1 .* Add 127\.0\.0\.1 to LEADPUSH_TRUST_PROXY\.$/)
    const { text } = await limited.ask({ path: '/metrics' })
    assert.match(text, /^leadpush_http_requests_forwarded_untrusted_total 30$/m)
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

test('a body that is refused is not asked for, and its sender can read the answer all the same', async () => {
  const path = `/api/extern/zapier/subscribe?api_key=${key}`
  const headOf = (length: number, more = '') =>
    `PUT ${path.replace('subscribe', 'unsubscribe')} HTTP/1.1\r\nHost: a\r\n${more}Content-Length: ${length}\r\n\r\n`
  const expecting = 'Expect: 100-continue\r\nConnection: close\r\n'
  assert.match(await sendRaw(serve.port, headOf(65_537, expecting)), /^HTTP\/1\.1 413 /)
  const waiting = net.connect(serve.port, '127.0.0.1', () => waiting.write(headOf(2, expecting)))
  const [first] = await once(waiting, 'data')
  assert.equal(String(first), 'HTTP/1.1 100 Continue\r\n\r\n')
  waiting.write('{}')
  const [second] = await once(waiting, 'data')
  assert.match(String(second), /^HTTP\/1\.1 200 /)

  const big = Buffer.alloc(5_000_000, 'x')
  for (const headers of [{}, { Connection: 'close' }]) {
    assert.equal((await serve.ask({ method: 'POST', path: 'subscribe', key, body: big, headers })).status, 413)
    assert.equal(
      (await serve.ask({ method: 'POST', path: 'subscribe', key: 'unknown', body: big, headers })).status,
      401,
    )
    assert.equal((await serve.ask({ method: 'POST', path: 'nowhere', body: big, headers })).status, 404)
  }
  // one that reads nothing before it has sent all
  const busy = net.connect(serve.port, '127.0.0.1')
  busy.pause()
  busy.on('error', () => {})
  await new Promise((resolve) => busy.write(Buffer.concat([Buffer.from(headOf(big.length)), big]), resolve))
  busy.resume()
  const [answer] = await once(busy, 'data')
  assert.match(String(answer), /^HTTP\/1\.1 413 /)

  const inChunks = (method: string, endpoint: string, body: Buffer) =>
    sendRaw(
      serve.port,
      `${method} ${path.replace('subscribe', endpoint)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`,
      `${body.length.toString(16)}\r\n`,
      body,
      '\r\n0\r\n\r\n',
    )
  // once a GET was answered as if it had no body, unless Content-Length told of a long one
  for (const [method, endpoint] of [
    ['PUT', 'unsubscribe'],
    ['GET', 'test'],
    ['GET', 'sample'],
  ] as const) {
    assert.match(await inChunks(method, endpoint, big.subarray(0, 65_537)), /^HTTP\/1\.1 413 /)
    assert.match(await inChunks(method, endpoint, big.subarray(0, 65_536)), /^HTTP\/1\.1 200 /)
  }
})
