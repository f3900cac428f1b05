/** What others do between two statements of a push: erasures, other pushes, and users who come. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Kysely } from 'kysely'
import type { Tables } from '../../src/db/tables.ts'
import { raiseErasureCount } from '../../src/deliveries/erasure-count.ts'
import { findUser, recordSubscription } from '../../src/users/users.ts'
import { afterStatement, answerLost } from '../support/after-statement.ts'
import { makeGate } from '../support/gate.ts'
import { all, build, PushHouse, users } from '../support/push-house.ts'
import { requestsAtLeast } from '../support/receiver.ts'

const email = 'user-0000@example.com'
const erase = (db: Kysely<Tables>) => db.transaction().execute(raiseErasureCount)

/** The same house, whose pushes meet `steps` after their statements with the text `asked`. */
const meanwhile = ({ opened, receiver }: PushHouse, asked: string, ...steps: (() => Promise<unknown>)[]) =>
  new PushHouse(afterStatement(opened, asked, ...steps), receiver)

// The repeat found the attempt that was recorded, and the push was planned anew as well, with a key of its own: both went out.
test('a push for one user whose statement lost its answer, and met an erasure, goes out once', async (t) => {
  const house = await build(t)
  const loses = meanwhile(house, 'record_pushes(', async () => {
    await erase(house.db)
    throw answerLost()
  })
  const { ok, summary } = await loses.push(await house.userRequest(email))
  assert.deepEqual([ok, summary.delivered, house.receiver.requests.length], [true, 1, 1])
})

// It stayed owed, and the push ended with 0.
test('a subscription push that waits for another transaction is planned anew after an erasure', async (t) => {
  const house = await build(t, { users: users(1, { subscribed: false }) })
  const { user } = await findUser(house.db, email)
  await recordSubscription(house.db, user.id)
  const other = await house.opened.pool.connect()
  try {
    await other.query('begin; select from users for update')
    const waits = meanwhile(
      house,
      'record_pushes(',
      () => erase(house.db),
      () => other.query('rollback'),
    )
    const { ok, deliveries } = await waits.push({ what: 'owed' })
    assert.deepEqual([ok, deliveries.map(({ kind }) => kind)], [true, ['subscription']])
  } finally {
    other.release()
  }
})

// It looked for them outside of the ranges that it had taken, counted them everywhere, and ended with 1.
test('users who subscribe while push --all is under way get theirs from it, wherever they are', async (t) => {
  const house = await build(t, { users: users(20) })
  const subscribe = (subscribed: boolean, id: number) =>
    house.opened.pool.query('update users set subscribed = $1 where id % 20 = $2', [subscribed, id])
  await subscribe(false, 10)
  await subscribe(false, 15)
  house.receiver.answer = async (_, nth) => {
    if (nth === 5) await subscribe(true, 10)
    // by now the push has looked once more
    if (nth === 19) await subscribe(true, 15)
    return 200
  }
  const { ok, summary } = await house.push(all, { concurrency: 2 })
  assert.deepEqual([ok, summary.delivered, summary.owed], [true, 20, 0])
})

// It took a range of users more than it served, and the other push left these to it: nobody served them. `elsewhere` counted who had a
// delivery in hand and lay in a range twice.
test('push --limit takes nobody from others whom it does not serve', async (t) => {
  const gate = makeGate()
  const house = await build(t, { users: users(40), answer: (_, nth) => (nth > 2 ? 200 : gate.opened.then(() => 200)) })
  const limited = house.push({ what: 'all', force: false, limit: 4 }, { concurrency: 2, timeoutMs: 60_000 })
  await requestsAtLeast(house.receiver, 2)
  const { ok, summary } = await house.push()
  gate.open()
  assert.deepEqual([ok, summary.delivered, summary.elsewhere, summary.owed], [true, 36, 4, 0])
  assert.equal((await limited).summary.delivered, 4)
})

// It was -1: users with a claim, less those with an attempt left, who had grown in number between the two counts.
test('a user whom another push begins while this one counts does not count as served before', async (t) => {
  const house = await build(t, { users: users(2) })
  const counts = meanwhile(house, 'unclaimed as (', () =>
    house.opened.pool.query(`
      insert into workers (id, host, process_id, lease_until) values (1, 'there', 1, now() + interval '1 hour');
      insert into claims (scope, email) select 'weekly:' || period, '${email}' from runs;
      insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
        attempts, under_way, worker_id, status)
      select 'theirs', 1, u.id, period, 'weekly', 1, 1, 1, 0, 1, '', '', 1, true, 1, 'pending' from runs, users u where u.email = '${email}'`),
  )
  const { summary } = await counts.push()
  assert.deepEqual([summary.already, summary.delivered, summary.elsewhere], [0, 1, 1])
})
