/** A whole push against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { raiseErasureCount } from '../../src/deliveries/erasure-count.ts'
import { endAbandoned } from '../../src/deliveries/ledger.ts'
import type { PushLine } from '../../src/index.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import { rangeScopeOf, weeklyPass } from '../../src/push/whom/pass.ts'
import { importUsers } from '../../src/users/import.ts'
import { findUser, recordSubscription, recordUnsubscription, removeUser } from '../../src/users/users.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { toLines } from '../support/import-files.ts'
import { owe } from '../support/owed.ts'
import { all, build, lead, PushHouse, stopAfter, users } from '../support/push-house.ts'
import { defaults } from '../support/push-settings.ts'
import { requestsAtLeast, startTestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

// It ended the push of all users, and a user who got what the other queries match would have had their week.
test('a query that takes too long holds back those who have it, and nobody else', async (t) => {
  const database = await createDatabase(t)
  const before = await database.open()
  await sql`
    create function plainto_tsquery(regconfig, text) returns tsquery language plpgsql stable as $$ begin
      if $2 = 'slow' then raise query_canceled; end if;
      return pg_catalog.plainto_tsquery($1, $2);
    end $$
  `.execute(before.db)
  await sql
    .raw(`alter database ${new URL(database.url).pathname.slice(1)} set search_path = public, pg_catalog`)
    .execute(before.db)
  await before.close()
  const receiver = await startTestReceiver()
  t.after(() => receiver.close())
  const house = new PushHouse(await database.open(), receiver)
  await seedLeads(house.opened, [lead('a', { description: 'slow' })])
  const text = (value: string) => ({ type: 'text', value })
  const records = ['pool', 'slow', 'slow', 'lake'].map((value, at) => ({
    email: `${at}-${value}@example.com`,
    receiverApiKey: 'key',
    queries: [text('house'), text(value)],
  }))
  await importUsers(house.opened, ['-'], { stdin: Readable.from([toLines(records)], { objectMode: false }) })

  const { deliveries, lines, summary, ok, heldUsers } = await house.push()
  assert.deepEqual([ok, deliveries.length, summary.skipped, summary.owed, summary.users], [false, 2, 2, 2, 4])
  assert.equal(heldUsers, 0, 'by the guard: --accept would be no help')
  const reason = 'a query takes too long to look up: {"type":"text","value":"slow","radius":0}'
  assert.deepEqual(
    lines.filter(({ type }) => type === 'skip'),
    [1, 2].map((at) => ({ type: 'skip', user: `${at}-slow@example.com`, reason })),
  )
  const preview = await Preview.create(house.db, { what: 'all', force: false }, defaults)
  const seen = []
  for await (const line of preview.lines()) seen.push(line)
  assert.deepEqual(
    seen,
    lines.filter(({ type }) => type === 'skip'),
  )
  const one = await house.push(await house.userRequest('1-slow@example.com'))
  assert.deepEqual([one.ok, one.lines[0]], [false, { type: 'skip', user: '1-slow@example.com', reason }])
  // once the query is another one, the hourly run serves them
  const mended = [{ ...records[1], queries: [text('lake')] }]
  await importUsers(house.opened, ['-'], { stdin: Readable.from([toLines(mended)], { objectMode: false }) })
  const resumed = await house.push({ what: 'resume' })
  assert.deepEqual(
    resumed.deliveries.map(({ user, status }) => [user, status]),
    [['1-slow@example.com', 'delivered']],
  )
  assert.equal(resumed.ok, false)
})

// One look-up of places that took too long ended the push of all users, and so did the eleventh text, with which runs begin.
test('places that take too long hold back those who have them; many slow texts hold back nobody else', async (t) => {
  const database = await createDatabase(t)
  const before = await database.open()
  await sql`
    create function plainto_tsquery(regconfig, text) returns tsquery language plpgsql stable as $$ begin
      if $2 like 'slow%' then raise query_canceled; end if;
      return pg_catalog.plainto_tsquery($1, $2);
    end $$
  `.execute(before.db)
  await sql`
    create function unnest(text[]) returns setof text language plpgsql stable as $$ begin
      if '10001' = any ($1) then raise query_canceled; end if;
      return query select pg_catalog.unnest($1);
    end $$
  `.execute(before.db)
  await sql
    .raw(`alter database ${new URL(database.url).pathname.slice(1)} set search_path = public, pg_catalog`)
    .execute(before.db)
  await before.close()
  const receiver = await startTestReceiver()
  t.after(() => receiver.close())
  const house = new PushHouse(await database.open(), receiver)
  await seedLeads(house.opened, [lead('a', { description: 'slow' })])
  const user = (email: string, type: string, value: string) => ({
    email: `${email}@example.com`,
    receiverApiKey: 'key',
    queries: [{ type, value }],
  })
  const records = [
    ...Array.from({ length: 14 }, (_, at) => user(`text-${at}`, 'text', `slow${'x'.repeat(at)}`)),
    ...['78704', '10001', '73301', '60601', '94110'].map((zip) => user(`zip-${zip}`, 'zipcode', zip)),
  ]
  await importUsers(house.opened, ['-'], { stdin: Readable.from([toLines(records)], { objectMode: false }) })

  const { deliveries, lines, summary, ok } = await house.push()
  assert.deepEqual([ok, summary.skipped, summary.owed, summary.users], [false, 15, 15, 19])
  const served = ['60601', '73301', '78704', '94110'].map((zip) => `zip-${zip}@example.com`)
  assert.deepEqual(deliveries.map(({ user }) => user).sort(), served)
  const ofPlace = lines.find((line) => line.type === 'skip' && line.user === 'zip-10001@example.com')
  assert.match((ofPlace as { reason: string }).reason, /^a query takes too long to look up: .*10001/)
})

test('every subscribed user gets one delivery; the second run of the week sends nothing', async (t) => {
  const house = await build(t, { users: [...users(40), { email: 'off@example.com', subscribed: false }] })
  const first = await house.push()
  assert.equal(first.ok, true)
  assert.equal(house.receiver.requests.length, 40)
  assert.deepEqual(
    { ...first.summary, seconds: 0, period: '' },
    {
      type: 'summary',
      period: '',
      users: 40,
      deliveries: 40,
      delivered: 40,
      failed: 0,
      unknown: 0,
      skipped: 0,
      already: 0,
      elsewhere: 0,
      owed: 0,
      leads: 80,
      bytes: first.summary.bytes,
      seconds: 0,
    },
  )
  const second = await house.push()
  assert.equal(second.ok, true)
  assert.deepEqual([second.summary.users, second.summary.already, second.summary.deliveries], [0, 40, 0])
  assert.equal(house.receiver.requests.length, 40)
})

test('the 300 newest of 301 matching leads are sent; a query with fewer matches sends all', async (t) => {
  const at = (place: string, n: number) =>
    Array.from({ length: n }, (_, i) => lead(`${place}-${i}`, { postalCode: place }))
  const house = await build(t, {
    leads: [...at('10001', 299), ...at('10002', 300), ...at('10003', 301)],
    users: ['10001', '10002', '10003'].map((place) => ({
      email: `${place}@example.com`,
      queries: [{ value: place, places: [place] }],
    })),
  })
  const { deliveries } = await house.push()
  assert.deepEqual(deliveries.map(({ user, leads }) => [user, leads]).sort(), [
    ['10001@example.com', 299],
    ['10002@example.com', 300],
    ['10003@example.com', 300],
  ])
  const cut = house.receiver.requests.find(({ json }) => json.queryList[0]?.value === '10003')
  assert.equal(cut?.json.fsbos[0]?.href, 'https://listings.example/10003-0')
  assert.ok(!cut?.json.fsbos.some(({ href }) => href === 'https://listings.example/10003-300'))
})

test('a failed attempt is followed by one more with the same key and the same bytes, also when the leads changed between', async (t) => {
  const house = await build(t)
  house.receiver.answer = (_request, nth) => (nth === 1 ? 503 : 200)
  const changed = house.push(all, { retryDelayMs: 500 })
  await requestsAtLeast(house.receiver, 1)
  await seedLeads(house.opened, [lead('c')])
  const { deliveries, ok } = await changed
  assert.equal(ok, true)
  const [first, second] = house.receiver.requests
  assert.equal(house.receiver.requests.length, 2)
  assert.equal(second?.key, first?.key)
  assert.ok(first && second?.body.equals(first.body) && second.atMs - first.atMs >= 490)
  assert.deepEqual(
    deliveries.map(({ status, attempts, httpStatus, error }) => [status, attempts, httpStatus, error]),
    [['delivered', 2, 200, null]],
  )
})

test('--force: those who had theirs get a further one, the others just theirs', async (t) => {
  const house = await build(t, { users: users(3) })
  await house.push({ what: 'all', force: false, limit: 2 })
  const forced = await house.push({ what: 'all', force: true, limit: undefined })
  assert.deepEqual(forced.deliveries.map(({ kind }) => kind).sort(), ['forced', 'forced', 'weekly'])
  assert.equal(house.receiver.keys().size, 5)
})

test('--all first goes on with a --force that was stopped, nobody twice', async (t) => {
  const house = await build(t, { users: users(20) })
  await house.push()
  const stopped = await house.push(
    { what: 'all', force: true, limit: undefined },
    { concurrency: 2 },
    stopAfter(house, 24),
  )
  assert.ok(stopped.summary.delivered < 20)
  house.receiver.answer = () => 200
  const { deliveries, summary } = await house.push()
  assert.ok(deliveries.every(({ kind, status }) => kind === 'forced' && status === 'delivered'))
  assert.equal(summary.already, 20)
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [40, 40])
})

const force = { what: 'all', force: true, limit: undefined } as const

/** Forced pushes that were stopped, one after another; the receiver had at least so many requests then. */
async function stopForced(house: PushHouse, ...requests: number[]): Promise<void> {
  for (const count of requests) {
    const { summary } = await house.push(force, { concurrency: 2 }, stopAfter(house, count))
    assert.ok(summary.owed > 0, JSON.stringify(summary))
    house.receiver.answer = () => 200
  }
}

