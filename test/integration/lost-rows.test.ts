/** The database loses what it had confirmed to a push that goes on: a standby without the last changes took over (contract 4.7). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { all, build, type PushHouse, users } from '../support/push-house.ts'
import type { Answer } from '../support/receiver.ts'
import { rememberState } from '../support/rewind.ts'
import { until } from '../support/until.ts'

const saysLost = /^The database lost what it had confirmed to this push/

/** A receiver that keeps requests open until `open` is called. */
function gate(answer: (nth: number) => Answer, isKept: (nth: number) => boolean) {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return {
    open: () => open(),
    answer: async (_: unknown, nth: number) => {
      if (isKept(nth)) await opened
      return answer(nth)
    },
  }
}

const countRecorded = async (house: PushHouse, what: string) => (await house.attempts())[what] ?? 0

// 94 to 181 users were owed after a run that ended with 0, and keys went out three times
test('what a push had delivered before its rows were lost is written again, and nobody gets it twice', async (t) => {
  const { open, answer } = gate(
    () => 200,
    (nth) => nth > 20,
  )
  const house = await build(t, { users: users(40), answer })
  const goBack = await rememberState(house.opened.pool)
  const pushing = house.push(all, { concurrency: 4, timeoutMs: 60_000 })
  await until(
    '20 are delivered, and 4 are held open',
    async () => (await countRecorded(house, 'delivered 1')) >= 20 && house.receiver.requests.length >= 24,
  )
  await goBack()
  open()
  const { ok, notes, summary } = await pushing
  assert.equal(house.receiver.requests.length, 40)
  assert.equal(house.receiver.keys().size, 40)
  assert.deepEqual(await house.attempts(), { 'delivered 1': 40 })
  assert.deepEqual([ok, summary.delivered, summary.owed, summary.users], [true, 40, 0, 40])
  assert.equal(notes.filter((note) => saysLost.test(note)).length, 1)
  const runs = await house.db.selectFrom('runs').select(['outcome', 'came_to_end', 'listings']).execute()
  assert.deepEqual(runs, [{ outcome: 'complete', came_to_end: true, listings: 2 }])
  const claims = await house.db.selectFrom('claims').select('leads').distinct().execute()
  assert.deepEqual(claims, [{ leads: 2 }])
})

test('second attempts that were made are not made again', async (t) => {
  const { open, answer } = gate(
    () => 500,
    (nth) => nth > 3,
  )
  const house = await build(t, { users: users(4), answer })
  const settings = { concurrency: 1, retryDelayMs: 0 }
  const goBack = await (async () => {
    const pushing = house.push(all, settings)
    return { pushing, rewind: await rememberState(house.opened.pool) }
  })()
  await until('two deliveries had two attempts', async () => house.receiver.requests.length >= 4)
  await goBack.rewind()
  open()
  const { ok, deliveries } = await goBack.pushing
  assert.deepEqual([ok, deliveries.length], [false, 4])
  assert.deepEqual(await house.attempts(), { 'failed 2': 4 })
  for (const [key, requests] of house.receiver.keys()) assert.equal(requests.length, 2, key)
})

// two processes took each other's worker id, and crashed
test('two pushes whose rows were lost go on side by side', async (t) => {
  const { open, answer } = gate(
    () => 200,
    (nth) => nth > 5,
  )
  const house = await build(t, { users: users(20), answer })
  const goBack = await rememberState(house.opened.pool)
  const weekly = house.push(all, { concurrency: 2, timeoutMs: 60_000 })
  await until('two are held open', () => house.receiver.requests.length === 7)
  const single = house.push(await house.userRequest('user-0000@example.com'))
  await until('three are held open', () => house.receiver.requests.length === 8)
  await goBack()
  open()
  const ends = await Promise.all([weekly, single])
  assert.deepEqual(
    ends.map(({ ok, notes }) => [ok, notes.length]),
    [
      [true, 1],
      [true, 1],
    ],
  )
  assert.deepEqual(await house.attempts(), { 'delivered 1': 21 })
  assert.equal(house.receiver.requests.length, 21)
  const { rows } = await sql<{ n: number }>`select count(*) as n from workers`.execute(house.db)
  assert.equal(rows[0]?.n, 0)
})

test('users who were served by a push that is over are served again under the same weekly key, by the push that finds them owed', async (t) => {
  const { open, answer } = gate(
    () => 200,
    (nth) => nth > 3,
  )
  const house = await build(t, { users: users(6), answer })
  const goBack = await rememberState(house.opened.pool)
  await house.push({ what: 'all', force: false, limit: 3 })
  const keysBefore = [...house.receiver.keys().keys()]
  const pushing = house.push(all, { concurrency: 1, timeoutMs: 60_000 })
  await until('one is held open', () => house.receiver.requests.length >= 4)
  await goBack()
  open()
  const { ok, summary } = await pushing
  assert.deepEqual([ok, summary.owed], [true, 0])
  assert.deepEqual(await house.attempts(), { 'delivered 1': 6 })
  const sent = [...house.receiver.keys()].map(([key, requests]) => [keysBefore.includes(key), requests.length])
  assert.deepEqual(sent.sort(), [
    [false, 1],
    [false, 1],
    [false, 1],
    [true, 2],
    [true, 2],
    [true, 2],
  ])
})

test('a subscription push is not sent again where the database lost that it was begun', async (t) => {
  const { open, answer } = gate(
    () => 200,
    () => true,
  )
  const house = await build(t, { users: users(1, { subscribed: true }), answer })
  await sql`update users set subscription_owed_at = now()`.execute(house.db)
  const goBack = await rememberState(house.opened.pool)
  const pushing = house.push(await house.userRequest('user-0000@example.com'))
  await until('it is held open', () => house.receiver.requests.length === 1)
  await goBack()
  open()
  assert.equal((await pushing).ok, true)
  assert.deepEqual(await house.attempts(), { 'delivered 1': 1 })
  const user = await house.db.selectFrom('users').select('subscription_owed_at').executeTakeFirstOrThrow()
  assert.equal(user.subscription_owed_at, null)
})
