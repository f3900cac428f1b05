/** What hooks did not get (contract 6.1, 6.4, 6.5): hooks that are switched off, and `trigger --again`. */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { findHooksInTrouble } from '../../src/inspect/status/hooks-in-trouble.ts'
import { registerHook } from '../../src/integrations/hooks.ts'
import { findTriggerFigures } from '../../src/server/trigger-figures.ts'
import { recordTriggers } from '../../src/triggers/record-triggers.ts'
import { prune } from '../../src/upkeep/prune/prune.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, passPauses, runTrigger, type TestHook } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())
await seedUsers(opened.db, [{ email: 'user@example.com' }])
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  platform.calls.length = 0
  platform.answer = () => 200
})

const hook = (path: string) => addHook(opened, 'user@example.com', platform.url(path))

/** So many new leads for the user; returns their hrefs. */
async function addLeads(count: number): Promise<string[]> {
  const hrefs = Array.from({ length: count }, () => `https://listings.example.com/${++names}`)
  await seedLeads(
    opened,
    hrefs.map((href) => ({ href })),
  )
  return hrefs
}

const triggersOf = async ({ id }: TestHook) =>
  (await opened.pool.query('select attempts from triggers where hook_id = $1', [id])).rows

/** The hook's last attempt of a whole schedule is next, and due. */
async function passSchedule(): Promise<void> {
  await opened.pool.query('update triggers set attempts = 8 where attempts > 0')
  await passPauses(opened)
}
const all = { hookId: undefined, sinceMs: undefined }
const idsOf = (path: string) => platform.of(path).map(({ webhookId }) => webhookId)

test('a hook that used up the schedule with nothing delivered is switched off; its triggers are kept for --again', async () => {
  const off = await hook('/off')
  const hrefs = await addLeads(2)
  platform.answer = () => 500
  await runTrigger(opened)
  await passSchedule()
  const last = await runTrigger(opened)
  assert.deepEqual([last.counts.abandoned, last.counts.failed], [1, 0])
  assert.match(last.notes.join(), new RegExp(`The hook ${off.id} is switched off`))
  assert.deepEqual(await triggersOf(off), [])
  platform.answer = () => 200
  hrefs.push(...(await addLeads(1)))
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  const stateOf = async () =>
    (
      await opened.pool.query(
        `select off_since is not null as off, abandoned::integer,
          (select coalesce(sum(cardinality(lead_ids)), 0)::integer from lost_triggers where hook_id = hooks.id) as kept
        from hooks where id = $1`,
        [off.id],
      )
    ).rows[0]
  assert.deepEqual(await stateOf(), { off: true, abandoned: 3, kept: 3 })

  const { rows } = await opened.pool.query('select user_id::integer as id from integrations where id = $1', [
    off.integrationId,
  ])
  const integration = { id: off.integrationId, userId: rows[0].id }
  const registered = await registerHook(opened.db, integration, platform.url('/off'))
  assert.deepEqual(registered, { hookId: off.id, isNew: false, wasOff: true, owed: false })
  assert.deepEqual(await registerHook(opened.db, integration, platform.url('/off')), { ...registered, wasOff: false })
  const [fresh] = await addLeads(1)
  assert.deepEqual(
    (await runTrigger(opened)).lines.map(({ href }) => href),
    [fresh],
  )
  const [tried] = idsOf('/off')
  const again = await runTrigger(opened, { again: all })
  assert.deepEqual(again.counts, { ...noTriggers, due: 3, delivered: 3 })
  assert.deepEqual(
    again.lines.map(({ href, attempts }) => [href, attempts]).sort(),
    hrefs.map((href) => [href, 1]).sort(),
  )
  // one of them was tried before, with the same id
  assert.ok(again.lines.some(({ webhookId }) => webhookId === tried))
  assert.deepEqual(await stateOf(), { off: false, abandoned: 3, kept: 0 })
  assert.deepEqual((await runTrigger(opened, { again: all })).counts, noTriggers)
})

