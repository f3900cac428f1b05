/** Which source has which listing (contract 4.18): one source, several, what is gone, what comes back, what changes nothing. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { sql } from 'kysely'
import type { OpenDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import type { SourceOptions } from '../../src/leads/sources.ts'
import { findMatches } from '../../src/matching/match.ts'
import { createDatabase } from '../support/database.ts'
import { findStored, hrefOf, importing, importRecords, listing, toLines, writeInput } from '../support/import-files.ts'
import { watchLocks } from '../support/watch-locks.ts'

const dayMs = 86_400_000

const from = (name: string, options: Partial<SourceOptions> = {}): { source: SourceOptions } => ({
  source: { name, complete: false, accept: false, maxLeadAgeMs: 30 * dayMs, ...options },
})
const all = (name: string, options: Partial<SourceOptions> = {}) => from(name, { complete: true, ...options })

const open = async () => (await createDatabase()).open()

const listings = (...names: (string | number)[]) => names.map((name) => listing(name))
const range = (count: number, first = 1) => Array.from({ length: count }, (_, at) => first + at)

/** The names of the live listings, by matching: each stands in 78704 with its own price. */
async function findLive(opened: OpenDatabase): Promise<string[]> {
  const { ids } = await findMatches(
    opened.db,
    { kind: 'place', places: ['78704'], words: null },
    { seenSince: new Date(Date.now() - 30 * dayMs), sameHouse: 'each' },
  )
  const { rows } = await sql<{ href: string }>`
    select v.json::json ->> 'href' as href from lead_versions v where v.id = any (${[...ids]})
  `.execute(opened.db)
  return rows.map(({ href }) => href.split('/').at(-1) ?? '').sort()
}

async function findMembers(opened: OpenDatabase): Promise<string[]> {
  const { rows } = await opened.pool.query(`
    select (v.json::json ->> 'href') || case when m.gone_at is null then ' in ' else ' gone from ' end || o.name as text
    from lead_sources m join sources o on o.id = m.source_id join leads l on l.id = m.lead_id join lead_versions v on v.id = l.version_id
    order by 1`)
  return rows.map(({ text }) => text.replace('https://example.com/', ''))
}

test('a listing that a complete import of its source lacks is gone, and is live again with its old content when it is back', async () => {
  const opened = await open()
  await importRecords(opened, listings('a', 'b', 'c'), from('mls'))
  const before = await findStored(opened, 'c')
  const { summary } = await importRecords(opened, listings('a', 'b'), all('mls'))
  assert.deepEqual([summary.unchanged, summary.gone], [2, 1])
  assert.deepEqual(await findLive(opened), ['a', 'b'])
  assert.deepEqual(await findMembers(opened), ['a in mls', 'b in mls', 'c gone from mls'])
  const again = await importRecords(opened, listings('a', 'b'), all('mls'))
  assert.equal(again.summary.gone, 0, 'gone already')

  const back = await importRecords(opened, listings('c'), from('mls'))
  assert.deepEqual([back.summary.inserted, back.summary.unchanged, back.summary.gone], [0, 1, 0])
  assert.deepEqual(await findLive(opened), ['a', 'b', 'c'])
  assert.equal((await findStored(opened, 'c'))?.versionId, before?.versionId, 'its content decides whether it is new')
})

test('a listing of two sources is gone only when it is gone from both', async () => {
  const opened = await open()
  await importRecords(opened, listings('a', 'b', 'c'), all('one'))
  await importRecords(opened, listings('b', 'c', 'd'), all('two'))
  const first = await importRecords(opened, listings('a', 'c'), all('one'))
  assert.equal(first.summary.gone, 0)
  assert.deepEqual(await findLive(opened), ['a', 'b', 'c', 'd'])
  assert.ok((await findMembers(opened)).includes('b gone from one'))
  const second = await importRecords(opened, listings('c', 'd'), all('two'))
  assert.equal(second.summary.gone, 1)
  assert.deepEqual(await findLive(opened), ['a', 'c', 'd'])
  // a third source that never had it brings it back
  await importRecords(opened, listings('b'), from('three'))
  assert.deepEqual(await findLive(opened), ['a', 'b', 'c', 'd'])
})

test('a listing whose line of CSV has a wrong number of cells counts as there', async () => {
  // such a listing was gone
  const opened = await open()
  await importRecords(opened, listings('a', 'b', 'c'), all('mls'))
  const text = `city,href,postalCode\nLogan,${hrefOf('a')},78704\nAustin, TX,${hrefOf('b')},78704\n`
  const { summary } = await importing(opened, [writeInput('cells.csv', text)], all('mls'))
  assert.deepEqual([summary.rejected, summary.gone], [1, 1])
  assert.deepEqual(await findLive(opened), ['a', 'b'])
})

