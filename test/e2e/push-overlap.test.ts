/** Pushes at once (contract 4.7, 4.8, 4.13): many processes, slow requests, frozen processes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeGate } from '../support/gate.ts'
import { deliveriesOf } from '../support/house.ts'
import { answerTogether, buildOverlap, emails, requestsOf, startPush, summaryOf } from '../support/overlap.ts'
import { owe } from '../support/owed.ts'
import { callProgram, startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { until } from '../support/until.ts'

test('four push --all at once serve 700 users once; one that is frozen within its lease holds up no other', async () => {
  const house = await buildOverlap(700, answerTogether(4, 10))
  const [frozen, ...others] = ['0', '1', '2', '3'].map((name) => startPush(house, name, '--all'))
  await until('the first has four under way', () => requestsOf(house, '0').length >= 4)
  frozen?.kill('SIGSTOP')
  for (const { code, stderr, json } of await Promise.all(others.map(({ done }) => done))) {
    assert.equal(code, 0, stderr)
    assert.ok(json.at(-1).elsewhere > 0 && json.at(-1).delivered > 0, JSON.stringify(json.at(-1)))
  }
  assert.ok(house.receiver.requests.length < 700)
  frozen?.kill('SIGCONT')
  const thawed = await frozen?.done
  assert.equal(thawed?.code, 0, thawed?.stderr)
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [700, 700])
  assert.equal(summaryOf(await startPush(house, '4', '--all').done).already, 700)
})

test('a living process renews its claims: a slow request is left alone, and goes beside a push --user', async () => {
  const slowAnswer = makeGate()
  const house = await buildOverlap(3, ({ path }) => (path === '/slow' ? slowAnswer.opened.then(() => 200) : 200))
  const lease = { LEADPUSH_LEASE: '6s' }
  const slow = startPush(house, 'slow', '--all', lease)
  await requestsAtLeast(house.receiver, 3)
  const { pool, close } = await house.database.open()
  const findLease = async () => (await pool.query('select lease_until from workers')).rows[0].lease_until.getTime()
  const first = await findLease()
  await until('the lease is renewed', async () => (await findLease()) > first)
  await close()
  const [all, resume] = await Promise.all([
    startPush(house, 'all', '--all', lease).done,
    startPush(house, 'resume', '--resume', lease).done,
  ])
  const user = await startPush(house, 'user', `--user ${emails[0]}`, lease).done
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

test('a push for one user whose subscription push another process takes first says so', async () => {
  // it ended with 0 and no word of why nothing was sent
  const house = await buildOverlap(1, () => 200)
  const [email] = emails as [string]
  const opened = await house.database.open()
  await opened.pool.query(owe('email = $1'), [email])
  const other = await opened.pool.connect()
  await other.query('begin')
  await other.query('update subscription_pushes set owed_at = null')
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
  const house = await buildOverlap(0, ({ path }, nth) =>
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
    const { code, stderr } = await callProgram(args, { env })
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
