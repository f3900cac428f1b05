/** A standby, by itself and beside its primary (contract 2, `DATABASE_URL`). */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openDatabase } from '../../src/db/open.ts'
import { startPostgres } from '../chaos/postgres.ts'
import { callProgram, startProgram } from '../support/program.ts'

const replicable = 'wal_level = replica\nmax_wal_senders = 2'

test('a standby is told by commands that write, by validate and by /readyz; beside a primary it is passed over', async () => {
  const [standby, primary] = await Promise.all([startPostgres(replicable), startPostgres(replicable)])
  after(() => Promise.all([standby.leave(), primary.leave()]))
  for (const server of [standby, primary]) {
    const env = { DATABASE_URL: server.url('leadpush') }
    assert.equal((await callProgram(['migrate'], { env })).code, 0)
  }
  await standby.demote()
  const env = {
    DATABASE_URL: standby.url('leadpush'),
    LEADPUSH_DATABASE_AWAY: '1s',
    LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1/',
  }
  for (const args of [['push', '--all'], ['migrate'], ['trigger']]) {
    const { code, stderr } = await callProgram(args, { env })
    assert.equal(code, 3, stderr)
    assert.match(stderr, /^warning: The database at .* is away \(it is a standby, and read-only\): waiting/)
  }
  const checked = await callProgram(['validate'], { env })
  assert.equal(checked.code, 1, checked.stderr)
  assert.match(checked.stdout, /writing {2}problem {2}The server is a standby/)
  const serve = startProgram(['serve', '--port', '0'], { env })
  const [, served] = await serve.waitFor(/listening on (\S+)/)
  assert.equal((await fetch(new URL('/readyz', served))).status, 503)
  assert.match(await (await fetch(new URL('/metrics', served))).text(), /^leadpush_database_up 0$/m)
  serve.kill()
  await serve.done

  const hosts = [standby, primary].map((server) => new URL(server.url('leadpush')))
  const port = hosts.map((url) => url.port).join(',')
  const host = hosts.map((url) => decodeURIComponent(url.hostname)).join(',')
  const both = `postgresql://${hosts[0]?.username}@/leadpush?host=${encodeURIComponent(host)}&port=${port}`
  const opened = await openDatabase({ databaseUrl: both, home: '' }, { writes: true, awayMsMax: 30_000 })
  after(() => opened.close())
  const find = async () => (await opened.pool.query('show data_directory')).rows[0].data_directory
  const first = await find()
  // the primary becomes a standby, and the standby the primary
  await primary.demote()
  const maintenance = await openDatabase({ databaseUrl: standby.url('leadpush'), home: '' })
  await maintenance.pool.query('select pg_promote()')
  await maintenance.close()
  // a connection of the last moments may lead to the former primary: the first write leaves it
  await opened.patience.rideOut(() => opened.pool.query('create table after_promotion ()'))
  assert.notEqual(await find(), first)
})
