import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { lockWaitMsMax } from '../../src/base/limits.ts'
import { mayRepeat, repeatable } from '../../src/db/dialect.ts'
import { briefly } from '../../src/db/durably.ts'
import { Patience } from '../../src/db/patience.ts'
import { afterStatement, answerLost } from '../support/after-statement.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { until } from '../support/until.ts'

// Two processes that record outcomes of the same deliveries at once (one was frozen, the other took over) may wait for each
// other; the process whose transaction PostgreSQL ended then died of the error.
test('a transaction that PostgreSQL ends because of a deadlock is run again', async (t) => {
  const { pool, patience } = await (await createDatabase(t)).open()
  await pool.query('create table places (n integer primary key, taken integer not null default 0)')
  await pool.query('insert into places values (1), (2)')
  const other = await pool.connect()
  await other.query('begin')
  await other.query("set local deadlock_timeout = '10min'")
  await other.query('update places set taken = taken + 1 where n = 2')
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  let tries = 0
  const hasFirst = makeGate()
  const riding = patience.rideOut(async () => {
    tries++
    const own = await pool.connect()
    try {
      await own.query('begin')
      await own.query("set local deadlock_timeout = '100ms'")
      await own.query('update places set taken = taken + 1 where n = 1')
      hasFirst.open()
      // PostgreSQL looks for a deadlock once: the session that shall find it has to wait last
      if (tries === 1) await until('the other waits', async () => (await pool.query(waiting)).rowCount === 1)
      await own.query('update places set taken = taken + 1 where n = 2')
      await own.query('commit')
    } catch (error) {
      await own.query('rollback')
      throw error
    } finally {
      own.release()
    }
  })
  await hasFirst.opened
  await other.query('update places set taken = taken + 1 where n = 1')
  await other.query('commit')
  other.release()
  await riding
  const { rows } = await pool.query('select taken from places order by n')
  assert.deepEqual(
    rows.map(({ taken }) => taken),
    [2, 2],
  )
  // the second one may meet the other once more
  assert.ok(tries >= 2, `${tries} tries`)
})

test('a statement waits for a server that is read-only for a moment, as after a failover', async (t) => {
  const { pool, patience } = await (await createDatabase(t)).open()
  await pool.query('create table places (n integer)')
  let tries = 0
  await patience.rideOut(async () => {
    const own = await pool.connect()
    try {
      await own.query(`begin ${++tries === 1 ? 'read only' : 'read write'}`)
      await own.query('insert into places values (1)')
      await own.query('commit')
    } catch (error) {
      await own.query('rollback')
      throw error
    } finally {
      own.release()
    }
  })
  assert.equal(tries, 2)
})

// Two databases of one process shared one patience: the shorter one ended the other's wait.
test('each open database has its own patience, and tells an absence once, and that it is over', async () => {
  const notes: string[] = []
  const listener = { onAway: (text: string) => void notes.push(text), onBack: () => void notes.push('back') }
  const [long, none] = [60_000, 0].map((awayMsMax) => new Patience({ awayMsMax, servers: 'example.com:5432' }))
  if (long) long.listener = listener
  let tries = 0
  const riding = long?.rideOut(async () => {
    if (++tries < 4) throw answerLost()
    return tries
  })
  await assert.rejects(none?.rideOut(() => Promise.reject(answerLost())) ?? assert.fail(), { code: 'database' })
  assert.equal(await riding, 4)
  const away =
    'The database at example.com:5432 is away (Connection terminated unexpectedly): waiting for it, for 1 minute at most.'
  assert.deepEqual(notes, [away, 'back'])
})

// With a patience of 2 s pauses were as long: two absences of less than a second, and no try between them, ended a push.
test('a short patience has short pauses: two short absences in it are not taken for one', async () => {
  const patience = new Patience({ awayMsMax: 1_000, servers: 'example.com:5432' })
  let tries = 0
  const fails = () => Promise.reject(tries++ < 1_000 ? answerLost() : new Error('too many'))
  await assert.rejects(patience.rideOut(fails), { code: 'database' })
  assert.ok(tries >= 10, `${tries} tries`)
})

// An answer was lost, the process stood still for 3.5 s, and another one was lost: an absence of 3.6 s, while the database was there.
test('a process that was frozen between two lost statements has not seen the database away meanwhile', async () => {
  const patience = new Patience({ awayMsMax: 800, servers: 'example.com:5432' })
  const freeze = () => {
    const untilMs = performance.now() + 1_000
    while (performance.now() < untilMs);
  }
  const fails = async () => {
    let tries = 0
    return await patience.rideOut(async () => {
      if (++tries === 1) setImmediate(freeze)
      if (tries < 4) throw answerLost()
      return tries
    })
  }
  assert.deepEqual(await Promise.all([fails(), fails()]), [4, 4])
  await assert.rejects(
    patience.rideOut(() => Promise.reject(answerLost())),
    { code: 'database' },
  )
})

