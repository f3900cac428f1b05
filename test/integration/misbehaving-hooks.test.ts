/** 32 hooks that misbehave, each in another way, beside hooks that are well (contract 6.4, 6.5). */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startBadHooks } from '../support/bad-hooks.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, passPauses, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())
const bad = await startBadHooks()
after(() => bad.close())
await seedUsers(opened.db, [{ email: 'user@example.com' }])
const wells = Array.from({ length: 8 }, (_, n) => `/well-${n}`)
const nameOf = new Map<string, string>()
let names = 0

const addLeads = (count: number) =>
  seedLeads(
    opened,
    Array.from({ length: count }, () => ({ href: `https://listings.example.com/${++names}` })),
  )
/** Long enough for what the well hooks get at the pace of their host, which is that of the bad ones too. */
const timeoutMs = 6_000

test('32 misbehaving hooks cost a run one timeout, and delay nobody', { timeout: 120_000 }, async () => {
  assert.equal(bad.urls.size, 32)
  // the bad ones first: they are as new as the others
  for (const [name, url] of bad.urls) nameOf.set((await addHook(opened, 'user@example.com', url)).id, name)
  for (const path of wells) await addHook(opened, 'user@example.com', platform.url(path))
  await addLeads(3)
  const { lines, counts } = await runTrigger(opened, { timeoutMs })

  const delivered = lines.filter(({ hook }) => !nameOf.has(hook))
  assert.deepEqual([delivered.length, delivered.every(({ status }) => status === 'delivered')], [24, true])
  assert.equal(platform.calls.length, 24)
  const outcomes = lines.filter(({ hook }) => nameOf.has(hook))
  assert.deepEqual(new Set(outcomes.map(({ hook }) => nameOf.get(hook))).size, 32)
  for (const { hook, status, error } of outcomes) {
    assert.equal(status, 'failed', nameOf.get(hook))
    assert.doesNotMatch(error ?? '', /\n/)
  }
  // one attempt each, and the other two leads wait
  assert.deepEqual([outcomes.length, counts.failed, counts.waiting], [32, 32, 64])
  const isLate = ({ error }: { error: string | null }) =>
    /did not come in time \(6 s\)|no connection in time/.test(error ?? '')
  assert.ok(outcomes.filter(isLate).length >= 8)
  // every well hook has all of its leads before the first that hangs has had its time
  const firstLate = lines.findIndex(isLate)
  assert.ok(firstLate > lines.findLastIndex(({ status }) => status === 'delivered'))

  // in the pause of the bad ones they are left alone
  await addLeads(1)
  const next = await runTrigger(opened, { timeoutMs })
  assert.deepEqual([next.counts.delivered, next.counts.failed, next.counts.waiting], [8, 0, 0])
  assert.equal(bad.connections('redirects to itself'), 1)
})

test('runs at once are no more delayed, also by hooks that were well before', { timeout: 120_000 }, async () => {
  await opened.pool.query('update hooks set last_status = 200, last_error = null')
  await passPauses(opened)
  await addLeads(1)
  platform.calls.length = 0
  const runs = await Promise.all([runTrigger(opened, { timeoutMs }), runTrigger(opened, { timeoutMs })])
  const lines = runs.flatMap((run) => run.lines)
  assert.equal(lines.filter(({ status }) => status === 'delivered').length, 8)
  assert.equal(lines.filter(({ status }) => status === 'failed').length, 32)
  for (const run of runs) {
    const late = run.lines.findIndex(({ error }) => /in time/.test(error ?? ''))
    assert.ok(late < 0 || run.lines.findLastIndex(({ status }) => status === 'delivered') < late)
  }
})
