/** Hooks that fail for three days and more, in simulated time (contract 6.4, 6.5): every attempt at its moment, and none lost. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { triggerJitter, triggerPausesMs } from '../../src/base/limits.ts'
import { registerHook } from '../../src/integrations/hooks.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, passTime, runTrigger, type TestHook } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())
await seedUsers(opened.db, [{ email: 'user@example.com' }])

const hour = 3_600_000
const dead = ['/dead-500', '/dead-drop', '/dead-moved']
const hooks = new Map<string, TestHook>()
for (const path of [...dead, '/flaky', '/picky', '/well']) {
  hooks.set(path, await addHook(opened, 'user@example.com', platform.url(path)))
}
const bad = 'https://listings.example.com/bad'
const hrefs: string[] = []
let isMended = false

platform.answer = ({ path, json }) => {
  if (path === '/well' || isMended) return 200
  if (path === '/picky') return json.href === bad ? 422 : 200
  if (path === '/flaky') return nowMs() < 30 * hour ? 503 : 204
  if (path === '/dead-drop') return 'drop'
  return path === '/dead-500' ? 500 : { status: 307, headers: { location: platform.url('/elsewhere') } }
}

/** How much longer ago the beginning is than the clock of this machine says. */
let passedMs = 0
const startedMs = performance.now()
const nowMs = (atMs = performance.now()) => passedMs + atMs - startedMs

interface Attempt {
  path: string
  href: string
  webhookId: string
  atMs: number
}
const attempts: Attempt[] = []
const notes: string[] = []

/** One run of `trigger`; its attempts are noted with their simulated time. */
async function run() {
  const before = platform.calls.length
  const ended = await runTrigger(opened)
  for (const { path, json, webhookId, atMs } of platform.calls.slice(before)) {
    attempts.push({ path, href: json.href, webhookId, atMs: nowMs(atMs) })
  }
  notes.push(...ended.notes)
  return ended
}

async function pass(ms: number): Promise<void> {
  await passTime(opened, ms)
  passedMs += ms
}

/** As cron would, but only where a run has something to do: goes from one moment at which a trigger is due to the next. */
async function runUntil(endMs: number): Promise<void> {
  for (;;) {
    await run()
    const { rows } = await opened.pool.query(`
      select extract(epoch from min(greatest(due_at, paused_until)) - now())::double precision * 1000 as ms from hooks
      where due_at is not null`)
    const nextMs = Math.max(0, rows[0].ms ?? Number.POSITIVE_INFINITY)
    if (nowMs() + nextMs > endMs) break
    await pass(nextMs + 1)
  }
  await pass(endMs - nowMs())
}

async function addLead(href = `https://listings.example.com/${hrefs.length}`): Promise<void> {
  hrefs.push(href)
  await seedLeads(opened, [{ href }])
}

const of = (path: string, href?: string) =>
  attempts.filter((attempt) => attempt.path === path && (href === undefined || attempt.href === href))

test('three days of failing hooks: each attempt at its time, dead hooks off, and --again brings each lead once', {
  timeout: 180_000,
}, async () => {
  await addLead(bad)
  await runUntil(44 * hour)
  await addLead()
  await runUntil(90 * hour)

  // the schedule: no pause is shorter, each up to a tenth longer, and a little where another lead has just failed
  const first = dead.map((path) => of(path, bad))
  for (const times of [...first, of('/picky', bad)]) {
    assert.equal(times.length, triggerPausesMs.length + 1)
    for (const [n, pauseMs] of triggerPausesMs.entries()) {
      const tookMs = (times[n + 1]?.atMs ?? 0) - (times[n]?.atMs ?? 0)
      const told = `${times[n]?.path}, pause ${n}: ${tookMs} ms`
      assert.ok(tookMs >= pauseMs - 1_000 && tookMs <= pauseMs * (1 + triggerJitter) + 150_000, told)
    }
  }
  // hooks that failed together do not come back together
  const lastPauses = first.map((times) => Math.round((times[8]?.atMs ?? 0) - (times[7]?.atMs ?? 0)))
  assert.equal(new Set(lastPauses).size, dead.length, lastPauses.join())
  const ids = new Set(first.flat().map(({ webhookId }) => webhookId))
  assert.equal(ids.size, dead.length)

  // who is off, and what is kept
  const { rows } = await opened.pool.query(`
    select h.url, h.off_since is not null as off, h.abandoned::integer,
      (select coalesce(sum(cardinality(lead_ids)), 0)::integer from lost_triggers where hook_id = h.id) as kept,
      (select count(*)::integer from triggers where hook_id = h.id) as due
    from hooks h order by h.url`)
  const isDead = { off: true, abandoned: 2, kept: 2, due: 0 }
  const isWell = { off: false, abandoned: 0, kept: 0, due: 0 }
  const states = Object.fromEntries(rows.map(({ url, ...state }) => [new URL(url).pathname, state]))
  assert.deepEqual(states, {
    ...Object.fromEntries(dead.map((path) => [path, isDead])),
    '/flaky': isWell,
    '/picky': { ...isWell, abandoned: 1, kept: 1 },
    '/well': isWell,
  })
  assert.equal(notes.filter((note) => /is switched off/.test(note)).length, dead.length)
  assert.equal(of('/elsewhere').length, 0)
  assert.deepEqual([of('/well').length, of('/flaky').filter(({ atMs }) => atMs > 30 * hour).length], [2, 2])

  // a hook that is off gets nothing, whatever comes; then its platform is mended
  const before = attempts.length
  await addLead()
  await runUntil(100 * hour)
  assert.deepEqual(
    attempts
      .slice(before)
      .map(({ path }) => path)
      .sort(),
    ['/flaky', '/picky', '/well'],
  )
  isMended = true
  const [path = ''] = dead
  const { id, integrationId } = hooks.get(path) as TestHook
  const found = await opened.pool.query('select user_id::integer as id from integrations where id = $1', [
    integrationId,
  ])
  await registerHook(opened.db, { id: integrationId, userId: found.rows[0].id }, platform.url(path))
  assert.deepEqual((await run()).counts, noTriggers)
  const all = { hookId: undefined, sinceMs: undefined }
  const one = await runTrigger(opened, { again: { ...all, hookId: id } })
  assert.deepEqual(one.counts, { ...noTriggers, due: 3, delivered: 3 })
  const runs = await Promise.all([runTrigger(opened, { again: all }), runTrigger(opened, { again: all })])
  const lines = [...one.lines, ...runs.flatMap((each) => each.lines)]
  const expected = [...dead.flatMap((each) => hrefs.map((href) => [each, href])), ['/picky', bad]]
  const pathOf = new Map([...hooks].map(([each, hook]) => [hook.id, each]))
  assert.deepEqual(lines.map(({ hook, href }) => [pathOf.get(hook), href]).sort(), expected.sort())
  assert.ok(lines.every(({ status, attempts: made }) => status === 'delivered' && made === 1))
  // by the ids of the attempts that had failed
  for (const { path: tried, href, webhookId } of attempts.filter((attempt) => dead.includes(attempt.path))) {
    assert.ok(
      lines.some((line) => pathOf.get(line.hook) === tried && line.href === href && line.webhookId === webhookId),
    )
  }
  const stillOff = await opened.pool.query('select from hooks where off_since is not null')
  assert.deepEqual([stillOff.rows.length, (await runTrigger(opened, { again: all })).counts], [0, noTriggers])
})
