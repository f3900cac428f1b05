/** The ledger's statements by themselves: what each leaves alone while others are at work (contract 4.6, 4.8, 4.13). */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { databaseLeases, Worker } from '../../src/db/leases.ts'
import type { Database } from '../../src/db/open.ts'
import { buildBody } from '../../src/deliveries/body.ts'
import {
  type AttemptKind,
  findNextDue,
  findRecordedUnheard,
  recordDueAttempts,
  releaseDeliveries,
} from '../../src/deliveries/due.ts'
import { endDeliveries } from '../../src/deliveries/erased-deliveries.ts'
import { findErasureCount, raiseErasureCount } from '../../src/deliveries/erasure-count.ts'
import { type DeliveryState, endAbandoned, endUnwanted, takeBack } from '../../src/deliveries/ledger.ts'
import { makeAnew } from '../../src/deliveries/made-anew.ts'
import { decodeRecipe, encodeRecipes } from '../../src/deliveries/recipe.ts'
import { recordOutcomes, recordPushes } from '../../src/deliveries/record.ts'
import { findInterruptedRuns, recordLoss, startRun } from '../../src/deliveries/runs.ts'
import { createDatabase } from '../support/database.ts'
import { owe } from '../support/owed.ts'
import { seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const period = '2026-W47'
const noRun = { runId: 0, server: '' }
const nth = (idempotencyKey: string, attempt: 1 | 2 = 1) => ({ idempotencyKey, attempt })
const email = 'a@example.com'
const delivery = { part: 1, parts: 1, queries: 1, leads: 1, bytes: 100, queryList: '[]', contents: [{ versionId: 1 }] }
const endLease = (db: Database, id: number) =>
  sql`update workers set lease_until = now() - interval '1 second' where id = ${id}`.execute(db)
async function release(db: Database, workerIds: readonly number[]) {
  const given: string[] = []
  for await (const { idempotencyKey } of releaseDeliveries(db, workerIds)) given.push(idempotencyKey)
  return given
}

async function build(t: TestContext) {
  const { db } = await (await createDatabase(t)).open()
  await seedUsers(db, [{ email }])
  const { id: userId } = await db.selectFrom('users').select('id').executeTakeFirstOrThrow()
  const newWorker = async () => {
    const worker = await Worker.start(databaseLeases(db), 3_600_000)
    t.after(() => worker.stop().catch(() => {}))
    return worker
  }
  const begin = async (worker: Worker, idempotencyKey: string, started: boolean, by = db, planned?: number) =>
    recordPushes(by, { workerId: worker.id, server: worker.server, runId: 1, period, attemptsMax: started ? 1 : 0 }, [
      {
        ...{ userId, email, kind: 'weekly', scope: `weekly:${period}` },
        deliveries: [{ ...delivery, idempotencyKey }],
        server: worker.server,
        erasures: planned ?? (await findErasureCount(db)),
      },
    ])
  const take = async (from: Database, { ids, server }: Worker) =>
    (await recordDueAttempts(from, { workerIds: ids, server, runId: 1, limit: 10, takeover: 'all', known: [] }))
      .attempts
  return { db, newWorker, begin, take }
}

test('a worker whose lease is over begins and takes nothing, and one that lives begins nothing twice', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [late, live] = [await newWorker(), await newWorker()]
  await endLease(db, late.id)
  assert.deepEqual(await begin(late, 'late', true), {
    live: false,
    erasures: 1,
    begun: [],
    statement: null,
    attempts: [],
    told: [],
  })
  assert.equal((await begin(live, 'live', false)).begun.length, 1)
  assert.deepEqual(await begin(live, 'again', true), {
    live: true,
    erasures: 1,
    begun: [],
    statement: null,
    attempts: [],
    told: [],
  })
  await release(db, live.ids)
  assert.deepEqual(await take(db, late), [])
  assert.deepEqual(
    (await take(db, live)).map(({ idempotencyKey, attempt }) => [idempotencyKey, attempt]),
    [['live', 1]],
  )
})

