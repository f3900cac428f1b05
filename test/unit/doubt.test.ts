import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as limits from '../../src/base/limits.ts'
import { Doubt, endOf } from '../../src/push/doubt.ts'
import { FirstAnswers } from '../../src/push/first-answers.ts'

const times = (doubt: Doubt, count: number, status: number | null) =>
  Array.from({ length: count }, () => doubt.note(1, status)).at(-1)

test('a 3xx or 4xx is a refusal, but for 408, 409, 425 and 429; without an answer below 500 the receiver may be down', () => {
  for (const status of [300, 301, 308, 399, 400, 401, 404, 407, 410, 413, 422, 424, 426, 428, 430, 499]) assert.equal(endOf(status), status) // biome-ignore format: a list
  for (const status of [200, 204, 299, 408, 409, 425, 429]) assert.equal(endOf(status), undefined)
  for (const status of [500, 503, 599, null]) assert.equal(endOf(status), 'down')
})

test('20 first attempts in a row that end alike are a doubt, 19 are none, and second ones do not count', () => {
  for (const [statuses, end] of [[[500, 503, null], 'down'], [[401], 401], [[301], 301]] as const) {
    const doubt = new Doubt(true)
    for (let n = 1; n < 20; n++) assert.equal(doubt.note(1, statuses[n % statuses.length] as number | null), undefined)
    assert.equal(doubt.note(2, statuses[0]), undefined)
    assert.deepEqual([doubt.isOpen, doubt.inARow], [true, 19])
    assert.equal(doubt.note(1, statuses[0]), end)
  }
  assert.equal(limits.alikeInARow, 20)
}) // biome-ignore format: a table

test('one that ends otherwise begins the count anew; of second attempts only an answer does', () => {
  for (const [alike, attempt, status] of [
    [500, 1, 200], [500, 1, 422], [500, 2, 404], [500, 2, 429], [null, 2, 200],
    [401, 1, 403], [401, 1, 200], [401, 1, 429], [401, 1, 500], [401, 1, null], [401, 2, 200], [401, 2, 500],
  ] as const) {
    const doubt = new Doubt(true)
    times(doubt, 19, alike)
    assert.equal(doubt.note(attempt, status), undefined)
    assert.ok(doubt.inARow <= 1)
    assert.equal(times(doubt, 19, alike), undefined, `${alike} ${attempt} ${status}`)
    assert.equal(times(doubt, 1, alike), endOf(alike))
  }
  const doubt = new Doubt(true)
  times(doubt, 19, 401)
  doubt.note(2, null)
  assert.equal(times(doubt, 1, 401), 401)
}) // biome-ignore format: a table

test('where no first attempt is left, all of at least two are a doubt; until then second ones wait', () => {
  const afterAll = (statuses: (number | null)[]) => {
    const doubt = new Doubt(true)
    for (const status of statuses) doubt.note(1, status)
    return [doubt.isOpen, doubt.noteAllMade(), doubt.isOpen]
  }
  assert.deepEqual(afterAll([500]), [true, undefined, false])
  assert.deepEqual(afterAll([500, null]), [true, 'down', true])
  assert.deepEqual(afterAll([404]), [true, undefined, false])
  assert.deepEqual(afterAll([404, 404]), [true, 404, true])
  assert.deepEqual(afterAll([404, 403]), [true, undefined, false])
  assert.deepEqual(afterAll([200, 404, 404]), [true, undefined, false])
  assert.deepEqual(afterAll([500, 503, 409]), [false, undefined, false])
})

test('before anything is known second attempts wait, until a first one ends otherwise or none is left', () => {
  const [answered, alone] = [new Doubt(true), new Doubt(true)]
  assert.ok(answered.isOpen && alone.isOpen)
  answered.note(1, 200)
  assert.equal(alone.noteAllMade(), undefined)
  assert.ok(!answered.isOpen && !alone.isOpen)
})

// 19 more that ended as the one before were neither trouble nor followed by any other: a push waited without end.
test('first attempts that come once all seemed to be made begin the count anew', () => {
  const doubt = new Doubt(true)
  doubt.note(1, 503)
  doubt.noteAllMade()
  assert.equal(times(doubt, 19, 503), undefined)
  assert.equal(doubt.firstsLeft(0), 1)
  assert.equal(doubt.note(1, 503), 'down')
})

test('until one ends otherwise at most 20 first attempts are begun', () => {
  const doubt = new Doubt(true)
  assert.deepEqual([doubt.firstsLeft(0), doubt.firstsLeft(19), doubt.firstsLeft(20), doubt.firstsLeft(21)], [20, 1, 0, 0])
  times(doubt, 12, 401)
  doubt.note(2, 401)
  assert.deepEqual([doubt.firstsLeft(0), doubt.firstsLeft(7), doubt.firstsLeft(8)], [8, 1, 0])
  doubt.note(1, 403)
  assert.equal(doubt.firstsLeft(1_000), Number.POSITIVE_INFINITY)
  times(doubt, 19, 403)
  doubt.restart()
  assert.deepEqual([doubt.firstsLeft(0), doubt.isOpen], [20, false], 'what was before counts no more')
  doubt.note(2, 200)
  assert.equal(doubt.firstsLeft(1_000), Number.POSITIVE_INFINITY)
}) // biome-ignore format: a table

test('who does not look for an outage looks for refusals all the same', () => {
  const doubt = new Doubt(false)
  assert.deepEqual([times(doubt, 100, 500), times(doubt, 100, null), doubt.isOpen], [undefined, undefined, false])
  assert.deepEqual([times(doubt, 19, 401), doubt.note(1, 503), times(doubt, 19, 401), doubt.note(1, 401)], [undefined, undefined, undefined, 401]) // biome-ignore format: a list
})

const page = { httpStatus: 200, emptySuccess: 'a page' }

function answered(count: number, accepts = false): FirstAnswers {
  const answers = new FirstAnswers(accepts)
  for (let n = 0; n < count; n++) answers.note(page)
  return answers
}

test('the first 20 answers, or all of at least 2, hold a run if each is an empty success (contract 4.5)', () => {
  const holds = (answers: FirstAnswers) => [false, true].map((isAll) => answers.findReasonToHold(isAll) !== undefined)
  assert.deepEqual(
    [0, 1, 2, 19, 20].map((count) => holds(answered(count))),
    [
      [false, false],
      [false, false],
      [false, true],
      [false, true],
      [true, true],
    ],
  )
  for (const other of [{ httpStatus: 200 }, { httpStatus: 503 }, { httpStatus: 401 }]) {
    const answers = answered(19)
    answers.note(other)
    for (let n = 0; n < 20; n++) answers.note(page)
    assert.deepEqual(holds(answers), [false, false])
  }
  assert.deepEqual(holds(answered(20, true)), [false, false], '--accept')
})

test('until an answer that is no empty success at most 20 attempts begin; those without an answer count for nothing', () => {
  const answers = answered(12)
  assert.deepEqual(
    [0, 7, 8, 9].map((open) => answers.attemptsLeft(open)),
    [8, 1, 0, 0],
  )
  answers.note({ httpStatus: null })
  assert.equal(answers.attemptsLeft(0), 8)
  answers.note({ httpStatus: 404 })
  assert.equal(answers.attemptsLeft(1_000), Number.POSITIVE_INFINITY)
  assert.equal(answered(0, true).attemptsLeft(1_000), Number.POSITIVE_INFINITY)
})
