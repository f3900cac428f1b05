import assert from 'node:assert/strict'
import net from 'node:net'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { sql } from 'kysely'
import { bodyBytesMax, neverValidReceiverKey } from '../../src/base/limits.ts'
import { sendAttempt } from '../../src/deliveries/attempt.ts'
import { createHttp } from '../../src/http/client.ts'
import { completeLead, type LeadPatch } from '../../src/leads/lead.ts'
import { parseFail } from '../../src/receiver-kit/receiver/faults.ts'
import { type ReceivedDelivery, type ReceiverOptions, startReceiver } from '../../src/receiver-kit/receiver/receiver.ts'
import { createDatabase } from '../support/database.ts'
import { findFreePort, sendRaw } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()
const db = await database.open()

let made = 0
const newKey = () => `key-${++made}`
const newHref = () => `https://example.com/listing/${++made}`

async function start(t: TestContext, options: Partial<ReceiverOptions> = {}) {
  const seen: ReceivedDelivery[] = []
  const receiver = await startReceiver({
    db,
    host: '127.0.0.1',
    port: 0,
    onDelivery: (delivery) => seen.push(delivery),
    ...options,
  })
  t.after(() => receiver.close())
  return { ...receiver, seen }
}

const lead = (patch: LeadPatch = {}) => completeLead({ href: newHref(), postalCode: '60614', ...patch })
const query = { type: 'zipcode', value: '60614', radius: 5 }
const bodyOf = (...fsbos: unknown[]) => JSON.stringify({ queryList: [query], fsbos })

interface Sent {
  status: number
  headers: string
  json: {
    ok: boolean
    msg: string
    problems?: { clause: string; path: string; message: string }[]
    [name: string]: unknown
  }
}

function parseAnswer(text: string): Sent {
  const end = text.indexOf('\r\n\r\n')
  assert.ok(end > 0, `no answer: ${JSON.stringify(text)}`)
  return { status: Number(text.slice(9, 12)), headers: text.slice(0, end), json: JSON.parse(text.slice(end + 4)) }
}

/** A right delivery, but for what the arguments say; a header that is null is left out. */
async function send(
  port: number,
  body: string | Buffer,
  { line = 'POST / HTTP/1.1', headers = {} as Record<string, string | null>, more = '' } = {},
): Promise<Sent> {
  const all: Record<string, string | null> = {
    Host: 'localhost',
    Connection: 'close',
    'Content-Type': 'application/json',
    'X-Service-API-Key': 'user-key-1',
    'X-Data-Source': 'leadpush',
    'X-Idempotency-Key': newKey(),
    'Content-Length': String(Buffer.byteLength(body)),
    ...headers,
  }
  const lines = Object.entries(all).flatMap(([name, value]) => (value === null ? [] : `${name}: ${value}\r\n`))
  return parseAnswer(await sendRaw(port, `${line}\r\n${lines.join('')}${more}\r\n`, body))
}

async function findLead(href: string): Promise<Record<string, unknown>[]> {
  const found = sql<{ lead: Record<string, unknown> }>`select lead from receiver_leads where href = ${href}`
  return (await found.execute(db.db)).rows.map((row) => row.lead)
}

test('a delivery on any path is taken, kept and told of, without the key of the user', async (t) => {
  const { port, seen } = await start(t)
  const given = lead({ price: 250_000 })
  const { status, json } = await send(port, bodyOf(given), { line: 'POST /any/path HTTP/1.1' })
  assert.equal(status, 200)
  assert.deepEqual(json, {
    ok: true, msg: 'Taken.', queries: 1, leads: 1, repeated: false, new: 1, changed: 0, unchanged: 0, kept: 0,
  }) // biome-ignore format: short
  assert.deepEqual(await findLead(given.href), [given])
  assert.equal(seen.length, 1)
  assert.match(seen[0]?.user ?? '', /^[0-9a-f]{8}$/)
  assert.doesNotMatch(JSON.stringify(seen), /user-key-1/)
})

