/** `push --metrics-file` and a push's log, with the real program: after every kind of end, and without a secret. */
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readExposition } from '../support/exposition.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { startProgram, testHome } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'

const contact = 'owner-1@example.com'
const house = await buildHouse({
  users: [...makeUsers(4), { ...makeUsers(1, 4)[0], queries: [] }],
  leads: [{ href: hrefOf('a'), postalCode: '78704', contactEmail: contact }],
})
const { receiver } = house
const folder = join(testHome(), 'metrics')
mkdirSync(folder)
const file = join(folder, 'leadpush.prom')

function read(command: string) {
  assert.deepEqual(readdirSync(folder), ['leadpush.prom'])
  assert.equal(statSync(file).mode & 0o777, 0o644)
  const families = readExposition(readFileSync(file, 'utf8'))
  return (name: string) => families.get(`leadpush_push_${name}`)?.samples.get(`command="${command}"`)
}

test('the file has the figures of the summary, the log a line an attempt, and neither a secret', async () => {
  receiver.answer = ({ headers }) => (headers['x-service-api-key'] === 'key-1' ? 401 : 200)
  const { code, json, stderr } = await house.call(['push', '--all', '--json', '--metrics-file', file], {
    env: { LEADPUSH_LOG_FORMAT: 'json' },
  })
  assert.equal(code, 1, stderr)
  const { type: _, period: __, advice: ___, ...figures } = json.at(-1)
  const of = read('all')
  assert.deepEqual([figures.users, figures.delivered, figures.failed, figures.skipped], [5, 3, 1, 1])
  for (const [field, value] of Object.entries(figures)) assert.equal(of(field), value, field)
  assert.deepEqual([of('running'), of('exit_code'), of('held')], [0, 1, 0])
  const ended = of('last_end_timestamp_seconds') ?? 0
  assert.ok(Math.abs(ended - Date.now() / 1_000) < 60)
  assert.equal(of('last_completion_timestamp_seconds'), ended)

  const attempts = stderr
    .split('\n')
    .filter((line) => line.includes('"attempt '))
    .map((line) => JSON.parse(line))
  assert.equal(attempts.length, 5)
  for (const { run, delivery, attempt, durationMs, msg, httpStatus, error } of attempts) {
    assert.ok(run >= 1 && durationMs >= 0)
    assert.match(attempt, new RegExp(`^${delivery}#[12]$`))
    assert.deepEqual(
      [msg, error === null],
      httpStatus === 200 ? ['attempt succeeded', true] : ['attempt failed', false],
    )
  }
  const pair = attempts.filter(({ httpStatus }) => httpStatus === 401).map(({ attempt }) => attempt.slice(-2))
  assert.deepEqual(pair, ['#1', '#2'])
  for (const secret of ['key-', contact]) assert.ok(!`${stderr}${readFileSync(file, 'utf8')}`.includes(secret))
})

test('every end of a push is in its file, together with the last that came to its end', async () => {
  receiver.answer = () => 200
  assert.equal((await house.call(['push', '--failed', '--metrics-file', file])).code, 0)
  const good = read('failed')('last_completion_timestamp_seconds') ?? 0
  assert.ok(good > 0)
  const endsWith = (exitCode: number) => {
    const of = read('failed')
    assert.deepEqual([of('running'), of('exit_code')], [0, exitCode])
    assert.equal(of('last_completion_timestamp_seconds'), good)
    assert.ok((of('last_end_timestamp_seconds') ?? 0) > good)
  }
  const away = await house.call(['push', '--failed', '--metrics-file', file], {
    env: { DATABASE_URL: 'postgresql://127.0.0.1:1/none', LEADPUSH_DATABASE_AWAY: '0s' },
  })
  assert.equal(away.code, 3)
  endsWith(3)
  assert.equal((await house.call(['push', '--failed', '--metrics-file', file, '--rate', 'x'])).code, 2)
  endsWith(2)
  // held, it came to no end of its own
  receiver.answer = () => 401
  assert.equal((await house.call(['push', '--all', '--force', '--metrics-file', file])).code, 1)
  const held = read('force')
  assert.deepEqual([held('running'), held('held'), held('last_completion_timestamp_seconds')], [0, 1, undefined])
  const user = ['push', '--user', 'user-1@example.com', '--metrics-file', file]
  for (const [signals, exitCode, answer] of [
    [1, 143, 200],
    [2, 143, 'hang'],
  ] as const) {
    const isHeard = makeGate()
    receiver.answer = () => isHeard.opened.then(() => answer)
    const before = receiver.requests.length
    const program = startProgram(user, { env: house.env })
    await requestsAtLeast(receiver, before + 1)
    program.kill('SIGTERM')
    await program.waitFor(/SIGTERM: finishing/)
    if (signals === 2) program.kill('SIGTERM')
    else isHeard.open()
    const { code, stderr } = await program.done
    assert.equal(code, exitCode, stderr)
    const of = read('user')
    assert.deepEqual([of('running'), of('exit_code')], [0, exitCode])
    assert.equal(of('delivered'), signals === 1 ? 1 : undefined)
  }
})

test('a file that cannot be written is an error before any work; when it cannot be any more, a warning', async () => {
  receiver.answer = () => 200
  const before = receiver.requests.length
  for (const [name, why] of [
    [join(folder, 'none', 'x.prom'), /its folder does not exist/],
    [folder, /it is a folder/],
    ['', /it is a folder/],
    // elsewhere - is standard output: here it became a file of that name
    ['-', /it is no file/],
    [`${folder}/`, /it is a folder/],
  ] as const) {
    const { code, stderr } = await house.call(['push', '--all', '--force', '--metrics-file', name])
    assert.equal(code, 2, name)
    assert.match(stderr.split('\n')[0] ?? '', why)
  }
  assert.equal(receiver.requests.length, before)
  receiver.answer = () => {
    rmSync(folder, { recursive: true, force: true })
    writeFileSync(folder, 'in the way')
    return 200
  }
  const { code, stderr } = await house.call(['push', '--user', 'user-2@example.com', '--metrics-file', file])
  assert.equal(code, 0, stderr)
  assert.match(stderr, /warning: --metrics-file .* cannot be written: /)
})
