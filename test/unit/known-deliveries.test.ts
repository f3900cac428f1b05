/** What a push remembers of its deliveries beside the ledger: enough, and no more than that. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KnownDeliveries } from '../../src/deliveries/known-deliveries.ts'
import type { RecordedAttempt } from '../../src/deliveries/ledger.ts'
import type { RecordedOutcome, WrittenDelivery } from '../../src/deliveries/record.ts'

const delivery = (idempotencyKey: string, more: Partial<WrittenDelivery> = {}): WrittenDelivery => ({
  ...{
    idempotencyKey,
    runId: 1,
    gzip: false,
    userId: 1,
    email: 'a@example.com',
    kind: 'weekly',
    period: '2026-W47',
    part: 1,
    parts: 1,
  },
  ...{ queries: 1, leads: 1, bytes: 100, queryList: '{}', recipe: Buffer.from([1]), isStarted: true },
  ...{ scope: 'weekly:2026-W47', leadsOfPush: 1, queriesMark: 7 },
  ...more,
})

const attempt = (idempotencyKey: string, nth: 1 | 2): RecordedAttempt => {
  const {
    recipe: _,
    isStarted: __,
    scope: ___,
    leadsOfPush: ____,
    queriesMark: _____,
    ...row
  } = delivery(idempotencyKey)
  return { ...row, attempt: nth, receiverKey: 'key', contents: [{ versionId: 1 }] }
}

const outcome = (idempotencyKey: string): RecordedOutcome => ({
  ...{
    idempotencyKey,
    attempt: 1,
    ok: true,
    maybeArrived: false,
    httpStatus: 200,
    error: null,
    durationMs: 1,
    retryDelayMs: 0,
  },
})

const keysOf = (known: KnownDeliveries) => [...known.pages(1_000)].flat().map(({ idempotencyKey }) => idempotencyKey)

test('the last 10,000 deliveries are remembered: those that nothing happened to for longest are forgotten first', () => {
  const known = new KnownDeliveries()
  known.noteWritten(Array.from({ length: 9_999 }, (_, at) => delivery(`${at}`)))
  assert.equal(known.size, 9_999)
  known.noteWritten([delivery('9999')])
  assert.equal(known.size, 10_000)
  known.noteOutcome(outcome('0'))
  known.noteWritten([delivery('10000')])
  assert.deepEqual([known.size, keysOf(known).includes('0'), keysOf(known).includes('1')], [10_000, true, false])
})

test('they take 16 MiB at most, each with 600 bytes beside its texts', () => {
  const known = new KnownDeliveries()
  const large = (name: string, bytes = 4 * 1024 * 1024) =>
    delivery(name, { recipe: Buffer.alloc(100), queryList: 'x'.repeat(bytes - 700) })
  known.noteWritten([
    large('a'),
    large('b'),
    large('c'),
    large('d'),
    delivery('small', { queryList: '', recipe: Buffer.alloc(0) }),
  ])
  assert.deepEqual(keysOf(known).sort(), ['b', 'c', 'd', 'small'])
  known.forget('b')
  known.noteWritten([large('e'), large('f', 4 * 1024 * 1024 - 600)])
  assert.deepEqual(keysOf(known).sort(), ['c', 'd', 'e', 'f', 'small'])
  known.noteWritten([delivery('one more')])
  assert.deepEqual(keysOf(known).sort(), ['d', 'e', 'f', 'one more', 'small'])
})

test('an attempt was made if it, or a later one, was recorded and not taken back', () => {
  const known = new KnownDeliveries()
  known.noteWritten([delivery('begun'), delivery('waiting', { isStarted: false })])
  known.noteAttempt(attempt('taken over', 2))
  const made = (key: string) => ([1, 2] as const).map((nth) => known.wasMade(attempt(key, nth)))
  assert.deepEqual(made('begun'), [true, false])
  assert.deepEqual(made('waiting'), [false, false])
  assert.deepEqual(made('taken over'), [true, true])
  assert.deepEqual(made('unknown'), [false, false])
  known.noteTakenBack(['begun', 'taken over', 'unknown'])
  assert.deepEqual(
    [made('begun'), made('taken over')],
    [
      [false, false],
      [true, false],
    ],
  )
})

test('an outcome whose row is gone, or knows of fewer attempts, is lacking until it is recorded', () => {
  const known = new KnownDeliveries()
  known.noteWritten([delivery('there'), delivery('gone'), delivery('older')])
  const outcomes = ['there', 'gone', 'older', 'forgotten'].map(outcome)
  for (const one of outcomes) known.noteOutcome(one)
  const state = (idempotencyKey: string, attempts: number) => ({
    ...{ idempotencyKey, attempts, status: 'delivered' as const, httpStatus: 200, error: null },
  })
  const lacking = known.noteRecorded(outcomes, [state('there', 1), state('older', 0)])
  assert.deepEqual(
    lacking.map(({ idempotencyKey }) => idempotencyKey),
    ['gone', 'older'],
  )
  assert.deepEqual(known.noteRecorded(lacking, [state('gone', 1), state('older', 2)]), [])
})