// The last part of a user whom the receiver took was lost among the other parts of those whom it refused.
test('of first attempts that are drawn, those of users without an attempt come first, then those of users without a failure', async (t) => {
  const { db, newWorker, begin } = await build(t)
  const worker = await newWorker()
  await seedUsers(db, ['failed', 'new', 'newer'].map((name) => ({ email: `${name}@example.com` })))
  // five parts of each, and of two of them one that was made
  for (let key = 0; key < 20; key++) {
    await begin(worker, `${key}`, key === 0 || key === 5)
    await sql`delete from claims`.execute(db)
  }
  const n = sql`idempotency_key::integer`
  await sql`update deliveries set user_id = user_id + ${n} / 5, part = 1 + ${n} % 5, parts = 5`.execute(db)
  await sql`update deliveries set under_way = false, status = 'delivered' where idempotency_key = '0'`.execute(db)
  await sql`update deliveries set under_way = false, first_status = 401 where idempotency_key = '5'`.execute(db)
  const drawn: number[] = []
  for (let draw = 0; draw < 18; draw++) {
    const of = { workerIds: worker.ids, server: worker.server, runId: 1, limit: 1, known: [] }
    const { attempts } = await recordDueAttempts(db, { ...of, takeover: 'all', only: 'first', drawn: true })
    drawn.push(...attempts.map(({ idempotencyKey }) => Number(idempotencyKey)))
  }
  // one part of each of the new ones, in any order, then another one
  assert.deepEqual(drawn.slice(0, 10).map((key) => key % 5), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
  assert.deepEqual(new Set(drawn.slice(0, 10)), new Set([10, 11, 12, 13, 14, 15, 16, 17, 18, 19]))
  assert.deepEqual(drawn.slice(10), [1, 2, 3, 4, 6, 7, 8, 9])
}) // biome-ignore format: short

test('a process leaves alone what another is taking at the same moment, and does not wait for it', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [one, other] = [await newWorker(), await newWorker()]
  await begin(one, 'due', false)
  await release(db, one.ids)
  await db.transaction().execute(async (tx) => {
    assert.equal((await take(tx, one)).length, 1)
    const late = sleep(60_000, 'it waits', { ref: false })
    assert.deepEqual(await Promise.race([take(db, other), late]), [])
  })
  assert.deepEqual(await take(db, other), [])
})

test('an attempt of a living worker is its own; when its lease is over the next one is the second, and no third follows', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [first, second, third] = [await newWorker(), await newWorker(), await newWorker()]
  await begin(first, 'key', true)
  assert.deepEqual(await take(db, second), [])
  await endLease(db, first.id)
  assert.deepEqual(
    (await take(db, second)).map(({ attempt }) => attempt),
    [2],
  )
  assert.deepEqual(
    [await findRecordedUnheard(db, first, []), (await findRecordedUnheard(db, second, [])).length],
    [[], 1],
  )
  await endLease(db, second.id)
  assert.deepEqual(await take(db, third), [])
})

test('a first attempt that a dead process left under way is told as a second one that is due', async (t) => {
  const { db, newWorker, begin } = await build(t)
  const [dead, living] = [await newWorker(), await newWorker()]
  await begin(dead, 'lost', true)
  const next = (only: AttemptKind) => findNextDue(db, { workerIds: living.ids, takeover: 'all', only })
  assert.equal(await next('second'), null)
  await endLease(db, dead.id)
  assert.deepEqual([await next('first'), ((await next('second')) ?? 1) <= 0], [null, true])
})

