/** A primary whose commits wait for a synchronous standby that is not there. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { streamOf } from '../../src/db/client.ts'
import { openDatabase } from '../../src/db/open.ts'
import { type Connection, withTransaction } from '../../src/db/transaction.ts'
import { type BreakablePostgres, startPostgres } from '../chaos/postgres.ts'
import { buildLongPush, longPushUsers, timesMax } from '../support/long-push.ts'
import { callProgram, runProgram } from '../support/program.ts'
import { until } from '../support/until.ts'

let postgres: BreakablePostgres
let operator: Awaited<ReturnType<typeof openDatabase>>

before(async () => {
  postgres = await startPostgres('wal_level = replica\nmax_wal_senders = 4')
  operator = await openDatabase({ databaseUrl: postgres.url('postgres'), home: '' }, { schema: 'any' })
})
after(async () => {
  await operator.close()
  await postgres.leave()
})

const find = async (query: string) => (await operator.pool.query(query)).rows

/** From now on commits wait; resolves once one does, with what ends that. */
async function waitForStandby(name: string): Promise<() => Promise<void>> {
  await find(`alter system set synchronous_standby_names = '${name}'`)
  await find('select pg_reload_conf()')
  const commit = () => find('create table if not exists waits (); drop table waits')
  let waiting: Promise<unknown> = Promise.resolve()
  await until('a commit waits', async () => {
    if ((await find("select from pg_stat_activity where wait_event = 'SyncRep'")).length > 0) return true
    waiting = Promise.race([waiting.then(commit), new Promise((resolve) => setTimeout(resolve, 100))])
    return false
  })
  return async () => {
    await find("alter system set synchronous_standby_names = ''")
    await find('select pg_reload_conf()')
    await waiting
  }
}

// The import counted as failed, and its listings were there a moment later.
test('a commit whose connection breaks while it waits for a standby is a commit once the standby has it', async () => {
  const own = await openDatabase({ databaseUrl: postgres.url('postgres'), home: '' }, { schema: 'any' })
  const told: string[] = []
  const query = own.pool.query.bind(own.pool) as (...given: unknown[]) => Promise<{ rows: { status: string }[] }>
  own.pool.query = (async (...given: unknown[]) => {
    const result = await query(...given)
    if (/pg_xact_status/.test(String(given[0]))) told.push(result.rows[0]?.status ?? '')
    return result
  }) as never
  const confirm = await waitForStandby('b')
  try {
    let connection: Connection | undefined
    const committing = withTransaction(own, async (one) => {
      connection = one
      await one.query('create table kept_late ()')
    })
    committing.catch(() => {})
    await until(
      'it waits',
      async () =>
        (await find("select from pg_stat_activity where wait_event = 'SyncRep' and query = 'commit'")).length > 0,
    )
    streamOf(connection as Connection).destroy()
    await until('the server is asked what became of it', () => told.length > 0)
    await confirm()
    await committing
    assert.deepEqual([told[0], told.at(-1)], ['in progress', 'committed'])
    assert.equal((await find("select from pg_class where relname = 'kept_late'")).length, 1)
  } finally {
    await confirm()
    await own.close()
  }
})

// A push said five times that it looks for what is to be sent, and then that PostgreSQL may not run.
test('a push whose commits wait for a standby that is away says so, goes on when it is back, and else ends with 3', async () => {
  const patient = await buildLongPush(postgres.url('postgres'), () => 200)
  const brief = await buildLongPush(postgres.url('leadpush'), () => 200)
  const confirm = await waitForStandby('b')
  const waits =
    "its commits wait for a synchronous standby, and no standby is attached \\(synchronous_standby_names is 'b'\\)"
  // it goes on for some seconds: one that ends at once says nothing of that
  const pushing = patient.push(['--all'], { LEADPUSH_RATE: '20' })
  const env = { DATABASE_URL: postgres.url('leadpush') }
  const [ended, unsubscribed] = await Promise.all([
    brief.push(['--all'], { LEADPUSH_DATABASE_AWAY: '1s' }).done,
    runProgram(['users', 'unsubscribe', 'user-1@example.com'], { env: { ...env, LEADPUSH_DATABASE_AWAY: '1s' } }),
    pushing.waitFor(
      new RegExp(`^warning: The database confirms nothing: ${waits}\\. Waiting for it, for 2 minutes at most\\.$`, 'm'),
    ),
  ])
  for (const { code, stderr } of [ended, unsubscribed]) {
    assert.equal(code, 3, stderr)
    assert.match(stderr, /^warning: The database confirms nothing: .* for 1 s at most\.$/m)
    assert.match(stderr, new RegExp(`^error: The database cannot be used: ${waits}\n +Bring the standby back`, 'm'))
  }
  const { stdout } = await callProgram(['validate', '--quick', '--json'], { env })
  assert.match(stdout, /"code":"standbys".*no such standby is attached/)
  assert.equal(patient.receiver.requests.length + brief.receiver.requests.length, 0)
  await confirm()
  const { code, stderr } = await pushing.done
  assert.equal(code, 0, stderr)
  assert.match(stderr, /The database confirms commits again: going on\./)
  assert.equal(patient.receiver.keys().size, longPushUsers)
  assert.equal(timesMax(patient.receiver), 1)
  assert.equal((await brief.push(['--all']).done).code, 0)
  assert.equal(brief.receiver.keys().size, longPushUsers - 1)
})

// The server was asked to cancel the commit. It then shows to everybody, as committed, what no standby has.
test('a commit that waits for a standby is not cancelled when it is silent for too long', async () => {
  // half of it is the time that the server has to say that it is at work
  const open = (name: string) =>
    openDatabase({ databaseUrl: postgres.url(name), home: '' }, { schema: 'any', silentMsMax: 4_000 })
  const [waits, sleeps] = [await open('postgres'), await open('leadpush')]
  await find('create table kept ()')
  const confirm = await waitForStandby('b')
  const inserting = waits.pool.query('insert into kept default values')
  // silent for as long, in another database
  await assert.rejects(sleeps.pool.query('select pg_sleep(60)'), /it did not answer for 4 s/)
  assert.equal((await find('select from kept')).length, 0)
  await confirm()
  await inserting
  assert.equal((await find('select from kept')).length, 1)
  await Promise.all([waits.close(), sleeps.close()])
})
