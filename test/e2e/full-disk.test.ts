/** Results and diagnostics that cannot be written any more: the work under way is still finished, and the exit code shows it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { after, test } from 'node:test'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { cleanEnvironment, testHome } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'
import { until } from '../support/until.ts'

const skip = !existsSync('/dev/full')
const users = makeUsers(12)
const house = await buildHouse({
  users,
  leads: [{ href: hrefOf('a'), postalCode: '78704' }],
})

/** With one of its streams on a disk that is full: `> /dev/full`. */
function start(args: string, redirection: string, env: Record<string, string> = {}) {
  const child = spawn('sh', ['-c', `exec "$0" "$1" ${args} ${redirection}`, process.execPath, findProgram()], {
    cwd: testHome(),
    env: cleanEnvironment({ ...house.env, LEADPUSH_CONCURRENCY: '4', ...env }),
    timeout: 240_000,
    killSignal: 'SIGKILL',
  })
  after(() => void child.kill('SIGKILL'))
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
  return { child, said: () => said, ended: once(child, 'close').then(([code]) => ({ code, said })) }
}

// the first line that could not be written ended the process, with attempts under way and a run that was never closed
test('results that cannot be written hold up no push; it says so, and exits with 1', { skip }, async () => {
  const { code, said } = await start('push --all --json', '> /dev/full').ended
  assert.equal(code, 1, said)
  assert.match(said, /^error: Standard output cannot be written any more: ENOSPC/m)
  assert.doesNotMatch(said, /^ +at /m)
  assert.equal(house.receiver.requests.length, users.length)
  const [status] = (await house.call('status --json')).json
  assert.deepEqual([status.delivered, status.owed, status.lastRun.outcome], [users.length, 0, 'complete'])
  const help = await start('--help', '> /dev/full').ended
  assert.deepEqual([help.code, /ENOSPC/.test(help.said)], [1, true], help.said)
})

test('diagnostics that cannot be written change nothing, in either format', { skip }, async () => {
  for (const format of ['pretty', 'json']) {
    const before = house.receiver.requests.length
    const run = start('push --all --force --json', '2> /dev/full', { LEADPUSH_LOG_FORMAT: format })
    const { code, said } = await run.ended
    assert.deepEqual([code, house.receiver.requests.length - before], [0, users.length], `${format}\n${said}`)
    assert.match(said, /"type":"summary".*"delivered":12,/)
  }
})

test('serve answers, and ends with 0, while its log cannot be written', { skip }, async () => {
  const { child, said, ended } = start('serve --port 0', '2> /dev/full')
  const find = () => /listening on (\S+)\n/.exec(said())?.[1]
  await until('it listens', () => find() !== undefined)
  for (let times = 0; times < 3; times++) assert.equal((await fetch(`${find()}/healthz`)).status, 200)
  child.kill('SIGTERM')
  assert.equal((await ended).code, 0)
})
