import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { LeadpushError } from '../../src/base/errors.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { leadMaps } from '../../src/leads/field-map.ts'
import { importLeads } from '../../src/leads/import.ts'
import { completeLead } from '../../src/leads/lead.ts'
import { createDatabase } from '../support/database.ts'
import { findStored, hrefOf, importing, importRecords, listing, toLines, writeInput } from '../support/import-files.ts'
import { until } from '../support/until.ts'

async function count(opened: OpenDatabase, table: string): Promise<number> {
  const { rows } = await opened.pool.query(`select count(*) from ${table}`)
  return rows[0].count
}

const none = {
  ...{ read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0 },
  ...{ filtered: 0, gone: 0, unplaced: 0, unreadable: {}, ignored: {} },
}

const database = await createDatabase()
const opened = await database.open()

test('a new listing is stored as it is delivered, and found by its place and words', async () => {
  const { summary } = await importRecords(opened, [listing('new', { postalCode: '78704-1234', city: 'Austin' })])
  assert.deepEqual(summary, { ...none, read: 1, inserted: 1 })
  const stored = await findStored(opened, 'new')
  assert.deepEqual(stored?.lead, completeLead({ href: hrefOf('new'), postalCode: '78704-1234', city: 'Austin' }))
  assert.equal(stored?.postalKey, '78704')
  assert.match(stored?.search ?? '', /'austin'/)
})

test('the same record again is unchanged: seen later, and nothing else', async () => {
  const record = listing('same', { price: 5, description: 'a pool' })
  await importRecords(opened, [record])
  const before = await findStored(opened, 'same')
  const { summary } = await importRecords(opened, [record])
  assert.deepEqual(summary, { ...none, read: 1, unchanged: 1 })
  const after = await findStored(opened, 'same')
  assert.ok(after && before && after.seenAt > before.seenAt)
  assert.deepEqual({ ...after, seenAt: 0 }, { ...before, seenAt: 0 })
})

test('fields that a record does not know stay: null, an empty text, an absent field', async () => {
  await importRecords(opened, [
    listing('null', { price: 350_000, city: 'Austin', fullAddress: '1 Main St', yearBuilt: 1990 }),
  ])
  const later = { href: hrefOf('null'), price: null, city: '', fullAddress: null, yearBuilt: 0 }
  const { summary } = await importRecords(opened, [later])
  assert.deepEqual(summary, { ...none, read: 1, unchanged: 1 })
  const { lead } = (await findStored(opened, 'null')) ?? {}
  assert.deepEqual(
    [lead?.price, lead?.city, lead?.fullAddress, lead?.yearBuilt],
    [350_000, 'Austin', '1 Main St', 1990],
  )
})

test('a 0 is a value, and a record that knows one field changes that field', async () => {
  await importRecords(opened, [listing('zero', { price: 350_000, bedrooms: 3, description: 'a pool' })])
  const before = await findStored(opened, 'zero')
  const { summary } = await importRecords(opened, [{ href: hrefOf('zero'), price: 0 }])
  assert.deepEqual(summary, { ...none, read: 1, updated: 1 })
  const after = await findStored(opened, 'zero')
  assert.deepEqual([after?.lead.price, after?.lead.bedrooms, after?.versions], [0, 3, 2])
  assert.ok(after && before && after.versionId > before.versionId)
  assert.equal(after.search, before.search)
  assert.equal(after.firstImportId, before.firstImportId)
})

test('a listing with changed words or place is found by the new ones', async () => {
  await importRecords(opened, [listing('moved', { city: 'Austin' })])
  await importRecords(opened, [listing('moved', { postalCode: 'M5V 3L9', city: 'Toronto' })])
  const stored = await findStored(opened, 'moved')
  assert.equal(stored?.postalKey, 'M5V')
  assert.match(stored?.search ?? '', /toronto/)
  assert.doesNotMatch(stored?.search ?? '', /austin/)
})

test('two sources that know different fields settle down: then nothing changes any more', async () => {
  const first = listing('two', { price: 5 })
  const second = listing('two', { city: 'Austin' })
  await importRecords(opened, [first])
  await importRecords(opened, [second])
  for (const record of [first, second]) {
    assert.deepEqual((await importRecords(opened, [record])).summary, { ...none, read: 1, unchanged: 1 })
  }
  assert.equal((await findStored(opened, 'two'))?.versions, 2)
})

test('of one import the earlier in the file is the newer, and a later import is newer than all before', async () => {
  await importRecords(
    opened,
    ['a', 'b', 'c'].map((name) => listing(`order-${name}`)),
  )
  await importRecords(opened, [listing('order-b', { price: 2 }), listing('order-d'), listing('order-a', { price: 2 })])
  const ids = await Promise.all(
    ['b', 'd', 'a', 'c'].map(async (name) => (await findStored(opened, `order-${name}`))?.versionId ?? 0),
  )
  assert.deepEqual(
    [...ids].sort((x, y) => y - x),
    ids,
  )
  assert.equal(new Set(ids).size, 4)
})

