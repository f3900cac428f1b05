import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type RawBuilder, sql } from 'kysely'
import { timeFormat } from '../../src/base/amounts.ts'
import { readSettings } from '../../src/base/config.ts'
import type { Database } from '../../src/db/open.ts'
import { findInterruptedRuns } from '../../src/deliveries/runs.ts'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findConcerns } from '../../src/inspect/status/concerns.ts'
import { countOwedForLong } from '../../src/inspect/status/missed.ts'
import { findStuck } from '../../src/inspect/status/not-delivered.ts'
import { findLastRuns, findStatus } from '../../src/inspect/status/status.ts'
import { findUserDeliveries } from '../../src/inspect/status/user-deliveries.ts'
import { findWithoutLeads } from '../../src/inspect/status/without-leads.ts'
import { toDeliveryLine } from '../../src/push/reporter.ts'
import { createDatabase } from '../support/database.ts'
import { owe } from '../support/owed.ts'
import { callProgram } from '../support/program.ts'
import { defaults as settings } from '../support/push-settings.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

async function open(t: TestContext) {
  const database = await createDatabase(t)
  const { db } = await database.open()
  const { period } = await findStatus(db, settings)
  return { db, url: database.url, period }
}

/** What a monitor is called for, in the words of the check. */
async function alarmsOf(db: Database): Promise<string[]> {
  return (await findAlarms(db, await findStatus(db, settings), settings)).map(sentenceOf)
}

async function idOf(db: Database, email: string): Promise<number> {
  return (await db.selectFrom('users').select('id').where('email', '=', email).executeTakeFirstOrThrow()).id
}

interface Written {
  key?: string
  period: string
  status: 'pending' | 'delivered' | 'failed' | 'unknown'
  kind?: 'weekly' | 'forced' | 'single' | 'subscription'
  secondsAgo?: number
  workerId?: number | null
  part?: number
  parts?: number
}

let written = 0

/** A delivery as the ledger has it after one attempt. */
async function writeDelivery(db: Database, userId: number, delivery: Written): Promise<string> {
  const { period, status, kind = 'weekly', secondsAgo = 0, workerId = null, part = 1, parts = 1 } = delivery
  const key = delivery.key ?? `key-${++written}`
  const error = status === 'failed' || status === 'unknown' ? 'HTTP 500: the receiver is in trouble' : null
  await sql`
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      created_at, status, attempts, under_way, worker_id, first_at, first_ms, first_status, first_error)
    values (${key}, 1, ${userId}, ${period}, ${kind}, ${part}, ${parts}, 1, 2, 300, '', '', now() - ${secondsAgo} * interval '1 second',
      ${status}, 1, false, ${workerId}, now() - ${secondsAgo} * interval '1 second', 12, ${error ? 500 : 200}, ${error})
  `.execute(db)
  return key
}

async function writeWorker(db: Database, leaseSeconds: number): Promise<number> {
  const { rows } = await sql<{ id: number }>`
    insert into workers (host, process_id, lease_until) values ('host', 1, now() + ${leaseSeconds} * interval '1 second') returning id
  `.execute(db)
  return rows[0]?.id ?? 0
}

interface WrittenRun {
  command?: 'all' | 'force' | 'resume' | 'failed' | 'user'
  outcome?: 'running' | 'complete' | 'failures' | 'stopped' | 'interrupted'
  cameToEnd?: boolean
  workerId?: number
  resumable?: boolean
  ended?: RawBuilder<Date | null>
}

async function writeRun(db: Database, period: string, run: WrittenRun = {}): Promise<void> {
  const {
    command = 'all',
    outcome = 'complete',
    cameToEnd = true,
    workerId = 0,
    resumable = true,
    ended = sql`now()`,
  } = run
  await sql`
    insert into runs (command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome, came_to_end)
    values (${command}, ${period}, 'UTC', ${workerId}, ${resumable}, coalesce(${ended}, now()) - interval '1 second', ${ended}, ${outcome}, ${cameToEnd})
  `.execute(db)
}

const claim = (db: Database, period: string, email: string) =>
  db
    .insertInto('claims')
    .values({ scope: `weekly:${period}`, email })
    .execute()