test('leadpush’s own attempt is a right delivery, and its second one is applied once', async (t) => {
  const { url, seen } = await start(t)
  const sender = createHttp({ timeoutMs: 30_000, concurrency: 2 })
  t.after(() => sender.close())
  const target = { receiverUrl: url, dataSource: 'leadpush', timeoutMs: 30_000 }
  const request = { idempotencyKey: newKey(), receiverKey: 'user-key-1', body: Buffer.from(bodyOf(lead(), lead())) }
  for (const applied of [2, undefined]) {
    assert.equal((await sendAttempt(sender, target, request)).httpStatus, 200)
    assert.equal(seen.at(-1)?.applied?.new, applied)
  }
  const other = await sendAttempt(sender, target, { ...request, body: Buffer.from(bodyOf()) })
  assert.equal(other.httpStatus, 422)
  // a third time on the wire is answered, and told of
  assert.deepEqual(
    seen.at(-1)?.problems.map(({ clause }) => clause),
    ['4.5', '4.6'],
  )
})

test('null and a field left out never wipe out a value, and a user’s leads are their own', async (t) => {
  const { port } = await start(t)
  const href = newHref()
  const as = (key: string) => ({ headers: { 'X-Service-API-Key': key } })
  await send(port, bodyOf(lead({ href, price: 1, city: 'Austin', fullAddress: '1 Main St' })), as('user-a'))
  const second = await send(port, bodyOf(lead({ href, price: 2, state: 'TX' })), as('user-a'))
  assert.deepEqual([second.json.changed, second.json.kept], [1, 2])
  const third = await send(port, bodyOf(lead({ href, price: 2 })), as('user-a'))
  assert.equal(third.json.unchanged, 1)
  await send(port, bodyOf(lead({ href, price: 9 })), as('user-b'))
  const kept = (await findLead(href)).sort((a, b) => Number(a.price) - Number(b.price))
  assert.equal(kept.length, 2)
  assert.deepEqual(
    [kept[0]?.price, kept[0]?.city, kept[0]?.state, kept[0]?.fullAddress, kept[1]?.price, kept[1]?.city],
    [2, 'Austin', 'TX', '1 Main St', 9, null],
  )
})

const untilClaimed = (key: string) =>
  until('the delivery is under way', async () => {
    const { rows } = await sql`select from receiver_deliveries where idempotency_key = ${key}`.execute(db.db)
    return rows.length > 0
  })

test('a key that comes while its first delivery is under way is a 409, at another receiver too', async (t) => {
  const slow = await start(t, { faults: { delayMs: 60_000 } })
  const other = await start(t)
  const headers = { 'X-Idempotency-Key': newKey() }
  const body = bodyOf(lead())
  const first = send(slow.port, body, { headers })
  await untilClaimed(headers['X-Idempotency-Key'])
  assert.equal((await send(other.port, body, { headers })).status, 409)
  await slow.close()
  assert.equal((await first).status, 200)
  const again = await send(other.port, body, { headers })
  assert.deepEqual([again.status, again.json.repeated], [200, true])
  assert.equal((await send(other.port, bodyOf(), { headers })).status, 422)
})

test('exactly one of twenty simultaneous requests with one key is applied', async (t) => {
  const { port, seen } = await start(t)
  const headers = { 'X-Idempotency-Key': newKey() }
  const body = bodyOf(lead())
  const answers = await Promise.all(Array.from({ length: 20 }, () => send(port, body, { headers })))
  assert.ok(answers.every(({ status }) => status === 200 || status === 409))
  assert.equal(seen.filter(({ applied }) => applied !== null).length, 1)
})

test('deliveries of one user at once, with the same leads in different orders, are all taken', async (t) => {
  const { port } = await start(t)
  const leads = Array.from({ length: 100 }, () => lead())
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, at) => send(port, bodyOf(...(at % 2 ? leads : [...leads].reverse())))),
  )
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
})

test('a claim that a killed receiver left behind is over after its time', async (t) => {
  const { port } = await start(t)
  const headers = { 'X-Idempotency-Key': newKey() }
  const insert = (until: string) =>
    sql`
    insert into receiver_deliveries (idempotency_key, user_key_sha256, data_source, body_sha256, claim, claimed_until)
    values (${headers['X-Idempotency-Key']}, '', '', '', 'dead', ${until}::timestamptz)
    on conflict (idempotency_key) do update set claimed_until = excluded.claimed_until`.execute(db.db)
  await insert('infinity')
  assert.equal((await send(port, bodyOf(), { headers })).status, 409)
  await insert('-infinity')
  assert.equal((await send(port, bodyOf(), { headers })).status, 200)
})

