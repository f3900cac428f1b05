import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OpenDatabase } from '../../src/db/open.ts'
import { findMatches, findNewestByPlace } from '../../src/matching/match.ts'
import { resolveSearch } from '../../src/matching/search.ts'
import { hasOutdated, resolveOutdated, saveSearches } from '../../src/matching/searches.ts'
import { listingWords, queryWords } from '../../src/matching/words.ts'
import { buildPlaces, findPlaces } from '../../src/places/places.ts'
import { randomFrom } from '../bench/matching-data.ts'
import { createDatabase, postgresVersion } from '../support/database.ts'
import { places } from '../support/places.ts'

interface Listing {
  versionId: number
  key: string
  words: string[]
  seenAt: Date
}

const hour = 3_600_000
const seenSince = new Date('2026-05-01T12:00:00Z')
const live = { seenSince, sameHouse: 'each' } as const

async function fill(opened: OpenDatabase, listings: readonly Listing[]): Promise<void> {
  await opened.pool.query(`insert into imports (file) values ('test')`)
  const added = listings.map(({ versionId, key, words }) => [versionId, key, words.join(' ')] as const)
  const { rows } = await opened.pool.query<{ id: number; version_id: number }>(
    `insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
     select sha256(convert_to(v::text, 'UTF8')), k, v, sha256('x'), (select max(id) from imports),
       to_tsvector('english'::regconfig, w)
     from unnest($1::bigint[], $2::text[], $3::text[]) as t (v, k, w) returning id, version_id`,
    [added.map(([id]) => id), added.map(([, key]) => key), added.map(([, , words]) => words)],
  )
  const seen = new Map(listings.map(({ versionId, seenAt }) => [versionId, seenAt]))
  await opened.pool.query(
    'insert into lead_seen (lead_id, seen_at) select * from unnest($1::bigint[], $2::timestamptz[])',
    [rows.map(({ id }) => id), rows.map(({ version_id }) => seen.get(version_id))],
  )
  await opened.pool.query('analyze')
}

/** The matching version ids, falling, as a comparison with every listing finds them. */
function expected(listings: readonly Listing[], keys: string[] | null, words: string | null, limit = 300): number[] {
  return listings
    .filter(({ key }) => keys === null || keys.includes(key))
    .filter((listing) => words === null || words.split(' ').every((word) => listing.words.includes(word)))
    .filter(({ seenAt }) => seenAt >= seenSince)
    .map(({ versionId }) => versionId)
    .sort((a, b) => b - a)
    .slice(0, limit)
}

const kindOf = (keys: string[] | null, words: string | null) =>
  keys === null ? 'words' : words === null ? 'place' : 'both'

test('finds what a comparison with every listing finds, for places, words and both', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const random = randomFrom(7)
  const vocabulary = [
    ['pool', 0.3],
    ['barn', 0.02],
    ['lake', 0.5],
    ['dock', 0.001],
    ['oldest', 0.9],
  ] as const
  const keys = Array.from({ length: 60 }, (_, at) => String(10_000 + at))
  let versionId = 0
  // fewer show that the statements mean the same on the older version
  const count = postgresVersion === 18 ? 30_000 : 10_000
  const listings = Array.from({ length: count }, (_, at): Listing => {
    // gaps as wide as weeks of imports leave them, and an update now and then out of order
    versionId += 1 + Math.floor(random() ** 8 * 20_000)
    return {
      versionId,
      key: keys[Math.floor(keys.length * random() ** 2)] as string,
      words: vocabulary
        .filter(([word, share]) => random() < share && (word !== 'oldest' || at < count * 0.4))
        .map(([word]) => word),
      seenAt: new Date(seenSince.getTime() + Math.floor((random() * 4 - 1) * 24) * hour),
    }
  })
  await fill(
    opened,
    listings.toSorted(() => random() - 0.5),
  )

  for (const words of [
    null,
    'pool',
    'lake',
    'barn',
    'dock',
    'oldest',
    'lake pool',
    'barn dock',
    'barn oldest',
    'none',
  ]) {
    for (const of of [null, keys.slice(0, 1), keys.slice(40, 45), keys, ['99999'], [...keys.slice(3, 5), '99999']]) {
      if (words === null && of === null) continue
      const search = { kind: kindOf(of, words), places: of, words } as const
      const all = expected(listings, of, words, Number.POSITIVE_INFINITY)
      for (const limit of [1, 300]) {
        const found = [...(await findMatches(opened.db, search, live, limit)).ids]
        assert.deepEqual(found, all.slice(0, limit), JSON.stringify([words, of?.length, limit]))
      }
    }
  }

  const newest = await findNewestByPlace(opened.db, [...keys, keys[0] as string, '99999'], live)
  assert.equal(newest.has('99999'), false)
  for (const key of keys) assert.deepEqual([...(newest.get(key)?.ids ?? [])], expected(listings, [key], null), key)
})

test('a listing that was last seen at the cut-off counts, one a millisecond before does not', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const at = (versionId: number, ms: number) => ({
    versionId,
    key: '78704',
    words: ['pool'],
    seenAt: new Date(seenSince.getTime() + ms),
  })
  await fill(opened, [at(1, -1), at(2, 0), at(3, 1)])
  for (const [keys, words] of [
    [['78704'], null],
    [null, 'pool'],
    [['78704'], 'pool'],
  ] as const) {
    const search = { kind: kindOf(keys && [...keys], words), places: keys && [...keys], words } as const
    assert.deepEqual([...(await findMatches(opened.db, search, live)).ids], [3, 2])
  }
  assert.deepEqual([...((await findNewestByPlace(opened.db, ['78704'], live)).get('78704')?.ids ?? [])], [3, 2])
})

