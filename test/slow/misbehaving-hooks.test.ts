/** 32 hooks that misbehave, each in another way, beside hooks that are well (contract 6.4, 6.5). */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { type BadHooks, startBadHooks } from '../support/bad-hooks.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())
await seedUsers(opened.db, [{ email: 'user@example.com' }])
const wells = Array.from({ length: 8 }, (_, n) => `/well-${n}`)
let names = 0

const addLeads = (count: number) =>
  seedLeads(
    opened,
    Array.from({ length: count }, () => ({ href: `https://listings.example.com/${++names}` })),
  )
/** A hook that hangs does so until the test ends it, however slow the machine is. */
const timeoutMs = 60_000
let bad: BadHooks
/** The bad hooks, by their ids. */
const nameOf = new Map<string, string>()

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  platform.calls.length = 0
  nameOf.clear()
  bad = await startBadHooks()
  assert.equal(bad.urls.size, 32)
  for (const [name, url] of bad.urls) nameOf.set((await addHook(opened, 'user@example.com', url)).id, name)
  for (const path of wells) await addHook(opened, 'user@example.com', platform.url(path))
})
after(() => bad.close())

/** Waits until every well hook has all that was due for it, and every bad one its attempt; only then ends those that hang. */
async function endHanging(): Promise<void> {
  await until('the well hooks have everything', async () => {
    const { rows } = await opened.pool.query('select from triggers t where t.hook_id <> all ($1)', [[...nameOf.keys()]])
    return platform.calls.length > 0 && rows.length === 0
  })
  for (const name of nameOf.values()) {
    await until(`${name} is called`, () => name === 'refuses connections' || bad.connections(name) > 0)
  }
  await bad.close()
}

test('32 misbehaving hooks delay nobody', { timeout: 400_000 }, async () => {
  await addLeads(3)
  const running = runTrigger(opened, { timeoutMs })
  await endHanging()
  const { lines, counts } = await running
  const delivered = lines.filter(({ hook }) => !nameOf.has(hook))
  assert.deepEqual([delivered.length, delivered.every(({ status }) => status === 'delivered')], [24, true])
  assert.equal(platform.calls.length, 24)
  const outcomes = lines.filter(({ hook }) => nameOf.has(hook))
  assert.equal(new Set(outcomes.map(({ hook }) => nameOf.get(hook))).size, 32)
  for (const { hook, status, error } of outcomes) {
    assert.equal(status, 'failed', nameOf.get(hook))
    assert.match(error ?? '', /^[^\n]+$/)
  }
  // three leads each, but for the two hooks that asked for a pause: those that hang were ended before their time was up
  assert.deepEqual([outcomes.length, counts.failed, counts.waiting], [92, 92, 4])
  const ofHanging = lines.slice(lines.findLastIndex(({ status }) => status === 'delivered') + 1)
  assert.ok(ofHanging.length >= 8, `${ofHanging.length} hooks hung until the end`)

  await addLeads(1)
  const next = await runTrigger(opened, { timeoutMs })
  assert.deepEqual([next.counts.delivered, next.counts.failed, next.counts.waiting], [8, 30, 0])
  const { rows } = await opened.pool.query(`
    select count(*) filter (where paused_until > now() + interval '23 hours')::integer as asked,
      count(*) filter (where paused_until <= now() + interval '1 minute')::integer as others from hooks`)
  assert.deepEqual(rows, [{ asked: 2, others: 0 }])
})