test('a hook that takes one trigger while it uses up the schedule of another stays on', async () => {
  const { id } = await hook('/both')
  await addLeads(2)
  platform.answer = () => 500
  await runTrigger(opened)
  await passSchedule()
  const { rows } = await opened.pool.query<{ versionId: number; leadId: number }>(
    'update triggers set worker_id = 7 where hook_id = $1 returning version_id as "versionId", lead_id as "leadId"',
    [id],
  )
  const outcomes = rows.map((row, at) => ({
    ...{ ...row, hookId: id, kind: 'new_lead' as const, ok: at === 1, abandoned: at === 0, gone: false, failures: 0 },
    ...{
      httpStatus: at === 1 ? 200 : 500,
      error: null,
      retryAfterMs: null,
      pauseMs: null,
      timedOut: false,
      durationMs: 1,
    },
  }))
  assert.equal(outcomes.length, 2)
  const { offIds } = await recordTriggers(opened.db, { ids: [7] }, new Date().toISOString(), outcomes)
  const state = await opened.pool.query('select off_since, abandoned from hooks where id = $1', [id])
  assert.deepEqual([offIds, state.rows], [[], [{ off_since: null, abandoned: 1 }]])
})

test('a hook that takes one trigger and refuses the next in one statement has failed since then alone', async () => {
  const { id } = await hook('/since')
  await addLeads(2)
  platform.answer = () => 500
  await runTrigger(opened)
  await opened.pool.query(`update hooks set failing_since = now() - interval '2 days' where id = $1`, [id])
  const { rows } = await opened.pool.query<{ versionId: number; leadId: number }>(
    'update triggers set worker_id = 7 where hook_id = $1 returning version_id as "versionId", lead_id as "leadId"',
    [id],
  )
  const outcomes = rows.map((row, at) => ({
    ...{ ...row, hookId: id, kind: 'new_lead' as const, ok: at === 0, abandoned: false, gone: false, failures: at },
    ...{ httpStatus: at === 0 ? 200 : 500, error: null, retryAfterMs: null, pauseMs: null },
    ...{ timedOut: false, durationMs: 1 },
  }))
  assert.equal(outcomes.length, 2)
  await recordTriggers(opened.db, { ids: [7] }, new Date().toISOString(), outcomes)
  const since = await opened.pool.query(
    `select failing_since > now() - interval '1 day' as "isNew" from hooks where id = $1`,
    [id],
  )
  assert.deepEqual(since.rows, [{ isNew: true }])
})

test('a hook that took other triggers meanwhile is not switched off', async () => {
  const kept = await hook('/kept')
  const [bad] = await addLeads(1)
  platform.answer = ({ json }) => (json.href === bad ? 422 : 200)
  await runTrigger(opened)
  await addLeads(1)
  await passPauses(opened)
  await opened.pool.query("update triggers set due_at = now() + interval '1 hour' where attempts > 0")
  assert.equal((await runTrigger(opened)).counts.delivered, 1)
  await passSchedule()
  const last = await runTrigger(opened)
  assert.deepEqual([last.counts.abandoned, last.notes], [1, []])
  const { rows } = await opened.pool.query('select off_since from hooks where id = $1', [kept.id])
  assert.deepEqual(rows, [{ off_since: null }])
})

test('--again may be for one hook, or for triggers lost lately; after 30 days nothing is kept', async () => {
  const hooks = [await hook('/one'), await hook('/two'), await hook('/three')]
  await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  await passSchedule()
  assert.equal((await runTrigger(opened)).counts.abandoned, 3)
  await opened.pool.query('update hooks set paused_until = null')
  const age = (hook: TestHook | undefined, days: number) =>
    opened.pool.query(`update lost_triggers set lost_at = now() - $2 * interval '1 day' where hook_id = $1`, [
      hook?.id,
      days,
    ])
  await age(hooks[1], 3)
  await age(hooks[2], 31)
  platform.answer = () => 200
  platform.calls.length = 0
  const day = 86_400_000
  const paths = async (again: { hookId: string | undefined; sinceMs: number | undefined }) => {
    platform.calls.length = 0
    await runTrigger(opened, { again })
    return platform.calls.map(({ path }) => path)
  }
  assert.deepEqual(await paths({ hookId: hooks[1]?.id, sinceMs: 2 * day }), [])
  assert.deepEqual(await paths({ hookId: undefined, sinceMs: 2 * day }), ['/one'])
  assert.deepEqual(await paths({ hookId: hooks[1]?.id, sinceMs: undefined }), ['/two'])
  assert.deepEqual(await paths(all), [])
})

