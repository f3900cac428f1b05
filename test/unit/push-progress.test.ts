import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProgressCount } from '../../src/cli/push/progress.ts'
import type { DeliveryLine } from '../../src/index.ts'

let nowMs = 0
const wide = Number.POSITIVE_INFINITY

function count(total?: number): ProgressCount {
  nowMs = 0
  const made = new ProgressCount(() => nowMs)
  if (total !== undefined) made.setTotal(total)
  return made
}

const delivery = (more: Partial<DeliveryLine> = {}): DeliveryLine => ({
  type: 'delivery', user: 'user@example.com', kind: 'weekly', idempotencyKey: 'key', period: '2026-W47', part: 1, parts: 1,
  queries: 1, leads: 3, bytes: 500, status: 'delivered', attempts: 1, httpStatus: 200, error: null, ...more,
}) // biome-ignore format: short

test('it counts users, not parts, with the rate of the last seconds and the time that is left', () => {
  const progress = count(1_300)
  assert.equal(progress.text(wide), '0 of 1,300 users, 0.0/s')
  for (let n = 0; n < 100; n++) progress.add(delivery())
  progress.add(delivery({ part: 1, parts: 2 }))
  nowMs = 10_000
  assert.equal(progress.text(wide), '100 of 1,300 users, 2 min 0 s left, 10/s')
  nowMs = 20_000
  progress.text(wide)
  nowMs = 30_000
  // nothing came for twenty seconds
  assert.equal(progress.text(wide), '100 of 1,300 users, 0.0/s')
})

test('it says what failed, and what gets its second attempt', () => {
  const progress = count(4)
  for (const error of ['HTTP 503', null, 'HTTP 503']) progress.noteAttempt({ attempt: 1, error })
  assert.match(progress.text(wide), /, 2 to try again, 0\.0\/s$/)
  progress.noteAttempt({ attempt: 2, error: 'HTTP 503' })
  progress.add(delivery({ attempts: 2, status: 'failed' }))
  assert.match(progress.text(wide), /^1 of 4 users, 1 not delivered, .*1 to try again, [^,]*$/)
  // another process made its first attempt
  for (let n = 0; n < 3; n++) progress.add(delivery({ attempts: 2 }))
  assert.match(progress.text(wide), /^4 of 4 users, 1 not delivered, [^,]*$/)
})

test('it says what it waits for, and for how long; a narrow terminal drops the least important pieces', () => {
  const progress = count()
  assert.equal(progress.text(wide), 'Looking for users to serve')
  progress.waits('a synchronous standby')
  assert.equal(progress.text(wide), 'waiting for a synchronous standby: 0 s')
  progress.setTotal(1_000)
  progress.add(delivery({ status: 'failed' }))
  nowMs = 1_000
  progress.waits('the receiver')
  nowMs = 63_500
  const whole = 'waiting for the receiver: 62 s, 1 of 1,000 users, 1 not delivered'
  assert.equal(progress.text(whole.length), whole)
  assert.equal(progress.text(whole.length - 1), 'waiting for the receiver: 62 s, 1 of 1,000 users')
  assert.equal(progress.text(40), 'waiting for the receiver: 62 s')
  assert.equal(progress.text(10), 'waiting f…')
  progress.waits(undefined)
  assert.doesNotMatch(progress.text(wide), /waiting/)
  for (let columns = 1; columns < 80; columns++) assert.ok(progress.text(columns).length <= columns, `${columns}`)
})

// Off a terminal an outage of ten minutes printed 60 lines.
test('a log has no line while it waits, or while nobody was served since the last one', () => {
  const progress = count(3)
  assert.equal(progress.logText(), undefined)
  progress.add(delivery())
  nowMs = 10_000
  assert.match(progress.logText() ?? '', /^1 of 3 users, /)
  assert.equal(progress.logText(), undefined)
  progress.add(delivery())
  progress.waits('the receiver')
  assert.equal(progress.logText(), undefined)
  progress.waits(undefined)
  assert.match(progress.logText() ?? '', /^2 of 3 users, /)
})