test('an empty database is nothing to worry about, and has every field of the contract', async (t) => {
  const { url, period } = await open(t)
  const env = { DATABASE_URL: url }
  const { code, json, stdout } = await callProgram(['status', '--json', '--check'], { env })
  assert.equal(code, 0)
  const expected = {
    type: 'status', period, subscribed: 0, delivered: 0, failed: 0, unknown: 0, owed: 0, lastRun: null, hooksInTrouble: 0,
  } // biome-ignore format: as the contract has it
  assert.deepEqual(json, [{ ...expected, pending: 0, stuck: 0, doubtful: 0, findings: [], advice: [] }])
  assert.equal(stdout.trim().split('\n').length, 1)
  const text = await callProgram(['status'], { env })
  assert.equal(text.code, 0)
  assert.match(text.stdout, /Nobody is subscribed yet/)
})

test('deliveries are counted by how they ended, in the current period alone', async (t) => {
  const { db, period } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }])
  const user = await idOf(db, 'a@example.com')
  for (const status of ['delivered', 'delivered', 'delivered', 'failed', 'failed', 'unknown'] as const) {
    await writeDelivery(db, user, { period, status })
  }
  for (const status of ['delivered', 'failed', 'unknown'] as const) {
    await writeDelivery(db, user, { period: '2020-W01', status })
  }
  await writeDelivery(db, user, { period: '2020-W01', status: 'pending' })
  const { delivered, failed, unknown, pending } = await findStatus(db, settings)
  assert.deepEqual({ delivered, failed, unknown, pending }, { delivered: 3, failed: 2, unknown: 1, pending: 1 })
})

test('owed counts each user once, however many deliveries they are owed', async (t) => {
  const { db, period } = await open(t)
  const owes = async () => (await findStatus(db, settings)).owed
  await seedUsers(db, [
    { email: 'served@example.com' },
    { email: 'owed@example.com' },
    { email: 'no-queries@example.com', queries: [] },
    { email: 'unsubscribed@example.com', subscribed: false },
  ])
  await claim(db, period, 'served@example.com')
  await claim(db, '2020-W01', 'owed@example.com')
  assert.equal(await owes(), 1)
  assert.equal((await findStatus(db, settings)).subscribed, 3)

  const served = await idOf(db, 'served@example.com')
  const owed = await idOf(db, 'owed@example.com')
  await writeDelivery(db, served, { period, status: 'pending' })
  await writeDelivery(db, served, { period, status: 'pending', part: 2, parts: 2 })
  await writeDelivery(db, owed, { period, status: 'pending' })
  assert.equal(await owes(), 2)
  await db.updateTable('deliveries').set({ status: 'delivered' }).execute()
  assert.equal(await owes(), 1)

  const oweTo = (email: string) => sql.raw(owe(`email = '${email}'`)).execute(db)
  await oweTo('owed@example.com')
  assert.equal(await owes(), 1)
  await oweTo('served@example.com')
  assert.equal(await owes(), 2)
  await oweTo('no-queries@example.com')
  assert.equal(await owes(), 2)
})

// They were owed by the alarm for users who were left, and by --resume, but not by `owed`.
test('owed counts the users whom a stopped --force left, each once', async (t) => {
  const { db, period } = await open(t)
  const owes = async () => (await findStatus(db, settings)).owed
  const names = ['a', 'b', 'c'].map((name) => `${name}@example.com`)
  await seedUsers(
    db,
    names.map((email) => ({ email })),
  )
  for (const email of names) await claim(db, period, email)
  await sql`update claims set claimed_at = now() - interval '1 hour'`.execute(db)
  assert.equal(await owes(), 0)
  for (let times = 1; times <= 2; times++) {
    await writeRun(db, period, { command: 'force', outcome: 'stopped', cameToEnd: false })
    await sql`insert into forced_scopes select period, id from runs on conflict do nothing`.execute(db)
    assert.equal(await owes(), 3)
  }
  await writeDelivery(db, await idOf(db, 'a@example.com'), { period, status: 'pending' })
  assert.equal(await owes(), 3)
  await sql`insert into claims (scope, email) select 'forced:' || run_id, unnest(${names.slice(1)}::text[]) from forced_scopes`.execute(
    db,
  )
  assert.equal(await owes(), 1)
})

