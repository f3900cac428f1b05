/** Pushes at once (contract 4.7, 4.8, 4.13): many processes, slow requests, frozen processes, clocks that are wrong. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { weeklyKey } from '../../src/deliveries/keys.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, deliveriesOf, type House } from '../support/house.ts'
import { type ProgramResult, runProgram, startProgram } from '../support/program.ts'
import { type Answer, requestsAtLeast, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const emails = Array.from({ length: 300 }, (_, at) => `user-${at}@example.com`)
const template = await createDatabase()
const opened = await template.open()
await seedLeads(opened, [{ href: 'https://listings.example/a' }])
await seedUsers(
  opened.db,
  emails.map((email) => ({ email, receiverKey: email })),
)
await opened.close()

/** With the first `users` of the users. */
async function build(users: number, answer: TestReceiver['answer']): Promise<House> {
  const database = await template.copy()
  const opened = await database.open()
  await opened.pool.query('update users set subscribed = false where receiver_key <> all ($1)', [
    emails.slice(0, users),
  ])
  await opened.close()
  return await buildHouse({ database, answer })
}

/** A process whose requests go to the path `/NAME`. */
const start = ({ env, receiver }: House, name: string, args: string, more: Record<string, string> = {}) =>
  startProgram(['push', ...args.split(' '), '--json'], {
    env: { ...env, LEADPUSH_RECEIVER_URL: new URL(`/${name}`, receiver.url).href, LEADPUSH_CONCURRENCY: '4', ...more },
  })

/** Answers when `processes` of them have something under way: none may come to take its part too late. */
function answerTogether(processes: number, delayMs: number): TestReceiver['answer'] {
  const names = new Set<string>()
  return async ({ path }) => {
    names.add(path)
    await until('each process has one under way', () => names.size >= processes)
    return { status: 200, delayMs }
  }
}

const requestsOf = ({ receiver }: House, name: string) => receiver.requests.filter(({ path }) => path === `/${name}`)
const summaryOf = ({ json }: ProgramResult) => json.at(-1)

test('four push --all at once serve 300 users once; one that is frozen within its lease holds up no other', async () => {
  const house = await build(300, answerTogether(4, 10))
  const [frozen, ...others] = ['0', '1', '2', '3'].map((name) => start(house, name, '--all'))
  await until('the first has four under way', () => requestsOf(house, '0').length >= 4)
  frozen?.kill('SIGSTOP')
  for (const { code, stderr, json } of await Promise.all(others.map(({ done }) => done))) {
    assert.equal(code, 0, stderr)
    assert.ok(json.at(-1).elsewhere > 0 && json.at(-1).delivered > 0, JSON.stringify(json.at(-1)))
  }
  assert.ok(house.receiver.requests.length < 300)
  frozen?.kill('SIGCONT')
  const thawed = await frozen?.done
  assert.equal(thawed?.code, 0, thawed?.stderr)
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [300, 300])
  assert.equal(summaryOf(await start(house, '4', '--all').done).already, 300)
})

test('a living process renews its claims: a slow request is left alone, and goes beside a push --user', async () => {
  const slowAnswer = makeGate()
  const house = await build(3, ({ path }) => (path === '/slow' ? slowAnswer.opened.then(() => 200) : 200))
  const lease = { LEADPUSH_LEASE: '6s' }
  const slow = start(house, 'slow', '--all', lease)
  await requestsAtLeast(house.receiver, 3)
  const { pool, close } = await house.database.open()
  const findLease = async () => (await pool.query('select lease_until from workers')).rows[0].lease_until.getTime()
  const first = await findLease()
  await until('the lease is renewed', async () => (await findLease()) > first)
  await close()
  const [all, resume] = await Promise.all([
    start(house, 'all', '--all', lease).done,
    start(house, 'resume', '--resume', lease).done,
  ])
  const user = await start(house, 'user', `--user ${emails[0]}`, lease).done
  slowAnswer.open()
  for (const { code, stderr } of [all, resume, user]) assert.equal(code, 0, stderr)
  assert.deepEqual([summaryOf(all).elsewhere, summaryOf(all).already, deliveriesOf(all.json)], [3, 0, []])
  assert.deepEqual([summaryOf(resume).elsewhere, deliveriesOf(resume.json)], [3, []])
  assert.deepEqual(
    deliveriesOf(user.json).map(({ kind, status }) => [kind, status]),
    [['single', 'delivered']],
  )
  const { code, json, stderr } = await slow.done
  assert.equal(code, 0, stderr)
  assert.deepEqual(
    deliveriesOf(json).map(({ kind, status, attempts }) => [kind, status, attempts]),
    Array(3).fill(['weekly', 'delivered', 1]),
  )
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [4, 4])
})

