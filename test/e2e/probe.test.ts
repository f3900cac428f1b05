/** `leadpush probe` as the developer of a receiver meets it: report, JSON lines, exit codes, and the question before it sends. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createDatabase } from '../support/database.ts'
import { lackingScript } from '../support/installed.ts'
import { startProbedReceiver } from '../support/probed-receiver.ts'
import { callProgram, onShell, startOnTerminal, startProgram, testHome } from '../support/program.ts'

const database = await createDatabase()
const db = await database.open()
await db.pool.query(
  `insert into users (email, receiver_key, subscribed) values ('user@example.com', 'receiver-key-1', true)`,
)
const receiver = await startProbedReceiver({ erasesOnNull: true, knownKey: 'receiver-key-1' })
after(() => receiver.close())
const env = { LEADPUSH_RECEIVER_URL: receiver.url }

test('leadpush receiver is all green to it, without a database and without a user', async () => {
  const reference = startProgram(['receiver', '--port', '0'], { env: { DATABASE_URL: database.url } })
  const [, url = ''] = await reference.waitFor(/listening on (http:\S+)$/m)
  const { code, stdout, stderr } = await callProgram(['probe'], { env: { LEADPUSH_RECEIVER_URL: url } })
  reference.kill()
  assert.equal(code, 0, stdout + stderr)
  assert.match(
    stderr,
    /^About to send up to \d+ requests, \d+ MB together, to the receiver at 127\.0\.0\.1:\d+ with a made-up key\./,
  )
  assert.match(stdout, /^pass {9}600 leads of two queries, 5,000,000 bytes, are taken: HTTP 200 – “Taken\.”$/m)
  assert.match(stdout, /^grade {3}pass: all is well\nchecks {2}19 checks: 19 pass, 0 warn, 0 fail, 0 not visible\n/m)
  assert.equal((await reference.done).code, 0)
})

test('with the key of a user; a fault is named with what was sent, what came back, the clause, and what to do: exit 1', async () => {
  const options = { env: { ...env, DATABASE_URL: database.url } }
  const { code, stdout, stderr } = await callProgram(['probe', '--user', 'User@example.com', '--yes'], options)
  assert.equal(code, 1, stdout + stderr)
  const report = stdout.slice(stdout.indexOf('fail  '), stdout.indexOf('pass', stdout.indexOf('fail  ')))
  assert.equal(
    report.replace(/ {2,}/g, '  '),
    [
      'fail  Null, and a field left out, never erase a value',
      '  sent  a lead of which all is known, then the same with null wherever that may be; and to see it, the first again',
      '  came back  values were gone: the lead was counted as changed when they came back',
      '  clause  docs/contract-delivery.md 4.10',
      '  to do  Null says that the value is not known this week: keep the one that came before.',
      '',
    ].join('\n'),
  )
  assert.doesNotMatch(stdout + stderr, /receiver-key-1/)
  const { rows } = await db.pool.query('select (select count(*) from deliveries) + (select count(*) from runs) as rows')
  assert.equal(Number(rows[0].rows), 0)
})

test('--json: a line a check, and a summary', async () => {
  const { code, json, stderr } = await callProgram(['probe', '--json'], {
    env: { ...env, LEADPUSH_LOG_FORMAT: 'json' },
  })
  assert.equal(code, 1)
  const { seconds, ...first } = json[0]
  assert.equal(typeof seconds, 'number')
  assert.deepEqual(first, {
    type: 'check', check: 'example', title: 'An ordinary delivery is taken', clause: '4.1',
    sent: 'a delivery with one query and one lead of which all is known', grade: 'fail',
    received: 'HTTP 401 – “No user has ….”',
    advice: 'The made-up key was refused: name a user of yours with --user EMAIL, whose key the receiver knows.',
  }) // biome-ignore format: a record
  const { seconds: _, probe, ...summary } = json.at(-1)
  assert.match(probe, /^[0-9a-f-]{36}$/)
  assert.deepEqual(summary, {
    type: 'summary', grade: 'fail', checks: json.length - 1, passed: 1, warned: 0, failed: 1, notVisible: 17, requests: 1,
  }) // biome-ignore format: a record
  for (const line of stderr.trim().split('\n')) JSON.parse(line)
})

test('without a receiver, with a user that there is not, or with a wrong setting: exit 2, and nothing is sent', async () => {
  const before = receiver.bodies.length
  for (const [args, more, said] of [
    [['--yes'], { LEADPUSH_RECEIVER_URL: undefined }, /^error: LEADPUSH_RECEIVER_URL: is not set/],
    [
      ['--user', 'nobody@example.com'],
      { DATABASE_URL: database.url },
      /^error: There is no user "nobody@example\.com"/,
    ],
    [['--user', 'user@example.com'], {}, /^error: .*database/],
    [[], { LEADPUSH_TIMEOUT: '1' }, /^error: LEADPUSH_TIMEOUT: /],
  ] as const) {
    const { code, stdout, stderr } = await callProgram(['probe', ...args], { env: { ...env, ...more } })
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, said)
  }
  assert.equal(receiver.bodies.length, before)
})

/** What `probe` with `rest` shows on a terminal, where `typed` answers its question; and its exit code. */
async function probeOnTerminal(typed: string, rest = ''): Promise<{ exitCode: unknown; shown: string }> {
  const terminal = startOnTerminal(`exec ${onShell(`probe ${rest}`)}`, 120, { env: { ...env, TERM: 'xterm' } })
  await terminal.waitFor(/\[y\/N\]/)
  terminal.child.stdin?.write(typed)
  const { code, stdout } = await terminal.done
  return { exitCode: code, shown: stdout }
}

for (const [typed, exitCode] of [
  ['y\n', 1],
  ['\n', 2],
  ['\u0004', 2],
  ['\u0003', 130],
] as const) {
  test(`on a terminal it asks first; ${JSON.stringify(typed)} ends it with ${exitCode}`, {
    skip: lackingScript,
  }, async () => {
    const before = receiver.bodies.length
    const probed = await probeOnTerminal(typed)
    assert.equal(probed.exitCode, exitCode, probed.shown)
    assert.equal(receiver.bodies.length - before, exitCode === 1 ? 1 : 0)
    if (exitCode === 2) assert.match(probed.shown, /Nothing was sent: nobody agreed/)
  })
}

test('it asks with what it is about to send, also where its diagnostics go into a file', {
  skip: lackingScript,
}, async () => {
  // the file had what the question was about
  for (const rest of ['', `2> '${join(testHome(), 'asked')}'`]) {
    const { exitCode, shown } = await probeOnTerminal('n\n', rest)
    assert.equal(exitCode, 2, shown)
    assert.match(
      shown,
      /About to send up to \d+ requests, [\s\S]*All listings are made up: [\s\S]*Send them\? \[y\/N\]/,
    )
  }
})