test('a run whose process holds its lease is running; when the lease is over it was interrupted', async (t) => {
  const { db, period, url } = await open(t)
  const live = await writeWorker(db, 30)
  await writeRun(db, period, { outcome: 'running', workerId: live, ended: sql`null`, cameToEnd: false })
  assert.equal((await findLastRuns(db))[0]?.outcome, 'running')
  await sql`update workers set lease_until = now() - interval '1 second'`.execute(db)
  const { json } = await callProgram(['status', '--json'], { env: { DATABASE_URL: url } })
  assert.equal(json[0].lastRun.outcome, 'interrupted')
  assert.equal(json[0].lastRun.endedAt, null)
  assert.match(json[0].lastRun.startedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  await db.deleteFrom('workers').execute()
  assert.equal((await findLastRuns(db))[0]?.outcome, 'interrupted')
})

test('the last run is the one that began last, and keeps the outcome that was recorded', async (t) => {
  const { db, period } = await open(t)
  for (const outcome of ['complete', 'failures', 'interrupted', 'stopped'] as const) {
    await writeRun(db, period, { outcome })
    assert.equal((await findStatus(db, settings)).lastRun?.outcome, outcome)
  }
  await writeRun(db, period, { outcome: 'complete', ended: sql`now() - interval '1 hour'` })
  assert.equal((await findStatus(db, settings)).lastRun?.outcome, 'stopped')
  assert.equal((await findLastRuns(db, 2)).length, 2)
})

test('a pending delivery is stuck when no living process has it', async (t) => {
  const { db, period } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com', subscribed: false }])
  const user = await idOf(db, 'a@example.com')
  const live = await writeWorker(db, 30)
  await writeDelivery(db, user, { period: '2020-W01', status: 'pending', workerId: live })
  const check = async () => {
    const status = await findStatus(db, settings)
    return { pending: status.pending, stuck: status.stuck, alarms: (await alarmsOf(db)).length }
  }
  assert.deepEqual(await check(), { pending: 1, stuck: 0, alarms: 0 })
  await sql`update workers set lease_until = now() - interval '1 second'`.execute(db)
  assert.deepEqual(await check(), { pending: 1, stuck: 1, alarms: 1 })
  await writeDelivery(db, user, { period, status: 'pending', workerId: null })
  assert.deepEqual(await check(), { pending: 2, stuck: 2, alarms: 1 })
  const groups = await findStuck(db, 'on')
  assert.deepEqual(
    groups.map(({ deliveries, users }) => [deliveries, users]),
    [[2, ['a@example.com']]],
  )
  await db.updateTable('deliveries').set({ status: 'unknown' }).execute()
  assert.deepEqual(await check(), { pending: 0, stuck: 0, alarms: 0 })
})

test('a part that failed is not made good by another part of the same push', async (t) => {
  const { db, period } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }])
  const user = await idOf(db, 'a@example.com')
  await db.transaction().execute(async (tx) => {
    await writeDelivery(tx, user, { period, status: 'failed', part: 1, parts: 2 })
    await writeDelivery(tx, user, { period, status: 'delivered', part: 2, parts: 2 })
  })
  assert.equal((await findStatus(db, settings)).failedWithoutLater, 1)
})

test('with subscribed users a monitor alarms 8 days after the last push --all that finished', async (t) => {
  const { db, period } = await open(t)
  const isAlarmed = async () => (await alarmsOf(db)).some((alarm) => alarm.includes('No whole `push --all`'))
  assert.equal(await isAlarmed(), false)
  await seedUsers(db, [{ email: 'a@example.com' }])
  assert.equal(await isAlarmed(), true)
  await writeRun(db, period, { command: 'resume' })
  await writeRun(db, period, { command: 'failed' })
  await writeRun(db, period, { command: 'user' })
  await writeRun(db, period, { command: 'all', outcome: 'stopped', cameToEnd: false })
  assert.equal(await isAlarmed(), true)
  await writeRun(db, period, { ended: sql`now() - interval '8 days' - interval '1 second'` })
  assert.equal(await isAlarmed(), true)
  await writeRun(db, period, { ended: sql`now() - interval '8 days' + interval '20 seconds'` })
  assert.equal(await isAlarmed(), false)
  await db.deleteFrom('runs').execute()
  // a run that served the first ten users alone was taken for the weekly one
  await writeRun(db, period, { resumable: false })
  assert.equal(await isAlarmed(), true)
  await writeRun(db, period, { command: 'force', outcome: 'failures' })
  assert.equal(await isAlarmed(), false)
})

