/** When outcomes go to the ledger, and with which statement. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import type { RecordedOutcome } from '../../src/deliveries/record.ts'
import { OutcomeQueue } from '../../src/push/attempts/outcome-queue.ts'

const outcome = (idempotencyKey: string): RecordedOutcome => ({
  ...{ idempotencyKey, attempt: 1, ok: true, maybeArrived: false, httpStatus: 200, error: null },
  ...{ durationMs: 1, retryDelayMs: 0 },
})
const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

function build(underWay: number) {
  const statements: { keys: string[]; end(): void; fail(): void }[] = []
  const ends: unknown[] = []
  const queue = new OutcomeQueue({
    clock: systemClock,
    concurrency: 16,
    underWay: () => underWay,
    record: (outcomes) =>
      new Promise((resolve, reject) => {
        const keys = outcomes.map(({ idempotencyKey }) => idempotencyKey)
        const end = () => {
          queue.drop(keys.length)
          resolve()
        }
        statements.push({ keys, end, fail: () => reject(new Error('away')) })
      }),
    onRecorded: (failure) => void ends.push(failure),
  })
  return { queue, statements, ends }
}

test('outcomes that come while a statement records are recorded by the next one, all together', async () => {
  const { queue, statements, ends } = build(1)
  queue.put(outcome('a'))
  await nextTurn()
  for (const key of ['b', 'c']) queue.put(outcome(key))
  await nextTurn()
  assert.deepEqual([statements.map(({ keys }) => keys), queue.toLend, queue.lend()], [[['a']], 0, []])
  queue.takeBack()
  statements[0]?.end()
  await queue.recorded()
  await nextTurn()
  assert.deepEqual(
    statements.map(({ keys }) => keys),
    [['a'], ['b', 'c']],
  )
  statements[1]?.end()
  await queue.recorded()
  assert.deepEqual([ends, queue.isEmpty], [[undefined, undefined], true])
})

test('no other statement records lent outcomes; those that were not recorded then get a statement of their own', async () => {
  const { queue, statements } = build(1)
  queue.put(outcome('a'))
  const lent = queue.lend()
  queue.put(outcome('b'))
  await nextTurn()
  assert.deepEqual([lent.map(({ idempotencyKey }) => idempotencyKey), statements.length], [['a'], 0])
  queue.drop(lent.length)
  queue.takeBack()
  await nextTurn()
  assert.deepEqual(
    statements.map(({ keys }) => keys),
    [['b']],
  )
})

test('if recording fails for good the outcomes stay, and nothing is tried by itself', async () => {
  const { queue, statements, ends } = build(1)
  queue.put(outcome('a'))
  await nextTurn()
  statements[0]?.fail()
  await queue.recorded()
  await nextTurn()
  assert.deepEqual([statements.length, ends.length, queue.toLend], [1, 1, 1])
  assert.match(String(ends[0]), /away/)
})
