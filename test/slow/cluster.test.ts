/** The short run of `npm run chaos:cluster`: one failover of each kind; a long run finds more. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runChaos } from '../support/chaos-run.ts'

test('a primary is killed and a standby takes over: nobody is lost or served twice, and no push ends well while somebody is owed', async () => {
  const { total, output } = await runChaos('chaos-cluster/chaos-cluster.ts', ['--short', '--seed', '1'], 200_000)
  assert.deepEqual([total.synchronous, total.asynchronous, total.violations], [1, 1, 0], output)
})