/** Who a push or a preview has deliveries for, in no order. */
const usersOf = (lines: readonly PushLine[]) =>
  lines.flatMap((line) => (line.type === 'delivery' ? (line.user ?? '') : [])).sort()

async function previewed(house: PushHouse, forces: boolean): Promise<string[]> {
  const planned: PushLine[] = []
  for await (const found of (await Preview.create(house.db, { what: 'all', force: forces }, defaults)).lines())
    planned.push('line' in found ? found.line : found)
  return usersOf(planned)
}

// Each of the stopped runs was resumed by itself: users got two deliveries in one command, and a summary counted 52 of 30 users.
test('a --force that was stopped twice is resumed as one run, for the users whom neither served', async (t) => {
  const house = await build(t, { users: users(20) })
  await house.push()
  await stopForced(house, 26, 30)
  const { rows } = await sql<{ email: string }>`
    select u.email from users u where not exists (select from deliveries d where d.user_id = u.id and d.kind = 'forced' and d.status = 'delivered')
    order by u.email
  `.execute(house.db)
  const unserved = rows.map(({ email }) => email)
  const foretold = await previewed(house, false)
  const { lines, summary } = await house.push({ what: 'resume' })
  const served = usersOf(lines)
  assert.deepEqual(new Set(served).size, served.length, 'nobody twice')
  assert.deepEqual(
    served.filter((user) => unserved.includes(user)),
    unserved,
  )
  assert.deepEqual(foretold, served)
  assert.equal(summary.users, served.length)
  assert.deepEqual((await house.push({ what: 'resume' })).deliveries, [])
})

