/**
 * `push` as a process, when its database or its receiver (contract 4.12) is away, or answers no more: side by side, since it
 * is a long wait.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { databaseSilentMsMax } from '../../src/base/limits.ts'
import { type BreakablePostgres, startPostgres } from '../chaos/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { deliveriesOf } from '../support/house.ts'
import { buildLongPush, slowly, timesMax, longPushUsers as users } from '../support/long-push.ts'
import { runProgram } from '../support/program.ts'
import { requestsAtLeast, type TestReceiver } from '../support/receiver.ts'
import { startWay } from '../support/way.ts'

let postgres: BreakablePostgres

before(async () => {
  postgres = await startPostgres()
})
after(() => postgres.leave())

/** The lease is over as the next run begins, or before the database is back. */
const lease = { LEADPUSH_LEASE: '1s' }
const brief = { ...lease, LEADPUSH_DATABASE_AWAY: '30s' }
const one = { LEADPUSH_CONCURRENCY: '1' }
const attemptsOf = (receiver: TestReceiver) => [...receiver.keys().values()].map(({ length }) => length)

test('a database that is killed and comes back in time costs nothing and doubles nothing', async () => {
  const { receiver, push, ends } = await buildLongPush(postgres.url('leadpush'), slowly)
  const program = push(['--all'], lease)
  await requestsAtLeast(receiver, 6)
  // for longer than the lease, too
  await postgres.kill(2_500)
  const { code, stderr, json } = await program.done
  assert.equal(code, 0, stderr)
  assert.match(stderr, /The database at .* is away/)
  assert.equal(receiver.requests.length, users)
  assert.deepEqual(await ends(), { delivered: users })
  assert.equal(json.at(-1).delivered, users)
})