test('of two records with one href the earlier one counts as absent', async () => {
  const records = [listing('twice', { price: 5, city: 'Austin' }), listing('other'), listing('twice', { sqft: 9 })]
  const { summary } = await importRecords(opened, records)
  assert.deepEqual(summary, { ...none, read: 3, inserted: 2, repeated: 1 })
  assert.deepEqual((await findStored(opened, 'twice'))?.lead, completeLead(listing('twice', { sqft: 9 })))
})

// what was incomplete was rejected, although a later record of the file was complete; and a later one that was rejected let
// the earlier one in
test('of two records with one href only the later one counts, even where one of them is bad', async () => {
  const { summary, rejected } = await importRecords(opened, [
    { href: hrefOf('mended'), city: 'Austin' },
    { price: 1 },
    listing('mended', { postalCode: ' - ' }),
    listing('mended', { price: 5 }),
  ])
  assert.deepEqual(summary, { ...none, read: 4, inserted: 1, rejected: 2, repeated: 1 })
  assert.deepEqual(
    rejected.map(({ line, path }) => [line, path]),
    [
      [2, 'href'],
      [3, 'postalCode'],
    ],
  )
  for (const [late, path] of [
    [{ href: hrefOf('spoilt'), city: 'Austin' }, 'postalCode'],
    [listing('spoilt', { postalCode: true }), 'postalCode'],
    [listing('spoilt', { postalCode: ' - ' }), 'postalCode'],
  ] as const) {
    const spoilt = await importRecords(opened, [listing('spoilt'), late])
    assert.deepEqual(spoilt.summary, { ...none, read: 2, rejected: 1, repeated: 1 })
    assert.deepEqual([spoilt.rejected[0]?.line, spoilt.rejected[0]?.path], [2, path])
    assert.equal(await findStored(opened, 'spoilt'), undefined)
  }
})

test('a new listing needs a postal code, a known one does not', async () => {
  await importRecords(opened, [listing('known', { price: 1 })])
  const { summary, rejected } = await importRecords(opened, [
    { href: hrefOf('known'), price: 2 },
    { href: hrefOf('unknown'), price: 2 },
    listing('blank', { postalCode: ' - ' }),
  ])
  assert.deepEqual(summary, { ...none, read: 3, updated: 1, rejected: 2 })
  assert.deepEqual(
    rejected.map(({ line, path }) => [line, path]),
    [
      [3, 'postalCode'],
      [2, 'postalCode'],
    ],
  )
  assert.equal(rejected[1]?.raw.toString(), JSON.stringify({ href: hrefOf('unknown'), price: 2 }))
  assert.equal((await findStored(opened, 'known'))?.lead.postalCode, '78704')
})

test('rejected records are told with their line, and unknown fields are counted', async () => {
  const content = `{"href":"https://example.com/r1","postalCode":"78704","lat":1}\n\nnonsense\n{"href":"x","postalCode":"1"}\n${toLines([listing('r2', { postalCode: [], lat: 2 })])}`
  const { summary, rejected } = await importing(opened, [writeInput('rejected.ndjson', content)])
  assert.deepEqual(summary, { ...none, read: 4, inserted: 1, rejected: 3, ignored: { lat: 2 } })
  assert.deepEqual(
    rejected.map(({ line, path }) => [line, path]),
    [
      [3, ''],
      [4, 'href'],
      [5, 'postalCode'],
    ],
  )
  assert.equal(rejected[0]?.raw.toString(), 'nonsense')
})

test('CSV, a JSON array and gzip of each, and standard input by its first bytes, hold the same listings', async () => {
  const record = {
    href: hrefOf('formats'),
    postalCode: '78704',
    price: 350_000,
    description: 'a "pool",\nand a yard',
  }
  const csv = `\ufeffhref,postalCode,price,description\r\n${record.href},78704,"$350,000","a ""pool"",\nand a yard"\r\n`
  const forms: [string, string][] = [
    ['x.ndjson', toLines([record])],
    ['x.jsonl', toLines([record])],
    ['x.json', `\n[\n${JSON.stringify(record, null, 2)}\n]\n`],
    ['x.csv', csv],
  ]
  const stdin = (content: Buffer) => ({ stdin: Readable.from([content.subarray(0, 1), content.subarray(1)]) })
  let isFirst = true
  for (const [name, text] of forms) {
    const zipped = gzipSync(text)
    const runs = [
      await importing(opened, [writeInput(name, text)]),
      await importing(opened, [writeInput(`${name}.gz`, zipped)]),
      await importing(opened, ['-'], stdin(Buffer.from(text))),
      await importing(opened, ['-'], stdin(zipped)),
    ]
    for (const { summary } of runs) {
      assert.deepEqual(summary, { ...none, read: 1, [isFirst ? 'inserted' : 'unchanged']: 1 }, name)
      isFirst = false
    }
  }
  assert.deepEqual((await findStored(opened, 'formats'))?.lead, completeLead(record))
})

