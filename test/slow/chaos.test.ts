/** A few rounds of `npm run chaos`, always the same ones; a long run finds more. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runChaos } from '../support/chaos-run.ts'

test('processes, database and receiver are killed, stopped and frozen, and nobody is lost or served twice', async () => {
  const args = ['--rounds', '2', '--minutes', '0.25', '--seed', '2460']
  const { total, output } = await runChaos('chaos/chaos.ts', args, 150_000)
  const { rounds = 0, requests = 0 } = total
  assert.ok(rounds >= 1 && requests >= 40, output)
  assert.equal(total.violations, 0)
})
