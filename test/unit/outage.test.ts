import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as limits from '../../src/base/limits.ts'
import { Outage, pauseAfter } from '../../src/push/outage.ts'

const patienceMs = 60_000
const fail = (outage: Outage, times: number, at = 0) =>
  Array.from({ length: times }, () => outage.note(1, 500, at)).at(-1)
const known = { tries: 3, nextMs: 50_000, secondMs: 0 }

test('20 first attempts in a row without an answer below 500 are an outage, 19 are none, and second ones do not count', () => {
  for (const status of [500, 503, 599, null]) {
    const outage = new Outage(patienceMs)
    for (let n = 1; n < 20; n++) assert.equal(outage.note(1, status, 0), undefined)
    assert.equal(outage.note(2, status, 0), undefined)
    assert.equal(outage.isDown, false)
    assert.equal(outage.note(1, status, 0), 'down')
  }
  assert.equal(limits.outageFailuresInARow, 20)
})

test('one answer below 500 begins the count anew, of whichever attempt', () => {
  for (const [attempt, status] of [[1, 200], [1, 422], [2, 404], [2, 499]] as const) {
    const outage = new Outage(patienceMs)
    fail(outage, 19)
    assert.equal(outage.note(attempt, status, 0), undefined)
    assert.equal(fail(outage, 19), undefined)
    assert.equal(fail(outage, 1), 'down')
  }
}) // biome-ignore format: a table

test('where no first attempt is left, all of at least two are an outage; until then second ones wait', () => {
  const afterAll = (statuses: number[]) => {
    const outage = new Outage(patienceMs)
    for (const status of statuses) outage.note(1, status, 0)
    return [outage.isInQuestion, outage.noteAllMade(0), outage.isInQuestion && !outage.isDown]
  }
  assert.deepEqual(afterAll([500]), [true, undefined, false])
  assert.deepEqual(afterAll([500, 503]), [true, 'down', false])
  assert.deepEqual(afterAll([200, 500, 503]), [true, undefined, false])
  assert.deepEqual(afterAll([500, 503, 409]), [false, undefined, false])
})

test('while it is down one attempt is made after 10 s, then after twice as long each time, up to 5 minutes', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map((tries) => pauseAfter(tries) / 1_000), [10, 20, 40, 80, 160, 300, 300])
  const outage = new Outage(patienceMs)
  fail(outage, 20, 1_000)
  assert.deepEqual([outage.untilTry(10_999), outage.untilTry(11_000)], [1, 0])
  outage.noteTry(11_000)
  assert.equal(outage.note(1, 503, 11_500), undefined)
  assert.equal(outage.untilTry(12_000), 19_000)
  outage.noteNoSign(31_000)
  assert.equal(outage.untilTry(31_000), limits.outageCheckMs)
  assert.equal(outage.note(2, 422, 41_000), 'up')
  assert.deepEqual([outage.isDown, outage.isInQuestion], [false, false])
}) // biome-ignore format: a list

test('whoever begins while it is down tries at once; whoever learns of it meanwhile waits as the others do', () => {
  const [beginning, other] = [new Outage(patienceMs), new Outage(patienceMs)]
  assert.deepEqual([beginning.learn(known, 0, true), other.learn(known, 0)], ['down', 'down'])
  assert.deepEqual([beginning.untilTry(0), other.untilTry(0)], [0, 50_000])
  beginning.noteTry(0)
  assert.equal(beginning.untilTry(0), 160_000)
  // what it did itself is no news to it, what another did is
  assert.equal(beginning.learn({ tries: 4, nextMs: 1, secondMs: 0 }, 1_000), undefined)
  assert.equal(beginning.untilTry(1_000), 159_000)
  other.learn({ tries: 4, nextMs: 160_000, secondMs: 0 }, 1_000)
  assert.equal(other.untilTry(1_000), 160_000)
})

test('where others reach it again, an attempt of its own tells whether it does, once', () => {
  const outage = new Outage(patienceMs)
  fail(outage, 20)
  outage.learn(undefined, 1_000)
  assert.deepEqual([outage.isDown, outage.untilTry(1_000)], [true, 0])
  outage.noteTry(1_000)
  outage.learn(undefined, 2_000)
  assert.equal(outage.untilTry(2_000), 19_000)
})

test('a second attempt waits for its hour besides', () => {
  const outage = new Outage(patienceMs)
  outage.learn({ tries: 0, nextMs: 0, secondMs: 90_000 }, 0, true)
  assert.deepEqual([outage.untilTry(0), outage.untilTry(0, 'second')], [0, 90_000])
})

test('the patience counts from when this push found it down; without it nothing is ever an outage', () => {
  const outage = new Outage(patienceMs)
  fail(outage, 20, 1_000)
  outage.note(1, null, 30_000)
  // an attempt that is due is made before it gives up
  assert.equal(outage.isOver(61_000), false)
  outage.noteTry(60_000)
  assert.deepEqual([outage.isOver(60_999), outage.isOver(61_000)], [false, true])
  const none = new Outage(0)
  assert.deepEqual([fail(none, 100), none.learn(known, 0, true), none.isDown], [undefined, undefined, false])
})