for (const [text, repeats] of [
  ['select 1', true],
  [' with a as materialized (select 1) select * from a', true],
  ['-- not an update\nselect 1 -- but of a delete', true],
  ['(select 1) union (select 2)', true],
  ['select updated_at, last_update_id, deleted from imports', true],
  ['with gone as (delete from claims returning 1) select * from gone', false],
  ['select id from users for update', false],
  ['select id from users for key share', false],
  ['select pg_advisory_xact_lock(1)', false],
  ['select pg_try_advisory_xact_lock(1)', false],
  ['select * from record_pushes($1)', false],
  ["select set_config('lock_timeout', '1s', true)", false],
  ['update users set subscribed = false', false],
  ['/* repeatable: it sets the same */ update users set subscribed = false', true],
  ['vacuum users', false],
] as const) {
  test(`outside of a transaction \`${text}\` is ${repeats ? '' : 'not '}tried again`, () => {
    assert.equal(mayRepeat(text), repeats)
  })
}

test('a statement that reads is tried again with another connection, one that writes and one in a transaction are not', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const lost = () => Promise.reject(answerLost())
  const read = sql<{ n: number }>`select count(*) as n from users`
  const write = sql`update users set subscribed = true`
  assert.deepEqual((await read.execute(afterStatement(opened, 'count', lost, lost).db)).rows, [{ n: 0 }])
  await assert.rejects(write.execute(afterStatement(opened, 'update', lost).db), /terminated/)
  const { db } = afterStatement(opened, 'count', lost)
  await assert.rejects(
    db.transaction().execute((each) => read.execute(each)),
    /terminated/,
  )
  await sql`${repeatable('it sets the same')} ${write}`.execute(afterStatement(opened, 'update', lost).db)
})

// "out of shared memory" counted as an absence, so an import that could never work was begun four times
for (const [code, isTriedAgain] of [
  ['53000', false],
  ['53100', false],
  ['53200', false],
  ['53400', false],
  ['53300', true],
] as const) {
  test(`a server that says ${code} is ${isTriedAgain ? '' : 'not '}tried again`, async (t) => {
    const { pool, patience } = await (await createDatabase(t)).open()
    let tries = 0
    const riding = patience.rideOut(async () => {
      if (++tries < 3)
        await pool.query(`do $$ begin raise exception 'it lacks something' using errcode = '${code}'; end $$`)
    })
    if (isTriedAgain) await riding
    else await assert.rejects(riding, { code })
    assert.equal(tries, isTriedAgain ? 3 : 1)
  })
}

// A lock that was held for long made the database count as away.
test('a statement that waited too long for a lock is tried again, and the database does not count as away', async (t) => {
  const { pool, patience } = await (await createDatabase(t)).open()
  await pool.query('create table places (n integer)')
  const other = await pool.connect()
  await other.query('begin; lock table places')
  let tries = 0
  patience.listener = { onAway: () => assert.fail('it was taken for absent'), onBack: () => {} }
  const reading = patience.rideOut(async () => {
    if (++tries === 2) await other.query('commit')
    await pool.query("begin; set local lock_timeout = '100ms'; select from places; commit").catch(async (error) => {
      await pool.query('rollback')
      throw error
    })
  })
  await reading.finally(() => other.release(true))
  assert.equal(tries, 2)
})

test(`a brief statement waits ${lockWaitMsMax} ms for a lock, and then does nothing`, async (t) => {
  const { db, pool } = await (await createDatabase(t)).open()
  await pool.query('create table places (n integer); insert into places values (1)')
  const other = await pool.connect()
  await other.query('begin; update places set n = 2')
  const startedMs = performance.now()
  const waiting = sql`with brief as materialized (${briefly}) update places set n = 3 from brief`.execute(db)
  await assert.rejects(waiting, { code: '55P03' })
  assert.ok(performance.now() - startedMs >= lockWaitMsMax)
  await other.query('rollback')
  other.release()
  assert.deepEqual((await pool.query('select n from places')).rows, [{ n: 1 }])
})

// A statement for which nobody waited any more was carried out later: an attempt was recorded that nobody had made.
test('a statement ends with its connection when that is given up because the database is silent', async (t) => {
  const database = await createDatabase(t)
  const { pool } = await database.open()
  const brief = await database.open({ silentMsMax: 3_000 })
  const asked = brief.pool.query('select pg_sleep(60)')
  await assert.rejects(asked, /did not answer for 3 s|Connection terminated/)
  const isThere = async () =>
    (
      await pool.query(
        "select from pg_stat_activity where datname = current_database() and query = 'select pg_sleep(60)' and state = 'active'",
      )
    ).rowCount
  await until('it has ended', async () => !(await isThere()))
})