// Its second try found no open scope, and its users got a further delivery.
test('a forced run whose beginning got no answer goes on with the scope that was open then', async (t) => {
  const { db, newWorker } = await build(t)
  const [first, second] = [await newWorker(), await newWorker()]
  const begin = ({ ids }: Worker, resumable = true) =>
    startRun(db, { command: 'force', workerIds: ids, resumable, timeZone: 'UTC', maxLeadAgeMs: 1_000 })
  const { id } = await begin(first)
  assert.equal((await begin(second)).forcedBy, id)
  await sql`update forced_scopes set is_over = true`.execute(db)
  assert.equal((await begin(second)).forcedBy, id)
  const [another, limited] = [await newWorker(), await newWorker()]
  for (const run of [await begin(limited, false), await begin(limited, false), await begin(another)])
    assert.equal(run.forcedBy, run.id)
})

test('the run of a process that lost its lease is interrupted until it is back as a new worker', async (t) => {
  const { db, newWorker } = await build(t)
  const worker = await newWorker()
  const settings = { timeZone: 'UTC', maxLeadAgeMs: 1_000 }
  const run = await startRun(db, { command: 'all', workerIds: worker.ids, resumable: true, ...settings })
  const interrupted = async () => (await findInterruptedRuns(db, run.period)).map(({ id }) => id)
  assert.deepEqual(await interrupted(), [])
  await endLease(db, worker.id)
  assert.deepEqual(await interrupted(), [run.id])
  await worker.renew()
  assert.deepEqual([await interrupted(), worker.ids.length], [[], 2])
})

test('a --force whose row the database lost can be resumed: its forced scope is open again, unless another one is', async (t) => {
  const { db, newWorker } = await build(t)
  const begin = async () => {
    const { ids } = await newWorker()
    const start = { command: 'force', resumable: true, timeZone: 'UTC', maxLeadAgeMs: 1_000 } as const
    const run = await startRun(db, { ...start, workerIds: ids })
    return { run, lose: () => recordLoss(db, run, start, { workerId: 0, ageMs: 5_000 }) }
  }
  const [first, second] = [await begin(), await begin()]
  assert.deepEqual([first.run.forcedBy, second.run.forcedBy], [first.run.id, first.run.id])
  const scopeOf = async () => (await findInterruptedRuns(db, first.run.period)).map(({ forcedBy }) => forcedBy)
  await sql`delete from runs`.execute(db)
  await second.lose()
  assert.deepEqual(await scopeOf(), [second.run.id])
  await first.lose()
  assert.deepEqual(await scopeOf(), [second.run.id, second.run.id])
})

test('a push that was planned before an erasure is not begun, and an erasure waits for pushes that are being begun', async (t) => {
  const { db, newWorker, begin } = await build(t)
  const worker = await newWorker()
  const erase = () => db.transaction().execute(raiseErasureCount)
  let erasing: Promise<unknown> | undefined
  await db.transaction().execute(async (tx) => {
    assert.equal((await begin(worker, 'before', true, tx)).begun.length, 1)
    erasing = erase()
    assert.equal(await Promise.race([erasing, sleep(300, 'it waits')]), 'it waits')
  })
  await erasing
  await sql`delete from claims`.execute(db)
  const [stale, fresh] = [await begin(worker, 'stale', true, db, 1), await begin(worker, 'fresh', true)]
  assert.deepEqual(
    [stale, fresh.erasures, fresh.begun.length],
    [{ live: true, erasures: 2, begun: [], statement: null, attempts: [], told: [] }, 2, 1],
  )
  // its snapshot is older than the erasure: it learns of it all the same
  await db.transaction().execute(async (tx) => {
    await sql`set transaction isolation level repeatable read`.execute(tx)
    await sql`select count(*) from claims`.execute(tx)
    await erase()
    assert.deepEqual(await begin(worker, 'older', true, tx, 2), {
      ...{ live: true, erasures: 3, begun: [], statement: null, attempts: [], told: [] },
    })
  })
})

