/** What `explain` tells of a listing's triggers, beside what the hooks really got. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { tellTrigger } from '../../src/cli/explain/triggers-view.ts'
import type { TriggerKind } from '../../src/index.ts'
import { explain } from '../../src/inspect/explain/explain.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, passPauses, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const receiver = await startHookReceiver()
after(() => receiver.close())
const settings = { timeZone: 'UTC', maxLeadAgeMs: 30 * 86_400_000, guard: 'on' as const, sameHouse: 'each' as const }
const hrefOf = (name: string) => `https://listings.example.com/${name}`
const put = (prices: Record<string, number>, postalCode = '78704') =>
  seedLeads(
    opened,
    Object.entries(prices).map(([name, price]) => ({ href: hrefOf(name), postalCode, price })),
  )

let users = 0
/** The one user with a hook, and what `explain` says of a listing: status, or reason, of each trigger. */
async function addUser(triggers?: TriggerKind[]) {
  await opened.pool.query('delete from integrations')
  receiver.answer = () => 200
  const email = `user-${++users}@example.com`
  await seedUsers(opened.db, [{ email, queries: [{ value: '78704', places: ['78704'] }] }])
  const path = `/${users}`
  const hook = await addHook(opened, email, receiver.url(path), triggers)
  const explained = (name: string) => explain(opened.db, { email, href: hrefOf(name) }, settings)
  const facts = async (name: string) => (await explained(name)).triggers
  const ask = async (name: string) => (await facts(name)).map(({ status, reason }) => reason ?? status)
  const tell = async (name: string) => {
    const { triggers, gone } = await explained(name)
    return triggers.map((each) => tellTrigger(each, () => 'THEN', gone)).join('\n')
  }
  return { hook, path, email, facts, ask, tell }
}

test('a listing is due, then delivered; one from before the hook, one that does not match and one not looked at say so', async () => {
  await put({ before: 100 })
  const { hook, ask, facts, tell } = await addUser()
  await put({ match: 100 })
  await put({ elsewhere: 100 }, '10001')
  assert.deepEqual(await ask('match'), ['not looked at'])
  receiver.answer = () => 500
  await runTrigger(opened)
  const [failing] = await facts('match')
  assert.deepEqual(
    { ...failing, at: failing?.at instanceof Date, nextAt: failing?.nextAt instanceof Date },
    { hook: hook.id, integration: hook.integrationId, trigger: 'new_lead', status: 'failing', reason: null,
      at: false, attempts: 1, nextAt: true, error: 'HTTP 500', offSince: null },
  ) // biome-ignore format: a list
  assert.match(
    await tell('match'),
    /^new_lead, hook .* due, and 1 attempt failed \(HTTP 500\): it is sent from THEN on\.$/,
  )
  receiver.answer = () => 200
  await passPauses(opened)
  await runTrigger(opened)
  assert.deepEqual(await ask('match'), ['done'])
  assert.match(await tell('match'), /: nothing is due any more: it was delivered, or, when/)
  assert.deepEqual(await ask('before'), ['nothing new'])
  assert.match(await tell('before'), /not due: the listing was imported before the hook was registered\.$/)
  assert.deepEqual(await ask('elsewhere'), ['done'])
})

test('triggers that were abandoned, dropped or missed by a hook that is switched off are shown, and delivered after --again', async () => {
  const { hook, ask, tell } = await addUser()
  const many = Array.from({ length: 301 }, (_, at) => [`many-${at}`, 100])
  await put(Object.fromEntries(many))
  receiver.answer = () => 500
  await runTrigger(opened)
  assert.deepEqual(await ask('many-300'), ['dropped'])
  assert.match(
    await tell('many-300'),
    /dropped on THEN, beyond the 300 newest of one run: `leadpush trigger --again --hook/,
  )
  await opened.pool.query('delete from triggers where attempts = 0')
  await opened.pool.query('update triggers set attempts = 8')
  await passPauses(opened)
  await runTrigger(opened)
  const { rows } = await opened.pool.query('select lead_ids[1]::integer as id from lost_triggers where not dropped')
  const { rows: [found] } = await opened.pool.query(
    'select json::json ->> \'href\' as href from lead_versions where lead_id = $1', [rows[0].id]) // biome-ignore format: one
  const abandoned = found.href.replace(hrefOf(''), '')
  assert.deepEqual(await ask(abandoned), ['abandoned'])
  await opened.pool.query('update hooks set off_since = now()')
  await put({ missed: 100 })
  await runTrigger(opened)
  assert.deepEqual(await ask('missed'), ['abandoned'])
  assert.match(await tell('missed'), /kept on THEN, since the hook is switched off/)
  receiver.answer = () => 200
  await passPauses(opened)
  await runTrigger(opened, { again: { hookId: hook.id, sinceMs: undefined } })
  for (const name of ['many-300', abandoned, 'missed']) assert.deepEqual(await ask(name), ['done'], name)
})

test('a price that changed is looked at next, or says why nothing is due', async () => {
  await put({ same: 100, changed: 100, back: 100, early: 90 })
  await put({ early: 100 })
  const { ask } = await addUser(['price_change', 'new_lead'])
  await put({ changed: 110, back: 110 })
  await put({ back: 100, fresh: 100 })
  await put({ fresh: 110 })
  const prices = async (name: string) => (await ask(name))[1]
  assert.deepEqual(await Promise.all(['same', 'changed', 'back', 'early', 'fresh'].map(prices)), [
    'nothing new', 'not looked at', 'not looked at', 'nothing new', 'not looked at',
  ]) // biome-ignore format: a list
  await runTrigger(opened)
  assert.deepEqual(await ask('changed'), ['nothing new', 'done'])
  assert.deepEqual(await ask('fresh'), ['done', 'done'])
  assert.deepEqual(await Promise.all(['same', 'back', 'early'].map(prices)), ['nothing new', 'done', 'nothing new'])
  await put({ changed: 120 })
  assert.equal(await prices('changed'), 'not looked at')
})

// It ended.
test('a trigger waits while its listing is gone, but for one that tells of that', async () => {
  const { hook, ask, path, facts, tell } = await addUser()
  await put({ leaves: 100 })
  receiver.answer = () => 500
  await runTrigger(opened)
  const { rows: [{ id }] } = await opened.pool.query('select max(id)::integer as id from leads') // biome-ignore format: one
  const setGone = (gone: boolean) => opened.pool.query('update lead_seen set gone = $1 where lead_id = $2', [gone, id])
  await setGone(true)
  receiver.answer = () => 200
  await passPauses(opened)
  await runTrigger(opened)
  assert.equal(receiver.of(path).length, 1)
  assert.deepEqual(await ask('leaves'), ['failing'])
  assert.equal((await facts('leaves'))[0]?.nextAt, null)
  assert.match(
    await tell('leaves'),
    /1 attempt failed \(HTTP 500\): it waits until an import brings the listing again\.$/,
  )
  await setGone(false)
  await runTrigger(opened)
  assert.deepEqual(await ask('leaves'), ['done'])

  await put({ erased: 100 })
  receiver.answer = () => 500
  await runTrigger(opened)
  await opened.pool.query('delete from leads where id = $1', [id + 1])
  await passPauses(opened)
  await runTrigger(opened)
  const { rows } = await opened.pool.query('select from triggers where hook_id = $1', [hook.id])
  assert.equal(rows.length, 0)
})