const countForced = async ({ db }: PushHouse) =>
  (
    await sql<{ n: number }>`select count(*) as n from deliveries where kind = 'forced' group by user_id`.execute(db)
  ).rows.map(({ n }) => n)
const twenty = (count: number) => Array.from({ length: 20 }, () => count)

// Users whom the stopped run had served got another one.
test('--force after one that was stopped goes on with it, nobody twice; after one that finished it begins anew', async (t) => {
  const house = await build(t, { users: users(20) })
  await house.push()
  await stopForced(house, 26, 30)
  const foretold = await previewed(house, true)
  const { lines, summary, ok } = await house.push(force)
  assert.deepEqual(foretold, usersOf(lines))
  assert.deepEqual([ok, summary.users, summary.owed], [true, summary.deliveries, 0])
  assert.deepEqual(await countForced(house), twenty(1))
  assert.deepEqual((await house.push({ what: 'resume' })).deliveries, [])
  assert.deepEqual(
    await previewed(house, true),
    users(20).map(({ email }) => email),
  )
  assert.equal((await house.push(force)).summary.deliveries, 20)
  assert.deepEqual(await countForced(house), twenty(2))
})

// Each served everybody.
test('two --force at once share their users, and a later one begins anew', async (t) => {
  const house = await build(t, { users: users(20) })
  await house.push()
  const both = await Promise.all([house.push(force, { concurrency: 2 }), house.push(force, { concurrency: 2 })])
  assert.equal(
    both.reduce((sum, { summary }) => sum + summary.delivered, 0),
    20,
  )
  assert.deepEqual(await countForced(house), twenty(1))
  await house.push(force)
  assert.deepEqual(await countForced(house), twenty(2))
})

