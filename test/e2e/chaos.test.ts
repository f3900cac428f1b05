/** A few rounds of `npm run chaos`, always the same ones; a long run finds more. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { findScript } from '../support/scripts.ts'

test('processes, database and receiver are killed, stopped and frozen, and nobody is lost or served twice', async () => {
  const { file, execArgv } = findScript('chaos/chaos.ts')
  const args = [...execArgv, file, '--rounds', '2', '--minutes', '0.25', '--seed', '2460']
  const child = spawn(process.execPath, args, { cwd: packageRoot, stdio: 'pipe', timeout: 150_000 })
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
  assert.ok(total.rounds >= 1 && total.requests >= 40, output)
  assert.equal(total.violations, 0)
})