test('outcomes are recorded along with begun pushes, even by a worker that may begin nothing any more', async (t) => {
  const { db, newWorker, begin } = await build(t)
  const worker = await newWorker()
  await begin(worker, 'first', true)
  await begin(worker, 'again', true)
  await sql`delete from claims`.execute(db)
  await begin(worker, 'other', true)
  await sql`delete from claims`.execute(db)
  const outcome = (idempotencyKey: string, ok: boolean) => ({
    ...{
      idempotencyKey,
      ok,
      attempt: 1 as const,
      maybeArrived: false,
      httpStatus: ok ? 200 : 500,
      error: ok ? null : 'HTTP 500',
    },
    ...{ durationMs: 1, retryDelayMs: 60_000 },
  })
  const { id: userId } = await db.selectFrom('users').select('id').executeTakeFirstOrThrow()
  const context = { workerId: worker.id, server: worker.server, runId: 1, period, attemptsMax: 1 }
  const push = (idempotencyKey: string) => ({
    ...{ userId, email, kind: 'weekly' as const, scope: `weekly:${period}`, erasures: 1, server: '' },
    deliveries: [{ ...delivery, idempotencyKey }],
  })
  const next = push('next')
  const both = await recordPushes(db, context, [next], [outcome('first', true), outcome('gone', true)])
  const delivered = { idempotencyKey: 'first', status: 'delivered', attempts: 1, httpStatus: 200, error: null }
  assert.deepEqual(both, {
    ...{ live: true, erasures: 1, told: [delivered], statement: null },
    begun: [next],
    attempts: [
      {
        ...next.deliveries[0],
        userId,
        email,
        receiverKey: 'key',
        kind: 'weekly',
        runId: 1,
        period,
        attempt: 1,
        gzip: false,
      },
    ],
  })
  await endLease(db, worker.id)
  const late = await recordPushes(db, context, [push('late')], [outcome('other', false)])
  const pending = { idempotencyKey: 'other', status: 'pending', attempts: 1, httpStatus: 500, error: 'HTTP 500' }
  assert.deepEqual(late, {
    live: false,
    erasures: 1,
    begun: [],
    statement: null,
    attempts: [],
    told: [pending],
  })
})

// Each delivery was written once for every push of its user that was begun with it: the second broke the statement.
test('two pushes of one user are begun together, each with its own deliveries', async (t) => {
  const { db, newWorker } = await build(t)
  const { id: userId } = await db.selectFrom('users').select('id').executeTakeFirstOrThrow()
  await db.insertInto('subscription_pushes').values({ user_id: userId, owed_at: new Date(), begun_at: null }).execute()
  const { id: workerId, server } = await newWorker()
  const context = { workerId, server, runId: 1, period, attemptsMax: 3 }
  const part = (idempotencyKey: string, number: number) => ({
    ...{ ...delivery, idempotencyKey, part: number, parts: 2 },
  })
  const weekly = { userId, email, kind: 'weekly' as const, scope: `weekly:${period}`, erasures: 1, server: '' }
  const subscription = { userId, email, kind: 'subscription' as const, scope: null, erasures: 1, server: '' }
  const pushes = [
    { ...subscription, deliveries: [part('s1', 1), part('s2', 2)] },
    { ...weekly, deliveries: [part('w1', 1), part('w2', 2)] },
    { ...subscription, deliveries: [part('t1', 1)] },
    // planned twice, as when an import gave the user another place meanwhile: both were granted, under one key
    { ...weekly, deliveries: [part('w1', 1), part('w2', 2)] },
  ]
  const { begun, attempts } = await recordPushes(db, context, pushes)
  assert.deepEqual(begun.map(({ kind }) => kind).sort(), ['subscription', 'weekly'])
  assert.deepEqual(attempts.map(({ idempotencyKey }) => idempotencyKey).sort(), ['s1', 's2', 'w1'])
  const { rows } = await sql`
    select idempotency_key as key, kind, part, attempts from deliveries order by idempotency_key
  `.execute(db)
  assert.deepEqual(rows, [
    { key: 's1', kind: 'subscription', part: 1, attempts: 1 },
    { key: 's2', kind: 'subscription', part: 2, attempts: 1 },
    { key: 'w1', kind: 'weekly', part: 1, attempts: 1 },
    { key: 'w2', kind: 'weekly', part: 2, attempts: 0 },
  ])
})