test('--fail: the next requests are refused and nothing of them is kept; then all is well', async (t) => {
  const { port, seen } = await start(t, {
    faults: {
      fail: [
        { status: 503, times: 1 },
        { status: 503, times: 1 },
      ],
      drop: 1,
    },
  })
  const headers = { 'X-Idempotency-Key': newKey() }
  const body = bodyOf(lead())
  for (let at = 0; at < 2; at++) {
    // the look for a sign of life used up a fault: the attempt after it succeeded
    assert.equal((await fetch(`http://127.0.0.1:${port}`, { method: 'HEAD' })).status, 405)
    const { status, headers: answered, json } = await send(port, body, { headers })
    assert.deepEqual([status, json.ok], [503, false])
    assert.match(answered, /^Retry-After: 1$/m)
  }
  await assert.rejects(send(port, body, { headers }), /no answer: ""/)
  const { status, json } = await send(port, body, { headers })
  assert.deepEqual([status, json.new], [200, 1])
  const deliveries = seen.filter(({ status }) => status !== 405)
  assert.deepEqual(deliveries.map(({ fault, status }) => [fault, status]), [['fail', 503], ['fail', 503], ['drop', null], [null, 200]]) // biome-ignore format: a row
  assert.equal(seen.at(-1)?.times, 1)
})

test('--delay: every answer comes that late, and closing does not wait for it', async (t) => {
  const receiver = await start(t, { faults: { delayMs: 300 } })
  // with more than ten at once the operator was warned of a leak that was none
  const warnings: Error[] = []
  const note = (warning: Error) => warnings.push(warning)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const began = performance.now()
  const answers = await Promise.all(Array.from({ length: 12 }, () => send(receiver.port, bodyOf())))
  assert.ok(answers.some(({ status }) => status === 200))
  assert.ok(performance.now() - began >= 299)
  assert.deepEqual(warnings, [])
  const slow = await start(t, { faults: { delayMs: 60_000 } })
  const headers = { 'X-Idempotency-Key': newKey() }
  const answer = send(slow.port, bodyOf(), { headers })
  await untilClaimed(headers['X-Idempotency-Key'])
  await slow.close()
  assert.equal((await answer).status, 200)
})

test('gzip is taken within 5,000,000 decoded bytes, and every answer says so', async (t) => {
  const { port } = await start(t)
  const sendGzip = (body: string, headers = {}) =>
    send(port, gzipSync(body), { headers: { 'Content-Encoding': 'gzip', ...headers } })
  const key = { 'X-Idempotency-Key': newKey() }
  const body = bodyOf(lead())
  const taken = await sendGzip(body, key)
  assert.deepEqual([taken.status, taken.json.new], [200, 1])
  assert.match(taken.headers, /^Accept-Encoding: gzip$/m)
  // what counts is the decoded body
  const plain = await send(port, body, { headers: key })
  assert.deepEqual([plain.status, plain.json.repeated], [200, true])
  assert.match(plain.headers, /^Accept-Encoding: gzip$/m)
  const empty = bodyOf()
  assert.equal((await sendGzip(empty.padEnd(bodyBytesMax, ' '))).status, 200)
  for (const length of [bodyBytesMax + 1, 500_000_000]) {
    const { status, json } = await sendGzip(empty.padEnd(length, ' '))
    assert.deepEqual([status, json.problems?.[0]?.clause], [413, '4.17'])
  }
  const cut = gzipSync(body).subarray(0, -9)
  assert.equal((await send(port, cut, { headers: { 'Content-Encoding': 'gzip' } })).status, 400)
})

test('a fault is a status from 300 to 599, and how often', () => {
  assert.deepEqual(parseFail('503:2'), { status: 503, times: 2 })
  assert.deepEqual(parseFail('300'), { status: 300, times: 1 })
  assert.deepEqual(parseFail('599:1'), { status: 599, times: 1 })
  for (const text of ['299', '600', '503:0', '503:', '503:-1', '', 'x:1'])
    assert.equal(parseFail(text), undefined, text)
})

const good = () => lead()
const without = (name: string) => Object.fromEntries(Object.entries(good()).filter(([its]) => its !== name))

