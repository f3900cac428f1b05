/** The trigger `lead_gone` (contract 6.1, 6.3): when it is due, what a hook gets, and what ends it unsent. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after, beforeEach, test } from 'node:test'
import { importLeads } from '../../src/leads/import.ts'
import { kinds } from '../../src/triggers/kinds/kinds.ts'
import { findRunStart } from '../../src/triggers/trigger-store.ts'
import { forgetListings } from '../../src/upkeep/forget/forget.ts'
import { prune } from '../../src/upkeep/prune/prune.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, lookAtAll, noTriggers, passPauses, runTrigger } from '../support/hooks.ts'
import { seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const receiver = await startHookReceiver()
after(() => receiver.close())
await seedUsers(opened.db, [{ email: 'user@example.com', subscribed: false }])
const day = 86_400_000
let feeds = 0
let feed = ''

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  receiver.calls.length = 0
  receiver.answer = () => 200
  feed = `feed-${++feeds}`
})

const hrefOf = (name: string) => `https://listings.example.com/${feed}/${name}`
/** All listings of the feed, by their names; it lacks the others from now on. */
async function putAll(names: readonly string[], more: object = {}, source = feed): Promise<number> {
  const lines = names.map(
    (name) => `${JSON.stringify({ href: hrefOf(name), postalCode: '78704', price: 7, ...more })}\n`,
  )
  const { summary } = await importLeads(opened, ['-'], {
    stdin: Readable.from(lines, { objectMode: false }),
    source: { name: source, complete: true, accept: true, maxLeadAgeMs: 30 * day },
  })
  return summary.gone
}
const hook = (path: string, ...triggers: ('new_lead' | 'lead_gone')[]) =>
  addHook(opened, 'user@example.com', receiver.url(path), triggers)
const gotAt = (path: string) => receiver.of(path).map(({ json }) => `${json.trigger} ${json.href.split('/').at(-1)}`)

test('a listing that its feed lacks is told once each time it goes, to hooks that asked for it, with an id for each time', async () => {
  await putAll(['old', 'stays', 'elsewhere'])
  await opened.pool.query(`update leads set postal_key = '10001' where href_sha256 = sha256(convert_to($1, 'UTF8'))`, [
    hrefOf('elsewhere'),
  ])
  await hook('/gone', 'lead_gone')
  await hook('/both', 'new_lead', 'lead_gone')
  await hook('/new', 'new_lead')
  await putAll(['old', 'stays', 'elsewhere', 'new'])
  await runTrigger(opened)
  assert.equal(await putAll(['stays']), 3)
  const { counts, lines } = await runTrigger(opened)
  assert.deepEqual(counts, { ...noTriggers, due: 4, delivered: 4 })
  assert.deepEqual(new Set(lines.map(({ trigger }) => trigger)), new Set(['lead_gone']))
  assert.deepEqual(gotAt('/gone').sort(), ['lead_gone new', 'lead_gone old'])
  assert.deepEqual(gotAt('/both').sort(), ['lead_gone new', 'lead_gone old', 'new_lead new'])
  assert.deepEqual(gotAt('/new'), ['new_lead new'])
  const told = receiver.of('/gone').find(({ json }) => json.href === hrefOf('old'))
  assert.deepEqual(Object.keys(told?.json).slice(0, 4), ['id', 'trigger', 'occurredAt', 'href'])
  kinds.lead_gone.schema.parse(told?.json)
  assert.equal(told?.json.price, 7)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)

  await putAll(['stays', 'old'])
  await runTrigger(opened)
  await putAll(['stays'])
  await runTrigger(opened)
  const ofOld = receiver.of('/gone').filter(({ json }) => json.href === hrefOf('old'))
  assert.deepEqual([ofOld.length, new Set(ofOld.map(({ json }) => json.id)).size], [2, 2])
  assert.equal(new Set(receiver.calls.map(({ webhookId }) => webhookId)).size, receiver.calls.length)
})

// whoever struck it from a list after its `lead_gone` never heard of it again
test('a listing that is back is a new lead once more to each hook that its lead_gone was due to, and asked for new leads', async () => {
  await putAll(['a', 'stays'])
  await hook('/both', 'new_lead', 'lead_gone')
  await hook('/gone', 'lead_gone')
  await hook('/new', 'new_lead')
  await putAll(['stays'])
  await runTrigger(opened)
  await hook('/later', 'new_lead', 'lead_gone')
  await putAll(['a', 'stays'])
  await runTrigger(opened)
  await runTrigger(opened)
  assert.deepEqual(gotAt('/both'), ['lead_gone a', 'new_lead a'])
  assert.deepEqual([gotAt('/gone'), gotAt('/new'), gotAt('/later')], [['lead_gone a'], [], []])
  // gone and back between two looks is nothing
  await putAll(['stays'])
  await putAll(['a', 'stays'])
  await runTrigger(opened)
  assert.equal(receiver.calls.length, 3)
  // gone, a look, then back, gone and back: once
  await putAll(['stays'])
  await runTrigger(opened)
  for (const names of [['a', 'stays'], ['stays'], ['a', 'stays']]) await putAll(names)
  await runTrigger(opened)
  assert.deepEqual(gotAt('/both').slice(2), ['lead_gone a', 'new_lead a'])
  assert.equal(new Set(receiver.calls.map(({ webhookId }) => webhookId)).size, receiver.calls.length)
})

