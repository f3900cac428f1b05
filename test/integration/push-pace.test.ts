/** A receiver that asks for less (contract 4.12): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { defaults, findRate, limit } from '../support/limited-receiver.ts'
import { all, build, users } from '../support/push-house.ts'

// Users beyond the burst lost both attempts, 5 s apart, to the rest of the queue.
test('nearly all of 60 users get theirs at a receiver that takes 20 a second, with 429 and Retry-After: 1', async (t) => {
  const house = await build(t, { users: users(60) })
  limit(house, () => ({ 'retry-after': '1' }))
  const { summary, notes } = await house.push(all, defaults)
  assert.ok(summary.delivered >= 58, JSON.stringify(summary))
  assert.deepEqual(notes, ['The receiver asks for less (HTTP 429): slowing down.'])
  // how many a second: a busy machine sends fewer than the receiver allows
  assert.ok((summary.allowedPerSecond ?? 0) > 0 && (summary.allowedPerSecond ?? 0) < 40, `${summary.allowedPerSecond}`)
  assert.ok(((await findRate(house)) ?? 0) > 0, 'the next run knows it')
})

test('a pause that was asked for holds for every attempt, and for other processes; one too far ahead does not', async (t) => {
  const house = await build(t, { users: users(60) })
  house.receiver.answer = (_request, nth) => (nth === 40 ? { status: 503, headers: { 'retry-after': '2' } } : 200)
  const { summary } = await house.push(all, { ...defaults, retryDelayMs: 0, concurrency: 4 })
  assert.equal(summary.delivered, 60)
  const times = house.receiver.requests.map(({ atMs }) => atMs)
  // what was under way went on
  const refusedAt = times[39] ?? 0
  assert.ok(
    times.slice(43).every((time) => time - refusedAt >= 1_900),
    'every attempt waits',
  )
  const pause = (interval: string) =>
    sql`update receivers set paused_until = now() + ${interval}::interval`.execute(house.db)
  const { length } = times
  const startedAt = performance.now()
  await pause('1.5 seconds')
  await house.push({ what: 'all', force: true, limit: 2 }, defaults)
  assert.ok((house.receiver.requests[length]?.atMs ?? 0) - startedAt >= 1_400)
  await pause('10 days')
  assert.equal((await house.push({ what: 'all', force: true, limit: 2 }, defaults)).summary.delivered, 2)
})

test('without a limit nothing is slowed, told or kept', async (t) => {
  const house = await build(t, { users: users(100) })
  const { summary, notes } = await house.push(all, defaults)
  assert.deepEqual([summary.delivered, summary.allowedPerSecond, notes, await findRate(house)], [100, undefined, [], null])
}) // biome-ignore format: a list
