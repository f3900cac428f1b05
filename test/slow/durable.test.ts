/** A server confirms commits before they are on disk, and dies: the commits on which the ledger relies must have survived. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { databaseLeases, Worker } from '../../src/db/leases.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { recordDueAttempts } from '../../src/deliveries/due.ts'
import { takeBack } from '../../src/deliveries/ledger.ts'
import { recordOutcomes, recordPushes } from '../../src/deliveries/record.ts'
import { recordVerdict, startRun } from '../../src/deliveries/runs.ts'
import { type BreakablePostgres, startPostgres } from '../chaos/postgres.ts'
import { seedUsers } from '../support/seed.ts'

let postgres: BreakablePostgres
let opened: OpenDatabase
let worker: Worker

before(async () => {
  postgres = await startPostgres()
  opened = await openDatabase({ databaseUrl: postgres.url('leadpush'), home: '' }, { schema: 'any' })
  await migrate(opened.db)
  await seedUsers(opened.db, [{ email: 'a@example.com' }])
  await opened.pool.query('alter system set synchronous_commit = off')
  // a commit that is not waited for stays in memory for so long
  await opened.pool.query("alter system set wal_writer_delay = '10s'")
  await postgres.kill(0)
})
after(async () => {
  await opened.close()
  await postgres.leave()
})

const key = 'the-key'

async function stateAfterDeath() {
  await postgres.kill(0)
  const row = await opened.db.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow()
  return [row.attempts, row.under_way, row.first_status]
}

test('an ordinary commit is lost on this server: the tests below can fail', async () => {
  await opened.pool.query('select 1')
  await opened.pool.query("insert into claims values ('lost', 'a@example.com')")
  await postgres.kill(0)
  const { rows } = await opened.pool.query("select from claims where scope = 'lost'")
  assert.equal(rows.length, 0)
})

// When these were lost, their ids were given again: each of two processes took the other for itself, and two forced runs
// counted as one.
test('the rows of a process and its run survive', async () => {
  worker = await Worker.start(databaseLeases(opened.db), 3_600_000)
  await postgres.kill(0)
  const run = { command: 'force', resumable: true, timeZone: 'UTC', maxLeadAgeMs: 1_000 } as const
  const { id } = await startRun(opened.db, { ...run, workerIds: worker.ids })
  await postgres.kill(0)
  const { rows } = await opened.pool.query('select r.id, r.worker_id from runs r join workers w on w.id = r.worker_id')
  assert.deepEqual(rows, [{ id, worker_id: worker.id }])
})

// It is the first statement that a run's row counts. When it was lost, the run took its records for lost, and ended.
test('the verdict of the guard survives, and its number', async () => {
  const { id: runId } = await opened.db.selectFrom('runs').select('id').executeTakeFirstOrThrow()
  const run = { runId, server: await databaseLeases(opened.db).findServer() }
  const importVolume = { listings: 7, filledFields: null }
  const verdict = { importVolume, sources: [], held: { by: 'week', reason: 'too few' }, accepted: true } as const
  assert.equal(await recordVerdict(opened.db, run, verdict), 1)
  await postgres.kill(0)
  const { rows } = await opened.pool.query('select listings, held, held_by, accepted, statements from runs')
  assert.deepEqual(rows, [{ listings: 7, held: 'too few', held_by: 'week', accepted: true, statements: 1 }])
})

test('an attempt that was recorded with its delivery survives', async () => {
  const { rows } = await opened.pool.query('select id from users')
  const delivery = {
    part: 1,
    parts: 1,
    queries: 1,
    leads: 1,
    bytes: 100,
    queryList: '[]',
    contents: [{ versionId: 1 }],
  }
  const { begun } = await recordPushes(
    opened.db,
    {
      workerId: worker.id,
      server: await databaseLeases(opened.db).findServer(),
      runId: 1,
      period: '2026-W47',
      attemptsMax: 1,
    },
    [
      {
        userId: rows[0].id,
        email: 'a@example.com',
        kind: 'single',
        scope: null,
        deliveries: [{ ...delivery, idempotencyKey: key }],
        erasures: 1,
        server: '',
      },
    ],
  )
  assert.equal(begun.length, 1)
  assert.deepEqual(await stateAfterDeath(), [1, true, null])
})

test('taking an attempt back, and recording it again, survive', async () => {
  await takeBack(opened.db, worker.ids, [{ idempotencyKey: key, attempt: 1 }])
  assert.deepEqual(await stateAfterDeath(), [0, false, null])
  await recordDueAttempts(opened.db, {
    workerIds: worker.ids,
    server: await databaseLeases(opened.db).findServer(),
    runId: 1,
    limit: 1,
    takeover: 'own',
    known: [],
  })
  assert.deepEqual(await stateAfterDeath(), [1, true, null])
})

// A lost outcome left its attempt under way in the ledger. The process had forgotten that attempt, took it for one still to be
// made, and sent it again uncounted: three requests with one key.
test('the outcome of an attempt survives', async () => {
  const outcome = { ok: false, maybeArrived: false, httpStatus: 500, error: 'HTTP 500', durationMs: 1, retryDelayMs: 0 }
  await recordOutcomes(opened.db, { runId: 1, server: '' }, [{ ...outcome, idempotencyKey: key, attempt: 1 }])
  assert.deepEqual(await stateAfterDeath(), [1, false, 500])
})
