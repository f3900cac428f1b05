/** One house on several sites (contract 4.20), by imports, plans, pushes and counts on a real database. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { sql } from 'kysely'
import type { OpenDatabase } from '../../src/db/open.ts'
import { explain } from '../../src/inspect/explain/explain.ts'
import { countLeads } from '../../src/inspect/listings/browse.ts'
import { isLeadField } from '../../src/leads/lead.ts'
import { parseWhere } from '../../src/leads/where.ts'
import type { Live } from '../../src/matching/listed.ts'
import { findMatches, findNewestByPlace } from '../../src/matching/match.ts'
import { Matcher } from '../../src/matching/matcher.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import { importUsers } from '../../src/users/import.ts'
import { randomFrom } from '../bench/matching-data.ts'
import { createDatabase } from '../support/database.ts'
import { importRecords, toLines } from '../support/import-files.ts'
import { all, PushHouse } from '../support/push-house.ts'
import { defaults } from '../support/push-settings.ts'
import { startTestReceiver } from '../support/receiver.ts'

const dayMs = 86_400_000
const once: Live = { seenSince: new Date(Date.now() - 30 * dayMs), sameHouse: 'once' }
const settings = { ...defaults, sameHouse: 'once' as const }

const at = (site: string, number: number, more: object = {}) => ({
  href: `https://${site}.example/${number}`,
  postalCode: '78704',
  address: site === 'a' ? `${number} Main Street` : `${number} MAIN ST.`,
  ...more,
})

const zip = (value: string) => ({ type: 'zipcode' as const, value, radius: 0 })
const text = (value: string) => ({ type: 'text' as const, value, radius: 0 })

async function open(t: TestContext, ...files: object[][]): Promise<OpenDatabase> {
  const opened = await (await createDatabase(t)).open()
  for (const file of files) await importRecords(opened, file)
  return opened
}

const place = { kind: 'place' as const, places: ['78704'], words: null }

async function hrefsOf({ db }: OpenDatabase, ids: Iterable<number>): Promise<string[]> {
  const list = [...ids]
  const { rows } = await sql<{ href: string }>`
    select v.json::json ->> 'href' as href from unnest(${list}::bigint[]) with ordinality as g (id, n)
      join lead_versions v on v.id = g.id order by g.n
  `.execute(db)
  return rows.map(({ href }) => href.replace('https://', '').replace('.example', ''))
}

async function find(opened: OpenDatabase, search: Parameters<typeof findMatches>[1] = place, limit?: number) {
  const { ids, leftOut } = await findMatches(opened.db, search, once, limit)
  return { sent: await hrefsOf(opened, ids), leftOut: await hrefsOf(opened, leftOut) }
}

test('the listing of a house that was imported first counts; within one import, the earlier in the file', async (t) => {
  const opened = await open(t, [at('a', 1), at('b', 1), at('b', 2)], [at('a', 2), at('a', 3)])
  assert.deepEqual(await find(opened), { sent: ['a/3', 'a/1', 'b/2'], leftOut: ['a/2', 'b/1'] })
  const each = await findMatches(opened.db, place, { ...once, sameHouse: 'each' })
  assert.deepEqual([each.ids.length, each.leftOut.length], [5, 0])
})

test('a change of a listing does not change which of its house counts', async (t) => {
  const opened = await open(t, [at('a', 1), at('b', 1)], [at('b', 1, { price: 5 })], [at('a', 1, { price: 6 })])
  assert.deepEqual(await find(opened), { sent: ['a/1'], leftOut: ['b/1'] })
})

test('an address that comes later makes a listing one of a house', async (t) => {
  const opened = await open(t, [at('a', 1), at('b', 1, { address: null })])
  assert.deepEqual((await find(opened)).sent, ['a/1', 'b/1'])
  await importRecords(opened, [at('b', 1)])
  assert.deepEqual(await find(opened), { sent: ['a/1'], leftOut: ['b/1'] })
})

test('one that is gone or too old leaves the house to the next', async (t) => {
  const opened = await open(t, [at('a', 1), at('b', 1), at('c', 1)])
  await opened.pool.query(`update lead_seen set gone = true where lead_id = (select min(lead_id) from lead_seen)`)
  assert.deepEqual(await find(opened), { sent: ['b/1'], leftOut: ['c/1'] })
  await opened.pool.query(`update lead_seen set seen_at = now() - interval '31 days' where not gone and lead_id =
    (select min(lead_id) from lead_seen where not gone)`)
  assert.deepEqual(await find(opened), { sent: ['c/1'], leftOut: [] })
})

test('only those that the query matches stand for their house', async (t) => {
  const opened = await open(t, [at('a', 1), at('b', 1, { description: 'a pool' }), at('c', 1, { description: 'pool' })])
  const pool = { kind: 'words' as const, places: null, words: 'pool' }
  assert.deepEqual(await find(opened, pool), { sent: ['b/1'], leftOut: ['c/1'] })
  assert.deepEqual(await find(opened, { ...pool, kind: 'both', places: ['78704'] }), {
    sent: ['b/1'],
    leftOut: ['c/1'],
  })
})

test('of a house the listing that says the place counts, unless its radius brings the first one too', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const there = (city: string) => ({ postalCode: '30328', city, state: 'GA' })
  await importRecords(opened, [at('a', 1, there('Atlanta'))])
  await importRecords(opened, [at('b', 1, there('Sandy Springs'))])
  const city = { kind: 'place' as const, places: ['GA Sandy Springs'], words: null }
  const around = { ...city, places: ['30328', 'GA Sandy Springs'] }
  const both = { ...around, kind: 'both' as const, words: 'main' }
  assert.deepEqual(await find(opened, city), { sent: ['b/1'], leftOut: [] })
  assert.deepEqual(await find(opened, { ...city, kind: 'both', words: 'main' }), { sent: ['b/1'], leftOut: [] })
  for (const search of [around, both]) assert.deepEqual(await find(opened, search), { sent: ['a/1'], leftOut: ['b/1'] })
  const newest = await findNewestByPlace(opened.db, around.places, once)
  assert.deepEqual(await Promise.all(around.places.map((place) => hrefsOf(opened, newest.get(place)?.ids ?? []))), [
    ['a/1'],
    ['b/1'],
  ])
})

test('the cut comes after it: at most as many as asked for, and the listings left out are newer than the last', async (t) => {
  const opened = await open(t, [4, 3, 2, 1].map((n) => at('b', n)).concat([1, 2, 3].map((n) => at('a', n))))
  assert.deepEqual(await find(opened, place, 3), { sent: ['b/4', 'b/3', 'b/2'], leftOut: [] })
  await importRecords(opened, [at('a', 2, { price: 1 }), at('a', 3, { price: 1 })])
  assert.deepEqual(await find(opened, place, 1), { sent: ['b/4'], leftOut: ['a/2', 'a/3'] })
  assert.deepEqual(await find(opened, place, 4), { sent: ['b/4', 'b/3', 'b/2', 'b/1'], leftOut: ['a/2', 'a/3'] })
  assert.deepEqual(await find(opened, place, 5), { sent: ['b/4', 'b/3', 'b/2', 'b/1'], leftOut: ['a/2', 'a/3', 'a/1'] })
})

test('finds what a comparison with every listing finds', async (t) => {
  const random = randomFrom(11)
  const listings = Array.from({ length: 900 }, (_, n) => ({
    ...at(`s${n}`, 1 + Math.floor(random() * 300)),
    description: ['pool', 'barn', 'pool barn'][n % 3] as string,
    postalCode: `7870${Math.floor(random() * 3)}`,
  }))
  const opened = await open(t, listings)
  for (const words of [null, 'pool', 'barn pool']) {
    for (const places of [null, ['78700'], ['78700', '78701']]) {
      if (words === null && places === null) continue
      const matching = listings.filter(
        ({ postalCode, description }) =>
          (places === null || places.includes(postalCode)) &&
          (words ?? '').split(' ').every((word) => description.includes(word)),
      )
      const houses = new Set<string>()
      const counted = matching.filter(({ address, postalCode }) => {
        const house = `${address} ${postalCode}`
        const isFirst = !houses.has(house)
        houses.add(house)
        return isFirst
      })
      const kind = places === null ? ('words' as const) : words === null ? ('place' as const) : ('both' as const)
      for (const limit of [1, 50, 1_000]) {
        const { ids, leftOut } = await findMatches(opened.db, { kind, places, words }, once, limit)
        const hrefs = await hrefsOf(opened, ids)
        const short = (list: typeof listings) =>
          list.map(({ href }) => href.replace('https://', '').replace('.example', ''))
        assert.deepEqual(hrefs, short(counted).slice(0, limit), JSON.stringify([words, places, limit]))
        const last =
          limit < counted.length ? matching.indexOf(counted[limit - 1] as (typeof listings)[0]) : matching.length
        const left = matching.slice(0, last).filter((listing) => !counted.includes(listing))
        assert.deepEqual(await hrefsOf(opened, leftOut), short(left))
      }
    }
  }
  const byPlace = (await findNewestByPlace(opened.db, ['78700'], once)).get('78700')
  const alone = await findMatches(opened.db, { kind: 'place', places: ['78700'], words: null }, once)
  assert.deepEqual(byPlace, alone)
  await sql`insert into searches (meaning_sha256, kind, places, words, resolver)
    values (sha256('x'), 'place', array['78700', '78701'], null, 1)`.execute(opened.db)
  const { rows } = await sql<{ id: number }>`select id from searches`.execute(opened.db)
  const id = rows[0]?.id as number
  const merged = (await new Matcher(opened.db, once).match([id])).get(id)
  const both = { kind: 'place' as const, places: ['78700', '78701'], words: null }
  assert.deepEqual(merged, await findMatches(opened.db, both, once))
})

async function pushOnce(t: TestContext, queries: object[], ...files: object[][]) {
  const receiver = await startTestReceiver()
  t.after(() => receiver.close())
  const house = new PushHouse(await (await createDatabase(t)).open(), receiver)
  const users = [{ email: 'ann@example.com', receiverApiKey: 'key', queries }]
  await importUsers(house.opened, ['-'], { stdin: Readable.from([toLines(users)], { objectMode: false }) })
  for (const file of files) await importRecords(house.opened, file)
  const preview = await Preview.create(house.db, { what: 'all', force: false }, settings)
  const seen = []
  for await (const found of preview.lines()) seen.push(found)
  const { summary } = await house.push(all, { sameHouse: 'once' })
  const [request] = house.receiver.requests
  const sent: string[] = JSON.parse(request?.body.toString() ?? '{}').fsbos.map(({ href }: { href: string }) =>
    href.replace('https://', '').replace('.example', ''),
  )
  const { sameHouse, leads } = preview.summary(0)
  assert.deepEqual([summary.sameHouse, summary.leads], [sameHouse, leads])
  return { house, sent, sameHouse }
}

test('if different queries bring listings of a house, the first imported is sent, by push and preview, which count the others', async (t) => {
  const files = [
    [at('a', 1, { description: 'barn' }), at('b', 2)],
    [at('b', 1, { description: 'pool' }), at('a', 2)],
  ]
  const { sent, sameHouse, house } = await pushOnce(t, [text('pool'), text('barn'), zip('78704')], ...files)
  assert.deepEqual([sent, sameHouse], [['a/1', 'b/2'], 2])
  assert.equal((await house.push({ what: 'all', force: true, limit: undefined })).summary.sameHouse, undefined)
})

test('a listing that a query leaves out is sent for another query that lacks the one that counts', async (t) => {
  const files = [[at('a', 1), at('b', 1, { description: 'pool' })]]
  const { sent, sameHouse } = await pushOnce(t, [text('pool')], ...files)
  assert.deepEqual([sent, sameHouse], [['b/1'], 0])
  // the first query leaves it out for one that lies behind its 300 newest
  const newer = Array.from({ length: 300 }, (_, nth) => at('a', nth + 2))
  const cut = [[at('a', 1)], newer, [at('b', 1, { description: 'pool' })]]
  const both = await pushOnce(t, [zip('78704'), text('pool')], ...cut)
  assert.deepEqual([both.sent.length, both.sent[0], both.sameHouse], [301, 'b/1', 0])
})

test('leads count says how many are left out, explain names the one that counts', async (t) => {
  const files = [
    [at('a', 1), at('b', 2)],
    [at('b', 1), at('a', 2), at('c', 3)],
  ]
  const { house } = await pushOnce(t, [zip('78704')], ...files)
  assert.deepEqual(await countLeads(house.db, [], once), { leads: 5, sameHouse: 2 })
  assert.deepEqual(await countLeads(house.db, [], { ...once, sameHouse: 'each' }), { leads: 5, sameHouse: undefined })
  const where = parseWhere(['address=1 MAIN ST.'], isLeadField)
  assert.deepEqual(await countLeads(house.db, where, once), { leads: 1, sameHouse: 1 })
  const told = await explain(house.db, { email: 'ann@example.com', href: 'https://b.example/1' }, settings)
  assert.deepEqual([told.sameHouse, told.planned], ['https://a.example/1', null])
  const first = await explain(house.db, { email: 'ann@example.com', href: 'https://a.example/1' }, settings)
  assert.deepEqual([first.sameHouse, first.planned?.query], [null, 1])
  const each = { ...settings, sameHouse: 'each' } as const
  assert.equal(
    (await explain(house.db, { email: 'ann@example.com', href: 'https://b.example/1' }, each)).sameHouse,
    null,
  )
})
