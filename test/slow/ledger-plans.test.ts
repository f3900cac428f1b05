/** The look for what is due, in ledgers of every size and shape (contract 4.8). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseLeases, Worker } from '../../src/db/leases.ts'
import { type DueFrom, findNextDue, recordDueAttempts, releaseDeliveries } from '../../src/deliveries/due.ts'
import { findWaitingSubscriptions } from '../../src/server/waiting-subscriptions.ts'
import { createDatabase } from '../support/database.ts'
import { countRowsRead } from '../support/rows-read.ts'

const period = '2026-W47'

// Each look for what is due read all that waited, and a plan that statistics from another moment had chosen read the whole ledger;
// where what was taken before could not be cleaned up yet, each look walked over it again.
test('due attempts are looked up in their order, however many wait, with any statistics', async (t) => {
  const database = await createDatabase(t)
  const { db, pool } = await database.open({ connectionsMax: 1 })
  const workers = await Promise.all([
    Worker.start(databaseLeases(db), 3_600_000),
    Worker.start(databaseLeases(db), 3_600_000),
  ])
  t.after(() => Promise.all(workers.map((worker) => worker.stop().catch(() => {}))))
  const [{ ids, server }, other] = workers as [Worker, Worker]
  const count = 20_000
  await pool.query(
    `insert into users (email, receiver_key, subscribed) select n || '@example.com', 'key', true from generate_series(1, ${count}) n`,
  )
  const fill = (workerId: number, status: string) =>
    pool.query(`insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list,
        recipe, attempts, under_way, status, worker_id, due_at)
      select '${status}-${workerId}-' || n, 1, (select min(id) from users) + n - 1, '${period}', 'weekly', 1, 1, 1, 0, 1, '', '', 1,
        false, '${status}', ${workerId}, now() - (${count} - n) * interval '10 milliseconds' from generate_series(1, ${count}) n`)
  const look = async (expected: number, from?: DueFrom) => {
    const before = await countRowsRead(pool)
    const { attempts, next } = await recordDueAttempts(db, {
      workerIds: ids,
      server,
      runId: 1,
      limit: 16,
      takeover: 'all',
      known: [],
      from,
    })
    await findNextDue(db, { workerIds: ids, takeover: 'all', from: next })
    await findWaitingSubscriptions(db, { own: [], ownUntil: '-infinity', othersAfterMs: 0, except: [], limit: 3 })
    const read = (await countRowsRead(pool)) - before
    assert.equal(attempts.length, expected)
    return { read, next }
  }
  const isFew = (read: number, when: string) => assert.ok(read < 2_000, `${read} rows and entries were read, ${when}`)
  const own = ids[0] as number

  await fill(own, 'pending')
  isFew((await look(16)).read, 'never analyzed')
  await pool.query('analyze')
  isFew((await look(16)).read, 'analyzed while all were pending')
  await pool.query('delete from deliveries')
  await pool.query('vacuum deliveries')
  await fill(own, 'delivered')
  isFew((await look(0)).read, 'analyzed while others were pending, and nothing is')
  await pool.query('analyze')
  await fill(own, 'pending')
  await fill(other.id, 'pending')
  isFew((await look(16)).read, 'analyzed while nothing was pending')

  // while an older snapshot keeps what was taken in the index
  const old = await (await database.open()).pool.connect()
  await old.query('begin isolation level repeatable read; select 1')
  let from: DueFrom | undefined
  for (let taken = 0; taken < 10_000; taken += 2_000) {
    const { attempts, next } = await recordDueAttempts(db, {
      workerIds: ids,
      server,
      runId: 1,
      limit: 2_000,
      takeover: 'all',
      known: [],
      from,
    })
    assert.equal(attempts.length, 2_000)
    from = next
  }
  isFew((await look(16, from)).read, 'behind what was taken')
  await old.query('commit')
  old.release()

  let given = 0
  for await (const _ of releaseDeliveries(db, ids)) given++
  assert.equal(given, count - 10_000 - 16 - 16)
  assert.equal((await look(16)).next !== undefined, true)
})
