/** A receiver that asks for less (contract 4.12): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { all, build, type PushHouse, users } from '../support/push-house.ts'

const defaults = { retryDelayMs: 5_000, timeoutMs: 30_000, outageMs: 600_000 }

const findRate = async ({ db }: PushHouse) => {
  const { rows } = await sql<{ rate: number | null }>`select rate from receivers`.execute(db)
  return rows[0]?.rate ?? null
}

test('a pause that was asked for holds for every attempt, and for other processes; one too far ahead does not', async (t) => {
  const house = await build(t, { users: users(60) })
  house.receiver.answer = (_request, nth) => (nth === 40 ? { status: 503, headers: { 'retry-after': '1' } } : 200)
  const { summary } = await house.push(all, { ...defaults, retryDelayMs: 0, concurrency: 4 })
  assert.equal(summary.delivered, 60)
  const times = house.receiver.requests.map(({ atMs }) => atMs)
  // what was under way went on, and what began before the answer was read
  const refusedAt = times[39] ?? 0
  assert.ok(
    times.slice(47).every((time) => time - refusedAt >= 990),
    'every attempt waits',
  )
  const pause = (interval: string) =>
    sql`update receivers set paused_until = now() + ${interval}::interval`.execute(house.db)
  const { length } = times
  const startedAt = performance.now()
  await pause('0.7 seconds')
  await house.push({ what: 'all', force: true, limit: 2 }, defaults)
  assert.ok((house.receiver.requests[length]?.atMs ?? 0) - startedAt >= 600)
  await pause('10 days')
  assert.equal((await house.push({ what: 'all', force: true, limit: 2 }, defaults)).summary.delivered, 2)
})

test('a 429, with a Retry-After or without one, slows a push down: it says so once, and keeps the pace that it found', async (t) => {
  for (const headersOf of [
    () => ({}),
    () => ({ date: new Date().toUTCString(), 'retry-after': new Date(Date.now() + 1_000).toUTCString() }),
  ]) {
    const house = await build(t, { users: users(40) })
    house.receiver.answer = (_request, nth) => (nth === 9 ? { status: 429, headers: headersOf() } : 200)
    const { summary, notes } = await house.push(all, { ...defaults, retryDelayMs: 100 })
    assert.deepEqual([summary.delivered, notes], [40, ['The receiver asks for less (HTTP 429): slowing down.']])
    assert.ok((summary.allowedPerSecond ?? 0) > 0, 'it is in the summary')
    assert.ok(((await findRate(house)) ?? 0) > 0, 'the next run knows it')
  }
})

test('without a limit nothing is slowed, told or kept', async (t) => {
  const house = await build(t, { users: users(100) })
  const { summary, notes } = await house.push(all, defaults)
  assert.deepEqual([summary.delivered, summary.allowedPerSecond, notes, await findRate(house)], [100, undefined, [], null])
}) // biome-ignore format: a list
