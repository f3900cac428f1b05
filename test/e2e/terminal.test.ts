/** What a terminal does to the program, and the program to a terminal. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { packageRoot } from '../../src/root.ts'
import { createDatabase } from '../support/database.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
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

/** What it writes to a terminal of so many columns. */
async function showPush(args: string, columns: number, env: Record<string, string>): Promise<string> {
  const program = `'${process.execPath}' '${join(packageRoot, 'bin', 'leadpush.js')}' push ${args}`
  const child = spawn('script', ['-qec', `stty cols ${columns} rows 24; ${program}; true`, '/dev/null'], {
    cwd: testHome(),
    env: cleanEnvironment(env),
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  await once(child, 'close')
  return text
}

test('a push shows a line that moves and never wraps, then a summary, and why what failed did', {
  skip: !hasScript,
}, async () => {
  const house = await buildHouse({ users: makeUsers(30), leads: [{ href: hrefOf('a'), postalCode: '78704' }] })
  house.receiver.answer = ({ headers }) => ({
    status: Number(String(headers['x-service-api-key']).slice(4)) < 25 ? 401 : 200,
    delayMs: 250,
  })
  const env = { ...house.env, LEADPUSH_CONCURRENCY: '4', TERM: 'xterm-256color' }
  // the spinner has its colour, and what stands beside it has none
  const frames = (text: string) => {
    const pieces = text.split('\u001b')
    return pieces.flatMap((piece, at) =>
      /[\u2800-\u28ff]$/.test(piece) ? [`*${pieces[at + 1]?.slice('[39m'.length)}`] : [],
    )
  }

  const narrow = await showPush('--all', 40, env)
  assert.ok(frames(narrow).some((frame) => /^. \d+ of 30 users, .*not delivered/.test(frame)))
  for (const frame of frames(narrow)) assert.ok(frame.length < 40, frame)
  const plain = stripVTControlCharacters(narrow).replaceAll('\r', '')
  assert.equal(plain.match(/ {2}failed {2}/g)?.length, 20)
  assert.match(plain, /… and 5 more; --json lists all/)
  assert.match(
    plain,
    /^Not delivered, by cause\n25 {2}HTTP 401: the receiver does not take\n {4}the user's receiver key\n {4}user-\d/m,
  )
  assert.match(plain, /\n {4}Bring the keys/)
  assert.match(plain, /\nOnce the cause is mended: leadpush push\n--failed\n/)

  const still = await showPush('--failed', 80, { ...env, NO_COLOR: '1' })
  assert.deepEqual([frames(still), still.includes('\u001b')], [[], false])
})
