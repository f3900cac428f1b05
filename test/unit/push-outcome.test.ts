/** What `serve` tells of a child process, and when the next one waits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PushOutcome } from '../../src/server/push-outcome.ts'

const delivery = (status: string, { attempts = 1, error = null as string | null } = {}) =>
  JSON.stringify({ type: 'delivery', user: 'a@example.com', status, attempts, error })
const skip = (reason: string, user?: string) => JSON.stringify({ type: 'skip', ...(user && { user }), reason })

function tell(isForAll: boolean, ...lines: string[]): PushOutcome {
  const outcome = new PushOutcome(isForAll)
  for (const line of lines) outcome.note(line)
  return outcome
}

test('one delivery is described, several are counted with the last error, and nobody is named', () => {
  for (const isForAll of [true, false]) {
    assert.equal(tell(isForAll).text, undefined)
    assert.equal(tell(isForAll, '{"type":"delivery","status":"deliv', '{"type":"summary","users":2}').text, undefined)
    assert.equal(tell(isForAll, delivery('delivered', { attempts: 2 })).text, 'delivered with 2 attempts')
    assert.equal(tell(isForAll, delivery('failed', { error: 'HTTP 500' })).text, 'failed: HTTP 500')
  }
  const many = [...Array(1_200).fill(delivery('delivered')), delivery('pending', { error: 'HTTP 500' })]
  assert.equal(tell(true, ...many).text, '1,200 delivered, 1 pending, the last error: HTTP 500')
  assert.equal(
    tell(true, delivery('delivered'), skip('held: slow', 'b@example.com'), skip('held: all')).text,
    '1 delivered, 1 held back, the last error: held: slow; held: all',
  )
})

test('a process for one user is fruitless without a delivery, one for all if no delivery ended or all are held', () => {
  assert.equal(tell(false).isFruitless, true)
  assert.equal(tell(false, skip('held: slow', 'b@example.com')).isFruitless, true)
  assert.equal(tell(false, delivery('pending')).isFruitless, false)
  assert.equal(tell(true).isFruitless, true)
  assert.equal(tell(true, delivery('pending')).isFruitless, true)
  assert.equal(tell(true, delivery('pending'), delivery('failed')).isFruitless, false)
  assert.equal(tell(true, delivery('delivered'), skip('held: all')).isFruitless, true)
})
