/** Which new leads are due for which hooks (contract 6.1), as the statements that look for them see it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeHooks } from '../../src/integrations/hooks.ts'
import type { Looked } from '../../src/triggers/look-for-leads.ts'
import { renewLost } from '../../src/triggers/lost-triggers.ts'
import { findRunStart } from '../../src/triggers/trigger-store.ts'
import { importUsers } from '../../src/users/import.ts'
import { createDatabase } from '../support/database.ts'
import { addHook, lookAtAll, type TestHook } from '../support/hooks.ts'
import { zip } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { seedLeads } from '../support/seed.ts'
import { until } from '../support/until.ts'

const opened = await (await createDatabase(undefined, { places: 'all' })).open()
const hrefOf = (name: string | number) => `https://listings.example.com/${name}`
const day = 86_400_000
let hooks = 0

const emailOf = (name: string) => `${name}@example.com`
const text = (value: string, radius = 0) => ({ type: 'text', value, radius })

async function putUsers(queries: Record<string, object[]>): Promise<void> {
  const users = Object.entries(queries).map(([name, list]) => ({
    email: emailOf(name),
    receiverApiKey: 'k',
    queries: list,
    subscribed: name !== 'words',
  }))
  assert.equal((await importUsers(opened, [writeInput('users.ndjson', toLines(users))])).summary.rejected, 0)
}

const atOnce = Array.from({ length: 12 }, (_, n) => `at-once-${n}`)
await putUsers({
  places: [zip('78704'), zip('78704', 1), zip('10001')],
  words: [text('sauna'), ...atOnce.map(text).map((query, n) => ({ ...query, value: `word${n}` }))],
  both: [text('sauna Austin, TX', 30)],
  without: [],
  later: [zip('33101')],
  changed: [zip('98101')],
  many: [zip('20001'), text('nothing')],
  plenty: [zip('73301')],
  stale: [zip('80202')],
  again: [zip('59601')],
  during: [zip('50309')],
  suburb: [text('Sandy Springs, GA'), text('sauna Centennial, CO')],
  ...Object.fromEntries(atOnce.map((name) => [name, [zip('96813')]])),
})

const hookOf = (name: string) => addHook(opened, emailOf(name), `https://hooks.example.com/${++hooks}`)

async function look(maxLeadAgeMs = 30 * day, onLooked?: (looked: Looked) => void): Promise<Looked> {
  const { lastImportId: upTo } = await findRunStart(opened.db)
  return await lookAtAll(opened, { upTo, maxLeadAgeMs }, onLooked)
}

/** The leads due for the hook, the oldest first, by the ends of their hrefs. */
async function dueOf({ id }: TestHook): Promise<string[]> {
  const { rows } = await opened.pool.query(
    `select v.json::jsonb->>'href' as href from triggers t join leads l on l.id = t.lead_id join lead_versions v on v.id = l.version_id
     where hook_id = $1 order by t.version_id`,
    [id],
  )
  return rows.map(({ href }) => href.replace(hrefOf(''), ''))
}

const lead = (name: string | number, postalCode: string, more: object = {}) => ({
  href: hrefOf(name),
  postalCode,
  ...more,
})

test('a lead is due once for each hook that was there before it, if it matches any query of its user, subscribed or not', async () => {
  await seedLeads(opened, [lead('before', '78704')])
  const places = await hookOf('places')
  const second = await hookOf('places')
  const words = await hookOf('words')
  const both = await hookOf('both')
  const without = await hookOf('without')
  assert.deepEqual(await look(), { hooks: 0, found: 0, dropped: 0 })

  await seedLeads(opened, [
    lead('place', '78704'),
    lead('place-and-words', '78704-1234', { description: 'with two saunas' }),
    lead('words', '60601', { description: 'Sauna!' }),
    lead('none', '60601'),
  ])
  const between = await hookOf('places')
  await seedLeads(opened, [lead('city', '10001')])
  const later = await hookOf('places')
  assert.deepEqual(await look(), { hooks: 6, found: 10, dropped: 0 })
  assert.deepEqual(await dueOf(between), ['city'])
  assert.deepEqual(await dueOf(places), ['place-and-words', 'place', 'city'])
  assert.deepEqual(await dueOf(second), ['place-and-words', 'place', 'city'])
  assert.deepEqual(await dueOf(words), ['words', 'place-and-words'])
  assert.deepEqual(await dueOf(both), ['place-and-words'])
  assert.deepEqual([await dueOf(without), await dueOf(later)], [[], []])
  assert.deepEqual(await look(), { hooks: 0, found: 0, dropped: 0 })
  await opened.pool.query('delete from triggers')
})

test('a lead is due whose city is the place of a query, and no postal code is named after that', async () => {
  const hook = await hookOf('suburb')
  await seedLeads(opened, [
    lead('suburb', '30328', { city: 'SANDY SPRINGS', state: 'Georgia' }),
    lead('city', '30328', { city: 'Atlanta', state: 'GA' }),
    lead('with-words', '80112', { city: 'Centennial', state: 'CO', description: 'a sauna' }),
    lead('without', '80112', { city: 'Centennial', state: 'CO' }),
  ])
  await look()
  assert.deepEqual(await dueOf(hook), ['with-words', 'suburb'])
})

