/** A run of `trigger` whose database is killed: nothing is lost, nothing comes twice. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { startPostgres } from '../chaos/postgres.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, runTrigger } from '../support/hooks.ts'
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
  const running = runTrigger(opened)
  await platform.atLeast(8)
  await postgres.kill(1_500)
  const { counts, notes } = await running
  assert.deepEqual(counts, { ...noTriggers, due: 36, delivered: 36 })
  assert.match(notes.join(), /The database is away/)
  assert.deepEqual(
    [platform.calls.length, new Set(platform.calls.map(({ path, webhookId }) => path + webhookId)).size],
    [36, 36],
  )
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})
