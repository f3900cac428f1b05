/**
 * Whole pushes in virtual time, on the ledger in memory, through all troubles: the promises of every push. `npm run simulate` makes
 * more of them, and shows of one that breaks a promise what happened in it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { carryOut } from '../simulate/carry-out.ts'
import { findBroken } from '../simulate/promises.ts'
import { regressions } from '../simulate/regressions.ts'
import { makeScenario } from '../simulate/scenario.ts'
import { outside } from '../simulate/search.ts'
import { simulate } from '../support/simulated.ts'

test('whatever happens to pushes and around them, they keep their promises', () => simulate(500, 1))

for (const [what, scenario] of Object.entries(regressions)) {
  test(what, async () => {
    assert.deepEqual(await outside(() => findBroken(carryOut(scenario))), [])
  })
}

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