// It was sent all the same: a subscription push of the same run and user counted as a part of it, and nobody asked who is
// subscribed, where the end of the subscription came with an import.
test('a delivery that was recorded and never sent is not sent once its week is over, or its user has unsubscribed', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [worker, other] = [await newWorker(), await newWorker()]
  const { id: userId } = await db.selectFrom('users').select('id').executeTakeFirstOrThrow()
  await db.insertInto('subscription_pushes').values({ user_id: userId, owed_at: new Date(), begun_at: null }).execute()
  const { id: runId } = await startRun(db, {
    ...{ command: 'all', workerIds: worker.ids, resumable: true, timeZone: 'UTC', maxLeadAgeMs: 1_000 },
  })
  const past = { workerId: worker.id, server: worker.server, runId, period: '2025-W01', attemptsMax: 1 }
  await recordPushes(db, past, [
    { userId, email, kind: 'subscription', scope: null, deliveries: [{ ...delivery, idempotencyKey: 'sent' }], erasures: 1, server: '' },
    { userId, email, kind: 'weekly', scope: 'weekly:2025-W01', deliveries: [{ ...delivery, idempotencyKey: 'late' }], erasures: 1, server: '' },
  ]) // biome-ignore format: a list
  await sql`update deliveries set status = 'delivered', under_way = false where idempotency_key = 'sent'`.execute(db)
  await release(db, worker.ids)
  assert.deepEqual([await take(db, other), await endAbandoned(db)], [[], []])
  await begin(worker, 'unwanted', false)
  await db.updateTable('users').set({ subscribed: false }).execute()
  await release(db, worker.ids)
  assert.deepEqual(await take(db, other), [])
  assert.deepEqual(
    (await endAbandoned(db)).map(({ idempotencyKey, status }) => [idempotencyKey, status]),
    [['unwanted', 'failed']],
  )
})

test('a user who unsubscribes or is removed ends nothing of others, and nothing that was begun for an unsubscribed one', async (t) => {
  // `users unsubscribe` ended the lost attempts of everybody as unknown, and no push told of them
  const { db } = await build(t)
  await seedUsers(db, [{ email: 'leaves@example.com' }, { email: 'left@example.com', subscribed: false }])
  const idOf = async (email: string) =>
    (await db.selectFrom('users').select('id').where('email', '=', email).executeTakeFirstOrThrow()).id
  const [other, leaver, left] = [await idOf(email), await idOf('leaves@example.com'), await idOf('left@example.com')]
  const put = (key: string, userId: number, attempts: number) =>
    sql`insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      status, attempts, under_way) values (${key}, 1, ${userId}, '2026-W47', 'weekly', 1, 1, 1, 1, 100, '', '', 'pending', ${attempts},
      ${attempts > 0})`.execute(db)
  const statuses = async () =>
    (
      await sql<{
        all: string
      }>`select string_agg(idempotency_key || ' ' || status, ', ' order by idempotency_key) as all from deliveries`.execute(
        db,
      )
    ).rows[0]?.all
  await put('lost-other', other, 2)
  await put('lost-own', leaver, 2)
  await put('waits-left', left, 0)
  await put('waits-own', leaver, 0)
  await sql`update users set subscribed = false where id = ${leaver}`.execute(db)
  assert.equal(await endUnwanted(db, leaver), 1)
  assert.equal(await statuses(), 'lost-other pending, lost-own pending, waits-left pending, waits-own failed')
  await sql`delete from users where id = ${leaver}`.execute(db)
  assert.equal(await endUnwanted(db, leaver), 1)
  assert.equal(await statuses(), 'lost-other pending, lost-own unknown, waits-left pending, waits-own failed')
  assert.equal(await endUnwanted(db), 1)
  assert.equal(await statuses(), 'lost-other pending, lost-own unknown, waits-left failed, waits-own failed')
  assert.deepEqual(
    (await endAbandoned(db)).map(({ idempotencyKey }) => idempotencyKey),
    ['lost-other'],
  )
})