for (const [name, change, status, clause, path] of [
  ['another method', { line: 'PUT / HTTP/1.1' }, 405, '4.1', 'method'],
  ['GET', { line: 'GET / HTTP/1.1' }, 405, '4.1', 'method'],
  ['query parameters', { line: 'POST /?api_key=1 HTTP/1.1' }, 400, '4.1', 'URL'],
  ['no Content-Type', { headers: { 'Content-Type': null } }, 415, '4.1', 'header Content-Type'],
  ['another Content-Type', { headers: { 'Content-Type': 'text/json' } }, 415, '4.1', 'header Content-Type'],
  ['a body in another encoding', { headers: { 'Content-Encoding': 'br' } }, 415, '4.17', 'header Content-Encoding'],
  ['a body that only claims to be compressed', { headers: { 'Content-Encoding': 'gzip' } }, 400, '4.17', 'body'],
  ['no user key', { headers: { 'X-Service-API-Key': null } }, 401, '4.1', 'header X-Service-API-Key'],
  ['an empty user key', { headers: { 'X-Service-API-Key': '' } }, 401, '4.1', 'header X-Service-API-Key'],
  ['a user key of 51', { headers: { 'X-Service-API-Key': 'k'.repeat(51) } }, 401, '4.1', 'header X-Service-API-Key'],
  ['a user key with a space', { headers: { 'X-Service-API-Key': 'a b' } }, 401, '4.1', 'header X-Service-API-Key'],
  ['a user key beyond ASCII', { headers: { 'X-Service-API-Key': 'é' } }, 401, '4.1', 'header X-Service-API-Key'],
  ['two user keys', { more: 'X-Service-API-Key: b\r\n' }, 401, '4.1', 'header X-Service-API-Key'],
  ['no data source', { headers: { 'X-Data-Source': null } }, 400, '4.1', 'header X-Data-Source'],
  ['a data source of 101', { headers: { 'X-Data-Source': 'd'.repeat(101) } }, 400, '4.1', 'header X-Data-Source'],
  ['no idempotency key', { headers: { 'X-Idempotency-Key': null } }, 400, '4.1', 'header X-Idempotency-Key'],
  [
    'an idempotency key of 65',
    { headers: { 'X-Idempotency-Key': 'i'.repeat(65) } },
    400,
    '4.1',
    'header X-Idempotency-Key',
  ],
  ['no Content-Length', { headers: { 'Content-Length': null } }, 411, '4.1', 'header Content-Length'],
] as const) {
  test(`${name} is a ${status} that says so`, async (t) => {
    const { port } = await start(t)
    const answer = await send(port, bodyOf(), change as Parameters<typeof send>[2])
    assert.equal(answer.status, status)
    assert.equal(answer.json.ok, false)
    assert.deepEqual([answer.json.problems?.[0]?.clause, answer.json.problems?.[0]?.path], [clause, path])
    if (status === 405) assert.match(answer.headers, /^Allow: POST$/m)
  })
}

test('headers as long as they may be are taken', async (t) => {
  const { port } = await start(t)
  const headers = {
    'X-Service-API-Key': '~'.repeat(50),
    'X-Data-Source': '!'.repeat(100),
    'X-Idempotency-Key': newKey().padEnd(64, 'i'),
    'Content-Type': 'Application/JSON',
  }
  assert.equal((await send(port, bodyOf(), { headers })).status, 200)
})

test('chunks are refused, and everything that is wrong is told at once', async (t) => {
  const { port } = await start(t)
  const headers = { 'Content-Length': null, 'Transfer-Encoding': 'chunked', 'X-Data-Source': null }
  const { status, json } = await send(port, '2\r\n{}\r\n0\r\n\r\n', { line: 'PATCH /?x HTTP/1.1', headers })
  assert.equal(status, 405)
  assert.deepEqual(
    json.problems?.map(({ path }) => path),
    ['method', 'URL', 'header Transfer-Encoding', 'header Content-Length', 'header X-Data-Source'],
  )
})