test('nothing is told of a listing that is back at the look, that another source has, or that went before the hook came', async () => {
  await putAll(['back', 'shared', 'before', 'stays'])
  await putAll(['shared'], {}, `${feed}-b`)
  await putAll(['back', 'shared', 'stays'])
  await hook('/', 'lead_gone')
  await putAll(['stays'])
  await putAll(['stays', 'back'])
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  // gone, back and gone again before a look is once
  await putAll(['stays'])
  await putAll(['stays', 'back'])
  await putAll(['stays'])
  await runTrigger(opened)
  assert.deepEqual(gotAt('/'), ['lead_gone back'])
})

test('a due trigger ends unsent if the listing is back before it was sent, and is sent anew if it disappears again', async () => {
  await putAll(['a', 'b'])
  await hook('/', 'lead_gone')
  await putAll(['b'])
  receiver.answer = () => 500
  assert.equal((await runTrigger(opened)).counts.failed, 1)
  await putAll(['a', 'b'])
  await passPauses(opened)
  assert.equal((await runTrigger(opened)).counts.delivered, 0)
  assert.deepEqual((await opened.pool.query('select from triggers')).rows, [])
  await putAll(['b'])
  assert.equal((await runTrigger(opened)).counts.failed, 1)
  // back and gone again between two attempts: the earlier time is over
  await putAll(['a', 'b'])
  await putAll(['b'])
  receiver.answer = () => 200
  await passPauses(opened)
  receiver.calls.length = 0
  assert.equal((await runTrigger(opened)).counts.delivered, 1)
  assert.deepEqual(gotAt('/'), ['lead_gone a'])
  assert.deepEqual((await opened.pool.query('select from triggers')).rows, [])
})

test('with one listing a house, nothing is due for a later one while an earlier one is live (contract 4.20)', async () => {
  await hook('/', 'new_lead', 'lead_gone')
  const house = { address: '12 Pool Street' }
  const settings = { sameHouse: 'once' as const }
  await putAll(['first'], house)
  await runTrigger(opened, { settings })
  await putAll(['second'], house, `${feed}-b`)
  assert.deepEqual((await runTrigger(opened, { settings })).counts, noTriggers)
  await putAll(['none'], {}, `${feed}-b`)
  await runTrigger(opened, { settings })
  await putAll(['none'])
  await runTrigger(opened, { settings })
  assert.deepEqual(gotAt('/'), ['new_lead first', 'new_lead none', 'lead_gone first'])

  // of a house whose first listing went the next one is told
  await putAll(['one'], { address: '14 Pool Street' })
  await putAll(['two', 'three'], { address: '14 Pool Street', price: 8 }, `${feed}-c`)
  await runTrigger(opened, { settings })
  receiver.calls.length = 0
  await putAll(['none'])
  await runTrigger(opened, { settings })
  await runTrigger(opened, { settings })
  assert.deepEqual(gotAt('/').sort(), ['lead_gone one', 'new_lead two'])
})

test('--again sends lost triggers, even after a prune, and never those of an erased listing', async () => {
  const names = Array.from({ length: 302 }, (_, n) => `n${n}`)
  await putAll([...names, 'stays'])
  await hook('/', 'lead_gone')
  await putAll(['stays'])
  const { lastImportId: upTo } = await findRunStart(opened.db)
  const looked = await lookAtAll(opened, { upTo, maxLeadAgeMs: 30 * day })
  assert.deepEqual([looked.found, looked.dropped], [300, 2])
  await opened.pool.query('delete from triggers')
  const { rows } = await opened.pool.query(
    `select v.json::json ->> 'href' as href from lost_triggers t join leads l on l.id = any (t.lead_ids)
      join lead_versions v on v.id = l.version_id`,
  )
  const [lost = '', erased = ''] = rows.map(({ href }) => href)
  await forgetListings(opened, { href: erased }, { stop: new AbortController().signal })
  assert.equal((await opened.pool.query("select from lead_events where kind = 'lead_gone'")).rows.length > 0, true)
  await opened.pool.query(`update imports set started_at = started_at - interval '100 days'`)
  await prune(opened.db, { olderThanMs: 90 * day, maxLeadAgeMs: 30 * day, stop: new AbortController().signal })
  assert.deepEqual((await opened.pool.query("select from lead_events where kind = 'lead_gone'")).rows, [])
  const again = await runTrigger(opened, { again: { hookId: undefined, sinceMs: undefined } })
  // what is told is that it is gone, though its event is pruned
  assert.deepEqual(again.lines.map(({ href, trigger, status }) => [href, trigger, status]), [[lost, 'lead_gone', 'delivered']]) // biome-ignore format: one
})
