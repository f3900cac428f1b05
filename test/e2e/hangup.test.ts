/** A closed terminal: SIGHUP ends a command as SIGTERM does (contract 3), unless `nohup` lets it outlive its terminal. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeGate } from '../support/gate.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, makeUsers } from '../support/house.ts'
import { lackingScript } from '../support/installed.ts'
import { cleanEnvironment, startProgram, testHome } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { findProgram } from '../support/scripts.ts'
import { until } from '../support/until.ts'

const isLinux = process.platform === 'linux'
const program = [process.execPath, findProgram()]
const leads = [{ href: hrefOf('a'), postalCode: '78704' }]

const started: ChildProcess[] = []
after(() => {
  for (const child of started) child.kill('SIGKILL')
})

function start(file: string, args: string[], house: House, env: Record<string, string> = {}): ChildProcess {
  const options = { cwd: testHome(), env: cleanEnvironment({ ...house.env, ...env }), detached: true }
  const child = spawn(file, args, { ...options, stdio: ['pipe', 'ignore', 'ignore'] })
  started.push(child)
  return child
}

// the process ended at once, with attempts under way that nobody recorded; one closed terminal sends it two signals, from the
// shell and from the system
test('a push whose terminal is closed finishes what is under way, records it and ends with 129', {
  skip: lackingScript,
}, async () => {
  const gate = makeGate()
  // the terminal takes what the push says with it: only that it begins no more shows that it heard of it, with much left to begin
  const users = 300
  const answer = (_: unknown, nth: number) => (nth <= 4 ? gate.opened.then(() => 200) : { status: 200, delayMs: 300 })
  const house = await buildHouse({ leads, users: makeUsers(users), answer })
  const terminal = start('script', ['-qec', 'bash --norc', '/dev/null'], house, { LEADPUSH_CONCURRENCY: '4' })
  const ended = join(testHome(), 'ended')
  const push = `${program.map((word) => `'${word}'`).join(' ')} push --all`
  terminal.stdin?.write(`sh -c "trap : HUP; ${push}; echo \\$? > making; mv making ended"\n`)
  await requestsAtLeast(house.receiver, 4)
  terminal.kill('SIGKILL')
  gate.open()
  await until('it ended', () => existsSync(ended))
  assert.equal(readFileSync(ended, 'utf8').trim(), '129')
  const { length } = house.receiver.requests
  assert.ok(length < users)
  const { json } = await house.call('status --json')
  assert.deepEqual([json[0].delivered, json[0].unknown, json[0].lastRun.outcome], [length, 0, 'stopped'])
  house.receiver.answer = () => 200
  const resumed = await house.call('push --resume --json')
  assert.equal(resumed.code, 0, resumed.stderr)
  assert.deepEqual(
    [...house.receiver.keys().values()].map((sent) => sent.length),
    Array(users).fill(1),
  )
})

// Node.js takes back that nohup ignores SIGHUP
test('under nohup, or a script that ignores SIGHUP, a push goes on', { skip: !isLinux }, async () => {
  const house = await buildHouse({ leads, users: makeUsers(4) })
  const ways = [
    ['bash', ['-c', 'nohup "$@"', 'bash', ...program, 'push', '--all', '--concurrency', '1']],
    ['sh', ['-c', 'trap "" HUP; "$@"; exit $?', 'sh', ...program, 'push', '--all', '--force', '--concurrency', '1']],
  ] as const
  let users = 0
  for (const [file, args] of ways) {
    const gate = makeGate()
    house.receiver.answer = () => gate.opened.then(() => 200)
    const child = start(file, [...args], house)
    const ended = once(child, 'close')
    await requestsAtLeast(house.receiver, users + 1)
    process.kill(-(child.pid ?? 0), 'SIGHUP')
    gate.open()
    assert.deepEqual(await ended, [0, null])
    users += 4
    assert.equal(house.receiver.requests.length, users)
  }
})

test('SIGHUP ends serve and receiver with 0, forget with 129; without a terminal a second one ends a push at once', async () => {
  const house = await buildHouse({ leads, users: makeUsers(2), answer: () => 'hang' })
  const { pool, close } = await house.database.open()
  const importing = await pool.connect()
  await importing.query('select pg_advisory_lock(7310401)')
  const begin = (args: string, pattern: RegExp) => {
    const { env } = house
    const begun = startProgram(args.split(' '), { env })
    return begun.waitFor(pattern).then(() => begun)
  }
  const all = await Promise.all([
    begin('serve --port 0', /listening on/),
    begin('receiver --port 0', /listening on/),
    begin(`leads forget --href ${hrefOf('a')}`, /waiting for it/),
  ])
  for (const each of all) each.kill('SIGHUP')
  assert.deepEqual(await Promise.all(all.map(async ({ done }) => (await done).code)), [0, 0, 129])
  await importing.query('select pg_advisory_unlock(7310401)')
  importing.release()
  await close()

  const pushing = startProgram(['push', '--all', '--json'], { env: house.env })
  await requestsAtLeast(house.receiver, 2)
  pushing.kill('SIGHUP')
  await pushing.waitFor(/SIGHUP: finishing/)
  pushing.kill('SIGHUP')
  const { code, json } = await pushing.done
  assert.deepEqual([code, deliveriesOf(json)], [129, []])
})
