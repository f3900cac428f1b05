/** What a terminal does to the program. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/root.ts'
import { cleanEnvironment, testHome } from '../support/program.ts'

const hasScript = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0

// the moving line once divided by the columns of the terminal, and cleared lines without end where it has none
test('a terminal without columns, as containers make them, gets plain lines', { skip: !hasScript }, () => {
  const command = `stty cols 0 rows 0; '${process.execPath}' '${join(packageRoot, 'bin', 'leadpush.js')}' demo`
  const { status, stdout } = spawnSync('script', ['-qec', command, '/dev/null'], {
    cwd: testHome(),
    env: cleanEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 90_000,
    killSignal: 'SIGKILL',
  })
  assert.equal(status, 0)
  assert.match(stdout.toString(), /What arrived: 5 requests/)
})