test('a --force is over, and the next one begins anew, although another push is working on weekly deliveries', async (t) => {
  const house = await build(t, { users: users(20) })
  await house.push({ what: 'all', force: false, limit: 10 })
  const held = makeGate()
  let requests = 0
  house.receiver.answer = () => (++requests === 1 ? held.opened.then(() => 200) : 200)
  const weekly = house.push(all, { concurrency: 1 })
  await until('the first of ten is under way', () => requests === 1)
  const first = await house.push(force)
  assert.equal(first.summary.elsewhere, 10)
  assert.equal((await house.push(force)).summary.deliveries, first.summary.deliveries)
  held.open()
  await weekly
})

// It had one line for each run that was held.
test('a user whom --force holds back twice has one line', async (t) => {
  const house = await build(t)
  await house.push()
  await sql`update claims set leads = 60`.execute(house.db)
  for (let times = 0; times < 3; times++) {
    const { lines, summary, heldUsers } = await house.push(force)
    assert.deepEqual([lines.length, summary.users, summary.owed, heldUsers], [2, 1, 1, 1], JSON.stringify(lines))
  }
})

test('--limit serves so many, and no --resume goes on with it', async (t) => {
  const house = await build(t, { users: users(5) })
  const { summary, ok } = await house.push({ what: 'all', force: false, limit: 2 })
  assert.deepEqual([summary.deliveries, summary.owed, ok], [2, 3, true])
  assert.equal((await house.push({ what: 'resume' })).deliveries.length, 0)
  assert.equal((await house.push()).deliveries.length, 3)
})

test('no --resume goes on with a --limit that was stopped either, but for what it had recorded', async (t) => {
  const house = await build(t, { users: users(40) })
  const stop = stopAfter(house, 4)
  const { summary } = await house.push({ what: 'all', force: false, limit: 30 }, { concurrency: 2 }, stop)
  assert.ok(summary.deliveries < 15, JSON.stringify(summary))
  await house.push({ what: 'resume' })
  assert.equal(house.receiver.requests.length, summary.deliveries)
  assert.equal((await house.push()).summary.delivered, 40 - summary.deliveries)
})

test('a stop finishes the attempts under way and gives back the rest; --resume continues, and serves nobody twice', async (t) => {
  const house = await build(t, { users: users(60) })
  const { summary, deliveries } = await house.push(all, { concurrency: 4 }, stopAfter(house, 12))
  assert.equal(summary.delivered, house.receiver.requests.length)
  assert.ok(
    deliveries.every(({ status, attempts }) => status === 'delivered' || (status === 'pending' && attempts === 0)),
  )
  assert.ok(house.receiver.requests.length < 30)
  house.receiver.answer = ({ key }) => (house.receiver.keys().get(key)?.length === 1 ? 500 : 200)
  const resumed = await house.push({ what: 'resume' })
  assert.equal(resumed.ok, true)
  // a resumed user counted once for each attempt
  const rest = 60 - summary.delivered
  assert.deepEqual([resumed.summary.users, house.receiver.keys().size], [rest, 60])
  assert.equal(house.receiver.requests.length, 60 + rest)
  assert.equal((await house.push({ what: 'resume' })).deliveries.length, 0)
})

test('a stop ends the pause before a second attempt: the next run need not wait for its rest', async (t) => {
  const house = await build(t, { answer: (_request, nth) => (nth === 1 ? 500 : 200) })
  const stop = new AbortController()
  const pushing = house.push(all, { retryDelayMs: 60_000 }, stop)
  await until('the pause has begun', async () => {
    const { rows } = await house.opened.pool.query('select from deliveries where first_status = 500')
    return rows.length > 0
  })
  stop.abort()
  assert.deepEqual(
    (await pushing).deliveries.map(({ status, attempts }) => [status, attempts]),
    [['pending', 1]],
  )
  const { deliveries } = await house.push({ what: 'resume' }, { retryDelayMs: 60_000 })
  assert.deepEqual(
    deliveries.map(({ status, attempts }) => [status, attempts]),
    [['delivered', 2]],
  )
})

