/**
 * Whole pushes in virtual time, on the ledger in memory, through all troubles: the promises of every push. `npm run simulate` makes
 * more of them, and shows of one that breaks a promise what happened in it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { carryOut } from '../simulate/carry-out.ts'
import { findBroken } from '../simulate/promises.ts'
import { regressions } from '../simulate/regressions.ts'
import { makeScenario, type Scenario } from '../simulate/scenario.ts'
import { outside } from '../simulate/search.ts'
import { simulate } from '../support/simulated.ts'

test('whatever happens to pushes and around them, they keep their promises', () => simulate(500, 1))

for (const [what, scenario] of Object.entries(regressions)) {
  test(what, async () => {
    assert.deepEqual(await outside(() => findBroken(carryOut(scenario))), [])
  })
}

// The reserve waited for a draw that a limit does not make: after three tries a second attempt went out, and none for an hour.
test('in an outage a push with a limit tries all its users without an attempt, before any a second time', async () => {
  const down = { is: 'status', status: 503, latencyMs: 5 } as const
  const whom = { by: 'place', places: ['10001'] } as const
  const scenario: Scenario = {
    seed: 1,
    users: Array.from({ length: 60 }, () => ({ places: ['10001'], subscribed: true })),
    listings: ['10001'],
    settings: {
      ...{ timeoutMs: 1_000, retryDelayMs: 5_000, concurrency: 4, outageMs: 600_000, compress: 'off' },
      ...{ leaseMs: 20_000, guard: 'off', awayMs: 30_000 },
    },
    receiver: [
      { atMs: 0, manner: { is: 'fails for', whom, how: down, latencyMs: 5 } },
      { atMs: 200_000, manner: { is: 'well', latencyMs: 5 } },
    ],
    pushes: [{ what: 'all', force: false, limit: 24, atMs: 10 }],
    events: [],
  }
  const { receiver } = await outside(() => carryOut(scenario))
  const times = receiver.attempts.filter(({ push, atMs }) => push === 0 && atMs < 200_000).map(({ nth }) => nth)
  assert.deepEqual(times, Array(24).fill(1))
})

// The next push for all was held for an hour: two users with revoked keys had shown that the receiver refuses everybody.
test('a push of users whose delivery failed keeps to itself what few of them show', async () => {
  const usersOf = (place: string, count: number) =>
    Array.from({ length: count }, () => ({ places: [place], subscribed: true }))
  const scenario: Scenario = {
    seed: 1,
    users: [...usersOf('10001', 10), ...usersOf('10002', 2), ...usersOf('10003', 48)],
    listings: [],
    settings: {
      ...{ timeoutMs: 1_000, retryDelayMs: 5_000, concurrency: 4, outageMs: 60_000, compress: 'off' },
      ...{ leaseMs: 20_000, guard: 'off', awayMs: 30_000 },
    },
    receiver: [
      {
        atMs: 0,
        manner: {
          is: 'fails for',
          whom: { by: 'place', places: ['10002'] },
          how: { is: 'status', status: 401, latencyMs: 5 },
          latencyMs: 5,
        },
      },
    ],
    pushes: [
      { what: 'all', force: false, limit: 20, atMs: 10 },
      { what: 'failed', ends: ['failed'], atMs: 60_000 },
      { what: 'resume', atMs: 120_000 },
      { what: 'all', force: false, atMs: 180_000 },
    ],
    events: [],
  }
  const { before } = await outside(() => carryOut(scenario))
  assert.equal(before?.deliveries.filter(({ status }) => status === 'delivered').length, 58)
})

test('a seed makes the same run each time', async () => {
  // a number that is drawn where nothing of the run decides would make a run that cannot be looked into
  const trace = () => outside(() => carryOut(makeScenario(3), true).trace)
  const keys = /"[0-9a-f]{8}-[0-9a-f-]{27}"|POST [0-9a-f-]{14}/g
  const [one, other] = [await trace(), await trace()]
  assert.ok(one.length > 20)
  assert.deepEqual(
    one.map((line) => line.replaceAll(keys, '')),
    other.map((line) => line.replaceAll(keys, '')),
  )
})
