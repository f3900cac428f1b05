/** The embedded database through the program, longer (contract 2, 3): how to connect, what leaves no server behind, and what is wrong. */
import assert from 'node:assert/strict'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { callProgram, type ProgramOptions, runProgram, startProgram, testHome } from '../support/program.ts'
import { startTestReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const home = join(testHome(), 'share', 'leadpush')
const run = (args: string, options: ProgramOptions = {}) => runProgram(args.split(' '), options)
const call = (args: string, options: ProgramOptions = {}) => callProgram(args.split(' '), options)

before(async () => {
  const description = 'x'.repeat(3_000)
  const leads = Array.from({ length: 300 }, (_, at) => ({ href: hrefOf(at), postalCode: '78704', description }))
  for (const command of [
    `leads import ${writeInput('leads.ndjson', toLines(leads))}`,
    `users import ${writeInput('users.ndjson', toLines(makeUsers(3)))}`,
  ]) {
    const { code, stderr } = await run(command)
    assert.equal(code, 0, stderr)
  }
})
after(() => run('db stop'))

const isGone = () => until('the server has stopped', () => !existsSync(join(home, 'data', 'postmaster.pid')))

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

// The hint named DATABASE_URL, which was not set.
test('if the embedded server cannot be started again, the message names validate, not DATABASE_URL', async () => {
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

test('a dry run tells what an import would do, and leaves no database behind', async () => {
  // it left 52 MB in the home
  const dry = join(testHome(), 'dry')
  const users = writeInput('dry-users.ndjson', toLines(makeUsers(2)))
  const leads = writeInput('dry-leads.ndjson', toLines([{ href: hrefOf(1), postalCode: '78704' }]))
  for (const [command, inserted] of [
    [`users import ${users}`, 2],
    [`leads import ${leads}`, 1],
  ] as const) {
    const { code, json, stderr } = await call(`${command} --dry-run --json`, { env: { LEADPUSH_HOME: dry } })
    assert.deepEqual([code, json.at(-1).inserted, existsSync(dry)], [0, inserted, false], stderr)
  }
})

test('a home may have a long name, with quotes and letters of any language', async () => {
  const deep = join(testHome(), 'd'.repeat(120), "quote's and ü")
  mkdirSync(deep, { recursive: true })
  const made = await run('migrate --json', { env: { LEADPUSH_HOME: deep } })
  assert.equal(made.code, 0, made.stderr)
  assert.equal((await run('users list', { env: { LEADPUSH_HOME: deep } })).code, 0)
})