// each of two sources brought its own price again at each import: a change of the price twice a day, and always the newest listing
test('of several sources the first that has a listing decides what it knows, and others fill what it does not', async () => {
  const opened = await open()
  const ofOne = () => importRecords(opened, [listing('a', { price: 300_000, bedrooms: 0 })], from('one'))
  const ofTwo = (fields: object = {}) =>
    importRecords(opened, [listing('a', { price: 310_000, bedrooms: 2, city: 'Austin', ...fields })], all('two'))
  const known = async () => {
    const { price, bedrooms, city } = (await findStored(opened, 'a'))?.lead ?? {}
    return [price, bedrooms, city]
  }
  await ofOne()
  assert.equal((await ofTwo()).summary.updated, 1)
  assert.deepEqual(await known(), [300_000, 0, 'Austin'])
  for (const again of [ofOne, ofTwo, ofOne, ofTwo]) assert.equal((await again()).summary.updated, 0)
  // what another filled it may change
  await ofTwo({ city: 'Round Rock' })
  assert.deepEqual(await known(), [300_000, 0, 'Round Rock'])
  // the first lacks it now, and is the second when it has it again
  await importRecords(opened, [listing('b')], all('one', { accept: true }))
  assert.equal((await ofTwo()).summary.updated, 1)
  assert.deepEqual(await known(), [310_000, 2, 'Austin'])
  await ofOne()
  assert.deepEqual(await known(), [310_000, 2, 'Austin'])
})

test('an import that is not complete looks up its own listings, and reads no others of its source', async () => {
  // 9.8 s for one record beside 1,000,000
  const opened = await open()
  await importRecords(opened, listings(...range(20_000)), from('mls'))
  await opened.pool.query('analyze lead_sources')
  const read = async () => {
    await opened.pool.query('select pg_stat_force_next_flush()')
    const { rows } = await opened.pool.query(
      `select seq_tup_read + idx_tup_fetch as n from pg_stat_all_tables where relname = 'lead_sources'`,
    )
    return Number(rows[0].n)
  }
  const before = await read()
  await importRecords(opened, listings('new', 5), from('mls'))
  const reading = await read()
  assert.ok(reading - before < 1_000, `${reading - before} rows`)
})

test('listings without a source stay as they are, and a file without one brings nothing back', async () => {
  const opened = await open()
  await importRecords(opened, listings('none'))
  await importRecords(opened, listings('a', 'b', 'c'), all('mls'))
  await importRecords(opened, listings('a', 'b'), all('mls'))
  assert.deepEqual(await findLive(opened), ['a', 'b', 'none'])
  await importRecords(opened, listings('c'))
  assert.deepEqual(await findLive(opened), ['a', 'b', 'none'])
})

test('fewer than half of the live listings change nothing; half of them, or any with accept, do', async () => {
  const opened = await open()
  await importRecords(opened, listings(...range(10)), all('mls'))
  await importRecords(opened, listings('other'), all('other'))
  const few = [...listings(...range(4)), listing('new'), listing('newer')]
  await assert.rejects(importRecords(opened, few, all('mls')), {
    code: 'failed',
    message: 'The import of the source mls has only 4 of the 10 live listings of this source: nothing was changed.',
  })
  assert.equal((await findLive(opened)).length, 11)
  assert.equal(await findStored(opened, 'new'), undefined)
  const half = await importRecords(opened, listings(...range(5)), all('mls'))
  assert.equal(half.summary.gone, 5)
  // five are live now
  await assert.rejects(importRecords(opened, listings(1, 2), all('mls')), /only 2 of the 5/)
  const accepted = await importRecords(opened, listings(1), all('mls', { accept: true }))
  assert.equal(accepted.summary.gone, 4)
  assert.deepEqual(await findLive(opened), ['1', 'other'])
  const empty = await importRecords(opened, [], all('mls'))
  assert.deepEqual([empty.broken?.message, empty.summary.gone], ['it is empty: it has no record', 0])
  // the last listing could never leave
  const none = await importRecords(opened, [], all('mls', { accept: true }))
  assert.deepEqual([none.broken, none.summary.gone, await findLive(opened)], [undefined, 1, ['other']])
  const list = { ...all('other', { accept: true }), stdin: Readable.from([Buffer.from('[]')], { objectMode: false }) }
  assert.equal((await importLeads(opened, ['-'], list)).summary.gone, 1)
})

test('the guard counts live listings: those that are too old, gone, or new in the file do not matter', async () => {
  const opened = await open()
  await importRecords(opened, listings(...range(10)), all('mls'))
  await opened.pool.query(`update lead_seen set seen_at = now() - interval '31 days' where lead_id in (
    select l.id from leads l join lead_versions v on v.id = l.version_id where right(v.json::json ->> 'href', 1) in ('5', '6', '7', '8', '9'))`)
  // live are 1, 2, 3, 4 and 10
  const { summary } = await importRecords(opened, listings(1, 2, 3), all('mls'))
  assert.equal(summary.gone, 7)
  await assert.rejects(importRecords(opened, listings(1, ...range(50, 100)), all('mls')), /only 1 of the 3 live/)
})