// Nobody waited for it but the process that had begun it: --resume ended with 0, and without the second attempt.
test('--resume waits for the rest of a pause that a process had begun which was killed', async (t) => {
  const house = await build(t, { answer: (_request, nth) => (nth === 1 ? 500 : 200) })
  const stop = stopAfter(house, 1)
  await house.push(all, { retryDelayMs: 60_000 }, stop)
  await sql`update deliveries set due_at = now() + interval '700 milliseconds'`.execute(house.db)
  const { deliveries, ok } = await house.push({ what: 'resume' })
  assert.deepEqual(
    deliveries.map(({ status, attempts }) => [status, attempts]),
    [['delivered', 2]],
  )
  assert.equal(ok, true)
})

const inAnHour = () => new Date(Date.now() + 3_600_000)

/** Ends the lease of a process that is gone; an answer of the receiver, which does so while a push runs. */
async function endLease({ db }: PushHouse): Promise<200> {
  await sql`update workers set lease_until = now() where host = 'gone'`.execute(db)
  return 200
}

/** As if the attempts that were recorded had been taken back before they were made. */
const takeBack = ({ db }: PushHouse) =>
  sql`
    update deliveries set status = 'pending', attempts = 0, under_way = false, worker_id = null, due_at = now(), first_status = null
  `.execute(db)

test('a delivery that a dead process had begun gets its second attempt once its lease is over; after two attempts it ends unknown', async (t) => {
  const house = await build(t, { users: users(3) })
  await house.push({ what: 'all', force: false, limit: 2 }, { concurrency: 1 })
  // what the ledger looks like after a kill: both attempts under way, by a worker that no longer renews its lease
  const { id: dead } = await house.db
    .insertInto('workers')
    .values({ host: 'gone', process_id: 1, lease_until: inAnHour() })
    .returning('id')
    .executeTakeFirstOrThrow()
  const [once, twice] = [...house.receiver.keys().keys()]
  for (const [key, attempts] of [
    [once, 1],
    [twice, 2],
  ] as const) {
    await house.db
      .updateTable('deliveries')
      .set({ status: 'pending', under_way: true, attempts, worker_id: dead, first_status: null })
      .where('idempotency_key', '=', key ?? '')
      .execute()
  }
  const early = await house.push()
  assert.equal(early.summary.elsewhere, 2)
  assert.equal(early.summary.delivered, 1)
  assert.equal(early.ok, true)
  await endLease(house)
  const resumed = await house.push({ what: 'resume' })
  assert.deepEqual(
    resumed.deliveries.map(({ idempotencyKey, status, attempts }) => [idempotencyKey, status, attempts]).sort(),
    [
      [once, 'delivered', 2],
      [twice, 'unknown', 2],
    ].sort(),
  )
  assert.equal(house.receiver.keys().get(once ?? '')?.length, 2)
  assert.equal(house.receiver.keys().get(twice ?? '')?.length, 1)
  // whose delivery ended without another attempt was named, and not counted
  assert.equal(resumed.summary.users, 2)
})

// The second attempt was answered; nobody knows what came of the first.
test('a delivery that a dead process had begun ends unknown, not failed, if the second attempt is refused', async (t) => {
  const house = await build(t, { answer: () => 422 })
  await house.push()
  await sql`
    with dead as (insert into workers (host, process_id, lease_until) values ('gone', 1, now()) returning id)
    update deliveries set status = 'pending', under_way = true, attempts = 1, worker_id = dead.id, first_status = null, first_error = null,
      second_status = null, second_error = null from dead
  `.execute(house.db)
  const { deliveries, summary } = await house.push({ what: 'resume' })
  assert.deepEqual(deliveries.map(({ status, attempts, httpStatus }) => [status, attempts, httpStatus]), [['unknown', 2, 422]]) // biome-ignore format: short
  assert.deepEqual([summary.unknown, summary.failed], [1, 0])
})

test('an attempt that --user had recorded and not made is sent, even to a user who is not subscribed', async (t) => {
  const house = await build(t, { users: users(1, { subscribed: false }) })
  const email = 'user-0000@example.com'
  await house.push(await house.userRequest(email))
  await takeBack(house)
  const { deliveries } = await house.push({ what: 'resume' })
  assert.deepEqual(deliveries.map(({ user, kind, status }) => [user, kind, status]), [[email, 'single', 'delivered']]) // biome-ignore format: short
})

