/** A run of `trigger` that loses an answer of its database, or its lease while it lives: nothing is lost, nothing comes twice. */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../src/db/open.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { startWay } from '../support/way.ts'

const database = await createDatabase()
const opened = await database.open()
await seedUsers(opened.db, [{ email: 'user@example.com' }])
const platform = await startHookReceiver()
after(() => platform.close())
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  platform.calls.length = 0
  for (const path of ['/a', '/b', '/c']) await addHook(opened, 'user@example.com', platform.url(path))
  await seedLeads(
    opened,
    Array.from({ length: 12 }, () => ({ href: `https://listings.example.com/${++names}` })),
  )
})

const distinct = () => new Set(platform.calls.map(({ path, webhookId }) => path + webhookId)).size

// When the answer to taking a hook was lost, the hook stayed taken until the process ended, and nothing was sent to it.
for (const [what, asked] of [
  ['taking the duty', 'insert into duties'],
  ['taking a trigger', 'update triggers t set worker_id'],
  ['the outcomes', 'update hooks h set last_at'],
  ['giving the duty back', 'delete from duties'],
] as const) {
  test(`an answer that is lost after ${what} loses and doubles no trigger`, async () => {
    platform.answer = () => ({ status: 200, delayMs: 20 })
    const way = await startWay(database.url)
    way.loseAnswer(asked)
    const through = await openDatabase({ databaseUrl: way.url, home: '' })
    try {
      const { counts } = await runTrigger(through)
      assert.deepEqual(counts, { ...noTriggers, due: 36, delivered: 36 })
      assert.deepEqual([platform.calls.length, distinct(), way.toLose()], [36, 36, 0])
      assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
    } finally {
      await through.close()
    }
  })
}

test('a process that lost its lease does not send again what it is still sending, and goes on with the rest', async () => {
  const gate = makeGate()
  platform.answer = (_, nth) => (nth <= 3 ? gate.opened.then(() => 200) : 200)
  const running = runTrigger(opened, { timeoutMs: 60_000, settings: { leaseMs: 1_000 } })
  await platform.atLeast(3)
  await opened.pool.query(`update workers set lease_until = now() - interval '1 second'`)
  const theirs = await runTrigger(opened)
  gate.open()
  const mine = await running
  assert.equal(mine.counts.delivered + theirs.counts.delivered, platform.calls.length)
  // the other process could not know only of the three under way
  assert.equal(distinct(), 36)
  assert.ok(platform.calls.length <= 39, `${platform.calls.length} calls`)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('a process that lost its lease, with nobody beside it, sends everything once', async () => {
  const gate = makeGate()
  platform.answer = (_, nth) => (nth <= 3 ? gate.opened.then(() => 200) : 200)
  const running = runTrigger(opened, { timeoutMs: 60_000, settings: { leaseMs: 1_000 } })
  await platform.atLeast(3)
  for (let times = 0; times < 4; times++) {
    await opened.pool.query(`update workers set lease_until = now() - interval '1 second'`)
    await sleep(400)
  }
  gate.open()
  const { counts } = await running
  assert.deepEqual(counts, { ...noTriggers, due: 36, delivered: 36 })
  assert.deepEqual([platform.calls.length, distinct()], [36, 36])
})