test('the files of a command are complete together, and change nothing together', async () => {
  const opened = await open()
  await importRecords(opened, listings(...range(10)), all('mls'))
  const file = (name: string, ...names: number[]) => writeInput(`${name}.ndjson`, toLines(listings(...names)))
  const halves = [file('first', 1, 2, 3, 4, 5), file('second', 5, 6, 7, 8)]
  const { summary } = await importing(opened, halves, all('mls'))
  assert.deepEqual([summary.read, summary.unchanged, summary.gone], [9, 9, 2])
  const small = [file('third', 1, 2, 20, 21, 22), file('fourth', 1, 23)]
  await assert.rejects(importing(opened, small, all('mls')), /only 2 of the 8/)
  assert.equal(await findStored(opened, 20), undefined)
  assert.deepEqual(await findLive(opened), ['1', '2', '3', '4', '5', '6', '7', '8'])
})

// 300 files of a few listings each: "out of shared memory" after 5 minutes, and "The database is away" four times
test('a complete import of many files holds no more locks than one of a few', async () => {
  const opened = await open()
  const files = range(60).map((at) => {
    const rows = [`${hrefOf(at % 7)},78704,${at}`, `${hrefOf(`of-${at}`)},78704,2`, `${hrefOf('bad')},nowhere,2`]
    return writeInput(`${at}-of-60.csv`, ['href,postalCode,price', ...rows, ''].join('\n'))
  })
  const { counts, onRejected } = watchLocks(opened)
  const { summary } = await importing(opened, files, { ...all('mls'), onRejected })
  assert.deepEqual([summary.read, summary.inserted, summary.updated, summary.rejected], [180, 67, 53, 60])
  // of each file a savepoint that stays has one, and tables of its own 39 to 65
  assert.deepEqual([counts.length, counts.at(-1)], [60, counts[10]])
})

test('nothing is gone when a file breaks off: the files before it went in', async () => {
  const opened = await open()
  await importRecords(opened, listings('a', 'b', 'c'), all('mls'))
  const whole = writeInput('whole.ndjson', toLines([listing('a'), listing('new')]))
  const broken = writeInput('broken.json', '[{"href":"https://example.com/b","postalCode":"78704"},')
  const later = writeInput('later.ndjson', toLines([listing('later')]))
  const outcome = await importing(opened, [whole, broken, later], all('mls'))
  assert.equal(outcome.broken?.file, broken)
  assert.deepEqual([outcome.summary.inserted, outcome.summary.gone], [1, 0])
  assert.deepEqual(await findLive(opened), ['a', 'b', 'c', 'new'])
  assert.ok((await findMembers(opened)).includes('new in mls'))
  const { rows } = await opened.pool.query(`select imported_at = completed_at as same from sources`)
  assert.deepEqual(rows, [{ same: true }], 'this import did not come to its end')
})

test('nothing is gone, and nothing went in, when a complete import is stopped', async () => {
  const opened = await open()
  await importRecords(opened, listings('a', 'b', 'c'), all('mls'))
  const files = ['x', 'y'].map((name) => writeInput(`${name}.ndjson`, toLines([listing('a'), listing(name)])))
  const stop = new AbortController()
  const onProgress = ({ file, phase }: { file: string; phase: string }) => {
    if (file === files[1] && phase === 'merging') stop.abort()
  }
  const outcome = await importing(opened, files, { ...all('mls'), signal: stop.signal, onProgress })
  assert.deepEqual([outcome.stopped, outcome.summary.inserted, outcome.summary.gone], [true, 0, 0])
  assert.deepEqual(await findLive(opened), ['a', 'b', 'c'])
})

test('a rejected record counts as present where its href could be read', async () => {
  const opened = await open()
  await importRecords(opened, listings('a', 'b', 'c', 'd'), all('mls'))
  const records = [
    listing('a'),
    listing('b', { postalCode: '787\u000004' }),
    listing('c'),
    // the last record with its href counts, and is rejected
    listing('c', { postalCode: '787\u000004' }),
  ]
  const { summary } = await importRecords(opened, records, all('mls'))
  assert.deepEqual([summary.rejected, summary.repeated, summary.gone], [2, 1, 1])
  assert.deepEqual(await findLive(opened), ['a', 'b', 'c'])
})

test('complete imports of thousands of listings write only what differs', async () => {
  const opened = await open()
  const records = listings(...range(4_000))
  await importRecords(opened, records, all('mls'))
  const { rows: first } = await opened.pool.query('select max(xmin::text::bigint) as last from lead_sources')
  const { summary } = await importRecords(opened, records.slice(0, 3_800), all('mls'))
  assert.equal(summary.gone, 200)
  const { rows } = await opened.pool.query(
    'select count(*) as written from lead_sources where xmin::text::bigint > $1',
    [first[0].last],
  )
  assert.equal(rows[0].written, 200)
  assert.equal((await importRecords(opened, records, all('mls'))).summary.gone, 0)
  const live = await opened.pool.query('select count(*) as live from lead_seen where not gone')
  assert.equal(live.rows[0].live, 4_000)
})
