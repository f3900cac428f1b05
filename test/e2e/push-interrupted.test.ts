/** `push` as a process that is stopped, frozen or killed, or that loses an answer of its database: each trouble by itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signal } from '../chaos/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { buildLongPush, timesMax, longPushUsers as users } from '../support/long-push.ts'
import type { TestReceiver } from '../support/receiver.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { startWay } from '../support/way.ts'

const build = async (answer: TestReceiver['answer']) => buildLongPush((await createDatabase()).url, answer)

test('SIGTERM finishes what is under way, and --resume goes on without waiting', async () => {
  const gate = makeGate()
  const { opened, receiver, push, call, ends } = await build((_, nth) => (nth < 6 ? 200 : gate.opened.then(() => 200)))
  const program = push(['--all'], { LEADPUSH_LEASE: '1h' })
  await requestsAtLeast(receiver, 6)
  program.kill('SIGTERM')
  await program.waitFor(/SIGTERM: finishing/)
  gate.open()
  const { code, stderr } = await program.done
  assert.equal(code, 143, stderr)
  const done = receiver.requests.length
  assert.ok(done < users)
  assert.equal((await ends()).delivered, done)
  const { rows } = await opened.pool.query(`
    select (select count(*) from workers) as workers, (select count(*) from user_ranges) as shares,
      (select count(*) from deliveries where status = 'pending' and (attempts > 0 or worker_id is not null)) as held`)
  assert.deepEqual(rows[0], { workers: 0, shares: 0, held: 0 })
  const next = await call(['--resume'], { LEADPUSH_LEASE: '1h' })
  assert.equal(next.code, 0, next.stderr)
  assert.equal(receiver.requests.length, users)
  assert.deepEqual(await ends(), { delivered: users })
})

test('a second SIGTERM stops at once, and leaves a ledger that can be resumed', async () => {
  const gate = makeGate()
  const { opened, receiver, push, call, ends } = await build((_, nth) =>
    nth <= 4 || nth > 8 ? 200 : gate.opened.then(() => 200),
  )
  const program = push(['--all'])
  await requestsAtLeast(receiver, 8)
  program.kill('SIGTERM')
  await program.waitFor(/SIGTERM: finishing/)
  program.kill('SIGTERM')
  const { code, stderr } = await program.done
  assert.equal(code, 143, stderr)
  gate.open()
  await opened.pool.query('update workers set lease_until = now()')
  const next = await call(['--resume'])
  assert.equal(next.code, 0, next.stderr)
  assert.equal(receiver.keys().size, users)
  assert.ok(timesMax(receiver) <= 2)
  assert.deepEqual(await ends(), { delivered: users })
})

// Now and then the process froze in a transaction with a lock that every other push waited for.
test('a process that is frozen for longer than its lease does no harm when it thaws', async () => {
  const gate = makeGate()
  const { opened, receiver, push, call, ends } = await build((_, nth) => (nth <= 4 ? gate.opened.then(() => 200) : 200))
  const frozen = push(['--all'])
  await requestsAtLeast(receiver, 4)
  signal(frozen.pid, 'SIGSTOP')
  await opened.pool.query('update workers set lease_until = now()')
  const other = await call(['--all'])
  assert.equal(other.code, 0, other.stderr)
  assert.equal(receiver.keys().size, users)
  gate.open()
  signal(frozen.pid, 'SIGCONT')
  const { code, stderr, json } = await frozen.done
  assert.equal(code, 0, stderr)
  assert.equal(receiver.keys().size, users)
  assert.ok(timesMax(receiver) <= 2)
  assert.deepEqual(await ends(), { delivered: users })
  assert.equal(json.filter(({ type, status }) => type === 'delivery' && status !== 'delivered').length, 0)
})

test('a statement whose answer was lost is not carried out twice, and not left out', async () => {
  const { url } = await createDatabase()
  const way = await startWay(url)
  const failing = (_: unknown, nth: number) => (nth > users && nth <= users + 3 ? 500 : 200)
  const { opened, receiver, call, ends } = await buildLongPush(url, failing, way.url)
  const check = async (args: string[], requests: number, delivered: number) => {
    const { code, stderr, json } = await call(args)
    assert.equal(code, 0, stderr)
    assert.equal(way.toLose(), 0)
    assert.deepEqual([receiver.requests.length, receiver.keys().size], [requests, delivered])
    assert.deepEqual([json.at(-1).delivered, await ends()], [users, { delivered }])
  }
  way.loseAnswer('insert into runs')
  way.loseAnswer('record_pushes(', '@example.com')
  way.loseAnswer('record_outcomes(')
  await check(['--all'], users, users)
  way.loseAnswer('attempts = d.attempts + 1', '@example.com')
  await check(['--all', '--force'], users * 2 + 3, users * 2)
  const { rows } = await opened.pool.query('select outcome from runs')
  assert.deepEqual(rows, [{ outcome: 'complete' }, { outcome: 'complete' }])
  // a single delivery has no claim: the second try of its statement met the first one's key, and the push broke off
  way.loseAnswer('record_pushes(', '@example.com')
  const single = await call(['--user', 'user-0@example.com'])
  assert.deepEqual([single.code, way.toLose(), receiver.keys().size], [0, 0, users * 2 + 1], single.stderr)
  assert.equal(receiver.requests.length, users * 2 + 4)
})
