/** A receiver that asks for less (contract 4.12): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sql } from 'kysely'
import { createTokenBucket } from '../../src/receiver-kit/receiver/token-bucket.ts'
import { all, build, type PushHouse, users } from '../support/push-house.ts'
import type { Answer } from '../support/receiver.ts'

const defaults = { retryDelayMs: 5_000, timeoutMs: 30_000, outageMs: 600_000 }

/** Takes 20 requests a second with bursts of 20, and answers others with 429 and `headers`. */
function limit(house: PushHouse, headers: () => Record<string, string>) {
  const take = createTokenBucket({ perSecond: 20, burst: 20 })
  house.receiver.answer = (): Answer => (take(performance.now()) === 0 ? 200 : { status: 429, headers: headers() })
}

const findRate = async (house: PushHouse) => {
  const { rows } = await sql<{ rate: number | null }>`select rate from receivers`.execute(house.db)
  return rows[0]?.rate ?? null
}

describe('at a limit', { concurrency: true }, () => {
  // Users beyond the burst lost both attempts, 5 s apart, to the rest of the queue.
  for (const [count, name, headers] of [
  [300, 'Retry-After: 1', () => ({ 'retry-after': '1' })],
  [100, 'no Retry-After', () => ({})],
  [100, 'Retry-After as a date', () => ({ date: new Date().toUTCString(), 'retry-after': new Date(Date.now() + 1_000).toUTCString() })],
] as const) {
  test(`of ${count} users at a receiver that takes 20 a second, 429 with ${name}, nearly all get theirs`, async (t) => {
    const house = await build(t, { users: users(count) })
    limit(house, headers)
    const startedAt = performance.now()
    const { summary, notes } = await house.push(all, defaults)
    const seconds = (performance.now() - startedAt) / 1_000
    t.diagnostic(`${summary.delivered} in ${seconds.toFixed(1)} s, allowed ${summary.allowedPerSecond}`)
    // contract 4.12 has a bound for the first of them
    assert.ok(summary.delivered >= count * (count === 300 ? 0.99 : 0.97), JSON.stringify(summary))
    assert.deepEqual(notes, ['The receiver asks for less (HTTP 429): slowing down.'])
    // how many a second: a busy machine sends fewer than the receiver allows
    assert.ok((summary.allowedPerSecond ?? 0) > 0 && (summary.allowedPerSecond ?? 0) < 40, `${summary.allowedPerSecond}`)
    assert.ok(((await findRate(house)) ?? 0) > 0, 'the next run knows it')
  })
} // biome-ignore format: a table

  test('two pushes at once share a receiver that asks for less', async (t) => {
    const house = await build(t, { users: users(200) })
    limit(house, () => ({ 'retry-after': '1' }))
    const startedAt = performance.now()
    const pushes = await Promise.all([house.push(all, defaults), house.push(all, defaults)])
    const seconds = (performance.now() - startedAt) / 1_000
    const delivered = pushes.reduce((sum, { summary }) => sum + summary.delivered, 0)
    t.diagnostic(`${delivered} in ${seconds.toFixed(1)} s`)
    assert.ok(delivered >= 194, `${delivered}`)
  })
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