test('--map reads fields from columns of other names', async () => {
  const content = `url,zip,list_price,price\n${hrefOf('mapped')},78704,7,9\n`
  const map = leadMaps.parse(['href=url', 'postalCode=zip', 'price=list_price'])
  const { summary } = await importing(opened, [writeInput('mapped.csv', content)], { map })
  assert.deepEqual(summary, { ...none, read: 1, inserted: 1, ignored: { price: 1 } })
  assert.equal((await findStored(opened, 'mapped'))?.lead.price, 7)
})

const good = toLines([listing('broken')])
const broken: [string, string | Buffer, RegExp][] = [
  ['broken.ndjson', `${good}{"href":"https://exam`, /line 2/],
  ['broken.json', `[${good.trim()},{"href":`, /no end/],
  ['empty.json', '', /^it is empty: it has no record$/],
  [
    'broken.csv',
    `href,postalCode,description\n${hrefOf('broken')},78704,x\n${hrefOf('b2')},78704,"y\n`,
    /inside quotes/,
  ],
  ['broken.ndjson.gz', gzipSync(good.repeat(50)).subarray(0, -9), /gzip has no end/],
  ['nonsense.ndjson.gz', good, /no valid gzip/],
  ['empty.csv.gz', '', /no valid gzip/],
]
for (const [name, content, pattern] of broken) {
  test(`of ${name}, which is broken off, nothing goes in; the file before it does, the one after it is not begun`, async () => {
    const imports = await count(opened, 'imports')
    const before = writeInput('before.ndjson', toLines([listing(`before-${name}`)]))
    const after = writeInput('after.ndjson', toLines([listing(`after-${name}`)]))
    const path = writeInput(name, content)
    const outcome = await importing(opened, [before, path, after])
    assert.deepEqual(outcome.summary, { ...none, read: 1, inserted: 1 })
    assert.equal(outcome.broken?.file, path)
    assert.match(outcome.broken?.message ?? '', pattern)
    assert.ok(await findStored(opened, `before-${name}`))
    assert.equal(await findStored(opened, 'broken'), undefined)
    assert.equal(await findStored(opened, `after-${name}`), undefined)
    assert.equal(await count(opened, 'imports'), imports + 1)
  })
}

test('a file without a record is told, and is no import', async () => {
  const imports = await count(opened, 'imports')
  for (const [name, content, pattern] of [
    ['e.ndjson', '', /it is empty/],
    ['e.csv', '', /it is empty/],
    ['h.csv', 'href,postalCode\n', /a header and no record/],
    ['e.json', '[]', /no record/],
    ['w.json', '{"listings":[]}', /no record/],
    ['w.ndjson', '\n\n', /no record/],
  ] as const) {
    const outcome = await importing(opened, [writeInput(name, content)])
    assert.deepEqual(outcome.summary, none, name)
    assert.match(outcome.broken?.message ?? '', pattern, name)
  }
  assert.equal(await count(opened, 'imports'), imports)
})

test('wrong usage is told before anything is done', async () => {
  const file = writeInput('usage.ndjson', toLines([listing('usage')]))
  const isUsage = (error: unknown) => error instanceof LeadpushError && error.code === 'usage'
  await assert.rejects(importLeads(opened, [file, `${file}.missing.csv`]), isUsage)
  await assert.rejects(importLeads(opened, [file, writeInput('x.xlsx', 'x')]), isUsage)
  await assert.rejects(importLeads(opened, ['-', file, '-']), isUsage)
  assert.equal(await findStored(opened, 'usage'), undefined)
})

// The price went out as 0 when the feed had renamed its column.
test('nothing of a CSV goes in that lacks a column which the mapping names', async () => {
  const map = leadMaps.parse(['price=cost'])
  const { broken, summary } = await importing(opened, [writeInput('nocost.csv', 'href,postalCode,costs\nhttps://a.example/nocost,78704,5\n')], { map })
  assert.match(broken?.message ?? '', /no column cost/)
  assert.deepEqual(summary, none)
}) // biome-ignore format: short