test('deliveries of a past week that were never sent are forgotten, but not while their process is alive', async (t) => {
  const house = await build(t)
  await house.push()
  await takeBack(house)
  await sql`
    with living as (insert into workers (host, process_id, lease_until) values ('gone', 1, ${inAnHour()}) returning id)
    update deliveries set period = '2020-W01', worker_id = living.id from living
  `.execute(house.db)
  const count = async () => (await house.opened.pool.query('select from deliveries')).rowCount
  await endAbandoned(house.db)
  assert.equal(await count(), 1)
  await endLease(house)
  await endAbandoned(house.db)
  assert.equal(await count(), 0)
})

test('a user counts once, however many of their deliveries a run continues, begins and ends', async (t) => {
  const house = await build(t, { users: users(3) })
  await house.push()
  // of one its attempts are used up, of another the second is due; all get another delivery besides
  const { id } = await house.db
    .insertInto('workers')
    .values({ host: 'gone', process_id: 1, lease_until: inAnHour() })
    .returning('id')
    .executeTakeFirstOrThrow()
  const [once, twice] = [...house.receiver.keys().keys()]
  for (const [key, attempts] of [
    [once, 1],
    [twice, 2],
  ] as const) {
    await house.db
      .updateTable('deliveries')
      .set({ status: 'pending', under_way: true, attempts, worker_id: id, first_status: null })
      .where('idempotency_key', '=', key ?? '')
      .execute()
  }
  house.receiver.answer = () => endLease(house)
  const { summary, deliveries } = await house.push({ what: 'all', force: true, limit: undefined }, { concurrency: 1 })
  assert.equal(new Set(deliveries.map(({ user }) => user)).size, 3)
  assert.deepEqual([deliveries.length, summary.users, summary.owed], [5, 3, 0])
})

// It looked for interrupted runs before the lease was over, for leases to wait for after: nobody was served, and it said 0.
test('--resume goes on with a run whose lease ends while it is at something else', async (t) => {
  const house = await build(t, { users: users(2) })
  house.receiver.answer = () => endLease(house)
  await sql`
    with dead as (
      insert into workers (host, process_id, lease_until) values ('gone', 1, now() + interval '1 minute') returning id
    )
    insert into runs (command, period, time_zone, worker_id, resumable)
    select 'all', to_char(now() at time zone 'UTC', 'IYYY-"W"IW'), 'UTC', id, true from dead
  `.execute(house.db)
  await sql.raw(owe(`email like '%0@example.com'`)).execute(house.db)
  const resumed = await house.push({ what: 'resume' })
  assert.deepEqual(resumed.deliveries.map(({ kind }) => kind).sort(), ['subscription', 'weekly', 'weekly'])
  assert.equal(resumed.summary.users, 2, 'who got two pushes is one user')
})

// It waited for 863759 seconds: for the lease, and then for the pause before the second attempt.
test('--resume waits for nothing that a clock which was ten days ahead left behind', {
  timeout: 300_000,
}, async (t) => {
  const house = await build(t, { users: users(2) })
  await house.push({ what: 'all', force: false, limit: 1 })
  await sql`
    with dead as (
      insert into workers (host, process_id, lease_until) values ('gone', 1, now() + interval '60 seconds') returning id
    ),
    left_behind as (
      insert into user_ranges select id, ${rangeScopeOf(weeklyPass((await house.push()).summary.period))}, '', 0, '~', 1000 from dead
    )
    update deliveries set status = 'pending', attempts = 1, worker_id = dead.id, due_at = now() + interval '5 seconds'
    from dead
  `.execute(house.db)
  const early = await house.push()
  assert.deepEqual([early.summary.elsewhere, early.deliveries.length], [2, 0])
  await sql`
    with ahead as (update deliveries set due_at = due_at + interval '10 days')
    update workers set lease_until = lease_until + interval '10 days', renewed_at = renewed_at + interval '10 days'
  `.execute(house.db)
  const resumed = await house.push({ what: 'resume' })
  assert.deepEqual(
    [resumed.notes, resumed.deliveries.map(({ status, attempts }) => `${status} ${attempts}`)],
    [[], ['delivered 2', 'delivered 2']],
  )
  const { rows } = await sql`select from workers`.execute(house.db)
  assert.equal(rows.length, 0, 'nor does its row stay')
})

