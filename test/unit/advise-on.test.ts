/** Advice as a value: one order of steps for all troubles, and the page for people names the same commands. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adviseOn, type Step, type Troubles, tellSteps } from '../../src/inspect/status/advise-on.ts'
import { findTable, manual, spansOf } from '../support/markdown.ts'

const commandsOf = (steps: readonly Step[]) =>
  steps
    .flatMap((step) => ('run' in step ? [step.run, ...(step.or ? [step.or.run] : [])] : []))
    .map((run) => run.join(' '))
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

/** Messages in the table of trouble, and what the program knows when it prints them. */
const rows: [message: RegExp, troubles: Troubles][] = [
  [/^The receiver is down/, { receiver: { is: 'down' }, waits: true }],
  [/^held: the receiver refuses/, { receiver: refuses, waits: true }],
  [/^held: none of the last/, { receiver: { is: 'empty' }, waits: true, doubtful: 20 }],
  [/^HTTP 401/, { failed: 1 }],
  [/^HTTP 413/, { failed: 1 }],
  [/^the proxy was not reached/, { failed: 1 }],
  [/did not come in time/, { unknown: 1 }],
  [/^… for an attempt, and no process/, { waits: true }],
  [/^held: … instead of/, { held: 'week' }],
  [/^The last run used the time zone/, { held: 'zone' }],
]

test('the table of trouble names the commands that the program advises', () => {
  const table = findTable(manual, 'it prints')
  for (const [message, troubles] of rows) {
    const row = table.find(([symptom = '']) => spansOf(symptom).some((span) => message.test(span)))
    const named = spansOf(row?.[2] ?? '')
      .map((span) => span.replace(/^leadpush /, ''))
      .filter((span) => span.startsWith('push --'))
    assert.deepEqual(new Set(named), new Set(commandsOf(adviseOn(troubles))), String(message))
  }
})