test('later changes of leads or queries make nothing due; the queries count as they are when the first run looks', async () => {
  const hook = await hookOf('later')
  await seedLeads(opened, [lead('moves', '33109'), lead('changes', '33101')])
  assert.equal((await look()).found, 1)
  await seedLeads(opened, [lead('moves', '33101'), lead('changes', '33101', { price: 5 }), lead('before', '33101')])
  await putUsers({ later: [zip('33101'), zip('33109')] })
  assert.equal((await look()).found, 0)
  await seedLeads(opened, [lead('new-place', '33139')])
  await putUsers({ later: [zip('33139')] })
  assert.equal((await look()).found, 1)
  assert.deepEqual(await dueOf(hook), ['changes', 'new-place'])
})

test('a lead that was changed by another import before the first run looked is due, once', async () => {
  const hook = await hookOf('changed')
  await seedLeads(opened, [lead('changed', '98101')])
  await seedLeads(opened, [lead('changed', '98101', { price: 9 })])
  await seedLeads(opened, [lead('changed', '98101', { price: 10 })])
  assert.equal((await look()).found, 1)
  assert.deepEqual(await dueOf(hook), ['changed'])
})

test('the 300 newest leads of a run are due to a hook; the others are counted as dropped, and only --again sends them', async () => {
  const names = (count: number) => Array.from({ length: count }, (_, n) => lead(`${count}-${n}`, '20001'))
  for (const [count, found, dropped] of [[299, 299, 0], [300, 300, 0], [301, 300, 1]] as const) {
    const hook = await hookOf('many')
    await seedLeads(opened, names(count))
    const { found: all, dropped: beyond } = await look()
    const due = await dueOf(hook)
    // the later in the file is the older, and the dropped one is the oldest
    assert.deepEqual([due.length, due.at(-1), due[0]], [found, `${count}-0`, `${count}-${found - 1}`])
    assert.ok(all >= found && beyond >= dropped)
    assert.equal((await look()).found, 0)
    assert.equal((await dueOf(hook)).length, found)
    const told = await opened.pool.query('select dropped, dropped_at > now() - interval \'1 hour\' as lately from hooks where id = $1', [hook.id])
    assert.deepEqual(told.rows, [{ dropped, lately: dropped > 0 || null }])
    await renewLost(opened.db, { hookId: hook.id, sinceMs: undefined })
    assert.equal((await dueOf(hook)).length, count)
    await opened.pool.query('delete from hooks where id = $1', [hook.id])
  } // biome-ignore format: a list
})

test('all that is dropped is kept for --again, however much it is', async () => {
  // of a hook, kind and run only the 10,000 newest were kept once
  const hook = await hookOf('plenty')
  await opened.pool.query(`update hooks set triggers = '{new_lead,price_change}' where id = $1`, [hook.id])
  const plenty = (price: number) => Array.from({ length: 10_301 }, (_, n) => lead(`plenty-${n}`, '73301', { price }))
  for (const price of [10, 20]) {
    await seedLeads(opened, plenty(price))
    const { found, dropped } = await look()
    assert.deepEqual([found, dropped], [300, 10_001])
  }
  const lost = await opened.pool.query(
    'select cardinality(lead_ids) as n from lost_triggers where hook_id = $1 and dropped order by kind, cardinality(lead_ids) desc',
    [hook.id],
  )
  assert.deepEqual(
    lost.rows.map(({ n }) => n),
    [...Array(10).fill(1_000), 1, ...Array(10).fill(1_000), 1],
  )
  await renewLost(opened.db, { hookId: hook.id, sinceMs: undefined })
  const due = await opened.pool.query(
    `select count(distinct lead_id)::integer as leads, min(payload ->> 'previousPrice')::integer as before,
       max(payload ->> 'price')::integer as price
     from triggers where hook_id = $1 group by kind order by kind`,
    [hook.id],
  )
  assert.deepEqual(due.rows, [
    { leads: 10_301, before: null, price: null },
    { leads: 10_301, before: 10, price: 20 },
  ])
  await opened.pool.query('delete from hooks where id = $1', [hook.id])
})

test('a lead last seen before the maximum age is due for no hook', async () => {
  const hook = await hookOf('stale')
  await seedLeads(opened, [lead('stale', '80202')], 31)
  await seedLeads(opened, [lead('seen', '80202')], 29)
  assert.equal((await look()).found, 1)
  assert.deepEqual(await dueOf(hook), ['seen'])
})

test('due triggers end with their hook; the same URL again is a new hook, with nothing due yet', async () => {
  const hook = await hookOf('again')
  await seedLeads(opened, [lead('first', '59601')])
  await look()
  assert.deepEqual(await dueOf(hook), ['first'])
  await removeHooks(opened.db, hook.integrationId, 'all')
  const { rows } = await opened.pool.query('select count(*) as n from triggers where hook_id = $1', [hook.id])
  assert.equal(Number(rows[0].n), 0)
  const again = await hookOf('again')
  await seedLeads(opened, [lead('second', '59601')])
  await look()
  assert.deepEqual(await dueOf(again), ['second'])
})