test('whether half of the users have no lead is asked of all of them, and of a part where they are many', async (t) => {
  const database = await createDatabase(t)
  const opened = await database.open()
  await seedLeads(opened, [{ href: 'https://listings.example/1' }])
  const queries = ['78704', '10001'].map((place) => [{ value: place, places: [place] }])
  await seedUsers(
    opened.db,
    queries.map((each, at) => ({ email: `${at}@example.com`, queries: each })),
  )
  const add = (like: string, count: number) =>
    sql`
    with made as (
      insert into users (email, receiver_key, subscribed)
      select ${like} || '-' || gen_random_uuid() || '@example.net', 'key', true from generate_series(1, ${count}::integer) n returning id
    )
    insert into queries select m.id, q.position, q.type, q.value, q.radius, q.hash, q.json, q.search_id
    from made m, queries q join users u on u.id = q.user_id where u.email = ${`${like}@example.com`}`.execute(opened.db)
  const look = async () => findWithoutLeads(opened.db, (await findStatus(opened.db, settings)).seenSince)
  await add('0', 599)
  await add('1', 598)
  assert.deepEqual(await look(), { users: 1_199, without: 599, isPart: false })
  assert.doesNotMatch((await alarmsOf(opened.db)).join(), /no lead to send/)
  await add('1', 1)
  assert.match((await alarmsOf(opened.db)).join(), /600 of 1,200 subscribed users with queries have no lead to send/)
  await add('1', 4_000)
  const { users, without, isPart } = await look()
  assert.ok(isPart && users === 2_000 && without / users > 0.8, `${without} of ${users}`)
  assert.match((await alarmsOf(opened.db)).join(), /About 8\d % of the subscribed users have no lead to send/)
})

// A monitor was told that all was well for as long as the clock had once been ahead.
test('runs in the future, where a clock was ahead, count for nothing', async (t) => {
  const { db, period } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }])
  await writeRun(db, period, { ended: sql`now() + interval '10 days'` })
  await sql`update runs set held = 'held: 1', held_by = 'week', held_users = 3, listings = 1, came_to_end = outcome = 'complete'`.execute(
    db,
  )
  const status = await findStatus(db, settings)
  const ranLately = async () => (await findConcerns(db, status, settings)).weekly.lately
  assert.deepEqual([status.lastRun, status.held, await ranLately()], [undefined, undefined, false])
  await writeRun(db, period, { ended: sql`now() + interval '10 days'`, outcome: 'stopped', cameToEnd: false })
  assert.deepEqual(await findInterruptedRuns(db, period), [])
  // it began before the clock was wrong
  await sql`update runs set started_at = now() - interval '1 minute'`.execute(db)
  assert.equal(await ranLately(), false)
  assert.equal((await findInterruptedRuns(db, period)).length, 2)
})

test('a process that died while a clock was ahead has left its users as any other', async (t) => {
  const { db, period } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }])
  await sql`update users set due_since = now() - interval '9 days'`.execute(db)
  await sql`
    insert into workers (host, process_id, lease_until, renewed_at) values ('host', 1, now() + interval '11 days', now() + interval '10 days')
  `.execute(db)
  const { id: workerId } = await db.selectFrom('workers').select('id').executeTakeFirstOrThrow()
  await writeRun(db, period, { outcome: 'running', workerId, ended: sql`null`, cameToEnd: false })
  assert.deepEqual(await countOwedForLong(db, period, true), { weekly: 1, others: 0 })
})

