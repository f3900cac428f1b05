import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { copyInto, copyText, readColumn } from '../../src/db/copy.ts'
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

test('numbers, truth and lists of texts arrive as they were', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const numbers = [
    0,
    -1,
    2 ** 31,
    2 ** 32,
    2 ** 32 + 1,
    -(2 ** 32) - 1,
    Number.MAX_SAFE_INTEGER,
    Number.MIN_SAFE_INTEGER,
  ]
  const lists = [[], [''], ['a', 'NULL', '"{,}"', 'é\n\\'], Array.from({ length: 1_000 }, () => 'x'.repeat(100))]
  await withTransaction(opened, async (connection) => {
    await connection.query('create temp table copied (n bigint, flag boolean, list text[]) on commit drop')
    await copyInto(connection, 'copied', async (rows) => {
      for (const [at, number] of numbers.entries()) {
        rows.begin(3)
        rows.bigint(number)
        rows.boolean([true, false, undefined][at % 3])
        rows.texts(lists[at])
      }
    })
    const { rows } = await connection.query(
      'select n::text, flag, list, list = array(select unnest(list)) as same from copied',
    )
    assert.deepEqual(
      rows,
      numbers.map((number, at) => ({
        n: String(number),
        flag: [true, false, null][at % 3],
        list: lists[at] ?? null,
        same: lists[at] ? true : null,
      })),
    )
  })
})

test('a text that COPY has to escape reads as it was', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const texts = ['', 'a\tb', 'a\nb\r', '\b\f\v\x01\x7f', '\\', '\\N', '\\t', '\\\\n', '\\.', 'ünïcode 🏡']
  const quoted = texts.map((text) => `(${pg.escapeLiteral(text)})`)
  const copied = await copyText(opened, `select 7, column1, true from (values ${quoted}) as texts`)
  const lines = copied.split('\n')
  assert.equal(lines.pop(), '')
  assert.deepEqual(
    lines.map((line) => line.split('\t').map(readColumn)),
    texts.map((text) => ['7', text, 't']),
  )
})

test('rows that are copied while their connection is lost are an error, and the next ones come whole', async (t) => {
  const opened = await (await createDatabase(t)).open({ connectionsMax: 1 })
  const rows = `select n, case n when 5000 then pg_terminate_backend(pg_backend_pid()) end from generate_series(1, 9000) n`
  await assert.rejects(copyText(opened, rows))
  await assert.rejects(copyText(opened, 'select 1 / 0'), /division by zero/)
  assert.equal(await copyText(opened, 'select 1'), '1\n')
})
