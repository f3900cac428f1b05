/** Receivers that ask for less, until all of a push is sent (contract 4.12): side by side, since they are long waits. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { defaults, findRate, limit } from '../support/limited-receiver.ts'
import { all, build, users } from '../support/push-house.ts'

describe('at a limit', { concurrency: true }, () => {
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
