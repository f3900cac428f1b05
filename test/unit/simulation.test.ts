/**
 * Whole pushes in virtual time, on the ledger in memory, through all troubles: the promises of every push. `npm run simulate` makes
 * more of them, and shows of one that breaks a promise what happened in it.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { carryOut } from '../simulate/carry-out.ts'
import { findBroken } from '../simulate/promises.ts'
import { regressions } from '../simulate/regressions.ts'
import { makeScenario } from '../simulate/scenario.ts'
import { outside } from '../simulate/search.ts'
import { findScript } from '../support/scripts.ts'

const runs = 1_500

test('whatever happens to pushes and around them, they keep their promises', async () => {
  // a process of its own: the runner of tests watches each promise, which takes longer than the pushes
  const { file, execArgv } = findScript('simulate/simulate.ts')
  const args = [...execArgv, file, '--runs', String(runs), '--seed', '1']
  const { stdout } = await promisify(execFile)(process.execPath, args).catch((error) =>
    assert.fail(error.stdout || error.message),
  )
  assert.match(stdout, new RegExp(`^${runs} runs from seed 1: no promise was broken`, 'm'))
})

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