test('deliveries that did not arrive are shown by cause; those that a later one made good are only counted', async (t) => {
  const { db, period, url } = await open(t)
  const names = ['a', 'b', 'c', 'd'].map((name) => `${name}@example.com`)
  await seedUsers(
    db,
    names.map((email) => ({ email })),
  )
  const show = async () => (await callProgram(['status'], { env: { DATABASE_URL: url } })).stdout
  for (const email of names.slice(1)) await writeDelivery(db, await idOf(db, email), { period, status: 'failed' })
  for (let n = 0; n < 20; n++) await writeDelivery(db, await idOf(db, 'a@example.com'), { period, status: 'unknown' })
  const shown = await show()
  assert.match(
    shown,
    /^23 {2}HTTP 500: the receiver is in trouble\n {4}a@example\.com, b@example\.com, c@example\.com, …\n {4}The receiver's log/m,
  )
  assert.doesNotMatch(shown, /a later one/)
  await writeDelivery(db, await idOf(db, 'a@example.com'), { period, status: 'delivered', secondsAgo: -1 })
  const later = await show()
  assert.match(later, /^3 {2}HTTP 500: [^\n]*\n {3}b@example\.com, c@example\.com, d@example\.com\n/m)
  assert.match(
    later,
    /^20 deliveries that failed or may not have arrived: a later one was delivered, or is to come\.$/m,
  )
  // a later one that is to come made `push --failed` pass a user by whom this list and the report still named
  const worker = await writeWorker(db, 60)
  await writeDelivery(db, await idOf(db, 'b@example.com'), {
    period,
    status: 'pending',
    secondsAgo: -1,
    workerId: worker,
  })
  assert.match(await show(), /^2 {2}HTTP 500: [^\n]*\n {3}c@example\.com, d@example\.com\n/m)
})

test('if everybody’s key is refused, the advice is not about single keys', async (t) => {
  const { db, period, url } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }, { email: 'b@example.com' }])
  const show = async () => (await callProgram(['status'], { env: { DATABASE_URL: url } })).stdout
  for (const email of ['a@example.com', 'b@example.com']) {
    await writeDelivery(db, await idOf(db, email), { period, status: 'failed' })
  }
  await sql`update deliveries set first_error = 'HTTP 401: the receiver does not take the user''s receiver key',
    second_error = null, first_status = 401`.execute(db)
  assert.match(await show(), /It takes no key at all/)
  await writeDelivery(db, await idOf(db, 'a@example.com'), { period, status: 'delivered', secondsAgo: 60 })
  assert.match(await show(), /Bring the keys of these users up to date/)
})

test('the deliveries of a user come newest first with their attempts, however many there are', async (t) => {
  const { db, period } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }, { email: 'b@example.com' }])
  const [a, b] = [await idOf(db, 'a@example.com'), await idOf(db, 'b@example.com')]
  await writeDelivery(db, b, { period, status: 'delivered' })
  // a Date knows milliseconds only: between pages nothing may be lost or told twice
  await sql`
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      created_at, status, attempts, under_way)
    select 'k' || n, 1, ${a}, ${period}, 'single', 1 + n % 2, 2, 1, 0, 10, '', '',
      timestamptz '2026-01-01 00:00:00Z' + (n / 2) * interval '1 microsecond', 'delivered', 0, false
    from generate_series(0, 404) n
  `.execute(db)
  const keys: string[] = []
  for await (const { idempotencyKey, email, attemptLog } of findUserDeliveries(db, a)) {
    assert.equal(email, 'a@example.com')
    assert.deepEqual(attemptLog, [])
    keys.push(idempotencyKey)
  }
  const pairs = Array.from({ length: 202 }, (_, n) => 201 - n).flatMap((n) => [`k${2 * n}`, `k${2 * n + 1}`])
  assert.deepEqual(keys, ['k404', ...pairs])
})

test('status --user --json shows deliveries as push does, with a log of the attempts', async (t) => {
  const { db, period, url } = await open(t)
  await seedUsers(db, [{ email: 'a@example.com' }])
  const user = await idOf(db, 'a@example.com')
  await writeDelivery(db, user, { key: 'old', period, status: 'delivered', secondsAgo: 100 })
  const key = await writeDelivery(db, user, { period, status: 'failed' })
  await sql`
    update deliveries set attempts = 2, first_at = '2026-01-01T00:00:00.25Z', second_at = '2026-01-01T00:00:05Z', second_ms = null,
      second_status = null, second_error = 'nobody recorded what came of the attempt', status = 'unknown', second_maybe_arrived = true
    where idempotency_key = ${key}
  `.execute(db)
  const { code, json } = await callProgram(['status', '--user', 'A@Example.com', '--json'], {
    env: { DATABASE_URL: url },
  })
  assert.equal(code, 0)
  assert.deepEqual(
    json.map(({ idempotencyKey }) => idempotencyKey),
    [key, 'old'],
  )
  const { attemptLog, createdAt: _, ...line } = json[0]
  assert.deepEqual(attemptLog, [
    {
      at: '2026-01-01T00:00:00.250Z',
      durationMs: 12,
      httpStatus: 500,
      error: 'HTTP 500: the receiver is in trouble',
      answer: null,
    },
    {
      at: '2026-01-01T00:00:05.000Z',
      durationMs: null,
      httpStatus: null,
      error: 'nobody recorded what came of the attempt',
      answer: null,
    },
  ])
  const { rows } = await sql<{ n: number }>`select count(*) as n from deliveries where user_id = ${user}`.execute(db)
  assert.equal(rows[0]?.n, 2)
  const told = {
    runId: 1, idempotencyKey: key, userId: user, email: 'a@example.com', kind: 'weekly', period, part: 1, parts: 1, queries: 1, leads: 2,
    bytes: 300, status: 'unknown', attempts: 2, httpStatus: line.httpStatus, error: 'nobody recorded what came of the attempt',
  } as const // biome-ignore format: a list
  const push = toDeliveryLine(told, told)
  assert.deepEqual(line, push)
  assert.deepEqual(Object.keys(json[0]).slice(0, 14), Object.keys(push))
  const text = await callProgram(['status', '--user', 'a@example.com'], { env: { DATABASE_URL: url } })
  assert.match(text.stdout, /nobody recorded/)
  assert.match(text.stdout, /12 ms/)
})

