/** What processes share about a receiver through its row (contract 4.12, 4.17), on a real database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/db/open.ts'
import { databaseReceiver, hashReceiver } from '../../src/push/database/receivers.ts'
import { ReceiverRow } from '../../src/push/receiver/receiver-row.ts'
import { createDatabase } from '../support/database.ts'

const url = 'https://receiver.example/'
const rowOf = (db: Database) => databaseReceiver(db, url)
const refuse = (row: ReceiverRow) => row.write((store) => store.tell({ says: 'refuses', status: 401 }))
const recover = (row: ReceiverRow) => row.write((store) => store.tell({ says: 'well' }))
const down = { says: 'down', instead: false, inARow: 20 } as const

// A process that had not heard of the 415 removed it from the row: all went on compressing.
test('an Accept-Encoding counts for nothing for a day after any process got a 415', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const gzip = async () => (await rowOf(db).read()).gzip
  await rowOf(db).tellGzip(true)
  assert.deepEqual(await gzip(), { takes: true, isRefused: false })
  await rowOf(db).tellGzip(false)
  await rowOf(db).tellGzip(true)
  assert.deepEqual(await gzip(), { takes: false, isRefused: true })
  await sql`update receivers set refused_gzip_at = now() - interval '25 hours'`.execute(db)
  await rowOf(db).tellGzip(true)
  assert.deepEqual(await gzip(), { takes: true, isRefused: false })
})

// Of two processes that were asked to wait the one with the shorter pause brought all back too early.
test('a shorter pause that another process was asked for takes nothing from a longer one', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const pausedMs = async () => (await rowOf(db).read()).pace.pausedMs ?? 0
  await rowOf(db).tellPace({ pausedMs: 200_000, allowedRate: null }, false)
  await rowOf(db).tellPace({ pausedMs: 1_000, allowedRate: null }, false)
  assert.ok((await pausedMs()) > 100_000, `${await pausedMs()} ms`)
  await rowOf(db).tellPace({ pausedMs: 250_000, allowedRate: null }, false)
  assert.ok((await pausedMs()) > 200_000, `${await pausedMs()} ms`)
})

// On two connections the recovery overtook the trouble: the next look held a healthy run.
test('the row has the news of a process in their order', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = new ReceiverRow(rowOf(db))
  let telling: Promise<unknown> = Promise.resolve()
  await assert.rejects(
    db.transaction().execute(async (trx) => {
      await sql`insert into receivers (url_sha256) values (${hashReceiver(url)})`.execute(trx)
      // the first waits for this transaction, the second would have found no row
      telling = Promise.all([refuse(row), recover(row)])
      await sql`select pg_sleep(0.3)`.execute(trx)
      throw new Error('rolled back')
    }),
    /rolled back/,
  )
  const reading = row.read()
  await telling
  assert.equal((await reading)?.trouble, undefined)
})

test('a look that a write follows at once says nothing', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = new ReceiverRow(rowOf(db))
  await row.write((store) => store.tell(down))
  const looking = row.read()
  await recover(row)
  assert.equal(await looking, undefined)
})

test('a try is one process’s; one that was not made is there for the next', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const others = rowOf(db)
  const trouble = async () => (await others.read()).trouble
  await others.tell(down)
  const taken = await Promise.all([1, 2, 3].map(() => rowOf(db).take(0, 'first')))
  assert.deepEqual(taken.sort(), [false, false, true])
  assert.ok(((await trouble())?.nextMs ?? 0) > 10_000)
  const seconds = [await others.take(1, 'second'), await others.take(2, 'second'), await others.take(2, 'first')]
  assert.deepEqual(seconds, [true, false, true])
  // a clock that was ahead for a minute must not keep it from being tried for as long
  await sql`update receivers set second_at = now() + interval '10 days'`.execute(db)
  assert.deepEqual([(await trouble())?.secondMs, await others.take(3, 'second')], [0, true])
  // it stayed taken for the rest of the hour after a stop
  await others.tell({ says: 'not made', tries: 4, kind: 'second' })
  assert.deepEqual([await trouble(), await others.take(3, 'second')], [{ status: null, tries: 3, nextMs: 0, secondMs: 0 }, true])
  assert.equal((await databaseReceiver(db, `${url}other`).read()).trouble, undefined)
  await others.tell({ says: 'well' })
  assert.deepEqual([await trouble(), await others.take(4, 'first')], [undefined, false])
}) // biome-ignore format: a table