// after a failover without the last changes a user's id meant another user, and one process was taken for another
test('on another server than it knows a worker begins and takes nothing, and no push is begun for another user', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const worker = await newWorker()
  await begin(worker, 'waiting', false)
  const elsewhere = { id: worker.id, ids: worker.ids, server: 'another' } as unknown as Worker
  assert.equal((await begin(elsewhere, 'begun', true)).live, false)
  assert.deepEqual(await take(db, elsewhere), [])
  await sql`update users set email = 'another@example.com'`.execute(db)
  assert.deepEqual((await begin(worker, 'for another', true)).begun, [])
  assert.equal((await take(db, worker)).length, 1)
})

// plans that were made for an empty ledger read a full one as a whole, for every statement
test('the statements of every delivery only look up their own rows, even if they were planned for an empty ledger', async (t) => {
  const { db, newWorker } = await build(t)
  const { id: workerId, server } = await newWorker()
  const context = { workerId, server, runId: 1, period, attemptsMax: 1_000 }
  const users = 500
  await sql`vacuum analyze deliveries, claims`.execute(db)
  await db.connection().execute(async (session) => {
    await sql`set plan_cache_mode = force_generic_plan`.execute(session)
    let firstOfMany = Number.POSITIVE_INFINITY
    const push = (userId: number, kind: 'weekly' | 'subscription') => ({
      ...{
        userId,
        email: userId < firstOfMany ? email : `user-${userId - firstOfMany}@example.com`,
        erasures: 1,
        server: '',
        kind,
        scope: kind === 'weekly' ? `weekly:${period}` : null,
      },
      deliveries: [{ ...delivery, idempotencyKey: `${kind}-${userId}` }],
    })
    const outcome = (of: number) => ({
      ...{
        idempotencyKey: `weekly-${of}`,
        attempt: 1 as const,
        ok: true,
        maybeArrived: false,
        httpStatus: 200,
        error: null,
      },
      ...{ durationMs: 1, retryDelayMs: 0 },
    })
    const record = async (first: number) => {
      const { begun, told } = await recordPushes(
        session,
        context,
        [push(first, 'weekly'), push(first + 1, 'subscription')],
        [outcome(first - 1)],
      )
      return [begun.length, told.length, (await recordOutcomes(session, noRun, [outcome(first)])).told.length]
    }
    assert.deepEqual(await record(1), [1, 0, 1])
    await seedUsers(
      db,
      Array.from({ length: users }, (_, at) => ({ email: `user-${at}@example.com` })),
    )
    // autovacuum may do so at any time: the planner then knows many users, none of whom is owed anything
    await sql
      .raw(`${owe()}; update subscription_pushes set owed_at = null; analyze users, subscription_pushes`)
      .execute(db)
    const { id: first } = await db
      .selectFrom('users')
      .select('id')
      .where('email', '=', 'user-0@example.com')
      .executeTakeFirstOrThrow()
    firstOfMany = first
    await sql.raw(owe()).execute(db)
    const started = Array.from({ length: users - 10 }, (_, at) => push(first + at, 'weekly'))
    await recordPushes(db, context, started)
    // of this transaction: other connections report what they read late
    const countRead = async () => {
      const { rows } = await sql<{ n: number }>`
        select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::integer as n from pg_stat_xact_user_tables
        where relname in ('deliveries', 'claims', 'users', 'subscription_pushes')
      `.execute(session)
      return rows[0]?.n ?? 0
    }
    await sql`begin`.execute(session)
    const before = await countRead()
    assert.deepEqual(await record(first + users - 10), [2, 1, 1])
    const read = (await countRead()) - before
    await sql`commit`.execute(session)
    assert.ok(read > 0 && read < 50, `${read} rows were read for two pushes and two outcomes`)
  })
})

