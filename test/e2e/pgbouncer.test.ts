/** The main job through a PgBouncer in transaction mode (contract 2), where the system has one. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, deliveriesOf, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { findInstalled, lacking } from '../support/installed.ts'
import { runProgram } from '../support/program.ts'
import { until } from '../support/until.ts'
import { startWay } from '../support/way.ts'

const program = findInstalled('pgbouncer')
const nobody = 65_534

/** `url` through a PgBouncer that has fewer connections than a command opens. */
async function startBouncer(url: string): Promise<string> {
  const target = new URL((await startWay(url)).url)
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-test-'))
  // its socket is there, for which no port has to be free
  chmodSync(folder, 0o777)
  const lines = [
    '[databases]',
    `* = host=${decodeURIComponent(target.hostname)} port=${target.port} user=${target.username}`,
    '[pgbouncer]',
    'listen_addr =',
    'listen_port = 5432',
    `unix_socket_dir = ${folder}`,
    'auth_type = any',
    'pool_mode = transaction',
    'default_pool_size = 3',
  ]
  writeFileSync(join(folder, 'pgbouncer.ini'), lines.map((line) => `${line}\n`).join(''))
  const identity = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {}
  const child = spawn(program ?? '', [join(folder, 'pgbouncer.ini')], { ...identity, stdio: 'ignore' })
  after(async () => {
    child.kill()
    rmSync(folder, { recursive: true, force: true })
  })
  await until('it listens', () => {
    assert.equal(child.exitCode, null, 'PgBouncer has ended')
    return existsSync(join(folder, '.s.PGSQL.5432'))
  })
  return `postgresql://${target.username}@${encodeURIComponent(folder)}${target.pathname}`
}

test('everything goes through a PgBouncer in transaction mode', {
  skip: lacking('pgbouncer'),
}, async () => {
  const database = await createDatabase(undefined, { empty: true })
  const url = await startBouncer(database.url)
  const migrated = await Promise.all(
    [1, 2, 3].map(() => runProgram(['migrate', '--json'], { env: { DATABASE_URL: url } })),
  )
  assert.deepEqual(
    migrated.map(({ code, stderr }) => (code === 0 ? 0 : stderr)),
    [0, 0, 0],
  )
  assert.equal(migrated.filter(({ json }) => json[0].applied.length > 0).length, 1)

  const house = await buildHouse({
    database: { ...database, url },
    leads: Array.from({ length: 2_000 }, (_, at) => ({
      href: hrefOf(at),
      postalCode: '78704',
      city: 'Austin',
      state: 'TX',
    })),
    users: [
      ...makeUsers(40),
      { email: 'text@example.com', receiverApiKey: 'k', queries: [{ type: 'text', value: 'austin' }] },
    ],
    answer: (_, nth) => (nth % 7 === 0 ? 500 : 200),
  })
  const again = await house.call(
    `leads import ${writeInput('again.ndjson', toLines([{ href: hrefOf(1), price: 5 }]))} --json`,
  )
  assert.deepEqual([again.code, again.json[0].updated], [0, 1])
  assert.equal((await house.call('preview --json')).json.at(-1).deliveries, 41)
  const ends = await Promise.all([1, 2, 3].map(() => house.run('push --all --json')))
  for (const { code, stderr } of ends) {
    assert.notEqual(code, null, stderr)
    assert.doesNotMatch(stderr, /error|away/)
  }
  assert.equal(house.receiver.keys().size, 41)
  assert.equal(new Set(ends.flatMap(({ json }) => deliveriesOf(json)).map(({ user }) => user)).size, 41)
  const direct = await database.open()
  const platform = await startHookReceiver()
  after(() => platform.close())
  await addHook(direct, 'user-3@example.com', platform.url('/'))
  await house.put('leads', [{ href: hrefOf('new'), postalCode: '78704' }])
  const triggered = await house.call('trigger --json', { env: { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' } })
  assert.deepEqual(
    [triggered.code, triggered.json.at(-1).delivered, platform.calls.length],
    [0, 1, 1],
    triggered.stderr,
  )
  await direct.pool.query('delete from hooks')
  const env = { LEADPUSH_RECEIVER_URL: undefined }
  const checked = (await house.run('validate --json', { env })).json
  assert.deepEqual(
    checked.filter(({ type }) => type === 'problem').map(({ path }) => path),
    ['LEADPUSH_RECEIVER_URL'],
  )
  for (const command of [
    'users subscribe user-0@example.com',
    'users unsubscribe user-1@example.com',
    'users remove user-2@example.com',
    'push --resume',
    'push --all --force --limit 3',
    'status --json',
    'validate',
  ]) {
    const { code, stderr } = await house.call(command)
    assert.ok(code === 0 || (code === 1 && stderr === ''), `${command}: ${code} ${stderr}`)
  }
})