test('the newest of a place are found although most of them are too old', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const listings = Array.from({ length: 2_000 }, (_, at) => ({
    versionId: at + 1,
    key: '78704',
    words: ['pool'],
    seenAt: new Date(seenSince.getTime() + (at < 350 ? hour : -hour)),
  }))
  await fill(opened, listings)
  const search = { kind: 'place', places: ['78704', '78705'], words: null } as const
  const { ids: found } = await findMatches(opened.db, { ...search, places: [...search.places] }, live)
  assert.deepEqual([...found], expected(listings, ['78704'], null))
  assert.equal(found.length, 300)
})

test('words are found in any form and anywhere in the text; signs are not', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const lead = {
    address: '12 Cañón Road', secondAddress: 'Apt 4', city: 'Mayagüez', state: 'PR', propertyType: 'SINGLE_FAMILY',
    description: 'Pool/spa and 3-bedroom homes, see www.example.com/garage. Owner\u2019s 12e5 <b>barn</b>, price:-5',
  } // biome-ignore format: as a record
  await fill(opened, [{ versionId: 5, key: '00680', words: [listingWords(lead)], seenAt: seenSince }])
  const finds = async (text: string) =>
    (await findMatches(opened.db, { kind: 'words', places: null, words: queryWords(text) }, live)).ids.length === 1
  for (const text of [
    'pool', 'POOLS', 'spa pool', 'bedroom', '3 bedrooms', 'home', 'garage', 'example', 'canon', 'Cañón', 'mayaguez',
    'puerto rico', 'PR', 'single family', 'owner', "owner's", '12e5', 'barn', '5', 'apt 4', 'road -pool', 'pool & spa | barn',
  ]) assert.ok(await finds(text), text) // biome-ignore format: a list
  for (const text of ['poolside', 'pool tower', 'texas', 'b c']) assert.ok(!(await finds(text)), text)
})

test('every description can be stored, however long or strange', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const nothing = { address: null, secondAddress: null, city: null, state: null, propertyType: null }
  const letters = (at: number, length: number) =>
    Array.from({ length }, (_, place) => String.fromCharCode(0x4e00 + (Math.floor(at / 200 ** place) % 200))).join('')
  const descriptions = [
    ...[1, 2, 3, 7].map((length) => Array.from({ length: 100_000 }, (_, at) => letters(at, length)).join(' ')),
    Array.from({ length: 60_000 }, (_, at) => `w${at}`).join(' '),
    'x'.repeat(1_000_000),
    'ﷺ '.repeat(100_000),
    'pool '.repeat(50_000),
    '\u{20000}'.repeat(100_000),
    'a\u0000b\ud800c <tag> http://x.y/z 1.5e9999 -1e-400 \'"\\',
  ]
  const listings = descriptions.map((description, at) => ({
    versionId: at + 1, key: '1', words: [listingWords({ ...nothing, description })], seenAt: seenSince,
  })) // biome-ignore format: one line
  await fill(opened, listings)
  const { rows } = await opened.pool.query('select count(*)::integer as count from leads')
  assert.equal(rows[0].count, descriptions.length)
})

test('searches are stored once, and resolved again for a newer program', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const resolve = (value: string) => {
    const search = resolveSearch(places, { type: 'text', value, radius: 0 })
    assert.ok(!('refused' in search))
    return search
  }
  const first = await saveSearches(opened.db, [resolve('pool'), resolve('Logan, UT'), resolve('POOL')])
  const second = await saveSearches(opened.db, [resolve('Logan, Utah'), resolve('barn')])
  assert.equal(first[0], first[2])
  assert.notEqual(first[0], first[1])
  assert.equal(second[0], first[1])
  assert.equal(await hasOutdated(opened.db), false)
  assert.deepEqual(await saveSearches(opened.db, []), [])

  // as an older program would have had it: the text taken for words
  const { rows } = await opened.pool.query(
    `insert into searches (meaning_sha256, kind, words, resolver) values (sha256('old'), 'words', 'logan ut', 0) returning id`,
  )
  await opened.pool.query(
    `with u as (insert into users (email, receiver_key, subscribed) values ('a@example.com', 'k', true) returning id)
     insert into queries (user_id, position, type, value, radius, hash, json, search_id)
     select id, 0, 'text', 'Logan, UT', 0, 'Logan, UT0', '{}', $1 from u`,
    [rows[0].id],
  )
  // more than are read at once, and one that is refused by now and keeps its search
  await opened.pool.query(
    `with u as (
       insert into users (email, receiver_key, subscribed) select n || '@example.com', 'k' || n, true from generate_series(0, 600) n
       returning id, email
     )
     insert into queries (user_id, position, type, value, radius, hash, json, search_id)
     select id, 0, 'text', q.value, 0, q.value || '0', '{}', $1
     from u, lateral (select case email when '0@example.com' then '!' else 'Logan, UT' end as value) q`,
    [rows[0].id],
  )
  assert.equal(await hasOutdated(opened.db), true)
  assert.equal(await resolveOutdated(opened.db, places), 601)
  assert.equal(await hasOutdated(opened.db), false)
  const moved = await opened.pool.query(
    'select search_id as search, count(*) as queries from queries group by 1 order by 2',
  )
  assert.deepEqual(moved.rows, [
    { search: rows[0].id, queries: 1 },
    { search: first[1], queries: 601 },
  ])
  assert.equal(await resolveOutdated(opened.db, places), 0)
})

test('the places in the database are those of the file', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const found = await findPlaces(opened.db)
  assert.deepEqual(found.all.map(({ code }) => code).sort(), places.all.map(({ code }) => code).sort())
  assert.deepEqual(found.find('78704'), places.find('78704'))
  assert.equal(buildPlaces('').all.length, 0)
})