test('an import records its counts', async () => {
  await importRecords(opened, [listing('i1', { price: 5 }), listing('i2'), listing('i2'), 5])
  const { rows } = await opened.pool.query(
    'select records, inserted, updated, unchanged, rejected, repeated, filled_fields from imports order by id desc limit 1',
  )
  assert.deepEqual(rows[0], {
    records: 4,
    inserted: 2,
    updated: 0,
    unchanged: 0,
    rejected: 1,
    repeated: 1,
    filled_fields: 5,
  })
})

test('a text that fills 8 MiB is stored, and only its beginning is searched', async () => {
  const description = `first ${'word '.repeat(1_600_000)}last`
  const { summary } = await importRecords(opened, [listing('long', { description, address: 'x'.repeat(100_000) })])
  assert.deepEqual(summary, { ...none, read: 1, inserted: 1 })
  const stored = await findStored(opened, 'long')
  assert.equal(stored?.lead.description?.length, description.length)
  assert.match(stored?.search ?? '', /'first'/)
  assert.doesNotMatch(stored?.search ?? '', /'last'/)
})

test('two imports at once take turns, and both succeed', async () => {
  const records = (price: number) =>
    Array.from({ length: 2_000 }, (_, at) => listing(`turn-${at}`, { price, [price === 1 ? 'city' : 'state']: 'TX' }))
  const [first, second] = await Promise.all([importRecords(opened, records(1)), importRecords(opened, records(2))])
  const sums = [first, second].map(({ summary }) => summary)
  assert.deepEqual(
    sums.map(({ inserted, updated }) => inserted + updated),
    [2_000, 2_000],
  )
  assert.equal(
    sums.reduce((sum, { inserted }) => sum + inserted, 0),
    2_000,
  )
  const stored = await findStored(opened, 'turn-77')
  assert.equal(stored?.versions, 2)
  assert.deepEqual([stored?.lead.city, stored?.lead.state], ['TX', 'TX'])
})

test('an import that is stopped while it reads leaves nothing of its file', async () => {
  const controller = new AbortController()
  async function* endless() {
    for (let at = 0; ; at++) {
      yield Buffer.from(toLines([listing(`stopped-${at}`)]))
      await new Promise(setImmediate)
    }
  }
  const imports = await count(opened, 'imports')
  setTimeout(() => controller.abort(), 200)
  const outcome = await importing(opened, ['-'], { stdin: Readable.from(endless()), signal: controller.signal })
  assert.deepEqual([outcome.stopped, outcome.summary], [true, none])
  assert.equal(await findStored(opened, 'stopped-0'), undefined)
  assert.equal(await count(opened, 'imports'), imports)
})

test('an import that is stopped while it waits for its turn to merge leaves nothing of its file', async () => {
  const controller = new AbortController()
  const holder = await opened.pool.connect()
  await holder.query('begin')
  await holder.query('select pg_advisory_xact_lock(7310401)')
  const waits = async () =>
    (await holder.query("select from pg_locks where locktype = 'advisory' and not granted")).rows.length > 0
  const waiting = importRecords(opened, [listing('waiting')], { signal: controller.signal })
  await until('it waits', waits)
  controller.abort()
  const outcome = await waiting
  await holder.query('commit')
  holder.release()
  assert.equal(outcome.stopped, true)
  assert.equal(await findStored(opened, 'waiting'), undefined)
  assert.deepEqual((await importRecords(opened, [listing('waiting')])).summary, { ...none, read: 1, inserted: 1 })
})

test('after a lost connection the file is begun again, and nothing is told twice', async () => {
  const controller = new AbortController()
  const records = Array.from({ length: 3_000 }, (_, at) => (at % 1_000 === 0 ? at : listing(`lost-${at}`)))
  let kills = 0
  const { summary, rejected } = await importRecords(opened, records, {
    signal: controller.signal,
    onProgress: ({ phase }) => {
      if (phase !== 'merging' || kills++ > 0) return
      opened.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
        where pid <> pg_backend_pid() and datname = current_database() and xact_start is not null`)
    },
  })
  assert.ok(kills > 0)
  assert.deepEqual(summary, { ...none, read: 3_000, inserted: 2_997, rejected: 3 })
  assert.deepEqual(
    rejected.map(({ line }) => line),
    [1, 1_001, 2_001],
  )
})

test('an import touches what was seen without a new index entry', async () => {
  const records = Array.from({ length: 5_000 }, (_, at) => listing(`hot-${at}`))
  for (let round = 0; round < 3; round++) await importRecords(opened, records)
  await opened.pool.query('select pg_stat_force_next_flush()').catch(() => {})
  const { rows } = await opened.pool.query(
    `select pg_stat_get_tuples_updated('lead_seen'::regclass) as updated, pg_stat_get_tuples_hot_updated('lead_seen'::regclass) as hot`,
  )
  if (rows[0].updated > 0) assert.ok(rows[0].hot / rows[0].updated > 0.9, JSON.stringify(rows[0]))
})