for (const [name, body, status, clause, path] of [
  ['an empty body', '', 400, '4.2', 'body'],
  ['half a JSON', '{"queryList":[', 400, '4.2', 'body'],
  ['bytes that are not UTF-8', Buffer.from('{"queryList":[],"fsbos":["\xe9"]}', 'latin1'), 400, '4.2', 'body'],
  ['a byte order mark', `\ufeff${JSON.stringify({ queryList: [query], fsbos: [] })}`, 400, '4.2', 'body'],
  ['null', 'null', 422, '4.2', 'body'],
  ['a list', '[]', 422, '4.2', 'body'],
  ['a name that is not the interface’s', '{"queryList":[],"fsbos":[],"__proto__":1}', 422, '4.2', '__proto__'],
  [
    'a name of a megabyte',
    `{"queryList":[],"fsbos":[],"${'n'.repeat(1_000_000)}":1}`,
    422,
    '4.2',
    `${'n'.repeat(200)}…`,
  ],
  [
    '1,001 queries',
    JSON.stringify({
      queryList: Array.from({ length: 1_001 }, (_, at) => ({ ...query, value: `v${at}-` })),
      fsbos: [],
    }),
    422,
    '4.11',
    'queryList',
  ],
  [
    'a query without text',
    '{"queryList":[{"type":"text","value":"","radius":0}],"fsbos":[]}',
    422,
    '4.11',
    'queryList[0].value',
  ],
  [
    'a query of 501 characters',
    JSON.stringify({ queryList: [{ ...query, value: 'v'.repeat(501) }], fsbos: [] }),
    422,
    '4.11',
    'queryList[0].value',
  ],
  [
    'a query with a NUL',
    '{"queryList":[{"type":"text","value":"a\\u0000","radius":0}],"fsbos":[]}',
    422,
    '4.10',
    'queryList[0].value',
  ],
  [
    'a radius of 101',
    '{"queryList":[{"type":"text","value":"x","radius":101}],"fsbos":[]}',
    422,
    '4.9',
    'queryList[0].radius',
  ],
  ['a price below 0', bodyOf({ ...good(), price: -1 }), 422, '4.10', 'fsbos[0].price'],
  ['an empty postal code', bodyOf({ ...good(), postalCode: '' }), 422, '4.10', 'fsbos[0].postalCode'],
  ['no queryList', '{"fsbos":[]}', 422, '4.2', 'queryList'],
  ['no fsbos', JSON.stringify({ queryList: [query] }), 422, '4.2', 'fsbos'],
  ['another field', JSON.stringify({ queryList: [query], fsbos: [], extra: 1 }), 422, '4.2', 'extra'],
  [
    'a query without radius',
    '{"queryList":[{"type":"text","value":"x"}],"fsbos":[]}',
    422,
    '4.2',
    'queryList[0].radius',
  ],
  [
    'a query of another type',
    '{"queryList":[{"type":"zip","value":"x","radius":0}],"fsbos":[]}',
    422,
    '4.2',
    'queryList[0].type',
  ],
  [
    'a radius as text',
    '{"queryList":[{"type":"text","value":"x","radius":"5"}],"fsbos":[]}',
    422,
    '4.2',
    'queryList[0].radius',
  ],
  [
    'two queries with one hash',
    JSON.stringify({ queryList: [query, { ...query, type: 'text' }], fsbos: [] }),
    422,
    '4.11',
    'queryList[1]',
  ],
  ['a lead that is null', '{"queryList":[],"fsbos":[null]}', 422, '4.2', 'fsbos[0]'],
  ['a lead without href', bodyOf(without('href')), 422, '4.2', 'fsbos[0].href'],
  ['a lead without price', bodyOf(good(), without('price')), 422, '4.2', 'fsbos[1].price'],
  ['a lead without city', bodyOf(without('city')), 422, '4.2', 'fsbos[0].city'],
  ['a price as text', bodyOf({ ...good(), price: '1' }), 422, '4.2', 'fsbos[0].price'],
  ['a price that is null', bodyOf({ ...good(), price: null }), 422, '4.2', 'fsbos[0].price'],
  ['a price beyond numbers', bodyOf(good()).replace('"price":0', '"price":1e999'), 422, '4.2', 'fsbos[0].price'],
  ['a field of a lead that nobody knows', bodyOf({ ...good(), colour: 'red' }), 422, '4.2', 'fsbos[0].colour'],
  ['a relative href', bodyOf({ ...good(), href: '/listing' }), 422, '4.10', 'fsbos[0].href'],
  ['a NUL character', bodyOf({ ...good(), city: 'a\0b' }), 422, '4.10', 'fsbos[0].city'],
  ['half a surrogate pair', bodyOf({ ...good(), city: '\ud800' }), 422, '4.10', 'fsbos[0].city'],
  ['a fullAddress that is null', bodyOf({ ...good(), fullAddress: null }), 422, '4.2', 'fsbos[0].fullAddress'],
  ['301 leads of one query', bodyOf(...Array.from({ length: 301 }, good)), 422, '4.3', 'fsbos'],
  ['leads without a query', JSON.stringify({ queryList: [], fsbos: [good()] }), 422, '4.3', 'fsbos'],
] as const) {
  test(`a body with ${name} is a ${status} that says where`, async (t) => {
    const { port, seen } = await start(t)
    const answer = await send(port, body)
    assert.equal(answer.status, status)
    assert.deepEqual([answer.json.problems?.[0]?.clause, answer.json.problems?.[0]?.path], [clause, path])
    assert.equal(seen[0]?.applied, null)
  })
}

