import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as limits from '../../src/base/limits.ts'
import { Outage, pauseAfter } from '../../src/push/outage.ts'

const patienceMs = 60_000
const goDown = (at = 0, forMs = patienceMs) => {
  const outage = new Outage(forMs)
  outage.goDown(at)
  return outage
}
const known = { tries: 3, nextMs: 50_000, secondMs: 0 }

test('while it is down one attempt is made after 10 s, then after twice as long each time, up to 5 minutes', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map((tries) => pauseAfter(tries) / 1_000), [10, 20, 40, 80, 160, 300, 300])
  const outage = goDown(1_000)
  assert.deepEqual([outage.untilTry(10_999), outage.untilTry(11_000)], [1, 0])
  outage.noteTry(11_000)
  assert.equal(outage.noteEnd(503), false)
  assert.equal(outage.untilTry(12_000), 19_000)
  outage.noteNoSign(31_000)
  assert.equal(outage.untilTry(31_000), limits.outageCheckMs)
  assert.deepEqual([outage.noteEnd(null), outage.noteEnd(500), outage.noteEnd(499)], [false, false, true])
  assert.deepEqual([outage.isDown, outage.noteEnd(200)], [false, false])
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
  const outage = goDown()
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

test('the patience counts from when this push found it down; without it what the database knows is none', () => {
  const outage = goDown(1_000)
  // an attempt that is due is made before it gives up
  assert.equal(outage.isOver(61_000), false)
  outage.noteTry(60_000)
  assert.deepEqual([outage.isOver(60_999), outage.isOver(61_000)], [false, true])
  const none = new Outage(0)
  assert.deepEqual([none.learn(known, 0, true), none.isDown], [undefined, false])
})
