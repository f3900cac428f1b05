/** The database loses confirmed records of a push that goes on: a standby without the last changes took over (contract 4.7). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { all, build, type PushHouse, resume, users } from '../support/push-house.ts'
import { withoutFeed as seen } from '../support/push-settings.ts'
import type { Answer } from '../support/receiver.ts'
import { rememberState } from '../support/rewind.ts'
import { until } from '../support/until.ts'

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

const isLoss = (error: unknown) =>
  error instanceof LeadpushError &&
  error.code === 'database' &&
  /^The database lost confirmed records of this push/.test(error.message)

const countRecorded = async (house: PushHouse, what: string) => (await house.attempts())[what] ?? 0
const findOutcomes = async ({ db }: PushHouse) =>
  (await db.selectFrom('runs').select('outcome').orderBy('started_at').execute()).map(({ outcome }) => outcome)
const alarmsOf = async ({ db }: PushHouse) =>
  (await findAlarms(db, await findStatus(db, seen), seen)).map(({ code }) => code)
const lossAlarm = 'lost'

// It wrote again from memory what was gone, a tenth of the push's code, and was wrong about some of it.
test('a push whose records are gone begins nothing more and says so; status tells until the next has served everybody', async (t) => {
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
  await assert.rejects(pushing, isLoss)
  // four were recorded beyond those under way
  assert.ok(house.receiver.requests.length <= 28, `${house.receiver.requests.length}`)
  assert.deepEqual(await house.attempts(), {})
  assert.deepEqual(await findOutcomes(house), ['lost'])
  assert.ok((await alarmsOf(house)).includes(lossAlarm))
  assert.equal((await house.db.selectFrom('workers').selectAll().execute()).length, 0)

  const { ok, summary } = await house.push(resume)
  assert.deepEqual([ok, summary.delivered, summary.owed], [true, 40, 0])
  // the weekly keys are the same ones
  assert.equal(house.receiver.keys().size, 40)
  assert.deepEqual(await findOutcomes(house), ['lost', 'complete'])
  assert.ok(!(await alarmsOf(house)).includes(lossAlarm))
})

test('a push of which the last records are gone leaves the others as they are', async (t) => {
  const early = gate(
    () => 200,
    (nth) => nth > 10,
  )
  const late = gate(
    () => 200,
    (nth) => nth > 20,
  )
  const answer = (request: unknown, nth: number) => early.answer(request, nth).then(() => late.answer(request, nth))
  const house = await build(t, { users: users(40), answer })
  const pushing = house.push(all, { concurrency: 4, timeoutMs: 60_000 })
  await until('10 are delivered', async () => (await countRecorded(house, 'delivered 1')) === 10)
  const goBack = await rememberState(house.opened.pool)
  early.open()
  await until('20 are delivered', async () => (await countRecorded(house, 'delivered 1')) === 20)
  await goBack()
  late.open()
  await assert.rejects(pushing, isLoss)
  assert.ok(house.receiver.requests.length <= 28, `${house.receiver.requests.length}`)
  const { 'delivered 1': delivered = 0, ...others } = await house.attempts()
  assert.ok(delivered >= 10 && delivered <= 18, `${delivered}`)
  assert.deepEqual(
    Object.keys(others).filter((what) => /[12]/.test(what) && what !== 'pending 1'),
    [],
  )
  const { ok, summary } = await house.push(resume)
  assert.deepEqual([ok, summary.owed, house.receiver.keys().size], [true, 0, 40])
  assert.ok([...house.receiver.keys().values()].every(({ length }) => length <= 3))
})

test('two pushes whose records are gone end alike, and a push that is over is served again under the same weekly key', async (t) => {
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
  for (const end of await Promise.allSettled([weekly, single]))
    assert.ok(end.status === 'rejected' && isLoss(end.reason))
  assert.deepEqual(await findOutcomes(house), ['lost', 'lost'])
  assert.deepEqual((await house.push(all)).summary.delivered, 20)
})

test('a push goes on where a server takes over that has all its records', async (t) => {
  const { open, answer } = gate(
    () => 200,
    (nth) => nth > 5,
  )
  const house = await build(t, { users: users(20), answer })
  const pushing = house.push(all, { concurrency: 2, timeoutMs: 60_000 })
  await until('two are held open', () => house.receiver.requests.length === 7)
  await house.opened.pool.query(
    `create or replace function this_server() returns text language sql stable as $$ select 'other' $$`,
  )
  open()
  const { ok, summary } = await pushing
  assert.deepEqual([ok, summary.delivered, house.receiver.requests.length], [true, 20, 20])
})
