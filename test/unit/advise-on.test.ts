/** Advice as a value: one order of steps for all troubles. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adviseOn, type Troubles, tellSteps } from '../../src/inspect/status/advise-on.ts'
import { commandsOf } from '../support/steps.ts'

const refuses = { is: 'refuses', status: 401 } as const

test('without trouble nothing is advised', () => {
  assert.deepEqual(adviseOn({}), [])
  assert.deepEqual(adviseOn({ failed: 0, unknown: 0, doubtful: 0 }), [])
  assert.equal(tellSteps([]), '')
})

// After a hold by the receiver or by the time zone a push told people to mend what was imported, and both at once after a 401.
test('each trouble has its own mending, and one command that goes on', () => {
  const cases: [Troubles, does: string[], commands: string[]][] = [
    [{ receiver: { is: 'down' }, waits: true }, ['mend receiver'], ['push --resume']],
    [{ receiver: { is: 'asks' }, waits: true }, ['mend receiver'], ['push --resume']],
    [{ receiver: refuses, waits: true }, ['mend receiver'], ['push --resume', 'push --resume --accept']],
    [{ receiver: refuses, failed: 2 }, ['mend receiver'], ['push --failed']],
    [{ held: 'week' }, ['mend import'], ['push --all', 'push --all --accept']],
    [
      { held: 'users', failed: 1 },
      ['mend users', 'mend cause'],
      ['push --all', 'push --all --accept', 'push --failed'],
    ],
    [{ held: 'zone' }, ['mend zone'], ['push --all', 'push --all --accept']],
    [{ waits: true, owed: true }, [], ['push --resume']],
    [{ owed: true }, [], ['push --all']],
    [{ unknown: 1 }, ['mend cause'], ['push --failed --unknown']],
    [{ unknown: 1, user: 'a@example.com' }, ['mend cause'], ['push --user a@example.com']],
    [{ held: 'zone', doubtful: 1 }, ['mend zone'], ['push --failed --doubtful', 'push --all', 'push --all --accept']],
    [{ doubtful: 1 }, [], ['push --failed --doubtful', 'push --all --accept']],
  ]
  for (const [troubles, does, commands] of cases) {
    const steps = adviseOn(troubles)
    assert.deepEqual([steps.flatMap((step) => ('do' in step ? [step.do] : [])), commandsOf(steps)], [does, commands])
  }
})

test('the steps are one sentence, and an alarm has those that answer it', () => {
  const steps = adviseOn({ receiver: refuses, waits: true, failed: 1 })
  const told = tellSteps(steps)
  assert.match(
    told,
    /^Mend the receiver \(everybody gets HTTP 401\), then run `leadpush push --resume` \(or, .*\), then run `leadpush push --failed`\.$/,
  )
  assert.doesNotMatch(tellSteps(steps, 'refused'), /--failed/)
  assert.doesNotMatch(tellSteps(steps, 'not-delivered'), /--resume/)
  assert.equal(tellSteps(adviseOn({ owed: true }), 'no-push'), 'Run `leadpush push --all`.')
})