// The library's own words were told: "Invalid input: expected object, received null".
test('an entry that is no object is told in plain words', async (t) => {
  const { port } = await start(t)
  const { json } = await send(port, '{"queryList":[null,5],"fsbos":["x",[]]}')
  assert.deepEqual(json.problems?.map(({ path, message }) => `${path} ${message}`), [
    'queryList[0] must be an object with type, value and radius',
    'queryList[1] must be an object with type, value and radius',
    'fsbos[0] must be an object with the fields of a lead',
    'fsbos[1] must be an object with the fields of a lead',
  ]) // biome-ignore format: a list
})

test('a body of a million things that are wrong is answered as soon as any other', async (t) => {
  const { port } = await start(t)
  const list = `[${'{},'.repeat(1_600_000)}{}]`
  const { status, json } = await send(port, `{"queryList":[{}],"fsbos":${list}}`)
  assert.deepEqual([status, json.problems?.length], [422, 21])
  const names = Array.from({ length: 300_000 }, (_, at) => `"n${at}":1`).join()
  assert.equal((await send(port, `{"queryList":[],"fsbos":[{${names}}]}`)).json.problems?.length, 21)
})

test('a lead that is there twice is told with its second place', async (t) => {
  const { port } = await start(t)
  const twice = lead()
  const { status, json } = await send(port, bodyOf(good(), twice, good(), twice))
  assert.equal(status, 422)
  assert.deepEqual([json.problems?.[0]?.clause, json.problems?.[0]?.path], ['4.3', 'fsbos[3].href'])
})

test('300 leads of one query are taken, and of many problems the first twenty are told', async (t) => {
  const { port } = await start(t)
  assert.equal((await send(port, bodyOf(...Array.from({ length: 300 }, good)))).status, 200)
  const { json } = await send(port, bodyOf(...Array.from({ length: 300 }, () => without('price'))))
  assert.equal(json.problems?.length, 21)
  assert.match(json.problems?.at(-1)?.message ?? '', /more wrong/)
})

for (const [words, extra, status] of [
  ['one byte below', -1, 200],
  ['at', 0, 200],
  ['one byte above', 1, 413],
] as const) {
  test(`a body ${words} 5,000,000 bytes is answered with ${status}`, async (t) => {
    const { port } = await start(t)
    const base = bodyOf(lead({ description: '' }))
    const padding = 'x'.repeat(bodyBytesMax + extra - Buffer.byteLength(base))
    const body = base.replace('"description":""', `"description":"${padding}"`)
    assert.equal(Buffer.byteLength(body), bodyBytesMax + extra)
    assert.equal((await send(port, body)).status, status)
  })
}

for (const [megabytes, words] of [
  [15, 'is read past'],
  [40, 'is too long to be read past'],
] as const) {
  test(`a sender that looks for its answer only after all of ${megabytes} MB sees it; the body ${words}`, async (t) => {
    const { port } = await start(t)
    const length = megabytes * 1_000_000
    const socket = net.connect(port, '127.0.0.1')
    await new Promise((resolve, reject) => {
      socket.on('error', reject).pause()
      socket.write(`POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`)
      socket.write(Buffer.alloc(length, 'x'), resolve)
    })
    const { status, json } = parseAnswer(Buffer.concat(await socket.toArray()).toString())
    assert.equal(status, 413)
    assert.equal(json.problems?.at(-1)?.message, `has ${length} bytes: at most 5000000`)
    assert.equal((await send(port, bodyOf())).status, 200)
  })
}