// what was recorded and not sent ended like what was, and its user got nothing that week
test('an erasure ends begun deliveries in every state; those without an attempt go without the listing', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [worker, dying] = [await newWorker(), await newWorker()]
  const keys = ['fails', 'succeeds', 'second', 'taken-back', 'gone', 'dies', 'waits', 'unbegun']
  for (const key of keys) {
    await begin(key === 'dies' ? dying : worker, key, key !== 'unbegun')
    await sql`delete from claims`.execute(db)
  }
  const outcome = (idempotencyKey: string, attempt: 1 | 2, ok = false, retryDelayMs = 0) => ({
    ...{ idempotencyKey, attempt, ok, maybeArrived: false, httpStatus: ok ? 200 : 500, error: ok ? null : 'HTTP 500' },
    ...{ durationMs: 1, retryDelayMs },
  })
  await sql`update deliveries set due_at = now() + interval '1 hour' where idempotency_key = 'unbegun'`.execute(db)
  await recordOutcomes(db, noRun, [outcome('second', 1), outcome('waits', 1, false, 3_600_000)])
  assert.equal((await take(db, worker))[0]?.idempotencyKey, 'second')
  await db.transaction().execute(async (transaction) => {
    assert.equal(await makeAnew(transaction, keys, ({ attempts }) => attempts === 0), 1)
    const { ended, underWay } = await endDeliveries(transaction, keys)
    assert.deepEqual([ended, underWay.length], [1, 6])
  })
  const endOf = ({ idempotencyKey, status, attempts, error }: DeliveryState) => [
    idempotencyKey,
    status,
    attempts,
    error,
  ]
  const erased = 'a listing was erased'
  const recorded = await recordOutcomes(db, noRun, [
    outcome('fails', 1),
    outcome('succeeds', 1, true),
    outcome('second', 2),
  ])
  assert.deepEqual(recorded.told.map(endOf).sort(), [
    ['fails', 'failed', 1, erased],
    ['second', 'failed', 2, 'HTTP 500'],
    ['succeeds', 'delivered', 1, null],
  ])
  assert.deepEqual(
    [await takeBack(db, worker.ids, [nth('taken-back')]), await takeBack(db, worker.ids, [nth('gone')], true)],
    [[], []],
  )
  // a process that waits for the attempts does not end deliveries that it no longer has
  await endDeliveries(db, keys, true)
  // the process that had it in hand tells of it, once
  const told = () => endAbandoned(db, { workerIds: worker.ids, takeover: 'own' })
  assert.deepEqual([(await told()).map(endOf), await told()], [[['waits', 'failed', 1, erased]], []])
  await endLease(db, dying.id)
  await sql`update deliveries set due_at = now() where status = 'pending'`.execute(db)
  const taken = await take(db, worker)
  assert.deepEqual(
    taken
      .map(({ idempotencyKey, attempt, leads, bytes, contents }) => [idempotencyKey, attempt, leads, bytes, contents])
      .sort(),
    ['gone', 'taken-back', 'unbegun'].map((key) => [key, 1, 0, buildBody('[]', [], 29).length, []]),
  )
  assert.deepEqual((await endAbandoned(db)).map(endOf), [['dies', 'unknown', 1, erased]])
})

// The foreign key failed, and the batch of `leads forget` was rolled back.
test('an erasure goes through where the push that had the delivery in hand ends at that moment', async (t) => {
  const { db, newWorker, begin } = await build(t)
  const worker = await newWorker()
  await begin(worker, 'k', true)
  await recordOutcomes(db, noRun, [
    {
      ...{ idempotencyKey: 'k', attempt: 1, ok: false, maybeArrived: false, httpStatus: 500, error: 'HTTP 500' },
      ...{ durationMs: 1, retryDelayMs: 3_600_000 },
    },
  ])
  let erasing: Promise<unknown> | undefined
  await db.transaction().execute(async (leaving) => {
    await leaving.deleteFrom('workers').where('id', '=', worker.id).execute()
    erasing = endDeliveries(db, ['k'])
    erasing.catch(() => {})
    await until('the erasure waits', async () => {
      const { rows } = await sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
      return rows.length > 0
    })
  })
  assert.deepEqual(await erasing, { ended: 1, underWay: [] })
})

