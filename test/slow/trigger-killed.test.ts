/** A run of `trigger` whose database is killed: nothing is lost, nothing comes twice. And runs that are killed themselves, `KILLS` times. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { startPostgres } from '../chaos/postgres.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, runTrigger } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { startProgram } from '../support/program.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

test('a killed database that comes back in time loses and doubles no trigger', async () => {
  const postgres = await startPostgres()
  after(() => postgres.leave())
  const opened = await openDatabase({ databaseUrl: postgres.url('leadpush'), home: '' }, { schema: 'any' })
  after(() => opened.close())
  await migrate(opened.db)
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  const platform = await startHookReceiver()
  after(() => platform.close())
  for (const path of ['/a', '/b', '/c']) await addHook(opened, 'user@example.com', platform.url(path))
  await seedLeads(
    opened,
    Array.from({ length: 12 }, (_, at) => ({ href: `https://listings.example.com/${at}` })),
  )
  platform.answer = () => ({ status: 200, delayMs: 120 })
  const notes: string[] = []
  opened.patience.listener = { onAway: (text) => notes.push(text), onBack: () => notes.push('back') }
  const running = runTrigger(opened)
  await platform.atLeast(8)
  await postgres.kill(1_500)
  const { counts } = await running
  assert.deepEqual(counts, { ...noTriggers, due: 36, delivered: 36 })
  assert.match(notes.join(), /^The database at .* is away .*back$/)
  assert.deepEqual(
    [platform.calls.length, new Set(platform.calls.map(({ path, webhookId }) => path + webhookId)).size],
    [36, 36],
  )
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('runs that are killed at any moment lose and strand no trigger, and what comes again has the same id', async () => {
  const kills = Number(process.env.KILLS ?? 20)
  const house = await buildHouse({ users: makeUsers(1) })
  const opened = await house.database.open()
  const platform = await startHookReceiver()
  after(() => platform.close())
  const [hooks, leads] = [20, Math.ceil(kills / 2) + 2]
  for (let n = 0; n < hooks; n++) await addHook(opened, 'user-0@example.com', platform.url(`/${n}`))
  const listings = Array.from({ length: leads }, (_, n) => ({ href: hrefOf(`new-${n}`), postalCode: '78704' }))
  await house.put('leads', listings)
  platform.answer = (_, nth) => ({ status: 200, delayMs: (nth * 7) % 60 })
  const env = { ...house.env, LEADPUSH_ALLOW_INSECURE_HOOKS: '1', LEADPUSH_LEASE: '1h' }
  for (let kill = 0; kill < kills; kill++) {
    const run = startProgram(['trigger'], { env })
    // up to 10 a run, so that some are left for each
    await platform.atLeast(platform.calls.length + 1 + ((kill * 7) % 10))
    run.kill('SIGKILL')
    await run.done
    // its lease is over
    await opened.pool.query(`update workers set lease_until = now() - interval '1 second'`)
  }
  const { code, stderr } = await house.call(['trigger'], { env })
  assert.equal(code, 0, stderr)
  assert.deepEqual((await opened.pool.query('select from triggers')).rows, [])
  const idsOf = new Map<string, Set<string>>()
  for (const { path, json, webhookId } of platform.calls) {
    const name = `${path} ${json.href}`
    idsOf.set(name, (idsOf.get(name) ?? new Set()).add(webhookId))
  }
  assert.equal(idsOf.size, hooks * leads)
  for (const [name, ids] of idsOf) assert.equal(ids.size, 1, name)
  const again = platform.calls.length - idsOf.size
  console.log(`${kills} kills, ${idsOf.size} triggers, of which ${again} came again`)
})
