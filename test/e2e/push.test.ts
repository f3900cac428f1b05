/** The main job through the program (contract 3, 4): listings and users in, deliveries out, and what a machine reads of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildHouse, countsOf, deliveriesOf, hrefOf, noCounts, zip } from '../support/house.ts'

const leads = [
  { href: hrefOf('a'), postalCode: '78704', price: 350_000, description: 'Größe, “views” & <b>pool</b>\u2028' },
  { href: hrefOf('b'), postalCode: '78704-1234', city: 'Austin', state: 'TX' },
  { href: hrefOf('c'), postalCode: '00901' },
]
const users = [
  {
    email: 'One@Example.com',
    receiverApiKey: 'key-1',
    queries: [zip('78704'), { type: 'text', value: 'pool Austin, TX', radius: 2.5 }],
  },
  { email: 'two@example.com', receiverApiKey: 'key-2', queries: [zip('99950')] },
  { email: 'three@example.com', receiverApiKey: 'key-3' },
  { email: 'four@example.com', receiverApiKey: 'key-4', subscribed: false, queries: [zip('00901')] },
]

const house = await buildHouse({ leads, users })

const deliveryFields = [
  'type', 'user', 'kind', 'idempotencyKey', 'period', 'part', 'parts', 'queries', 'leads', 'bytes', 'status', 'attempts',
  'httpStatus', 'error',
] // biome-ignore format: a list
const summaryFields = [
  'type', 'period', 'users', 'deliveries', 'delivered', 'failed', 'unknown', 'skipped', 'already', 'elsewhere', 'owed', 'leads',
  'bytes', 'seconds',
] // biome-ignore format: a list

test('a preview of some users lists the first of them as a push comes to them, and its summary counts all', async () => {
  const all = await house.call('preview --json')
  const { json, code } = await house.call('preview --json --limit 1')
  assert.equal(code, 0)
  const [first, summary] = json
  assert.deepEqual([json.length, first], [2, all.json[0]])
  assert.deepEqual(countsOf(summary), countsOf(all.json.at(-1)))
  assert.deepEqual(summary.leadsPerUser, {
    withoutLeads: 1,
    smallest: { user: 'two@example.com', leads: 0 },
    median: 0,
    largest: { user: 'one@example.com', leads: 2 },
  })
  assert.equal((await house.call('preview --body --limit 2')).stdout.trimEnd().split('\n').length, 1)
  const { stdout } = await house.call('preview --limit 2')
  assert.match(stdout, /smallest 0 \(two@example\.com\), median 0, largest 2 \(one@example\.com\)/)
  assert.match(stdout, /1 user would get a delivery with no lead/)
})

test('a preview shows what a push would send, byte for byte, and sends nothing', async () => {
  const [json, bodies, table] = await Promise.all([
    house.call('preview --json'),
    house.call('preview --body'),
    house.call('preview'),
  ])
  for (const { code, stderr } of [json, bodies, table]) assert.deepEqual([code, stderr], [0, ''])
  assert.equal(house.receiver.requests.length, 0)
  const planned = deliveriesOf(json.json)
  for (const line of planned) {
    assert.deepEqual(Object.keys(line), deliveryFields)
    assert.deepEqual([line.status, line.idempotencyKey, line.httpStatus, line.attempts], ['planned', null, null, 0])
  }
  assert.deepEqual(planned.map(({ user, queries, leads }) => [user, queries, leads]).sort(), [
    ['one@example.com', 2, 2],
    ['two@example.com', 1, 0],
  ])
  assert.deepEqual(
    json.json.filter(({ type }) => type === 'skip'),
    [{ type: 'skip', user: 'three@example.com', reason: 'no queries' }],
  )
  assert.match(table.stdout, /kind +queries +matches +leads +bytes +parts +user\n/)

  const pushed = await house.call('push --all --json')
  assert.equal(pushed.code, 0, pushed.stderr)
  assert.match(pushed.stderr, /^Database: .*\n$/)
  assert.deepEqual(
    house.receiver.requests.map(({ body }) => body.toString()).sort(),
    bodies.stdout.split('\n').slice(0, -1).sort(),
  )
  assert.deepEqual(
    planned.map(({ user, bytes }) => [user, bytes]).sort(),
    deliveriesOf(pushed.json)
      .map(({ user, bytes }) => [user, bytes])
      .sort(),
  )
  for (const line of deliveriesOf(pushed.json)) {
    assert.deepEqual(Object.keys(line), deliveryFields)
    const { kind, status, attempts, httpStatus, error } = line
    assert.deepEqual([kind, status, attempts, httpStatus, error], ['weekly', 'delivered', 1, 200, null])
    const request = house.receiver.keys().get(line.idempotencyKey)?.[0]
    assert.equal(request?.body.length, line.bytes)
    assert.equal(request?.json.fsbos.length, line.leads)
    assert.match(line.period, /^\d{4}-W\d\d$/)
  }
  const summary = pushed.json.at(-1)
  assert.deepEqual(Object.keys(summary), summaryFields)
  assert.deepEqual(countsOf(summary), { ...noCounts, users: 3, deliveries: 2, delivered: 2, skipped: 1, leads: 2 })
})

test('a delivery is one POST with its headers, to the URL as it stands, with every field of every lead', async () => {
  const request = house.receiver.requests.find(({ headers }) => headers['x-service-api-key'] === 'key-1')
  assert.ok(request)
  const { method, path, headers, json, body } = request
  assert.deepEqual([method, path], ['POST', '/leads?tenant=1'])
  assert.equal(headers['content-type'], 'application/json')
  assert.equal(headers['x-data-source'], 'leadpush')
  assert.match(String(headers['x-idempotency-key']), /^[!-~]{1,64}$/)
  assert.equal(headers['content-length'], String(body.length))
  assert.equal(headers['transfer-encoding'], undefined)
  assert.match(String(headers['user-agent']), /^leadpush\/\d/)
  assert.deepEqual(Object.keys(json), ['queryList', 'fsbos'])
  assert.deepEqual(json.queryList, [zip('78704'), { type: 'text', value: 'pool Austin, TX', radius: 2.5 }])
  const unknown = {
    schemaVersion: 'v0.1.0', price: 0, rawListingDate: null, sqft: 0, bedrooms: 0, bathrooms: 0, yearBuilt: 0,
    description: null, propertyType: null, contactName: null, contactPhone: null, contactEmail: null, address: null,
    secondAddress: null, city: null, state: null, country: null,
  } // biome-ignore format: a list
  assert.deepEqual(json.fsbos, [
    { ...unknown, ...leads[0] },
    { ...unknown, ...leads[1] },
  ])
})

test('a second push --all sends nothing, and says who had theirs', async () => {
  const sent = house.receiver.requests.length
  const { code, json } = await house.call('push --all --json')
  assert.equal(code, 0)
  assert.equal(house.receiver.requests.length, sent)
  assert.deepEqual(countsOf(json.at(-1)), { ...noCounts, users: 1, skipped: 1, already: 2 })
})

test('push --user serves one user in any period, in any letters, and says that they are not subscribed', async () => {
  const sent = house.receiver.requests.length
  const preview = await house.call('preview --user FOUR@example.com --body')
  const { code, json, stderr } = await house.call('push --user FOUR@example.com --json')
  assert.equal(code, 0, stderr)
  assert.match(stderr, /four@example\.com is not subscribed/)
  const [line] = deliveriesOf(json)
  assert.deepEqual([line.user, line.kind, line.leads], ['four@example.com', 'single', 1])
  assert.equal(`${house.receiver.requests[sent]?.body}\n`, preview.stdout)
  const again = await house.call('push --user four@example.com --json')
  assert.notEqual(deliveriesOf(again.json)[0].idempotencyKey, line.idempotencyKey)
  assert.doesNotMatch((await house.call('push --user two@example.com')).stderr, /not subscribed/)
})

test('a failed push to a user who is not subscribed names the command that serves them again', async () => {
  // it named `push --failed`, which serves subscribed users alone
  const away = { LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1' }
  const off = await house.call('push --user FOUR@example.com', { env: away })
  assert.match(off.stdout, /\nMend the cause, then run `leadpush push --user four@example\.com`\.\n/)
  const on = await house.call('push --user two@example.com', { env: away })
  assert.match(on.stdout, /\nMend the cause, then run `leadpush push --failed`\.\n/)
})

test('if one part failed and another may have arrived, the command for both is named once', async () => {
  // it stood there twice, under two reasons
  const description = 'x'.repeat(20_000)
  const own = await buildHouse({
    leads: Array.from({ length: 300 }, (_, at) => ({ href: hrefOf(`part-${at}`), postalCode: '78704', description })),
    users: [{ email: 'off@example.com', receiverApiKey: 'key', subscribed: false, queries: [zip('78704')] }],
  })
  own.receiver.answer = ({ key }) => (key === own.receiver.requests[0]?.key ? 422 : 'drop')
  const { code, stdout } = await own.call('push --user off@example.com')
  assert.equal(code, 1)
  const command = 'leadpush push --user off@example.com'
  assert.equal(stdout.split(command).length, 2, stdout)
  assert.ok(stdout.includes(`Mend the cause, then run \`${command}\`.\n`), stdout)
})

test('a single delivery does not count for push --all, a forced one comes on top of the weekly one', async () => {
  await house.put('users', [{ email: 'five@example.com', receiverApiKey: 'key-5', queries: [zip('00901')] }])
  assert.equal((await house.call('push --user five@example.com')).code, 0)
  const { code, json } = await house.call('push --all --force --json')
  assert.equal(code, 0)
  assert.deepEqual(
    deliveriesOf(json)
      .map(({ user, kind }) => `${user} ${kind}`)
      .sort(),
    ['five@example.com weekly', 'one@example.com forced', 'two@example.com forced'],
  )
  assert.equal(new Set(house.receiver.requests.map(({ key }) => key)).size, house.receiver.requests.length)
  assert.deepEqual(countsOf(json.at(-1)), {
    ...noCounts,
    users: 4,
    deliveries: 3,
    delivered: 3,
    skipped: 1,
    already: 2,
    leads: 3,
  })
})

test('wrong usage of push and preview ends with 2 before anything is done', async () => {
  const sent = house.receiver.requests.length
  const wrong = [
    'push', 'push --all --user one@example.com', 'push --all --failed', 'push --resume --all', 'push --force', 'push --limit 3', 'push --all --dry-run',
    'push --resume --limit 1', 'push --all --limit 0', 'push --all --limit 1.5', 'push --all --limit x', 'push --all --unknown',
    'push --user nobody@example.com', 'push --user', 'push --all extra', 'preview --user nobody@example.com',
    'preview --force --failed', 'preview --body --json', 'preview --limit 0', 'preview --limit 1 --user one@example.com', 'users remove', 'users list one@example.com', 'status --user nobody@example.com',
  ] // biome-ignore format: a list
  for (const args of wrong) {
    const { code, stdout, stderr } = await house.call(args)
    assert.deepEqual([code, stdout], [2, ''], `${args}: ${stderr}`)
    assert.match(stderr, /^(Database: .*\n)?error: /, args)
  }
  assert.equal(house.receiver.requests.length, sent)
})

test('status names the time zone to be mended, not the listings, where that is why the week is held', async () => {
  const own = await buildHouse({
    leads,
    users: [{ email: 'a@example.com', receiverApiKey: 'key', queries: [zip('78704')] }],
  })
  assert.equal((await own.call('push --all')).code, 0)
  assert.equal((await own.call('push --all', { env: { LEADPUSH_TIME_ZONE: 'Africa/Abidjan' } })).code, 1)
  const { stdout } = await own.call('status')
  assert.match(
    stdout,
    /^users {2}problem {2}.*\. Give all machines one LEADPUSH_TIME_ZONE, then run `leadpush push --all`/m,
  )
  assert.doesNotMatch(stdout, /imported/)
})
