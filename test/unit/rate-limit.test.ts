import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RateLimit } from '../../src/server/rate-limit.ts'

test('a key has so many requests per window, and a new window begins when the last is over', () => {
  let nowMs = 5_000
  const limit = new RateLimit<string>(2, 100, { now: () => nowMs })
  assert.deepEqual(
    [limit.take('a'), limit.isReached('a'), limit.take('a'), limit.isReached('a')],
    [true, false, true, true],
  )
  assert.deepEqual([limit.take('a'), limit.take('b')], [false, true])
  assert.equal(limit.secondsLeft('a'), 1)
  nowMs += 100
  assert.deepEqual([limit.isReached('a'), limit.take('a')], [true, false])
  nowMs += 1
  assert.deepEqual([limit.isReached('a'), limit.take('a'), limit.isReached('a')], [false, true, false])
})

test('the window of a minute ends within 60 s, however often it is asked for', () => {
  const limit = new RateLimit<string>(1)
  limit.take('a')
  for (let times = 0; times < 10; times++) assert.ok(limit.isReached('a'))
  assert.ok(limit.secondsLeft('a') <= 60 && limit.secondsLeft('a') > 50)
})

test('without a limit nothing is counted; with one, no more than 20,000 keys are remembered', () => {
  const none = new RateLimit<number>(undefined)
  for (let times = 0; times < 10; times++) assert.ok(none.take(1))
  const limit = new RateLimit<number>(1)
  for (let key = 0; key <= 20_000; key++) assert.ok(limit.take(key))
  assert.deepEqual([limit.isReached(0), limit.isReached(1), limit.isReached(20_000)], [false, true, true])
})
