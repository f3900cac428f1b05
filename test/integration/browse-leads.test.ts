/** `leads list`, `leads count` and `leads show` on the database: order, conditions, history, and whose a listing is. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { sql } from 'kysely'
import { countLeads, listLeads } from '../../src/inspect/listings/browse.ts'
import { showLead } from '../../src/inspect/listings/show-lead.ts'
import { type Lead, leadFields } from '../../src/leads/lead.ts'
import { holds, parseWhere } from '../../src/leads/where.ts'
import { importUsers } from '../../src/users/import.ts'
import { createDatabase } from '../support/database.ts'
import { hrefOf, importRecords, toLines } from '../support/import-files.ts'

const live = { seenSince: new Date(0), sameHouse: 'each' } as const

const database = await createDatabase()
const opened = await database.open()
const { db } = opened
const cities = ['Austin', 'AUSTIN', 'San Antonio', 'The Woodlands', 'Zürich', '', null]
const states = ['TX', 'Texas', 'tx', null]
// more than the first pages
const records = Array.from({ length: 450 }, (_, at) => ({
  href: hrefOf(at),
  postalCode: ['78704', '78704-1234', '02138', 'K1A 0B1'][at % 4],
  city: cities[at % cities.length],
  state: states[at % states.length],
  price: at % 3 === 0 ? undefined : 100_000 + (at % 9),
  bathrooms: at % 5 === 0 ? 2.5 : undefined,
  description: at % 11 === 0 ? 'Near Austin' : undefined,
  contactPhone: at % 2 === 0 ? '512 555 0100' : undefined,
}))
await importRecords(opened, records)

async function list(where: string[], limit = 1_000): Promise<string[]> {
  const found: string[] = []
  for await (const { lead } of listLeads(db, parseWhere(where), limit)) found.push(lead.href)
  return found
}

test('the newest come first: of one file the earlier ones; a changed one is the newest', async () => {
  assert.deepEqual(await list([], 3), [hrefOf(0), hrefOf(1), hrefOf(2)])
  await importRecords(opened, [{ href: hrefOf(2), rawListingDate: 'today' }])
  assert.deepEqual(await list([], 3), [hrefOf(2), hrefOf(0), hrefOf(1)])
  assert.equal((await countLeads(db, [], live)).leads, 450)
})

for (const limit of [99, 100, 101, 299, 300, 301, 449, 450, 451]) {
  test(`${limit} listings are read over pages, each once`, async () => {
    const found = await list([], limit)
    assert.deepEqual([found.length, new Set(found).size], [Math.min(limit, 450), Math.min(limit, 450)])
  })
}

for (const where of [[], ['city=zürich'], ['postalCode=02138']]) {
  test(`20 listings ${where.length > 0 ? `with ${where} ` : ''}are read without reading all`, async () => {
    const read = await db.transaction().execute(async (transaction) => {
      // so few rows would be read at once
      await sql`set local enable_seqscan = off`.execute(transaction)
      const count = async () => {
        const { rows } = await sql<{ rows: number }>`
          select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows from pg_stat_xact_user_tables
          where relname = 'lead_versions'
        `.execute(transaction)
        return rows[0]?.rows ?? 0
      }
      // of earlier transactions too
      const before = await count()
      for await (const _ of listLeads(transaction, parseWhere(where), 20));
      return (await count()) - before
    })
    // at most a first page, and those that are shown, of 451 versions
    assert.ok(read >= 20 && read <= 120, `${read}`)
  })
}

const conditions = [
  ...['city=austin', 'city!=austin', 'city=', 'city!=', 'city=san antonio', 'city=antonio', 'city=the woodlands'],
  ...['city=ZÜRICH', 'city=the', 'state=tx', 'state=texas', 'state!=TX', 'postalCode=78704', 'postalCode=78704-1234'],
  ...['postalCode=2138', 'postalCode=k1a 0b1', 'postalCode=K1A', 'price=100001', 'price=', 'price!=', 'price=0'],
  ...['bathrooms=2.5', 'description=near austin', 'contactPhone=', 'contactPhone=512 555 0100', 'schemaVersion=v0.1.0'],
]
// an index narrows the look: it must leave out nothing that a look at all would find
for (const entries of [
  ...conditions.map((one) => [one]),
  ['city=austin', 'state=tx', 'price!='],
  ['price!=100001', 'price!='],
  ['postalCode=78704', 'city='],
]) {
  test(`--where ${entries.join(' --where ')} finds what a look at each listing finds`, async () => {
    const parsed = parseWhere(entries)
    const expected: string[] = []
    for await (const { lead } of listLeads(db, [], 1_000)) {
      const numbers = new Set<string>(leadFields.flatMap(({ name, kind }) => (kind === 'number' ? [name] : [])))
      const read = (field: string) => lead[field as keyof Lead]
      // an unknown number is both: missing, and 0
      const isMet = parsed.every((each) => {
        const isEmpty = numbers.has(each.field) && each.value === '' && read(each.field) === 0
        return holds([each], (field) => (isEmpty ? null : read(field)))
      })
      if (isMet) expected.push(lead.href)
    }
    assert.deepEqual(await list(entries), expected)
    assert.equal((await countLeads(db, parsed, live)).leads, expected.length)
    assert.deepEqual(await list(entries, 2), expected.slice(0, 2))
  })
}

test('a listing has its states over time, its place and its words', async () => {
  const record = {
    href: hrefOf('shown'),
    postalCode: '78704',
    city: 'Austin',
    price: 100,
    contactPhone: '512 555 0100',
  }
  await importRecords(opened, [record])
  await importRecords(opened, [record])
  await importRecords(opened, [{ ...record, price: 90, description: 'pools' }])
  await importRecords(opened, [{ ...record, contactPhone: '512 555 0199' }])
  const shown = await showLead(db, record.href)
  assert.deepEqual(
    shown.states.map(({ changes }) => changes),
    [
      [
        { field: 'price', from: 90, to: 100 },
        { field: 'contactPhone', from: '512 555 0100', to: '512 555 0199' },
      ],
      [
        { field: 'price', from: 100, to: 90 },
        { field: 'description', from: null, to: 'pools' },
      ],
      [],
    ],
  )
  const since = shown.states.map(({ since }) => since?.getTime() ?? 0)
  assert.deepEqual(
    [...since].sort((a, b) => b - a),
    since,
  )
  assert.deepEqual(shown.states.at(-1)?.since, shown.importedAt)
  assert.deepEqual([shown.place.postalKey, shown.place.city, shown.place.state], ['78704', 'Austin', 'TX'])
  assert.deepEqual(shown.sources, [])
  await assert.rejects(showLead(db, hrefOf('none')), /There is no listing/)

  // once `prune` has deleted the earlier ones, the last was dated by the first import
  await opened.pool.query(
    'delete from lead_versions where lead_id = (select lead_id from lead_versions where id = $1) and superseded_at is not null',
    [shown.states[0]?.versionId],
  )
  const kept = await showLead(db, record.href)
  assert.deepEqual(
    kept.states.map((state) => [state.since, state.changes]),
    [[null, []]],
  )
  assert.deepEqual(kept.importedAt, shown.importedAt)
})

for (const changes of [49, 50, 51]) {
  test(`of ${changes + 1} states the newest 50 are shown, and whether there are more`, async () => {
    const href = hrefOf(`changes-${changes}`)
    for (let at = 0; at <= changes; at++) await importRecords(opened, [{ href, postalCode: '78704', price: at + 1 }])
    const { states, moreVersions } = await showLead(db, href)
    assert.deepEqual([states.length, moreVersions], [50, changes > 49])
    assert.deepEqual(states[0]?.changes, [{ field: 'price', from: changes, to: changes + 1 }])
    assert.equal(states.at(-1)?.changes.length, changes > 49 ? 1 : 0)
  })
}

test('it belongs to the users with a query that matches, by place, by words or by both; up to 200 are named', async () => {
  const href = hrefOf('owned')
  await importRecords(opened, [{ href, postalCode: '78704', city: 'Austin', state: 'TX', description: 'a pool' }])
  const query = (type: string, value: string, radius = 0) => ({ type, value, radius })
  const put = async (users: object[]) => {
    const stdin = Readable.from([toLines(users)], { objectMode: false })
    assert.equal((await importUsers(opened, ['-'], { stdin })).summary.rejected, 0)
  }
  const user = (name: string, ...queries: object[]) => ({
    email: `${name}@example.com`,
    receiverApiKey: name,
    queries,
  })
  await put([
    user('place', query('zipcode', '78704')),
    user('near', query('zipcode', '78758', 25)),
    user('words', query('text', 'sauna'), query('text', 'pools')),
    user('both', query('text', 'pool Austin, TX')),
    user('elsewhere', query('zipcode', '77002', 5), query('text', 'sauna'), query('text', 'sauna Austin, TX')),
    user('none'),
  ])
  const { users, complete } = (await showLead(db, href)).owners
  assert.deepEqual(
    users.map(({ email, query }) => `${email} ${query.value}`),
    [
      'both@example.com pool Austin, TX',
      'near@example.com 78758',
      'place@example.com 78704',
      'words@example.com pools',
    ],
  )
  assert.equal(complete, true)
  const many = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, at) =>
      user(`many-${from + at}`, query('zipcode', '78704'), query('text', 'pool')),
    )
  await put(many(0, 196))
  const just = (await showLead(db, href)).owners
  assert.deepEqual([just.users.length, just.complete], [200, true])
  await put(many(196, 197))
  const more = (await showLead(db, href)).owners
  assert.deepEqual([more.users.length, more.complete], [200, false])
})