test('processes that look at once find each lead once in all', async () => {
  const made: TestHook[] = []
  for (const name of atOnce) made.push(await hookOf(name))
  await seedLeads(opened, [lead('a', '96813'), lead('b', '96813')])
  const looked = await Promise.all([look(), look(), look()])
  assert.equal(
    looked.reduce((sum, { found }) => sum + found, 0),
    24,
  )
  for (const hook of made) assert.deepEqual(await dueOf(hook), ['b', 'a'])
})

test('hooks that another process looks at are left to it, and waited for', async () => {
  const hook = await hookOf('again')
  await seedLeads(opened, [lead('third', '59601')])
  const other = await opened.pool.connect()
  try {
    await other.query('begin')
    await other.query('update hooks set looked_import_id = (select max(id) from imports)')
    let isOver = false
    const looking = look().finally(() => {
      isOver = true
    })
    await sleep(300)
    assert.ok(!isOver)
    await other.query('commit')
    assert.deepEqual(await looking, { hooks: 0, found: 0, dropped: 0 })
    assert.deepEqual(await dueOf(hook), [])
  } finally {
    other.release()
  }
})

// A platform that unsubscribed while `trigger` looked for due leads had to wait, and got a 503 after 4 s.
test('a hook can be removed while it is looked at, and then gets nothing; the other hooks get their leads', async () => {
  const [going, staying] = [await hookOf('again'), await hookOf('again')]
  await seedLeads(opened, [lead('meanwhile', '59601')])
  const blocker = await opened.pool.connect()
  try {
    await blocker.query('begin; lock table searches in access exclusive mode')
    const looking = look()
    const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await until('it waits', async () => (await blocker.query(waits)).rowCount !== 0)
    const removing = removeHooks(opened.db, going.integrationId, { id: going.id })
    const removed = await Promise.race([removing, sleep(60_000, 'late', { ref: false })])
    await blocker.query('rollback')
    assert.ok(removed !== 'late' && removed.length === 1)
    await looking
    assert.deepEqual(await dueOf(staying), ['meanwhile'])
  } finally {
    await blocker.query('rollback')
    blocker.release()
  }
})

// A look locked up to 1,000 hooks while it recorded what was due to all of them: a platform that unsubscribed got a 503 after 4 s.
test('a look locks hooks for 20,000 triggers at a time, and a hook that it is done with can be removed while it goes on', async () => {
  await opened.pool.query('delete from hooks')
  const { id, integrationId } = await hookOf('many')
  const more = await opened.pool.query(
    `insert into hooks (integration_id, url, url_sha256, looked_import_id)
     select integration_id, url || n, sha256(convert_to(n::text, 'UTF8')), looked_import_id
     from hooks, generate_series(1, 179) as n where id = $1 returning id`,
    [id],
  )
  // in the order in which a look comes to them
  const ids = [id, ...more.rows.map((row) => row.id)].sort()
  await seedLeads(opened, Array.from({ length: 301 }, (_, n) => lead(`each-${n}`, '20001'))) // biome-ignore format: one
  const blocker = await opened.pool.connect()
  await blocker.query('begin')
  await blocker.query('select from hooks where id = $1 for update', [ids.at(-1)])
  const groups: Looked[] = []
  const looking = look(undefined, (looked) => groups.push(looked))
  try {
    await until('the first hooks are looked at', () => groups.length > 0)
    assert.equal((await removeHooks(opened.db, integrationId, { id: ids[0] ?? '' })).length, 1)
  } finally {
    await blocker.query('commit')
    blocker.release()
  }
  const { found } = await looking
  assert.equal(found, 180 * 300)
  for (const group of groups) assert.ok(group.found + group.dropped <= 20_000 + 301, JSON.stringify(groups))
  await opened.pool.query('delete from hooks where integration_id = $1', [integrationId])
})

test("a hook that is registered while an import is under way gets the import's leads", async () => {
  const connection = await opened.pool.connect()
  try {
    // an import that has begun and is not committed
    await connection.query('begin')
    await connection.query(
      `insert into imports (file, base_version_id) select 'slow', last_value from lead_version_ids`,
    )
    const hook = await hookOf('during')
    await connection.query(`
      with version as (select nextval('lead_version_ids') as id), lead as (
        insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
        select sha256('during'), '50309', version.id, sha256('x'), (select max(id) from imports), '' from version returning id, version_id
      ), seen as (insert into lead_seen select id, now() from lead)
      insert into lead_versions (id, lead_id, json) select version_id, id, '{"href":"${hrefOf('during')}"}' from lead`)
    assert.equal((await look()).found, 0)
    await connection.query('commit')
    await look()
    assert.deepEqual(await dueOf(hook), ['during'])
  } finally {
    connection.release()
  }
})
