/** The embedded database through the program (contract 2, 3): who makes it, how to connect, and that nothing of it stays behind. */
import assert from 'node:assert/strict'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { callProgram, type ProgramOptions, runProgram, startProgram, testHome } from '../support/program.ts'
import { startTestReceiver } from '../support/receiver.ts'

const home = join(testHome(), 'share', 'leadpush')
const run = (args: string, options: ProgramOptions = {}) => runProgram(args.split(' '), options)
const call = (args: string, options: ProgramOptions = {}) => callProgram(args.split(' '), options)
after(() => run('db stop'))

async function isGone(): Promise<void> {
  for (let tries = 0; existsSync(join(home, 'data', 'postmaster.pid')); tries++) {
    assert.ok(tries < 500, 'the server still runs')
    await sleep(20)
  }
}

test('where there is no database yet, every command that needs one ends with 2, says what to do, and makes none', async () => {
  const commands = [
    'users list', 'users subscribe a@example.com', 'users unsubscribe a@example.com', 'users remove a@example.com',
    'push --all', 'push --resume', 'push --failed', 'push --user a@example.com', 'preview', 'status', 'db url',
  ] // biome-ignore format: a list
  for (const command of commands) {
    const { code, stdout, stderr } = await call(command, { env: { LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1' } })
    assert.deepEqual([code, stdout], [2, ''], command)
    assert.match(stderr, /DATABASE_URL.*\n.*leads import.*users import/, command)
  }
  assert.deepEqual([(await run('db path')).stdout, existsSync(home)], [`${home}\n`, false])
  assert.equal((await call('db stop')).code, 0)
})

test('a dry run tells what an import would do, and leaves no database behind', async () => {
  // it left 52 MB in the home
  const users = writeInput('dry-users.ndjson', toLines(makeUsers(2)))
  const leads = writeInput('dry-leads.ndjson', toLines([{ href: hrefOf(1), postalCode: '78704' }]))
  for (const [command, inserted] of [
    [`users import ${users}`, 2],
    [`leads import ${leads}`, 1],
  ] as const) {
    const { code, json, stderr } = await call(`${command} --dry-run --json`)
    assert.deepEqual([code, json.at(-1).inserted, existsSync(home)], [0, inserted, false], stderr)
  }
})

test('an import makes it; several commands use it at once; the last one to leave stops it', async () => {
  const leads = Array.from({ length: 300 }, (_, at) => ({
    href: hrefOf(at),
    postalCode: '78704',
    description: 'x'.repeat(3_000),
  }))
  const imported = await Promise.all([
    run(`leads import ${writeInput('leads.ndjson', toLines(leads))}`),
    run(`users import ${writeInput('users.ndjson', toLines(makeUsers(3)))}`),
    run('migrate'),
  ])
  for (const { code, stderr } of imported) assert.equal(code, 0, stderr)
  await isGone()
})

test('db url says how to connect, and leaves it running until db stop', async () => {
  const { code, stdout } = await run('db url')
  assert.equal(code, 0)
  const client = new pg.Client({ connectionString: stdout.trim() })
  await client.connect()
  assert.equal((await client.query('select count(*)::integer as n from users')).rows[0].n, 3)
  await client.end()
  assert.equal((await run('users list')).code, 0)
  assert.ok(existsSync(join(home, 'data', 'postmaster.pid')))
  const stopped = await run('db stop --json')
  assert.deepEqual([stopped.code, stopped.json], [0, [{ type: 'db', state: 'stopped' }]])
  await isGone()
  // a home that can be none was taken for a fault of the program
  const odd = await call('db stop', { env: { LEADPUSH_HOME: process.execPath } })
  assert.deepEqual([odd.code, odd.stdout], [0, 'It was not running.\n'], odd.stderr)
  for (const command of ['db path', 'db url', 'db stop']) {
    const ended = await call(command, { env: { DATABASE_URL: 'postgresql://localhost/x' } })
    assert.deepEqual([ended.code, ended.stdout], [2, ''], command)
  }
})

for (const [what, end, expected] of [
  ['that is stopped', (program: ReturnType<typeof startProgram>) => program.kill('SIGTERM'), 143],
  ['that is interrupted', (program: ReturnType<typeof startProgram>) => program.kill('SIGINT'), 130],
  ['whose reader has gone', (program: ReturnType<typeof startProgram>) => void program.child.stdout?.destroy(), 0],
] as const) {
  test(`a command ${what} leaves no server behind`, async () => {
    const program = startProgram(['preview', '--body'])
    await program.waitFor(/"queryList"/)
    // more than a pipe holds is to come: it waits for its reader
    program.child.stdout?.pause()
    end(program)
    program.child.stdout?.resume()
    const { code, stderr } = await program.done
    assert.equal(stderr, '')
    // the command may have come to its end before the signal
    assert.ok(code === expected || code === 0, `${code}`)
    await isGone()
  })
}

test('a home that cannot be one is told, with what to do', async () => {
  const file = writeInput('no-folder', '')
  for (const [place, code] of [
    [file, 2],
    [join(file, 'below'), 2],
    ...(process.platform === 'linux' ? ([['/proc/leadpush', 2]] as const) : []),
  ] as const) {
    const ended = await call(`users import ${writeInput('some.ndjson', toLines(makeUsers(1)))}`, {
      env: { LEADPUSH_HOME: place },
    })
    assert.equal(ended.code, code, ended.stderr)
    assert.match(ended.stderr, /cannot be kept in .*\n.*LEADPUSH_HOME/)
  }
  const deep = join(testHome(), 'd'.repeat(120), "quote's and ü")
  mkdirSync(deep, { recursive: true })
  const made = await run('migrate --json', { env: { LEADPUSH_HOME: deep } })
  assert.equal(made.code, 0, made.stderr)
  assert.equal((await run('users list', { env: { LEADPUSH_HOME: deep } })).code, 0)
})

// The hint named DATABASE_URL, which was not set.
test('where the embedded server cannot be started again, the message names validate, and not DATABASE_URL', async () => {
  const env = { LEADPUSH_HOME: join(testHome(), 'spoilt'), LEADPUSH_DATABASE_AWAY: '1s' }
  assert.equal((await run('users import -', { env, input: toLines(makeUsers(1)) })).code, 0)
  const receiver = await startTestReceiver(async () => {
    const data = join(env.LEADPUSH_HOME, 'data')
    appendFileSync(join(data, 'postgresql.conf'), 'no = = setting\n')
    process.kill(Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]), 'SIGKILL')
    return 200
  })
  after(() => receiver.close())
  const { code, stderr } = await run('push --all', { env: { ...env, LEADPUSH_RECEIVER_URL: receiver.url } })
  assert.equal(code, 3, stderr)
  assert.match(stderr, /`leadpush validate` says what is wrong with the embedded PostgreSQL/)
  assert.doesNotMatch(stderr, /DATABASE_URL/)
})
