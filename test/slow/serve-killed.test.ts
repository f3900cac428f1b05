/** A few kills of `npm run chaos:serve`, always the same ones; 200 of them find more. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { packageRoot } from '../../src/base/package-root.ts'
import { findScript } from '../support/scripts.ts'

test('serve is killed at random, and every subscription that it answered with 200 leads to one push', async () => {
  const { file, execArgv } = findScript('chaos/serve.ts')
  const args = [...execArgv, file, '--kills', '3', '--seed', '1']
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: packageRoot, timeout: 400_000 })
  const { kills, answered, violations } = JSON.parse(stdout)
  assert.deepEqual([kills, violations], [3, 0])
  assert.ok(answered > 0)
})
