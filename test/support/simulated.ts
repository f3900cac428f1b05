/** Runs of `npm run simulate` within a test. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { findScript } from './scripts.ts'

/** Fails with the smallest scenario in which a promise is broken. */
export async function simulate(runs: number, seed: number): Promise<void> {
  // a process of its own: the runner of tests watches each promise, which takes longer than the pushes
  const { file, execArgv } = findScript('simulate/simulate.ts')
  const args = [...execArgv, file, '--runs', String(runs), '--seed', String(seed)]
  const { stdout } = await promisify(execFile)(process.execPath, args).catch((error) =>
    assert.fail(error.stdout || error.message),
  )
  assert.match(stdout, new RegExp(`^${runs} runs from seed ${seed}: no promise was broken`, 'm'))
}
