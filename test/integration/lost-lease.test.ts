/** A living process lost its lease: it was frozen for a while, or cut off from the database. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/db/open.ts'
import { createHttp } from '../../src/http/client.ts'
import type { PushLine } from '../../src/index.ts'
import { type PushRequest, type PushSettings, runPush } from '../../src/push/run-push.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { collectingReporter } from '../support/push-reporter.ts'
import { testPushSettings } from '../support/push-settings.ts'
import { requestsAtLeast, startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const all: PushRequest = { what: 'all', force: false, limit: undefined }

async function push(db: Database, receiver: TestReceiver, more: Partial<PushSettings> = {}): Promise<PushLine[]> {
  const lines: PushLine[] = []
  const settings = testPushSettings(receiver.url, {
    retryDelayMs: 300,
    concurrency: 8,
    leaseMs: 1_000,
    timeoutMs: 30_000,
    ...more,
  })
  const http = createHttp({ timeoutMs: settings.timeoutMs, concurrency: settings.concurrency })
  const reporter = collectingReporter(lines)
  try {
    await runPush({ db, http, settings, request: all, reporter, stop: new AbortController().signal })
    return lines
  } finally {
    await http.close()
  }
}

async function build(t: TestContext, emails: string[], answer: TestReceiver['answer']) {
  const database = await createDatabase(t)
  const { db, ...opened } = await database.open()
  await seedLeads({ db, ...opened }, [{ href: 'https://listings.example/a' }])
  await seedUsers(
    db,
    emails.map((email) => ({ email, receiverKey: email })),
  )
  const receiver = await startTestReceiver(answer)
  t.after(() => receiver.close())
  return { db, receiver }
}

const endLeases = (db: Database) => sql`update workers set lease_until = now() - interval '1 second'`.execute(db)

// A process that came back as a new worker took its own attempts under way for another's, and sent them a second time while the
// first attempts were still waiting for their answers.
test('a process that lost its lease does not take from itself what it is still sending', async (t) => {
  const gate = makeGate()
  const { db, receiver } = await build(t, ['slow@example.com', 'retried@example.com'], async ({ headers }, nth) => {
    // by the third request it is a new worker
    if (nth === 3) gate.open()
    if (headers['x-service-api-key'] === 'slow@example.com') return gate.opened.then(() => 200)
    return nth <= 2 ? 500 : 200
  })
  const pushing = push(db, receiver)
  await requestsAtLeast(receiver, 2)
  await endLeases(db)
  const lines = await pushing
  const keys = receiver.requests.map(({ headers }) => headers['x-service-api-key'])
  assert.deepEqual(keys.sort(), ['retried@example.com', 'retried@example.com', 'slow@example.com'])
  const told = lines.flatMap((line) => (line.type === 'delivery' ? `${line.user} ${line.status}` : []))
  assert.deepEqual(told.sort(), ['retried@example.com delivered', 'slow@example.com delivered'])
})

test('a delivery taken over from a process that lost its lease goes out twice at most, and a late success counts', async (t) => {
  const gate = makeGate()
  const { db, receiver } = await build(t, ['slow@example.com'], (_, nth) =>
    nth === 1 ? gate.opened.then(() => 200) : 500,
  )
  const pushing = push(db, receiver)
  await requestsAtLeast(receiver, 1)
  await endLeases(db)
  await push(db, receiver)
  assert.equal(receiver.requests.length, 2)
  assert.equal(new Set(receiver.requests.map(({ key }) => key)).size, 1)
  assert.ok(receiver.requests[0]?.body.equals(receiver.requests[1]?.body ?? Buffer.alloc(0)))
  gate.open()
  await pushing
  assert.equal(receiver.requests.length, 2)
  const row = await db.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow()
  assert.deepEqual([row.status, row.attempts, row.first_status, row.second_status], ['delivered', 2, 200, 500])
})
