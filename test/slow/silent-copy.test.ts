/** A copy over a connection that passes nothing any more, and one whose source says nothing for long. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { databaseSilentMsMax } from '../../src/base/limits.ts'
import { type CopyRows, copyInto } from '../../src/db/copy.ts'
import { openDatabase } from '../../src/db/open.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { createDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { startWay } from '../support/way.ts'

const { url, open } = await createDatabase()
const beside = await open()

function addRow(rows: CopyRows): void {
  rows.begin(1)
  rows.integer(1)
}

/** Copies two rows, and does `between` them. Returns how many arrived. */
async function copyTwo(databaseUrl: string, between: () => unknown): Promise<number> {
  const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
  try {
    return await withTransaction(opened, async (connection) => {
      await connection.query('create temp table numbers (n integer) on commit drop')
      await copyInto(connection, 'numbers (n)', async (rows) => {
        addRow(rows)
        await between()
        addRow(rows)
      })
      return (await connection.query('select from numbers')).rowCount ?? 0
    })
  } finally {
    await opened.close()
  }
}

// the server waits for its client, and once counted as at work: an import that was cut off there never ended
test('a copy whose end is lost is given up, as a statement is whose answer does not come', async () => {
  const way = await startWay(url)
  const begun = async () => {
    await until('the server waits for rows', async () => {
      const copies = await beside.pool.query(
        `select from pg_stat_activity where datname = current_database() and query like 'copy numbers%' and wait_event = 'ClientRead'`,
      )
      return copies.rowCount === 1
    })
    way.swallow({ all: false })
  }
  await assert.rejects(copyTwo(way.url, begun))
})

test('a copy whose source says nothing for longer than a silent database may goes on', async () => {
  assert.equal(await copyTwo(url, () => sleep(databaseSilentMsMax + 12_000)), 2)
})