test('a user that does not exist, and a check of one user, are wrong usage', async (t) => {
  const { url } = await open(t)
  const env = { DATABASE_URL: url }
  const nobody = await callProgram(['status', '--user', 'nobody@example.com', '--json'], { env })
  assert.deepEqual([nobody.code, nobody.stdout], [2, ''])
  assert.match(nobody.stderr, /nobody@example\.com/)
  assert.equal((await callProgram(['status', '--user', 'a@example.com', '--check'], { env })).code, 2)
})

test('the period is that of LEADPUSH_TIME_ZONE', async (t) => {
  const { db, url } = await open(t)
  for (const timeZone of ['Pacific/Kiritimati', 'Pacific/Pago_Pago']) {
    const { rows } = await sql<{ period: string }>`
      select to_char(now() at time zone ${timeZone}, 'IYYY-"W"IW') as period
    `.execute(db)
    const env = { DATABASE_URL: url, LEADPUSH_TIME_ZONE: timeZone }
    const { json } = await callProgram(['status', '--json'], { env })
    assert.equal(json[0].period, rows[0]?.period)
  }
})

test('a short name of a time zone means the same clock to PostgreSQL and to readers of times, in summer too', async (t) => {
  // CET, EET, MET and WET had no summer time in PostgreSQL, so the week turned an hour late
  const { db } = await open(t)
  const zoneOf = (name: string) =>
    readSettings(['timeZone'], { env: { LEADPUSH_TIME_ZONE: name }, cwd: '/nowhere' }).timeZone
  const linked = { CET: 'Europe/Brussels', met: 'Europe/Brussels', Eet: 'Europe/Athens', WET: 'Europe/Lisbon' }
  for (const [name, zone] of Object.entries(linked)) assert.equal(zoneOf(name), zone)
  for (const name of [...Object.keys(linked), 'EST', 'GMT', 'HST', 'MST', 'PRC', 'ROC', 'ROK', 'UCT', 'UTC']) {
    for (const at of ['2026-01-04T22:30:00Z', '2026-06-28T22:30:00Z']) {
      const { rows } = await sql<{ time: string }>`
        select to_char(${at}::timestamptz at time zone ${zoneOf(name)}, 'YYYY-MM-DD HH24:MI:SS') as time
      `.execute(db)
      assert.equal(rows[0]?.time, timeFormat(name)(new Date(at)), `${name} at ${at}`)
    }
  }
  // it is Monday in Brussels, and still Sunday an hour further west
  const { rows } = await sql<{ period: string }>`
    select to_char('2026-06-28T22:30:00Z'::timestamptz at time zone ${zoneOf('CET')}, 'IYYY-"W"IW') as period
  `.execute(db)
  assert.equal(rows[0]?.period, '2026-W27')
})

test('no database yet is wrong usage, one that does not answer is exit 3', async () => {
  const none = await callProgram(['status', '--json'])
  assert.deepEqual([none.code, none.stdout], [2, ''])
  assert.match(none.stderr, /DATABASE_URL/)
  const away = await callProgram(['status'], { env: { DATABASE_URL: 'postgresql://leadpush@127.0.0.1:1/leadpush' } })
  assert.equal(away.code, 3)
})
