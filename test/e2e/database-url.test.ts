/** `DATABASE_URL` as libpq understands it: TLS by `sslmode`, and standbys beside the primary. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { rideOut } from '../../src/db/away.ts'
import { openDatabase } from '../../src/db/open.ts'
import { startPostgres } from '../chaos/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { callProgram, startProgram } from '../support/program.ts'
import { startSecureWay } from '../support/secure-way.ts'
import { startWay } from '../support/way.ts'

const certificate = (file: string) => join(packageRoot, 'test/support/certificates', file)

test('sslmode means what libpq means by it, and what is wrong about a certificate is said', async () => {
  const { url } = await createDatabase()
  const plain = (await startWay(url)).url
  const [good, elsewhere] = [await startSecureWay(url, 'localhost.pem'), await startSecureWay(url, 'elsewhere.pem')]
  const ca = `sslrootcert=${encodeURIComponent(certificate('ca.pem'))}`
  const foreign = `sslrootcert=${encodeURIComponent(certificate('client-ca.pem'))}`
  for (const [address, query, expected, words] of [
    [plain, '', 0, /^$/],
    [plain, 'sslmode=disable', 0, /^$/],
    [plain, 'sslmode=allow', 0, /^$/],
    [plain, 'sslmode=prefer', 0, /^$/],
    [plain, 'sslmode=require', 3, /does not support SSL[\s\S]*Turn ssl on/],
    [good, 'sslmode=prefer', 0, /^$/],
    [good, 'sslmode=require', 0, /^$/],
    [elsewhere, `sslmode=require&${ca}`, 0, /^$/],
    [good, `sslmode=require&${foreign}`, 3, /certificate[\s\S]*sslrootcert/],
    [elsewhere, `sslmode=verify-ca&${ca}`, 0, /^$/],
    [good, `sslmode=verify-full&${ca}`, 0, /^$/],
    [good, 'sslmode=verify-full', 3, /certificate[\s\S]*NODE_EXTRA_CA_CERTS/],
    [elsewhere, `sslmode=verify-full&${ca}`, 3, /altnames[\s\S]*a host name that the certificate has/],
    [
      good,
      'sslmode=verify-full&sslrootcert=%2Fnowhere%2Fca.pem',
      2,
      /DATABASE_URL: its sslrootcert cannot be read: .*\/nowhere\/ca\.pem/,
    ],
    [good, 'sslmode=no-verify', 2, /allowed: a URL whose parameter sslmode leadpush honours/],
  ] as const) {
    const { code, stderr } = await callProgram(['users', 'list'], { env: { DATABASE_URL: `${address}?${query}` } })
    assert.equal(code, expected, `${query}: ${stderr}`)
    assert.match(stderr, words, query)
  }
  // neither is an absence, which a push would wait out
  const env = { DATABASE_URL: `${elsewhere}?sslmode=verify-full&${ca}`, LEADPUSH_DATABASE_AWAY: '1h' }
  const { code, stderr } = await callProgram(['trigger'], { env })
  assert.equal(code, 3)
  assert.match(stderr, /^error: /)
})

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
  assert.match(checked.stdout, /Writing {2}problem {2}The server is a standby/)
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
  await rideOut(() => opened.pool.query('create table after_promotion ()'))
  assert.notEqual(await find(), first)
})
