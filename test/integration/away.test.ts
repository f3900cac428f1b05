import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rideOut } from '../../src/db/away.ts'
import { createDatabase } from '../support/database.ts'

// Two processes that record outcomes of the same deliveries at once (one was frozen, the other took over) may wait for each
// other; the one that PostgreSQL ended then died of it.
test('a transaction that PostgreSQL ends because of a deadlock is run again', async (t) => {
  const { pool } = await (await createDatabase(t)).open()
  await pool.query('create table places (n integer primary key, taken integer not null default 0)')
  await pool.query('insert into places values (1), (2)')
  const other = await pool.connect()
  await other.query('begin')
  await other.query("set local deadlock_timeout = '1min'")
  await other.query('update places set taken = taken + 1 where n = 2')
  let tries = 0
  let hasFirst = () => {}
  const first = new Promise<void>((resolve) => {
    hasFirst = resolve
  })
  const riding = rideOut(async () => {
    tries++
    const own = await pool.connect()
    try {
      await own.query('begin')
      await own.query("set local deadlock_timeout = '500ms'")
      await own.query('update places set taken = taken + 1 where n = 1')
      hasFirst()
      await own.query('update places set taken = taken + 1 where n = 2')
      await own.query('commit')
    } catch (error) {
      await own.query('rollback')
      throw error
    } finally {
      own.release()
    }
  })
  await first
  await other.query('update places set taken = taken + 1 where n = 1')
  await other.query('commit')
  other.release()
  await riding
  const { rows } = await pool.query('select taken from places order by n')
  assert.deepEqual(
    rows.map(({ taken }) => taken),
    [2, 2],
  )
  assert.equal(tries, 2)
})

test('a server that only reads for a moment is waited for, as after a failover', async (t) => {
  const { pool } = await (await createDatabase(t)).open()
  await pool.query('create table places (n integer)')
  let tries = 0
  await rideOut(async () => {
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
