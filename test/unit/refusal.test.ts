import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '../../src/push/refusal.ts'

const minute = 60_000
const timeoutMs = 30_000
const known = { status: 401, tries: 0, nextMs: 0, secondMs: 0, isTrying: false }
const never = Number.POSITIVE_INFINITY

function begin(more: Partial<typeof known> = {}) {
  const refusal = new Refusal(timeoutMs)
  assert.equal(refusal.learn({ ...known, ...more }, 0, true), 'held')
  return refusal
}

test('the push that finds it out makes no attempt, nor does one that learns of it on its way', () => {
  const [finder, learner] = [new Refusal(timeoutMs), new Refusal(timeoutMs)]
  finder.hold(404)
  assert.equal(finder.learn({ ...known, status: 404 }, 0), undefined)
  assert.equal(learner.learn(known, 0), 'held')
  for (const refusal of [finder, learner]) {
    assert.deepEqual([refusal.isHeld, refusal.untilTry(0), refusal.untilTry(0, 'second')], [true, never, never])
  }
})

test('the push that comes next makes one attempt at once, and no further one', () => {
  const refusal = begin()
  assert.deepEqual([refusal.untilTry(0), refusal.untilTry(0, 'second')], [0, 0])
  refusal.noteTry()
  assert.equal(refusal.noteEnd(401), false)
  assert.deepEqual([refusal.untilTry(0), refusal.untilTry(100 * minute)], [never, never])
})

test('an attempt that is due within a minute is waited for, a later one is left to the next push', () => {
  for (const [nextMs, waitMs] of [[minute - 1, minute - 1], [minute, minute], [minute + 1, never]] as const)
    assert.equal(begin({ nextMs }).untilTry(0), waitMs)
  // a second attempt has a day of its own
  assert.deepEqual([begin({ secondMs: minute }).untilTry(0), begin({ secondMs: minute }).untilTry(0, 'second')], [0, minute])
  assert.equal(begin({ secondMs: minute + 1 }).untilTry(0, 'second'), never)
  assert.equal(begin({ nextMs: minute, secondMs: 5 }).untilTry(0, 'second'), minute)
}) // biome-ignore format: a table

test('it is over with the first answer of another kind, whichever that is; no answer is none', () => {
  for (const [status, isOver] of [[401, false], [null, false], [200, true], [403, true], [429, true], [503, true]] as const) {
    const refusal = begin()
    refusal.noteTry()
    assert.deepEqual([refusal.noteEnd(status), refusal.isHeld], [isOver, !isOver], `${status}`)
  }
  assert.equal(new Refusal(timeoutMs).noteEnd(200), false)
}) // biome-ignore format: a table

test('what comes of the attempt of another process is waited for, no longer than it may take', () => {
  const other = { ...known, tries: 1, nextMs: 60 * minute, isTrying: true }
  const refusal = begin(other)
  assert.deepEqual([refusal.untilTry(0), refusal.untilTry(timeoutMs - 1), refusal.untilTry(timeoutMs)], [timeoutMs, 1, never])
  assert.equal(refusal.learn({ ...other, isTrying: false }, 1_000), undefined)
  assert.equal(refusal.untilTry(1_000), never)
  assert.equal(begin(other).learn(undefined, 1_000), 'well')
  assert.equal(new Refusal(timeoutMs).learn(undefined, 1_000), undefined)
}) // biome-ignore format: a table
