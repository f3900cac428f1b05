/** Runs a script of chaos for a test. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { packageRoot } from '../../src/base/package-root.ts'
import { findScript, type scripts } from './scripts.ts'

/** Runs the script to its end, which must be a good one; returns the counts of its last line, and all that it printed. */
export async function runChaos(
  script: (typeof scripts)[number],
  args: readonly string[],
  timeoutMs: number,
): Promise<{ total: Record<string, number>; output: string }> {
  const { file, execArgv } = findScript(script)
  const child = spawn(process.execPath, [...execArgv, file, ...args], {
    cwd: packageRoot,
    stdio: 'pipe',
    timeout: timeoutMs,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  const [code] = await once(child, 'close')
  assert.equal(code, 0, output)
  const last = output
    .trim()
    .split('\n')
    .findLast((line) => line.startsWith('{'))
  assert.ok(last, output)
  return { total: JSON.parse(last), output }
}
