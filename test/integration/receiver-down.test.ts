/** A receiver that is down as a whole (contract 4.12): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { databaseReceiver } from '../../src/push/database/receivers.ts'
import type { PushRequest } from '../../src/push/run-push.ts'
import { all, build, resume, stopAfter, users } from '../support/push-house.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { until } from '../support/until.ts'

test('20 first failures in a row are an outage: the users it had not come to stay owed, and the run gives up', async (t) => {
  const house = await build(t, { users: users(100), answer: () => 503 })
  const { summary, ok, notes } = await house.push(all, { concurrency: 4, outageMs: 300, retryDelayMs: 60_000 })
  assert.equal(ok, false)
  assert.ok(
    house.receiver.requests.length >= 20 && house.receiver.requests.length <= 28,
    `${house.receiver.requests.length}`,
  )
  assert.ok(summary.owed >= 70)
  assert.match(notes.join('\n'), /is down: 20 first attempts in a row failed; the last: HTTP 5\d\d: /)
  house.receiver.answer = () => 200
  const after = await house.push()
  assert.equal(after.ok, true)
  assert.equal(house.receiver.keys().size, 100)
  assert.ok([...house.receiver.keys().values()].every(({ length }) => length <= 2))
})

test('one answer below 500 among 20 failures is no outage', async (t) => {
  const house = await build(t, { users: users(40), answer: (_request, nth) => (nth === 15 || nth === 30 ? 422 : 503) })
  const { notes } = await house.push(
    all,
    { concurrency: 1, outageMs: 60_000, retryDelayMs: 60_000 },
    stopAfter(house, 40),
  )
  assert.deepEqual(notes, [])
})

const down = { concurrency: 4, outageMs: 500, retryDelayMs: 0 }

// An hour after a push had given up, --resume made the second attempt of everybody, and both of everybody else.
test('the finding outlives the run: the next one, of any form, begins with one first attempt', async (t) => {
  const house = await build(t, { users: users(60), answer: () => 503 })
  await house.push(all, down)
  const { length } = house.receiver.requests
  assert.ok(length >= 20 && length < 30)
  const failed: PushRequest = { what: 'failed', ends: ['failed', 'unknown'] }
  for (const request of [resume, all, { ...all, limit: 5 }] as const) {
    const { ok, notes } = await house.push(request, down)
    assert.equal(ok, request === resume, 'to --resume it is nothing new')
    assert.equal(notes.at(-1), 'The receiver stayed down: giving up; the other users stay owed.')
    assert.equal(notes.length, request === resume ? 1 : 2)
  }
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [length + 3, length + 3])
  // nobody has a delivery that failed: there is nothing to be tried
  assert.equal((await house.push(failed, down)).ok, true)
  house.receiver.answer = () => 200
  const back = await house.push(resume, { ...down, outageMs: 30_000 })
  assert.deepEqual([back.ok, back.notes], [true, ['The receiver answers again: going on.']])
  assert.deepEqual(await house.attempts(), { 'delivered 1': 60 - length - 3, 'delivered 2': length + 3 })
})

// The next run made the second attempts of the 4 first: an outage cost them both.
test('a run that goes on after a stop in doubt makes first attempts first', async (t) => {
  const house = await build(t, { users: users(40), answer: () => 503 })
  const minute = { ...down, retryDelayMs: 60_000 }
  await house.push(all, minute, stopAfter(house, 4))
  assert.ok(house.receiver.requests.length < 20, `${house.receiver.requests.length}`)
  await house.push(resume, minute)
  assert.ok(house.receiver.requests.length >= 24)
  assert.equal(house.receiver.keys().size, house.receiver.requests.length)
})

test('if only second attempts are left, one is made once a HEAD is answered below 500, and none for an hour after it', async (t) => {
  const house = await build(t, { users: users(3), answer: () => 503 })
  let heads = 0
  house.receiver.head = () => (++heads > 0 ? 503 : 200)
  const first = await house.push(all, down)
  assert.match(first.notes[0] ?? '', /^The receiver is down: 3 first attempts in a row failed/)
  assert.deepEqual([first.ok, await house.attempts()], [false, { 'pending 1': 3 }])
  await house.push(all, down)
  assert.deepEqual([heads, house.receiver.requests.length], [1, 3])
  house.receiver.head = () => 404
  for (let hour = 0; hour < 2; hour++) await house.push(all, down)
  assert.deepEqual(await house.attempts(), { 'failed 2': 1, 'pending 1': 2 })
  await sql`update receivers set second_at = now() - interval '1 hour'`.execute(house.db)
  house.receiver.answer = () => 422
  assert.deepEqual([(await house.push(all, down)).ok, await house.attempts()], [false, { 'failed 2': 3 }])
})

// A look at what others know, under way when the answer came, put the outage back: the push waited for a receiver that was well.
test('an outage that an answer has ended is not learnt again from a look that began before', async (t) => {
  const house = await build(t, { users: users(40), answer: () => 503 })
  await house.push(all, down)
  const blocker = await house.opened.pool.connect()
  const waiting = "select from pg_locks where relation = 'receivers'::regclass and not granted"
  house.receiver.answer = async (_request, nth) => {
    if (nth > before + 1) return 200
    // a look waits for the lock, and reads what stands there until the answer is noted
    await blocker.query('begin; lock table receivers in access exclusive mode')
    await until('a look waits', async () => ((await house.opened.pool.query(waiting)).rowCount ?? 0) > 0)
    // the answer needs a moment to get there
    void delay(300).then(() => blocker.query('commit'))
    return 422
  }
  const before = house.receiver.requests.length
  const next = await house.push(all, { ...down, outageMs: 30_000, concurrency: 20 }).finally(() => blocker.release())
  assert.doesNotMatch(next.notes.join('\n'), /as another push found: waiting/)
  assert.equal(next.summary.owed, 0)
})

// Below 20 users the warning named no cause.
test('with fewer than 20 users, too, the warning says how the last attempt failed', async (t) => {
  for (const [answer, words] of [[503, /HTTP 503: /], ['drop', /the connection broke/]] as const) {
    const house = await build(t, { users: users(4), answer: () => answer })
    const { notes } = await house.push(all, down)
    assert.match(notes[0] ?? '', /^The receiver is down: 4 first attempts in a row failed; the last: /)
    assert.match(notes[0] ?? '', words)
  }
}) // biome-ignore format: a table

// Given for the guard, --accept took away the protection: everybody lost both attempts.
test('nothing is begun before a connection can be made; with --accept an outage costs nobody both attempts', async (t) => {
  const house = await build(t, { users: users(40), answer: () => 503 })
  await house.push(all, down)
  const { length } = house.receiver.requests
  await house.receiver.close()
  assert.equal((await house.push(all, down)).ok, false)
  const { rows } = await sql<{ n: number }>`select sum(attempts) as n from deliveries`.execute(house.db)
  assert.equal(Number(rows[0]?.n), length)
  const accepted = await house.push(all, down, new AbortController(), true)
  assert.deepEqual([accepted.ok, accepted.summary.failed], [false, 0])
})

test('a process learns the finding of another at the same time, and no two make the same try', async (t) => {
  const house = await build(t, { users: users(60), answer: () => 503 })
  const others = databaseReceiver(house.db, house.receiver.url)
  const slow = house.push(all, { ratePerSecond: 1, outageMs: 2_000, retryDelayMs: 0 })
  await requestsAtLeast(house.receiver, 1)
  await others.tell({ says: 'trouble', trouble: { is: 'down' }, inARow: 20, error: '' })
  const { notes, ok } = await slow
  assert.deepEqual([ok, notes[0]], [false, 'The receiver is down, as another push found: waiting for it.'])
  assert.ok(house.receiver.requests.length < 20)
})