describe('side by side', { concurrency: true }, () => {
  test('a database that is away for longer than LEADPUSH_DATABASE_AWAY ends the push with 3; the next run goes on where it was', async () => {
    const { receiver, push, ends } = await buildLongPush(postgres.url('postgres'), slowly)
    const program = push(['--all'], brief)
    await requestsAtLeast(receiver, 6)
    const back = makeGate()
    const away = postgres.kill(back.opened)
    const began = performance.now()
    const { code, stderr } = await program.done
    const seconds = (performance.now() - began) / 1_000
    const before = receiver.requests.length
    assert.equal(code, 3, stderr)
    // it printed a line every 10 s
    assert.doesNotMatch(stderr, /waiting for the database: \d+ s/)
    assert.ok(seconds > 29, `it gave up after ${seconds} s`)
    // nothing is begun that was not recorded before
    assert.ok(before <= 6 + 3 * 4, `${before} requests`)
    back.open()
    await away
    const next = await push(['--all']).done
    assert.ok(next.code === 0 || next.code === 1, next.stderr)
    assert.equal(receiver.keys().size, users)
    assert.ok(timesMax(receiver) <= 2)
    assert.deepEqual(await ends(), { delivered: users })
  })

  test('a database that is silent for longer than LEADPUSH_DATABASE_AWAY ends the push with 3; the next run goes on where it was', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    const { receiver, push, ends } = await buildLongPush(url, slowly, way.url)
    const program = push(['--all'], brief)
    await requestsAtLeast(receiver, 6)
    way.swallow({ all: true })
    const began = performance.now()
    const { code, stderr } = await program.done
    const seconds = (performance.now() - began) / 1_000
    assert.equal(code, 3, stderr)
    assert.match(stderr, /did not answer for \d+ s|timeout/)
    assert.ok(seconds > 29, `it gave up after ${seconds} s`)
    const next = await push(['--all'], { DATABASE_URL: url }).done
    assert.ok(next.code === 0 || next.code === 1, next.stderr)
    assert.equal(receiver.keys().size, users)
    assert.ok(timesMax(receiver) <= 2)
    assert.deepEqual(await ends(), { delivered: users })
  })

  test('a database that says nothing to a command that only reads ends it with 3 too', async () => {
    const { url, open } = await createDatabase()
    const { pool } = await open()
    const other = await pool.connect()
    await other.query('begin')
    await other.query('lock table users')
    const { code, stderr } = await runProgram(['users', 'list'], { env: { DATABASE_URL: url } })
    assert.equal(code, 3, stderr)
    assert.match(stderr, new RegExp(`did not answer for ${databaseSilentMsMax / 1_000} s`))
    other.release()
  })

  test('a database that is silent on every connection that there was is found again on new ones', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    const { receiver, push, ends } = await buildLongPush(url, slowly, way.url)
    const program = push(['--all'])
    await requestsAtLeast(receiver, 6)
    way.swallow({ all: false })
    const { code, stderr } = await program.done
    assert.equal(code, 0, stderr)
    assert.match(stderr, /The database at .* is away[\s\S]*The database answers again/)
    assert.equal(receiver.keys().size, users)
    assert.ok(timesMax(receiver) <= 2)
    assert.deepEqual(await ends(), { delivered: users })
  })

  test('a receiver that is down is tried again after 10 s by default, and then gets all the rest', async () => {
    const { receiver, push } = await buildLongPush((await createDatabase()).url, () => 503)
    const program = push(['--all'], { ...one, LEADPUSH_OUTAGE: '', LEADPUSH_RETRY_DELAY: '9s' })
    await program.waitFor(/The receiver is down: 20 first attempts in a row failed; the last: HTTP 503/)
    const before = receiver.requests.length
    receiver.answer = () => 200
    const { code, json, stderr } = await program.done
    assert.equal(code, 0, stderr)
    // it printed a line every 10 s
    assert.match(stderr, /^Database: .*\nwarning: The receiver is down: .*\nwarning: The receiver answers again: .*\n$/)
    const [last, probe] = receiver.requests.slice(before - 1)
    assert.ok(last && probe && probe.atMs - last.atMs > 9_900, 'no attempt for 10 s')
    assert.equal(json.at(-1).delivered, users)
    assert.ok(timesMax(receiver) <= 2)
  })

  test('a receiver that is down for longer than LEADPUSH_OUTAGE ends the push with 1; the next run goes on where it was', async () => {
    const { receiver, push } = await buildLongPush((await createDatabase()).url, () => 503)
    const { code, json, stderr } = await push(['--all'], { ...one, LEADPUSH_OUTAGE: '1s', LEADPUSH_RETRY_DELAY: '5m' })
      .done
    assert.equal(code, 1, stderr)
    assert.equal(receiver.requests.length, 20)
    assert.ok(deliveriesOf(json).every(({ status }) => status === 'pending'))
    const unsent = deliveriesOf(json).filter(({ attempts }) => attempts === 0).length
    assert.equal(unsent + json.at(-1).owed, users - 20)
    // each hourly run makes one attempt, for a user who had none, and prints one line
    const hourly = await push(['--resume'], { ...one, LEADPUSH_OUTAGE: '1s' }).done
    assert.equal(hourly.code, 0, hourly.stderr)
    assert.match(
      hourly.stderr,
      /^Database: .*\nwarning: The receiver stayed down: giving up; the other users stay owed\.\n$/,
    )
    assert.deepEqual(attemptsOf(receiver), Array(21).fill(1))
    receiver.answer = () => 200
    const next = await push(['--all'], { LEADPUSH_OUTAGE: '' }).done
    assert.equal(next.code, 0, next.stderr)
    assert.match(next.stderr, /as a push before this one found: trying it[\s\S]*The receiver answers again/)
    assert.deepEqual(attemptsOf(receiver), [...Array(21).fill(2), ...Array(users - 21).fill(1)])
  })

  test('with LEADPUSH_OUTAGE=0s no outage is looked for: every delivery has its two attempts', async () => {
    const { receiver, push } = await buildLongPush((await createDatabase()).url, () => 503)
    const { code, json, stderr } = await push(['--all'], { ...one, LEADPUSH_OUTAGE: '0s' }).done
    assert.equal(code, 1)
    assert.doesNotMatch(stderr, /is down/)
    assert.deepEqual([json.at(-1).failed, attemptsOf(receiver)], [users, Array(users).fill(2)])
  })
})