// A run right after the failure told that nothing was due, though what was lost waited for the end of the pause.
test('an --again for a hook that has a pause tells what waits for its end, which a later run sends', async () => {
  const paused = await hook('/paused')
  await hook('/other')
  await addLeads(2)
  platform.answer = ({ path }) => (path === '/paused' ? { status: 500, headers: { 'retry-after': '60' } } : 200)
  await runTrigger(opened)
  await passSchedule()
  assert.equal((await runTrigger(opened)).counts.abandoned, 1)
  platform.answer = () => 200
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  const again = await runTrigger(opened, { again: { hookId: paused.id, sinceMs: undefined } })
  assert.deepEqual(again.counts, { ...noTriggers, due: 2, waiting: 2 })
  assert.deepEqual((await runTrigger(opened, { again: all })).counts, { ...noTriggers, due: 2, waiting: 2 })
  await passPauses(opened)
  assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 2, delivered: 2 })
})

test('an --again that fails has the whole schedule before it, and runs at once renew each trigger once', async () => {
  const failing = await hook('/again')
  await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  await passSchedule()
  await runTrigger(opened)
  await opened.pool.query('update hooks set paused_until = null')
  const runs = await Promise.all([runTrigger(opened, { again: all }), runTrigger(opened, { again: all })])
  assert.equal(
    runs.reduce((sum, { counts }) => sum + counts.failed, 0),
    1,
  )
  assert.deepEqual(
    (await triggersOf(failing)).map(({ attempts }) => attempts),
    [1],
  )
  assert.deepEqual([new Set(idsOf('/again')).size, idsOf('/again').length], [1, 3])
})

test('a 410 to the last attempt of a schedule removes the hook, also beside an attempt that is abandoned', async () => {
  // the run ended with an error: there is no pause after the last attempt
  await hook('/both')
  await addLeads(1)
  await runTrigger(opened)
  const [bad, gone] = await addLeads(2)
  platform.answer = () => 500
  await runTrigger(opened)
  await opened.pool.query('update triggers set attempts = 8, failing_since = now()')
  await passPauses(opened)
  let arrived = 0
  platform.answer = ({ json }) => ({ status: json.href === gone || bad === undefined ? 410 : 500, delayMs: arrived++ })
  const { counts } = await runTrigger(opened)
  assert.equal(counts.abandoned + counts.removed, 1)
  await opened.pool.query('update hooks set paused_until = null')
  await runTrigger(opened, { again: all })
  assert.deepEqual((await opened.pool.query('select id from hooks')).rows, [])
})

// A retry, and --again, ended the trigger of a listing that a complete import lacked for a moment.
test('a due trigger for a listing that is gone waits until it is back, even after --again, and ends when it is pruned', async () => {
  const waiting = await hook('/waiting')
  await addLeads(1)
  const setGone = (gone: boolean) =>
    opened.pool.query('update lead_seen set gone = $1 where lead_id = (select max(id) from leads)', [gone])
  platform.answer = () => 500
  await runTrigger(opened)
  platform.answer = () => 200
  await setGone(true)
  await passPauses(opened)
  for (let run = 0; run < 2; run++) assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  assert.deepEqual([(await triggersOf(waiting)).length, idsOf('/waiting').length], [1, 1])
  const { due, hooksDue, failing } = await findTriggerFigures(opened.db)
  assert.deepEqual({ due, hooksDue, failing }, { due: 0, hooksDue: 0, failing: 0 })
  assert.deepEqual(await findHooksInTrouble(opened.db, 10, 'on'), [])
  await setGone(false)
  const back = await runTrigger(opened)
  assert.deepEqual([back.counts, back.lines[0]?.attempts], [{ ...noTriggers, due: 1, delivered: 1 }, 2])
  assert.equal(new Set(idsOf('/waiting')).size, 1)

  await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  await passSchedule()
  assert.equal((await runTrigger(opened)).counts.abandoned, 1)
  platform.answer = () => 200
  await opened.pool.query('update hooks set paused_until = null')
  await setGone(true)
  assert.deepEqual((await runTrigger(opened, { again: all })).counts, noTriggers)
  await setGone(false)
  assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 1, delivered: 1 })

  await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  await setGone(true)
  await passPauses(opened)
  await runTrigger(opened)
  await opened.pool.query(`update lead_seen set seen_at = now() - interval '100 days'`)
  const day = 86_400_000
  await prune(opened.db, { olderThanMs: 90 * day, maxLeadAgeMs: 30 * day, stop: new AbortController().signal })
  assert.equal((await triggersOf(waiting)).length, 1)
  await runTrigger(opened)
  assert.deepEqual([await triggersOf(waiting), new Set(idsOf('/waiting')).size], [[], 3])
})

