/** One run of `trigger` sends at a time (contract 6.2): what another does, what the one at work takes over, and what a kill leaves. */
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, beforeEach, test } from 'node:test'
import { leaveDuty, takeDuty } from '../../src/db/duties.ts'
import { databaseLeases, Worker } from '../../src/db/leases.ts'
import { renewLost } from '../../src/triggers/lost-triggers.ts'
import { triggerDuty } from '../../src/triggers/trigger-store.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, passPauses, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { listen } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())
await seedUsers(opened.db, [{ email: 'user@example.com' }])
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks; delete from workers')
  platform.calls.length = 0
  platform.answer = () => 200
})

const hook = (path: string) => addHook(opened, 'user@example.com', platform.url(path))
const addLeads = (count: number) =>
  seedLeads(
    opened,
    Array.from({ length: count }, () => ({ href: `https://listings.example.com/${++names}` })),
  )
const all = { hookId: undefined, sinceMs: undefined }
const distinct = () => new Set(platform.calls.map(({ path, webhookId }) => path + webhookId)).size

test('a second run says which is at work and ends; the first also takes what came with it, new leads and lost triggers', async () => {
  const lost = await hook('/lost')
  await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  await opened.pool.query('update triggers set attempts = 8')
  await passPauses(opened)
  assert.equal((await runTrigger(opened)).counts.abandoned, 1)
  await opened.pool.query('update hooks set off_since = null, paused_until = null')
  platform.calls.length = 0

  // the first run is at work until the second one has ended, on any machine
  const held: http.ServerResponse[] = []
  let holds = true
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => (holds ? held.push(response) : response.end()))
  })
  const { port, close } = await listen(server)
  await addHook(opened, 'user@example.com', `http://127.0.0.1:${port}/busy`)
  await addLeads(1)
  platform.answer = () => 200
  const first = runTrigger(opened, { timeoutMs: 60_000 })
  await until('the first run is at work', () => held.length === 1)
  await addLeads(1)
  const again = await runTrigger(opened, { again: { ...all, hookId: lost.id } })
  assert.deepEqual([again.counts, again.lines], [noTriggers, []])
  assert.match(
    again.notes.join(),
    /^Another run has been sending triggers since \S+ \(process \d+ on .+\): it also takes/,
  )
  holds = false
  held[0]?.end()
  const { counts } = await first
  // two new leads to each hook but for what was abandoned, and that
  assert.deepEqual(counts, { ...noTriggers, due: 5, delivered: 5 })
  assert.equal(distinct(), 3)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  await close()
})

test('if several runs begin at once, one sends, and each trigger goes once', async () => {
  await hook('/a')
  for (let round = 0; round < 5; round++) {
    await addLeads(1)
    const runs = await Promise.all([runTrigger(opened), runTrigger(opened), runTrigger(opened)])
    assert.equal(runs.reduce((sum, { counts }) => sum + counts.delivered, 0), 1) // biome-ignore format: one
  }
  assert.deepEqual([platform.calls.length, distinct()], [5, 5])
})

// What was due stood in a column of the hook too, which a run set from a snapshot older than its lock: no run saw these triggers again.
test('triggers that are renewed while the run records an answer of their hook are sent by that run', async () => {
  const { id } = await hook('/renewed')
  await addLeads(3)
  platform.answer = () => 500
  await runTrigger(opened)
  await opened.pool.query('update triggers set attempts = 8')
  await passPauses(opened)
  for (let run = 0; run < 3; run++, await passPauses(opened)) await runTrigger(opened)
  await opened.pool.query('update hooks set off_since = null, paused_until = null, failures = 0')
  const { rows } = await opened.pool.query('select cardinality(lead_ids) as leads from lost_triggers')
  assert.deepEqual(rows.reduce((sum, { leads }) => sum + leads, 0), 3) // biome-ignore format: short
  await hook('/busy')
  await addLeads(1)
  const [answered, over] = [makeGate(), makeGate()]
  platform.calls.length = 0
  platform.answer = ({ path }) => (path === '/busy' ? over : answered).opened.then(() => 200)
  const run = runTrigger(opened, { timeoutMs: 60_000 })
  await until('the new lead is sent to both', () => platform.calls.length === 2)
  await opened.db.transaction().execute(async (renewal) => {
    await renewLost(renewal, { hookId: id, sinceMs: undefined })
    answered.open()
    await until('the run waits for the hook', async () => {
      const waits = await opened.pool.query(`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%from hooks%for update%'`)
      return waits.rowCount === 1
    })
  })
  await runTrigger(opened, { again: { hookId: id, sinceMs: undefined } })
  over.open()
  assert.deepEqual((await run).counts, { ...noTriggers, due: 5, delivered: 5 })
  assert.equal(distinct(), 5)
  assert.deepEqual((await opened.pool.query('select from triggers')).rowCount, 0)
})

test('triggers of a killed run are sent again with the same id once its lease is over, and not before', async () => {
  await hook('/a')
  await addLeads(2)
  const killed = await Worker.start(databaseLeases(opened.db), 60_000)
  killed.stopRenewing()
  assert.equal(await takeDuty(opened.db, triggerDuty, killed), 'taken')
  await runTrigger(opened)
  assert.equal(platform.calls.length, 0)
  await opened.pool.query(`update workers set lease_until = now() - interval '1 second' where id = $1`, [killed.id])
  assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 2, delivered: 2 })
})

test('a duty is kept by its worker, asked for by others, and given back only where nobody asked', async () => {
  const [one, two] = [
    await Worker.start(databaseLeases(opened.db), 60_000),
    await Worker.start(databaseLeases(opened.db), 60_000),
  ]
  const take = (worker: Worker) => takeDuty(opened.db, 'work', worker)
  assert.deepEqual([await take(one), await take(one)], ['taken', 'kept'])
  const atWork = await take(two)
  assert.ok(typeof atWork === 'object' && atWork.processId === process.pid)
  assert.equal(await leaveDuty(opened.db, 'work', one), false)
  assert.equal(await leaveDuty(opened.db, 'work', one), true)
  assert.equal(await take(two), 'taken')
  await opened.pool.query(`update workers set lease_until = now() - interval '1 second' where id = $1`, [two.id])
  assert.equal(await take(one), 'taken')
  await one.stop()
  await two.stop()
})

// What a look had found, and committed while the recording waited for the lock of the hook, stayed due for a hook that was off.
test('a hook that is switched off has nothing due, also of what is found at that moment', async () => {
  const off = await hook('/off')
  await addLeads(1)
  platform.answer = () => 500
  await runTrigger(opened)
  await opened.pool.query('update triggers set attempts = 8')
  await passPauses(opened)
  const client = await opened.pool.connect()
  await client.query('begin')
  await client.query('select from hooks where id = $1 for update', [off.id])
  await client.query(
    `insert into triggers (hook_id, version_id, kind, lead_id, occurred_at, due_at)
     select hook_id, 999999, kind, lead_id, now(), now() from triggers`,
  )
  const running = runTrigger(opened)
  await platform.atLeast(2)
  await client.query('commit')
  client.release()
  assert.equal((await running).counts.abandoned, 1)
  assert.deepEqual((await opened.pool.query('select from triggers')).rows, [])
})