test('a sender that asks before sending a body is told to go on, or refused without it', async (t) => {
  const { port } = await start(t)
  const body = bodyOf(lead())
  const ask = (key: string) =>
    sendRaw(
      port,
      `POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n` +
        `X-Service-API-Key: ${key}\r\nX-Data-Source: d\r\nX-Idempotency-Key: ${newKey()}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`,
      ...(key === '' ? [] : [body]),
    )
  assert.match(await ask('k'), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/)
  assert.match(await ask(''), /^HTTP\/1\.1 401 Unauthorized/)
})

test('if the keys are given, another key is a 401, and so is the one that is never valid', async (t) => {
  const strict = await start(t, { knowsKey: (key) => key === 'user-key-1' })
  const open = await start(t)
  const statuses: number[] = []
  for (const { port } of [strict, open]) {
    for (const key of ['user-key-1', 'user-key-2', neverValidReceiverKey]) {
      const { status, json } = await send(port, bodyOf(), { headers: { 'X-Service-API-Key': key } })
      statuses.push(status)
      if (status === 401) assert.equal(json.problems?.[0]?.path, 'header X-Service-API-Key')
    }
  }
  assert.deepEqual(statuses, [200, 401, 401, 200, 200, 401])
})

for (const [name, bytes, status] of [
  ['no HTTP', 'HELLO\r\n\r\n', 400],
  ['TLS', Buffer.from('16030100c8010000c40303', 'hex'), 400],
  ['a negative Content-Length', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n', 400],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}', 400],
  [
    'a length and chunks',
    'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  ['no Host', 'POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}', 400],
  ['a bad header name', 'POST / HTTP/1.1\r\nHost: x\r\nBad@Name: 1\r\n\r\n', 400],
  ['20 KiB of headers', `POST / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_480)}\r\n\r\n`, 431],
  ['a length of 1 TB', 'POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000000000\r\n\r\n', 0],
] as const) {
  test(`${name} does the receiver no harm`, async (t) => {
    const { port } = await start(t)
    if (status === 0) {
      const socket = net.connect(port, '127.0.0.1', () => socket.write(bytes))
      socket.on('error', () => {})
      await new Promise((resolve) => setTimeout(resolve, 100))
      socket.destroy()
    } else assert.match(await sendRaw(port, bytes), new RegExp(`^HTTP/1.1 ${status} `))
    assert.equal((await send(port, bodyOf())).status, 200)
  })
}

test('a sender that breaks off in the middle leaves nothing behind, and its key is free', async (t) => {
  const { port, seen } = await start(t)
  const body = bodyOf(lead())
  const headers = { 'X-Idempotency-Key': newKey() }
  const socket = net.connect(port, '127.0.0.1').on('error', () => {})
  socket.write(
    `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Service-API-Key: k\r\nX-Data-Source: d\r\n`,
  )
  const beginning = `X-Idempotency-Key: ${headers['X-Idempotency-Key']}\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 20)}`
  await new Promise((resolve) => socket.write(beginning, resolve))
  socket.destroy()
  await until('it is told of', () => seen.length > 0)
  assert.match(seen[0]?.msg ?? '', /broke off after 20 bytes/)
  const { status, json } = await send(port, body, { headers })
  assert.deepEqual([status, json.new], [200, 1])
})

test('a database that is away is a 503, never a crash', async (t) => {
  const away = await createDatabase(t)
  const troubles: unknown[] = []
  const { port } = await start(t, { db: await away.open(), onTrouble: (error) => troubles.push(error) })
  const headers = { 'X-Idempotency-Key': newKey() }
  assert.equal((await send(port, bodyOf(), { headers })).status, 200)
  await away.drop()
  const { status, headers: answered } = await send(port, bodyOf())
  assert.equal(status, 503)
  assert.match(answered, /^Retry-After: 1$/m)
  assert.equal(troubles.length, 1)
})

test('a port that is taken is a wrong setting, with what to do', async (t) => {
  const { port } = await start(t)
  const again = startReceiver({ db, host: '127.0.0.1', port })
  await assert.rejects(again, { code: 'usage', message: new RegExp(`Cannot listen on 127.0.0.1, port ${port}`) })
  const free = await findFreePort()
  const { url } = await start(t, { port: free })
  assert.equal(url, `http://127.0.0.1:${free}`)
})