test('a process dies while another makes its last attempt: that serves whom it had in hand, too', async () => {
  const lastAnswer = makeGate()
  const never = new Promise<Answer>(() => {})
  let others = 0
  // so many are under way at once only after an answer
  const house = await build(300, ({ path }) =>
    path === '/dies' ? never : ++others === 1 ? 200 : lastAnswer.opened.then(() => 200),
  )
  const settings = { LEADPUSH_CONCURRENCY: '256', LEADPUSH_RETRY_DELAY: '0s' }
  const dies = start(house, 'dies', '--all', { ...settings, LEADPUSH_CONCURRENCY: '1' })
  await requestsAtLeast(house.receiver, 1)
  const lives = start(house, 'lives', '--all', settings)
  const { pool, close } = await house.database.open()
  // whom the process that dies has in hand alone is left
  const othersLeft = `select from users u where not exists (select from claims c where c.email = u.email) and not exists (
    select from user_ranges r join workers w on w.id = r.worker_id
    where w.process_id = ${dies.pid} and (u.home_key, u.id) between (r.first_home_key, r.first_user_id) and (r.last_home_key, r.last_user_id))`
  await until('the other has begun all others', async () => (await pool.query(othersLeft)).rowCount === 0)
  dies.kill('SIGKILL')
  await dies.done
  await pool.query('update workers set lease_until = now() where process_id = $1', [dies.pid])
  await close()
  lastAnswer.open()
  const { code, json, stderr } = await lives.done
  assert.equal(code, 0, stderr)
  const { owed, users, delivered } = json.at(-1)
  assert.deepEqual({ owed, users, delivered }, { owed: 0, users: 300, delivered: 300 })
  assert.equal(house.receiver.keys().size, 300)
})

test('machines whose clocks are wrong by weeks push beside a right one: nobody twice, under the same weekly keys', async () => {
  const house = await build(300, answerTogether(3, 60))
  const shifted = (days: number) => ({
    NODE_OPTIONS: `--import=${join(packageRoot, 'test/support/shifted-clock.js')}`,
    CLOCK_SHIFT_DAYS: String(days),
    LEADPUSH_LEASE: '1s',
  })
  const ends = await Promise.all([-40, 0, 40].map((days) => start(house, `${days}`, '--all', shifted(days)).done))
  for (const { code, stderr } of ends) assert.equal(code, 0, stderr)
  const { period } = summaryOf(ends[1] as ProgramResult)
  assert.deepEqual(
    house.receiver.requests.map(({ key }) => key).sort(),
    emails.map((email) => weeklyKey('leadpush', email, period, 1)).sort(),
  )
  assert.ok(house.receiver.requests.every(({ json }) => json.fsbos.length === 1))
  for (const end of ends) assert.deepEqual([summaryOf(end).period, summaryOf(end).delivered > 0], [period, true])
})

test('a push for one user whose subscription push another process takes first says so', async () => {
  // it ended with 0 and no word of why nothing was sent
  const house = await build(1, () => 200)
  const [email] = emails as [string]
  const opened = await house.database.open()
  await opened.pool.query('update users set subscription_owed_at = now() where email = $1', [email])
  const other = await opened.pool.connect()
  await other.query('begin')
  await other.query('update users set subscription_owed_at = null where email = $1', [email])
  const push = startProgram(['push', '--user', email, '--json'], { env: house.env })
  const isBegun = async () => (await opened.pool.query("select from runs where command = 'user'")).rowCount === 1
  await until('the push has read that the user is owed one', isBegun)
  await other.query('commit')
  other.release()
  const { code, json, stderr } = await push.done
  await opened.close()
  assert.equal(code, 0, stderr)
  const [skip, summary] = json
  const reason = 'another process has begun or ended this push meanwhile'
  assert.deepEqual(skip, { type: 'skip', user: email, reason })
  assert.deepEqual([summary.users, summary.skipped, house.receiver.requests.length], [1, 1, 0])
})

test('a push for several users names each whose subscription push another process takes, or who is removed meanwhile', async () => {
  // where others were served it said nothing of them, and counted them
  const firstAnswer = makeGate()
  const house = await build(0, ({ path }, nth) =>
    path === '/several' && nth === 1 ? firstAnswer.opened.then(() => 200) : 200,
  )
  const named = emails.slice(0, 6)
  const [, , , taken, removed] = named as [string, string, string, string, string, string]
  const env = { ...house.env, LEADPUSH_CONCURRENCY: '1' }
  const several = startProgram(['users', 'subscribe', ...named, '--json'], {
    env: { ...env, LEADPUSH_RECEIVER_URL: new URL('/several', house.receiver.url).href },
  })
  await requestsAtLeast(house.receiver, 1)
  for (const args of [
    ['push', '--user', taken],
    ['users', 'remove', removed],
  ]) {
    const { code, stderr } = await runProgram(args, { env })
    assert.equal(code, 0, stderr)
  }
  firstAnswer.open()
  const { code, json, stderr } = await several.done
  assert.equal(code, 0, stderr)
  assert.deepEqual(
    json.filter(({ type }) => type === 'skip'),
    [
      { type: 'skip', user: taken, reason: 'another process has begun or ended this push meanwhile' },
      { type: 'skip', user: removed, reason: 'the user was removed meanwhile' },
    ],
  )
  const { users, skipped, delivered, owed } = json.find(({ type }) => type === 'summary')
  assert.deepEqual({ users, skipped, delivered, owed }, { users: 6, skipped: 2, delivered: 4, owed: 0 })
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [5, 5])
})
