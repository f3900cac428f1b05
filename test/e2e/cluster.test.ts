/** The short run of `npm run chaos:cluster`: one failover of each kind; a long run finds more. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { findScript } from '../support/scripts.ts'

test('a primary is killed and a standby takes over: nobody is lost or served twice, and no push ends well while somebody is owed', async () => {
  const { file, execArgv } = findScript('chaos-cluster/chaos-cluster.ts')
  const args = [...execArgv, file, '--short', '--seed', '1']
  const child = spawn(process.execPath, args, { cwd: packageRoot, stdio: 'pipe', timeout: 200_000 })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  const [code] = await once(child, 'close')
  assert.equal(code, 0, output)
  const total = JSON.parse(
    output
      .trim()
      .split('\n')
      .findLast((line) => line.startsWith('{')) ?? '{}',
  )
  assert.deepEqual([total.synchronous, total.asynchronous, total.violations], [1, 1, 0], output)
})
