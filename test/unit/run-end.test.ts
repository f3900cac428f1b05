/** How a run ends, and when it looks once more, by what it knows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeRun, type LoopEnd, nextRound, type RunFacts } from '../../src/push/run/run-end.ts'
import { scopeOf } from '../../src/push/run/scope.ts'
import { LeftOut, type LeftOutReason } from '../../src/push/whom/left-out.ts'

const user = { id: 1, email: 'a@example.com' }
const scopes = {
  all: scopeOf({ what: 'all', force: false }),
  limited: scopeOf({ what: 'all', force: false, limit: 5 }),
  resume: scopeOf({ what: 'resume' }),
  failed: scopeOf({ what: 'failed', ends: ['failed'] }),
  one: scopeOf({ what: 'user', user, owed: false }),
  owed: scopeOf({ what: 'owed' }),
}
const leftOut = (...reasons: LeftOutReason[]) => {
  const users = new LeftOut()
  for (const [id, reason] of reasons.entries()) users.add(id, reason)
  return users
}
const left = (free: number, elsewhere = 0) => ({ free, uncounted: free, elsewhere })
const facts = (scope: keyof typeof scopes, more: Partial<RunFacts> = {}): RunFacts => ({
  ...{ scope: scopes[scope], loop: { is: 'done' }, isStopped: false, guard: 'lets' },
  ...{ leftOut: leftOut(), left: left(0), delivered: 1, failed: 0, unknown: 0, pending: 0 },
  ...more,
})
const gaveUp = (by: 'outage' | 'refusal', known = false): LoopEnd => ({
  is: 'gave up',
  why: by === 'outage' ? { by, known } : { by, known, status: 401, untilNextMs: 0 },
})

test('push --all looks again while somebody is left whom nothing holds, a few times; --resume once, when leases are over', () => {
  const looks = (scope: keyof typeof scopes, more: Partial<RunFacts>, round = 1) => nextRound(facts(scope, more), round)
  const some = { left: left(3), leftOut: leftOut('held', 'slow') }
  assert.deepEqual([looks('all', some), looks('all', some, 5), looks('all', some, 6)], ['again', 'again', 'no'])
  assert.equal(looks('all', { ...some, leftOut: leftOut('held', 'slow', 'told') }), 'no')
  for (const more of [
    { isStopped: true },
    { guard: 'holds' as const },
    { loop: gaveUp('refusal') },
    { loop: gaveUp('outage') },
  ])
    assert.equal(looks('all', { ...some, ...more }), 'no', JSON.stringify(more))
  assert.deepEqual(
    [looks('resume', {}), looks('resume', some, 2), looks('resume', { loop: gaveUp('outage') })],
    ['afterLeases', 'no', 'no'],
  )
  for (const scope of ['limited', 'failed', 'one', 'owed'] as const) assert.equal(looks(scope, some), 'no', scope)
})

test('users left, held back or failed keep a run from ending well; users of another process do not', () => {
  const ends = (scope: keyof typeof scopes, more: Partial<RunFacts> = {}) => {
    const { outcome, cameToEnd, closes, ok } = judgeRun(facts(scope, more))
    return [outcome, cameToEnd, closes, ok]
  }
  assert.deepEqual(ends('all'), ['complete', true, true, true])
  assert.deepEqual(ends('all', { left: left(0, 2) }), ['complete', true, false, true])
  assert.deepEqual(ends('all', { left: left(1) }), ['failures', false, false, false])
  assert.deepEqual(ends('all', { left: left(1), leftOut: leftOut('held') }), ['failures', true, true, false])
  for (const more of [{ failed: 1 }, { unknown: 1 }])
    assert.deepEqual(ends('all', more), ['failures', true, true, false])
  assert.deepEqual(ends('all', { isStopped: true }), ['stopped', false, false, false])
  assert.deepEqual(ends('all', { guard: 'holds' }), ['failures', false, false, false])
  assert.deepEqual(ends('limited', { left: left(9) }), ['complete', true, false, true])
  assert.deepEqual(ends('failed', { left: left(9) }), ['complete', true, false, true])
  assert.deepEqual(ends('one', { pending: 1 }), ['failures', true, false, false])
  // what it leaves is told as pending
  assert.deepEqual(ends('owed', { loop: { is: 'leaving' }, pending: 1 }), ['failures', true, false, false])
})

test('a receiver that refuses holds a run; one that stayed down does not', () => {
  const ends = (by: 'outage' | 'refusal') => {
    const { heldBy, cameToEnd } = judgeRun(facts('all', { loop: gaveUp(by) }))
    return [heldBy?.by, cameToEnd]
  }
  assert.deepEqual(ends('refusal'), ['refusal', false])
  assert.deepEqual(ends('outage'), [undefined, false])
})

test('--resume ends well where nothing came of it but what a push before it told', () => {
  const told = (scope: keyof typeof scopes, more: Partial<RunFacts>) => {
    const { ok, toldBefore } = judgeRun(facts(scope, { delivered: 0, ...more }))
    return [ok, toldBefore]
  }
  const heldAgain = { leftOut: leftOut('told', 'told'), left: left(2) }
  assert.deepEqual(told('resume', heldAgain), [true, true])
  assert.deepEqual(told('resume', { ...heldAgain, delivered: 1 }), [true, false])
  assert.deepEqual(told('resume', { ...heldAgain, failed: 1 }), [false, false])
  for (const reason of ['held', 'slow'] as const)
    assert.deepEqual(told('resume', { ...heldAgain, leftOut: leftOut('told', reason) }), [false, false])
  assert.deepEqual(told('resume', { guard: 'holdsAgain' }), [true, true])
  assert.deepEqual(told('resume', { guard: 'holds' }), [false, false])
  assert.deepEqual(told('resume', { loop: gaveUp('outage', true) }), [true, true])
  assert.deepEqual(told('resume', { loop: gaveUp('refusal', true), pending: 1 }), [true, true])
  assert.deepEqual(told('all', heldAgain), [false, false])
})
