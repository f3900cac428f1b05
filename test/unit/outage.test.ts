import assert from 'node:assert/strict'
import { test } from 'node:test'
import { outageFailuresInARow, outageProbeMs } from '../../src/limits.ts'
import { Outage } from '../../src/push/outage.ts'

const patienceMs = 60_000
const fail = (outage: Outage, times: number, at = 0) =>
  Array.from({ length: times }, () => outage.note(1, 500, at)).at(-1)

test('20 first attempts in a row without an answer below 500 are an outage, 19 are none, and second ones do not count', () => {
  for (const status of [null, 500, 599]) {
    const outage = new Outage(patienceMs)
    for (let n = 1; n < 20; n++) assert.equal(outage.note(1, status, 0), undefined)
    assert.equal(outage.note(2, status, 0), undefined)
    assert.equal(outage.isDown, false)
    assert.equal(outage.note(1, status, 0), 'down')
  }
  assert.equal(outageFailuresInARow, 20)
})

test('any answer below 500, to a first or a second attempt, begins the count anew', () => {
  for (const [attempt, status] of [[1, 200], [1, 499], [2, 200], [2, 404]] as const) {
    const outage = new Outage(patienceMs)
    fail(outage, 19)
    assert.equal(outage.note(attempt, status, 0), undefined)
    assert.equal(fail(outage, 19), undefined)
    assert.equal(fail(outage, 1), 'down')
  } // biome-ignore format: a list
})

test('while it is down one attempt is made every 10 s, until one is answered below 500', () => {
  assert.equal(outageProbeMs, 10_000)
  const outage = new Outage(patienceMs)
  fail(outage, 20, 1_000)
  assert.deepEqual([outage.takeProbe(10_999), outage.takeProbe(11_000), outage.takeProbe(20_999)], [false, true, false])
  assert.equal(outage.note(1, 503, 11_500), undefined)
  assert.equal(outage.untilProbe(12_000), 9_000)
  assert.equal(outage.note(2, 422, 12_000), 'up')
  assert.equal(outage.isDown, false)
})

test('the patience counts from when it went down; none at all: it is not looked for', () => {
  const outage = new Outage(patienceMs)
  fail(outage, 20, 1_000)
  outage.note(1, null, 30_000)
  assert.deepEqual([outage.isOver(60_999), outage.isOver(61_000)], [false, true])
  assert.equal(fail(new Outage(0), 100), undefined)
})