// A retry was sent however long ago the listing had been seen.
test('a due trigger for a listing that is too old waits until an import brings it again', async () => {
  await hook('/aged')
  const [href = ''] = await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  platform.answer = () => 200
  const settings = { maxLeadAgeMs: 3_600_000 }
  const see = (minutes: number) =>
    opened.pool.query(`update lead_seen set seen_at = now() - $1 * interval '1 minute'`, [minutes])
  await see(61)
  await passPauses(opened)
  assert.deepEqual((await runTrigger(opened, { settings })).counts, noTriggers)
  assert.deepEqual((await runTrigger(opened, { settings })).counts, noTriggers)
  await see(59)
  const { counts, lines } = await runTrigger(opened, { settings })
  assert.deepEqual([counts, lines[0]?.href], [{ ...noTriggers, due: 1, delivered: 1 }, href])
})

// Prune deleted the import of a listing that had been lost lately, and --again then deleted the trigger instead of sending it.
test('--again sends what was abandoned, dropped or missed by a hook that is off also once its import was pruned, with the same id', async () => {
  await hook('/kept')
  const setOff = (off: boolean) =>
    opened.pool.query('update hooks set off_since = case when $1 then now() end, paused_until = null', [off])
  const [abandoned] = await addLeads(1)
  const old = `update imports set started_at = now() - interval '100 days' where started_at > now() - interval '1 day'`
  await opened.pool.query(old)
  platform.answer = () => 500
  await runTrigger(opened)
  await passSchedule()
  assert.equal((await runTrigger(opened)).counts.abandoned, 1)
  const [tried] = idsOf('/kept')
  await setOff(true)
  const [missed] = await addLeads(1)
  await opened.pool.query(old)
  await runTrigger(opened)
  await setOff(false)
  await addLeads(301)
  await opened.pool.query(old)
  platform.answer = () => 500
  assert.equal((await runTrigger(opened)).counts.dropped, 1)
  await opened.pool.query('delete from triggers')
  await seedLeads(opened, [{ href: 'https://listings.example.com/elsewhere', postalCode: '10001' }])
  await runTrigger(opened)
  const day = 86_400_000
  const pruneAll = () =>
    prune(opened.db, { olderThanMs: 90 * day, maxLeadAgeMs: 30 * day, stop: new AbortController().signal })
  const { rows } = await opened.pool.query(
    'select array_length(occurred_at, 1)::integer as n from lost_triggers order by id',
  )
  assert.deepEqual(rows, [{ n: 1 }, { n: 1 }, { n: 1 }])
  assert.ok((await pruneAll()).imports >= 3)
  platform.answer = () => 200
  await passPauses(opened)
  const again = await runTrigger(opened, { again: all })
  assert.equal(again.counts.delivered, 3)
  const sent = new Map(again.lines.map(({ href, webhookId }) => [href, webhookId]))
  assert.ok(sent.has(missed ?? ''))
  assert.equal(sent.get(abandoned ?? ''), tried)
})