// A try whose answer was lost took back what another process was sending by then: a third request could follow.
test('an attempt that was taken back, and belongs to another process by then, is not taken back again', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [late, live] = [await newWorker(), await newWorker()]
  for (const key of ['gone', 'left']) {
    await begin(late, key, true)
    await sql`delete from claims`.execute(db)
  }
  const again = async () => [
    await takeBack(db, late.ids, [nth('gone')], true),
    await takeBack(db, late.ids, [nth('left')]),
  ]
  assert.deepEqual(await again(), [[], []])
  await endLease(db, late.id)
  assert.deepEqual(
    (await take(db, live)).map(({ attempt }) => attempt),
    [1, 1],
  )
  // what is under way waits for its end
  await endDeliveries(db, ['left'])
  const rows = () => db.selectFrom('deliveries').select(['attempts', 'under_way', 'end_reason', 'recipe']).execute()
  const before = await rows()
  assert.deepEqual([await again(), await rows()], [[[], []], before])
})

test('a process gives back all of its waiting deliveries, also more than one page of them', async (t) => {
  const { db, newWorker, begin } = await build(t)
  const worker = await newWorker()
  await begin(worker, 'key', false)
  const pageRows = 5_000
  await sql`
    insert into deliveries select (jsonb_populate_record(d, jsonb_build_object('idempotency_key', 'key-' || n))).*
    from deliveries d, generate_series(1, ${pageRows}::integer) as n
  `.execute(db)
  assert.equal(new Set(await release(db, worker.ids)).size, pageRows + 1)
})

test('a redacted listing is the newest of a delivery that is made anew, as its version is', async (t) => {
  const { db, newWorker, begin } = await build(t)
  await begin(await newWorker(), 'key', false)
  await sql`
    with listing as (
      insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
      select sha256(n::text::bytea), '78704', n, sha256(''), 1, '' from generate_series(1, 3) as n returning id, version_id
    )
    insert into lead_versions (id, lead_id, json) select version_id, id, '{}' from listing
  `.execute(db)
  const recipe = encodeRecipes([[{ versionId: 2 }, { versionId: 1 }]]).bytes
  await db.updateTable('deliveries').set({ recipe }).execute()
  await db.transaction().execute((transaction) => makeAnew(transaction, ['key'], () => true, new Map([[1, 3]])))
  const [row] = await db.selectFrom('deliveries').select('recipe').execute()
  assert.deepEqual(decodeRecipe(row?.recipe ?? Buffer.alloc(0)), [3, 2])
})

// The outcome was refused by a check of the table: `under_way` with another status than `pending`, and the run ended.
test('a first attempt that fails late leaves the second one under way, also after an erasure, and that one ends it', async (t) => {
  const { db, newWorker, begin, take } = await build(t)
  const [frozen, live] = [await newWorker(), await newWorker()]
  await begin(frozen, 'key', true)
  await endLease(db, frozen.id)
  assert.deepEqual((await take(db, live)).map(({ attempt }) => attempt), [2]) // biome-ignore format: short
  assert.deepEqual(await endDeliveries(db, ['key']), { ended: 0, underWay: ['key'] })
  const failed = (attempt: 1 | 2) => ({
    ...{
      idempotencyKey: 'key',
      attempt,
      ok: false,
      maybeArrived: false,
      httpStatus: 500,
      error: `HTTP 500, ${attempt}`,
    },
    ...{ durationMs: 1, retryDelayMs: 0 },
  })
  const endOf = ({ status, attempts, error }: DeliveryState) => [status, attempts, error]
  assert.deepEqual((await recordOutcomes(db, noRun, [failed(1)])).told.map(endOf), [
    ['pending', 2, 'a listing was erased'],
  ])
  assert.deepEqual((await recordOutcomes(db, noRun, [failed(2)])).told.map(endOf), [['failed', 2, 'HTTP 500, 2']])
})
