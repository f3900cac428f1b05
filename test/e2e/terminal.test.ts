/** What a terminal does to the program. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/root.ts'
import { createDatabase } from '../support/database.ts'
import { toLines } from '../support/import-files.ts'
import { cleanEnvironment, runProgram, testHome } from '../support/program.ts'

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

test('what a file holds for a terminal to obey is shown, not obeyed; JSON lines keep it as it came', async (t) => {
  const { url } = await createDatabase(t)
  const env = { DATABASE_URL: url }
  const value = 'po\u001b[2J\u009bol'
  const record = { email: 'user@example.com', receiverApiKey: 'key-1', queries: [{ type: 'text', value, radius: 0 }] }
  const input = toLines([{ ...record, 'x\u001b]0;title\u0007': 1 }])
  const imported = await runProgram(['users', 'import', '-'], { env, input })
  assert.match(imported.stdout, /unknown field: x\\u001b\]0;title\\u0007$/m)
  assert.match((await runProgram(['users', 'list'], { env })).stdout, /po\\u001b\[2J\\u009bol/)
  assert.equal((await runProgram(['users', 'list', '--json'], { env })).json[0].queries[0].value, value)
})
