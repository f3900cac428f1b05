import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { withTransaction } from '../../src/db/transaction.ts'
import { createDatabase } from '../support/database.ts'

// A signal that came while the transaction began was listened for too late, and one after the work was not asked for: all was committed.
for (const [statement, works] of [
  ['begin', false],
  ['pg_current_xact_id()', true],
] as const) {
  test(`a signal that aborts between two statements is heard: after ${statement}`, async () => {
    const opened = await (await createDatabase()).open()
    await opened.pool.query('create table written (n integer)')
    const stop = new AbortController()
    opened.pool.once('acquire', (client: pg.PoolClient) => {
      const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>
      const abortAfter = async (...given: unknown[]) => {
        const result = await query(...given)
        if (String(given[0]).includes(statement)) stop.abort(new Error('stopped'))
        return result
      }
      Object.assign(client, { query: abortAfter })
    })
    let worked = false
    const work = async (connection: pg.PoolClient) => {
      worked = true
      await connection.query('insert into written values (1)')
    }
    await assert.rejects(withTransaction(opened, work, stop.signal), /^Error: stopped$/)
    const { rows } = await opened.pool.query('select n from written')
    assert.deepEqual([worked, rows], [works, []])
  })
}
