import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { copyInto } from '../../src/db/copy.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { createDatabase } from '../support/database.ts'

// The stream of a copy whose connection is gone fails a second time when it is ended; nobody listened by then, and the
// process died of it.
test('a copy whose connection is lost fails once, and leaves the process alive', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const copying = withTransaction(opened, async (connection) => {
    await connection.query('create temporary table staged (n integer) on commit drop')
    const { rows } = await connection.query('select pg_backend_pid() as pid')
    await copyInto(connection, 'staged (n)', async (staged, flush) => {
      await opened.pool.query('select pg_terminate_backend($1)', [rows[0].pid])
      for (;;) {
        staged.begin(1)
        staged.integer(1)
        await flush()
        await sleep(0)
      }
    })
  })
  await assert.rejects(copying)
  // a late error would fail the test here
  await sleep(50)
})
