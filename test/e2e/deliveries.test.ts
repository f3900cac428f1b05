/** What becomes of deliveries through the program: answers of the receiver, several runs, restored databases, lost readers. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { SummaryLine } from '../../src/index.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, deliveriesOf, hrefOf, makeUsers, zip } from '../support/house.ts'
import { startProgram } from '../support/program.ts'
import type { Answer } from '../support/receiver.ts'

const leads = ['a', 'b'].map((name) => ({ href: hrefOf(name), postalCode: '78704' }))

test('each answer of the receiver has its effect on a delivery', async () => {
  const cases: [string, Answer | Answer[], string, number, number | null][] = [
    ['200', 200, 'delivered', 1, 200],
    ['201', 201, 'delivered', 1, 201],
    ['204', { status: 204, body: '' }, 'delivered', 1, 204],
    ['301', { status: 301, headers: { location: '/elsewhere' } }, 'failed', 2, 301],
    ['400', 400, 'failed', 2, 400],
    ['409', 409, 'unknown', 2, 409],
    ['422', 422, 'failed', 2, 422],
    ['429', { status: 429, headers: { 'retry-after': '1' } }, 'failed', 2, 429],
    ['500-200', [500, 200], 'delivered', 2, 200],
    ['503-201', [503, 201], 'delivered', 2, 201],
    ['drop', 'drop', 'unknown', 2, null],
    ['drop-422', ['drop', 422], 'unknown', 2, 422],
    ['422-drop', [422, 'drop'], 'unknown', 2, null],
    ['long', { status: 200, body: 'x'.repeat(200_000) }, 'delivered', 1, 200],
    ['long-500', [{ status: 500, body: 'x'.repeat(200_000) }, 200], 'delivered', 2, 200],
  ]
  const seen = new Map<string, number>()
  const { call, receiver } = await buildHouse({
    leads,
    users: cases.map(([name]) => ({ email: `${name}@example.com`, receiverApiKey: name, queries: [zip('78704')] })),
    answer: ({ headers }) => {
      const name = String(headers['x-service-api-key'])
      const nth = seen.get(name) ?? 0
      seen.set(name, nth + 1)
      const answer = cases.find(([each]) => each === name)?.[1] ?? 200
      return Array.isArray(answer) ? (answer[nth] ?? 599) : answer
    },
  })
  const { code, json, stderr } = await call('push --all --json')
  assert.equal(code, 1, stderr)
  const found = new Map(deliveriesOf(json).map((line) => [line.user.replace('@example.com', ''), line]))
  for (const [name, , status, attempts, httpStatus] of cases) {
    const line = found.get(name)
    assert.deepEqual([name, line.status, line.attempts, line.httpStatus], [name, status, attempts, httpStatus])
    assert.equal(line.error === null, status === 'delivered', `${name}: ${line.error}`)
    assert.doesNotMatch(line.error ?? '', /\n|tenant/)
  }
  for (const [key, requests] of receiver.keys()) {
    assert.ok(requests.length <= 2, key)
    assert.equal(new Set(requests.map(({ body }) => createHash('sha256').update(body).digest('hex'))).size, 1)
  }
  const waited = receiver.requests
    .filter(({ headers }) => headers['x-service-api-key'] === '429')
    .map(({ atMs }) => atMs)
  assert.ok((waited[1] ?? 0) - (waited[0] ?? 0) >= 990, `${waited}`)
  assert.ok(receiver.requests.every(({ path }) => path === '/leads?tenant=1'))

  const { failed, unknown, delivered } = json.at(-1)
  assert.deepEqual([delivered, failed, unknown], [7, 4, 4])

  receiver.answer = () => 200
  const before = receiver.requests.length
  const planned = await call('preview --failed --unknown --json')
  assert.deepEqual([planned.json.at(-1).deliveries, deliveriesOf(planned.json)[0].kind], [8, 'forced'])
  const repaired = await call('push --failed --json')
  assert.equal(repaired.code, 0, repaired.stderr)
  assert.deepEqual(
    deliveriesOf(repaired.json)
      .map(({ user, kind }) => `${user} ${kind}`)
      .sort(),
    ['301', '400', '422', '429'].map((name) => `${name}@example.com forced`),
  )
  const others = await call('push --failed --unknown --json')
  assert.deepEqual([others.code, others.json.at(-1).delivered], [0, 4])
  const nothing = await call('push --failed --unknown --json')
  assert.deepEqual([nothing.code, nothing.json.at(-1).deliveries], [0, 0])
  const keys = receiver.requests.slice(before).map(({ key }) => key)
  assert.ok(keys.length === 8 && keys.every((key) => receiver.keys().get(key)?.length === 1))
})

test('--rate spaces the attempts, --concurrency bounds those under way', async () => {
  const { call, receiver } = await buildHouse({
    leads,
    users: makeUsers(7),
    answer: () => ({ status: 200, delayMs: 10 }),
  })
  const { code } = await call('push --all --concurrency 2')
  assert.equal(code, 0)
  assert.ok(receiver.peak() <= 2)
  const { json } = await call('push --all --force --rate 20 --json')
  const { delivered, seconds } = json.at(-1) as SummaryLine
  // 7 attempts, one each 50 ms, by the clock of the push: at the receiver the first may come late
  assert.ok(delivered === 7 && seconds >= 0.3, `${delivered} in ${seconds} s`)
})

test('a push goes on when the reader of its lines has gone', async () => {
  const hasGone = makeGate()
  const answer = (_: unknown, nth: number) => (nth <= 4 ? 200 : hasGone.opened.then(() => 200))
  const { env, receiver } = await buildHouse({ leads, users: makeUsers(40), answer })
  const program = startProgram(['push', '--all', '--json'], { env: { ...env, LEADPUSH_CONCURRENCY: '2' } })
  await program.waitFor(/"delivery"/)
  program.child.stdout?.destroy()
  program.child.stderr?.destroy()
  hasGone.open()
  const { code } = await program.done
  assert.equal(code, 0)
  assert.equal(receiver.requests.length, 40)
})

test('a database that was restored from a backup sends the weekly deliveries again under the same keys', async () => {
  const { database, call, receiver } = await buildHouse({ leads, users: makeUsers(3) })
  const [backup, elsewhere] = [await database.copy(), await database.copy()]
  assert.equal((await call('push --all')).code, 0)
  assert.equal((await call('push --user user-0@example.com')).code, 0)
  const [...first] = receiver.requests.map(({ key }) => key)
  const restored = { env: { DATABASE_URL: backup.url } }
  assert.equal((await call('push --all', restored)).code, 0)
  assert.equal((await call('push --user user-0@example.com', restored)).code, 0)
  const second = receiver.requests.slice(first.length).map(({ key }) => key)
  assert.deepEqual(second.slice(0, 3).sort(), first.slice(0, 3).sort())
  assert.notEqual(second[3], first[3])

  const other = { env: { LEADPUSH_DATA_SOURCE: 'other', DATABASE_URL: elsewhere.url } }
  assert.equal((await call('push --all', other)).code, 0)
  const third = receiver.requests.slice(-3).map(({ key }) => key)
  assert.deepEqual([new Set(third).size, third.filter((key) => first.includes(key))], [3, []])
})
