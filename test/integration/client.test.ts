/**
 * What leadpush uses of `pg` beyond its documentation: after an upgrade of `pg` these tests say what is no longer there. And which
 * errors are trouble with the database.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import net from 'node:net'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import { codeOf } from '../../src/base/errors.ts'
import { asDatabaseError, isAbsence, isDatabaseError } from '../../src/db/away.ts'
import {
  BoundedClient,
  cancelStatement,
  isEncrypted,
  isReady,
  onServerError,
  processIdOf,
  streamOf,
} from '../../src/db/client.ts'
import { openDatabase } from '../../src/db/open.ts'
import { Patience } from '../../src/db/patience.ts'
import { createDatabase } from '../support/database.ts'
import { startSecureWay } from '../support/secure-way.ts'
import { findClosedPort } from '../support/sockets.ts'
import { until } from '../support/until.ts'
import { startWay } from '../support/way.ts'

const errorOf = (failing: Promise<unknown>): Promise<Error> =>
  failing.then(
    () => assert.fail('it went well'),
    (error) => error,
  )

// "The database cannot be used: ENOENT: no such file or directory", exit 3
for (const [code, fail] of [
  ['ENOENT', () => readFile('/nowhere/listings.csv')],
  ['ECONNREFUSED', async () => once(net.connect(await findClosedPort(), '127.0.0.1'), 'connect')],
  [
    'EPIPE',
    async () => {
      const child = spawn('sh', ['-c', 'exec <&-; echo closed; exec sleep 60'])
      await once(child.stdout, 'data')
      child.stdin.on('error', () => {})
      const write = promisify((done: (error?: Error | null) => void) => child.stdin.write('a line', done))
      await write().finally(() => child.kill())
    },
  ],
] as const) {
  test(`${code} of another part of the program is no trouble with the database, and is not tried again`, async () => {
    let tries = 0
    const error = await errorOf(
      new Patience({ awayMsMax: 1_000, servers: 'nowhere' }).rideOut(async () => {
        tries++
        await fail()
      }),
    )
    assert.deepEqual([codeOf(error), isDatabaseError(error), tries], [code, false, 1])
    assert.equal(asDatabaseError(error), error)
  })
}

for (const [code, address] of [
  ['ECONNREFUSED', async () => `postgresql://leadpush@127.0.0.1:${await findClosedPort()}/leadpush`],
  ['ENOENT', async () => 'postgresql://leadpush@%2Fnowhere/leadpush'],
] as const) {
  test(`${code} of a connection to the database is an absence of the database`, async () => {
    const { cause } = await errorOf(openDatabase({ databaseUrl: await address(), home: '' }))
    assert.deepEqual([codeOf(cause), isAbsence(cause)], [code, true])
  })
}

test('a statement whose connection breaks fails because of the database, in every form of a statement', async (t) => {
  const { pool } = await (await createDatabase(t)).open()
  const breakIn = async (ask: (client: pg.PoolClient) => Promise<unknown>) => {
    const client = await pool.connect()
    const asking = errorOf(ask(client))
    await until('it is under way', () => !isReady(client))
    streamOf(client).destroy()
    const error = await asking
    client.release(true)
    return error
  }
  const copy = (client: pg.PoolClient) =>
    new Promise((_, reject) => client.query(copyStreams.from('copy leads (id) from stdin')).on('error', reject))
  const errors = [
    await breakIn((client) => client.query('select pg_sleep(60)')),
    await breakIn((client) => new Promise((_, reject) => client.query('select pg_sleep(60)', reject))),
    await breakIn(copy),
  ]
  pool.once('acquire', (client: pg.PoolClient) => setImmediate(() => streamOf(client).destroy()))
  errors.push(await errorOf(pool.query('select pg_sleep(60)')))
  const client = await pool.connect()
  const gone = new Promise((resolve) => client.once('end', resolve))
  streamOf(client).destroy()
  await gone
  errors.push(await errorOf(client.query('select')), await errorOf(copy(client)))
  client.release(true)
  for (const error of errors) assert.ok(isAbsence(error), `${error}`)
})

test('a statement that is wrong is no trouble with the database, nor is a value that cannot be sent', async (t) => {
  const { pool } = await (await createDatabase(t)).open()
  const circle: object[] = []
  circle.push(circle)
  assert.equal(isDatabaseError(await errorOf(pool.query('select * from nothing'))), false)
  assert.equal(isDatabaseError(await errorOf(pool.query('select $1::jsonb', [{ circle }]))), false)
})

test('a pool without a connection in time is an absence; one that was closed is a fault of the program', async (t) => {
  const opened = await (await createDatabase(t)).open({ connectionsMax: 1 })
  opened.pool.options.connectionTimeoutMillis = 100
  const client = await opened.pool.connect()
  assert.ok(isAbsence(await errorOf(opened.pool.query('select'))))
  client.release()
  await opened.close()
  assert.equal(isDatabaseError(await errorOf(opened.pool.query('select'))), false)
})

test('a client knows its process, whether a statement is under way, and what the server refuses', async (t) => {
  const { pool } = await (await createDatabase(t)).open()
  const client = await pool.connect()
  const told: (string | undefined)[] = []
  onServerError(client, (sqlState) => told.push(sqlState))
  const { rows } = await client.query('select pg_backend_pid() as pid')
  assert.equal(processIdOf(client), rows[0].pid)
  const asking = client.query('select 1 / 0')
  assert.equal(isReady(client), false)
  await errorOf(asking)
  await client.query('select')
  assert.equal(isReady(client), true)
  assert.deepEqual([told, isEncrypted(client)], [['22012'], false])
  assert.ok(streamOf(client) instanceof net.Socket)
  client.release()
})

test('a client connects to the address that it is given when it opens, not to the one that it was made with', async (t) => {
  const { url } = await createDatabase(t)
  const way = new URL((await startWay(url)).url)
  const client = new BoundedClient({ connectionString: url, host: '/nowhere', port: 1 }, 5_000)
  await client.open({ host: way.hostname, port: Number(way.port), ssl: false })
  const { remoteAddress, remotePort } = streamOf(client)
  assert.deepEqual([remoteAddress, remotePort], [way.hostname, Number(way.port)])
  client.leave()
  await once(client, 'end')
})

for (const [how, findUrl, encrypted] of [
  ['through a Unix socket', async (url: string) => url, false],
  ['by TCP', async (url: string) => (await startWay(url)).url, false],
  ['by TLS', async (url: string) => `${await startSecureWay(url, 'localhost.pem')}?sslmode=require`, true],
] as const) {
  test(`a statement is cancelled by the way of its connection: ${how}`, async () => {
    const database = await createDatabase()
    const { pool } = await database.open()
    const opened = await openDatabase({ databaseUrl: await findUrl(database.url), home: '' })
    try {
      const client = await opened.pool.connect()
      assert.equal(isEncrypted(client), encrypted)
      const asking = errorOf(client.query('select pg_sleep(60)'))
      // another file may let its database sleep too
      const look = `
        select from pg_stat_activity where datname = current_database() and query = 'select pg_sleep(60)' and state = 'active'`
      await until('the server is at it', async () => (await pool.query(look)).rowCount === 1)
      cancelStatement(client)
      assert.equal(codeOf(await asking), '57014')
      client.release()
    } finally {
      await opened.close()
    }
  })
}