test('four pushes at once on one database: everybody once', async (t) => {
  const house = await build(t, { users: users(400) })
  const names = new Set<unknown>()
  house.receiver.answer = async ({ headers }) => {
    names.add(headers['x-data-source'])
    await until('each push has an attempt under way', () => names.size === 4)
    return 200
  }
  const pushes = await Promise.all(
    [1, 2, 3, 4].map((name) => house.push(all, { concurrency: 4, dataSource: `${name}`, timeoutMs: 60_000 })),
  )
  assert.ok(pushes.every(({ ok }) => ok))
  assert.equal(house.receiver.requests.length, 400)
  assert.equal(house.receiver.keys().size, 400)
  assert.equal(
    pushes.reduce((sum, { summary }) => sum + summary.delivered, 0),
    400,
  )
  assert.ok(
    pushes.every(({ summary }) => summary.delivered > 0),
    'they share the work',
  )
})

test('a user who was removed and imported again in the same week gets none', async (t) => {
  const house = await build(t)
  await house.push()
  await removeUser(house.db, (await findUser(house.db, 'user-0000@example.com')).user.id)
  await seedUsers(house.db, users(1))
  assert.equal((await house.push()).summary.already, 1)
  assert.equal(house.receiver.requests.length, 1)
})

test('--user of a user who is removed before the plan is made says so', async (t) => {
  // it said that they had no queries
  const house = await build(t)
  const request = await house.userRequest('user-0000@example.com')
  await removeUser(house.db, (await findUser(house.db, 'user-0000@example.com')).user.id)
  const { lines, summary } = await house.push(request)
  assert.deepEqual(lines[0], { type: 'skip', user: 'user-0000@example.com', reason: 'the user was removed meanwhile' })
  assert.deepEqual([summary.users, summary.skipped, house.receiver.requests.length], [1, 1, 0])
})

test('--user sends the subscription push if one is owed, else a further delivery, also to who is not subscribed', async (t) => {
  const house = await build(t, { users: users(1, { subscribed: false }) })
  const email = 'user-0000@example.com'
  const { user } = await findUser(house.db, email)
  assert.deepEqual(
    (await house.push(await house.userRequest(email))).deliveries.map(({ kind }) => kind),
    ['single'],
  )
  assert.deepEqual(await recordSubscription(house.db, user.id), { was: false, owed: true, tooSoon: false })
  assert.deepEqual(
    (await house.push(await house.userRequest(email))).deliveries.map(({ kind }) => kind),
    ['subscription'],
  )
  await recordUnsubscription(house.db, user.id)
  assert.deepEqual(await recordSubscription(house.db, user.id), { was: false, owed: false, tooSoon: true })
  assert.deepEqual(
    (await house.push()).deliveries.map(({ kind }) => kind),
    ['weekly'],
  )
})

test('a subscription push that is owed is sent by --resume, once, also when two resume at once', async (t) => {
  const house = await build(t, { users: users(5, { subscribed: false }) })
  for (const { email } of users(5)) await recordSubscription(house.db, (await findUser(house.db, email)).user.id)
  // each waits for the other until that has renewed its lease
  await Promise.all([1, 2].map(() => house.push({ what: 'resume' }, { leaseMs: 9_000 })))
  assert.equal(house.receiver.requests.length, 5)
})

test('no more attempts begin than the rate allows', async (t) => {
  const house = await build(t, { users: users(7) })
  const beganMs = performance.now()
  await house.push(all, { ratePerSecond: 10 })
  const lastMs = (house.receiver.requests.at(-1)?.atMs ?? 0) - beganMs
  assert.ok(lastMs >= 590, `six pauses of 100 ms in ${lastMs} ms`)
})

test('no more requests are under way at once than the concurrency', async (t) => {
  const three = makeGate()
  const house = await build(t, {
    users: users(30),
    answer: async (_, nth) => {
      if (nth === 3) three.open()
      await three.opened
      return 200
    },
  })
  await house.push(all, { concurrency: 3 })
  assert.equal(house.receiver.peak(), 3)
})

