/** The states of a hook (contract 6.5): every event in every state, walks through them, and the pause of each failure. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type HookEvent, type HookState, hookStates, nextState, pauseAfter } from '../../src/triggers/hook-state.ts'

const events = ['found', 'emptied', 'delivered', 'failed', 'stalled', 'used up', 'ended'] as const

test('every event in every state leads where the table says, and nowhere else', () => {
  const table: Record<HookState, string> = {
    //       found, emptied, delivered, failed, stalled, used up, ended
    idle:   'due    idle    idle    idle    paused  off     gone',
    due:    'due    idle    due     due     paused  off     gone',
    paused: 'paused paused  paused  paused  paused  off     gone',
    off:    'due    off     idle    off     off     off     gone',
    gone:   'gone   gone    gone    gone    gone    gone    gone',
  } // biome-ignore format: a table
  for (const [state, row] of Object.entries(table)) {
    const reached = events.map((event) => nextState(state as HookState, event))
    assert.deepEqual(reached, row.split(/ +/), state)
  }
})

test('every state is reached from idle, and nothing leads out of the last one', () => {
  const walk = (from: HookState) => {
    const seen = new Set<HookState>([from])
    for (const state of seen) for (const event of events) seen.add(nextState(state, event))
    return seen
  }
  assert.deepEqual(walk('idle'), new Set(Object.keys(hookStates)))
  assert.deepEqual(walk('gone'), new Set(['gone']))
})

test('nothing is sent in a pause, however many outcomes come in it', () => {
  const happened: HookEvent[] = ['found', 'stalled', 'delivered', 'failed', 'found', 'emptied']
  assert.equal(happened.reduce(nextState, 'idle'), 'paused')
})

test('a hook gets a pause that it asks for, and a minute for a timeout or from the 5th failure in a row on', () => {
  const none = { retryAfterMs: null, timedOut: false }
  assert.deepEqual([1, 4, 5, 6].map((row) => pauseAfter(none, row)), [null, null, 60_000, 60_000]) // biome-ignore format: one
  assert.equal(pauseAfter({ ...none, timedOut: true }, 1), 60_000)
  // a shorter one counts for its own alone
  assert.deepEqual(
    [1, 5].map((row) => pauseAfter({ ...none, retryAfterMs: 5_000 }, row)),
    [5_000, 60_000],
  )
  assert.equal(pauseAfter({ ...none, retryAfterMs: 7_200_000 }, 5), 7_200_000)
})