// Outcomes that the next statement of first attempts would have taken along counted as room for second attempts, which take none
// along: a kill left 9 attempts under way at a concurrency of 4.
test('no more attempts are recorded as under way than twice the concurrency, also where second ones are due at once', async (t) => {
  const counts: number[] = []
  const house = await build(t, { users: users(80) })
  const count = async () => {
    const { rows } = await sql<{ n: number }>`select count(*) as n from deliveries where under_way`.execute(house.db)
    counts.push(Number(rows[0]?.n))
  }
  const seen = new Set<string>()
  house.receiver.answer = async ({ key }) => {
    await count()
    return seen.size === seen.add(key).size ? 200 : 500
  }
  let isOver = false
  const pushing = house.push(all, { concurrency: 4, retryDelayMs: 1 }).finally(() => {
    isOver = true
  })
  while (!isOver) await sleep(5).then(count)
  const { summary } = await pushing
  assert.equal(summary.delivered, 80)
  assert.deepEqual([...new Set(counts.filter((n) => n > 8))], [])
})

// A user with an interrupted delivery also counted as served, and a preview knew of nobody who had theirs.
test('a preview shows what the push then sends, byte for byte, interrupted deliveries first', async (t) => {
  const house = await build(t, { users: users(5), answer: (_request, nth) => (nth === 1 ? 500 : 200) })
  await house.push(all, { retryDelayMs: 60_000, concurrency: 1 }, stopAfter(house, 3))
  house.receiver.answer = () => 200
  const sentBefore = house.receiver.requests.length
  const preview = await Preview.create(house.db, { what: 'all', force: false }, { ...defaults, maxLeadAgeMs: 1e9 })
  const previewed: string[] = []
  const attempts: number[] = []
  for await (const found of preview.lines()) {
    if ('line' in found) previewed.push((await found.readBody()).toString())
    if ('line' in found) attempts.push(found.line.attempts)
  }
  const { summary } = await house.push()
  assert.equal(preview.summary(0).users, summary.users, 'a user with a begun delivery counts too')
  assert.deepEqual([preview.summary(0).already, summary.already], [5 - summary.users, 5 - summary.users])
  const sent = house.receiver.requests.slice(sentBefore).map(({ body }) => body.toString())
  assert.deepEqual(previewed.sort(), sent.sort())
  assert.equal(attempts.filter((n) => n === 1).length, 1, 'the one that was begun is among them')
})

// It listed what a living push had in hand, while a push left that to the other and counted it as `elsewhere`.
test('a preview counts what a living push has in hand as elsewhere, and lists the rest', async (t) => {
  const gate = makeGate()
  const house = await build(t, { users: users(12), answer: () => gate.opened.then(() => 200) })
  const other = house.push(all, { concurrency: 2, timeoutMs: 60_000 })
  await requestsAtLeast(house.receiver, 1)
  const preview = await Preview.create(house.db, { what: 'all', force: false }, defaults)
  const planned: PushLine[] = []
  for await (const found of preview.lines()) planned.push('line' in found ? found.line : found)
  const { summary, deliveries } = await house.push()
  gate.open()
  await other
  assert.deepEqual([usersOf(planned), deliveries], [[], []])
  assert.ok(preview.summary(0).elsewhere > 0 && summary.elsewhere > 0)
})

// An erasure meanwhile had users planned anew, who were warned again.
test('that a listing is too large is told once, also of users who are planned anew in the run', async (t) => {
  const leads = [lead('large', { description: 'x'.repeat(5_000_000) }), lead('a')]
  const house = await build(t, { users: users(4), leads })
  house.receiver.answer = async () => {
    await house.db.transaction().execute(raiseErasureCount)
    return 200
  }
  const { lines, summary } = await house.push(all, { concurrency: 1 })
  const warned = lines.flatMap((line) => (line.type === 'warning' ? [line.user] : []))
  assert.equal(summary.delivered, 4)
  assert.deepEqual([warned.length, new Set(warned).size], [4, 4])
})

// Three owed subscription pushes made four deliveries of `--limit 1`.
test('with a limit owed subscription pushes wait', async (t) => {
  const house = await build(t, { users: users(5) })
  await sql.raw(owe('id in (select id from users order by id limit 3)')).execute(house.db)
  const limited = await house.push({ what: 'all', force: false, limit: 1 })
  assert.deepEqual(limited.deliveries.map(({ kind }) => kind), ['weekly'])
  const push = await house.push(all)
  assert.equal(push.deliveries.filter(({ kind }) => kind === 'subscription').length, 3)
}) // biome-ignore format: short
