/** Values that people wrote: what an import makes of them, counts and shows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkLeads } from '../../src/inspect/validate/leads.ts'
import { parseContact } from '../../src/leads/contacts.ts'
import { buildNulls } from '../../src/leads/read-value.ts'
import { forgetListings } from '../../src/upkeep/forget/forget.ts'
import { createDatabase } from '../support/database.ts'
import { findStored, hrefOf, importing, importRecords, listing, toLines, writeInput } from '../support/import-files.ts'

const database = await createDatabase(undefined, { places: 'all' })
const opened = await database.open()

test('a value that cannot be read is unknown, counted and shown, and keeps what an earlier import knew', async () => {
  const known = { price: 350_000, sqft: 1_850, bathrooms: 2.5, city: 'Austin' }
  await importRecords(opened, [listing('known', known)])
  const before = await findStored(opened, 'known')
  const dirty = { price: 'call', sqft: '1.850', bathrooms: true, city: 'a\0', yearBuilt: '0' }
  const { summary, rejected } = await importRecords(opened, [
    listing('known', dirty),
    listing('new', { ...dirty, bedrooms: '3 bd' }),
  ])
  assert.deepEqual(rejected, [])
  const { read, inserted, updated, unchanged, unreadable } = summary
  assert.deepEqual([read, inserted, updated, unchanged], [2, 1, 0, 1])
  assert.deepEqual(unreadable, { price: 2, sqft: 2, bathrooms: 2, city: 2 })
  assert.deepEqual(
    Object.entries(summary.examples ?? {}).map(([path, { line, value }]) => [path, line, value]),
    [
      ['bathrooms', 1, 'true'],
      ['city', 1, '"a\\u0000"'],
      ['price', 1, '"call"'],
      ['sqft', 1, '"1.850"'],
    ],
  )
  const after = await findStored(opened, 'known')
  assert.deepEqual([after?.json, after?.versions], [before?.json, 1])
  const { lead } = (await findStored(opened, 'new')) ?? {}
  assert.deepEqual([lead?.price, lead?.bedrooms, lead?.city], [0, 3, null])
})

test('unreadable values of a record that does not go in do not count: repeated, rejected, or of a file that breaks off', async () => {
  const first = writeInput(
    'values-first.ndjson',
    toLines([
      listing('again', { price: 'call' }),
      { href: hrefOf('nowhere'), price: 'call' },
      listing('again', { sqft: 'big' }),
      listing('other', { sqft: 'small' }),
    ]),
  )
  const second = writeInput('values-second.ndjson', toLines([listing('third', { sqft: 'tiny', price: 'ask' })]))
  const broken = writeInput('values-broken.ndjson', `${toLines([listing('fourth', { price: 'ask' })])}{"href"`)
  const { summary } = await importing(opened, [first, second, broken])
  assert.deepEqual([summary.read, summary.rejected, summary.repeated, summary.inserted], [5, 1, 1, 3])
  assert.deepEqual(summary.unreadable, { sqft: 3, price: 1 })
  const { sqft, price } = summary.examples ?? {}
  assert.deepEqual([sqft?.file, sqft?.line, sqft?.value], [first, 3, '"big"'])
  assert.deepEqual([price?.file, price?.line, price?.value], [second, 1, '"ask"'])
})

test('with strict a value that cannot be read rejects its record, and null texts are unknown', async () => {
  const records = [listing('s1', { price: 'n/a', sqft: 900 }), listing('s2', { price: 'call' }), listing('s3')]
  const nulls = buildNulls(['N/A'])
  const { summary, rejected } = await importRecords(opened, records, { strict: true, nulls })
  assert.deepEqual([summary.inserted, summary.rejected, summary.unreadable], [2, 1, {}])
  assert.deepEqual(
    rejected.map(({ line, path, message }) => [line, path, message]),
    [[2, 'price', 'cannot be read as a number without a guess: "call"']],
  )
  assert.equal(summary.examples, undefined)
})

test('CSV and JSON bring the same listings, also with codes and numbers as spreadsheets write them', async () => {
  const fields = {
    postalCode: 'TX, 78704',
    price: '$350K',
    sqft: '1,850 sq. ft.',
    bathrooms: '2 1/2',
    yearBuilt: '1985.0',
  }
  const names = Object.keys(fields)
  const csv = `href,${names.join()}\n${hrefOf('csv')},${Object.values(fields).map((text) => `"${text}"`)}\n`
  const json = { href: hrefOf('json'), ...fields, postalCode: 78_704.0, yearBuilt: 1985 }
  const files = [writeInput('same.csv', csv), writeInput('same.json', JSON.stringify([json]))]
  const { summary } = await importing(opened, files)
  assert.deepEqual([summary.inserted, summary.unreadable, summary.unplaced], [2, {}, 0])
  const [one, two] = [(await findStored(opened, 'csv'))?.lead, (await findStored(opened, 'json'))?.lead]
  assert.deepEqual(one, { ...two, href: hrefOf('csv') })
  const { postalCode, price, sqft, bathrooms, yearBuilt } = one ?? {}
  assert.deepEqual([postalCode, price, sqft, bathrooms, yearBuilt], ['78704', 350_000, 1_850, 2.5, 1985])
})

test('listings whose code is in no table go in and are counted, with the first, and validate notes them', async () => {
  const { summary } = await importRecords(opened, [
    listing('p1', { postalCode: '84321.0' }),
    listing('p2', { postalCode: '00000' }),
    listing('p3', { postalCode: 'N/9' }),
    listing('p2', { postalCode: 'XX 99999' }),
    listing('p4', { postalCode: '2138' }),
    { href: hrefOf('known'), price: 1 },
  ])
  assert.deepEqual([summary.inserted, summary.repeated, summary.unplaced], [4, 1, 2])
  const { line, value, message } = summary.examples?.postalCode ?? {}
  assert.deepEqual([line, value], [3, '"N/9"'])
  assert.match(message ?? '', /^is in no table, .*: "N\/9"$/)
  const found = []
  for await (const finding of checkLeads(opened.db, { leads: 0 })) found.push(finding)
  assert.deepEqual(
    found.map(({ level, where, path }) => [level, where, path]).sort(),
    ['p2', 'p3'].map((name) => ['note', `lead ${hrefOf(name)}`, 'postalCode']),
  )
})

test('an erased contact keeps a record out, also where it stands in a value that cannot be read', async () => {
  const contact = parseContact('(512) 555-0143') ?? assert.fail()
  await forgetListings(opened, { contact }, { stop: new AbortController().signal })
  const { summary } = await importRecords(opened, [
    listing('e1', { contactPhone: ['512-555-0143'] }),
    listing('e2', { contactPhone: [{ type: 'Mobile', number: '5125550143' }], price: 'call' }),
    listing('e3', { contactName: '1 512 555 0143\0' }),
    listing('e4', { contactPhone: 5_125_550_143 }),
    listing('e5', { contactPhone: ['512-555-0144'] }),
  ])
  assert.deepEqual([summary.erased, summary.inserted, summary.unreadable], [4, 1, { contactPhone: 1 }])
  assert.equal(summary.examples?.contactPhone?.value, '[…]')
})

test('an erased contact or URL keeps a bad record from being told, also where JSON spells its characters out', async () => {
  // they were looked for in the record as it came, where an escape hid them, or its digits ran into a number
  const { signal } = new AbortController()
  for (const contact of ['5125550188', 'carl@x.example']) await forgetListings(opened, { contact }, { stop: signal })
  await forgetListings(opened, { href: 'https://example.com/?b=ü' }, { stop: signal })
  const bad = [
    String.raw`{"href":"https://example.com/u1","contactEmail":"carl\u0040x.example"}`,
    String.raw`{"href":"https://example.com/u2","contactPhone":"(512)\u00a0555-0188"}`,
    String.raw`{"href":"https://example.com/u3","contactName":"Carl\ncarl@x.example"}`,
    String.raw`{"href":"https:\/\/example.com\/?b=\u00fc"}`,
    String.raw`{"href":"https://example.com/u4","contactName":"Carl \\u0040"}`,
    String.raw`{"href":"https://example.com/u5","postalCode":"78704","contactName":"\ud8005125550188"}`,
  ]
  const { summary, rejected } = await importing(opened, [
    writeInput('spelt.ndjson', `${toLines([listing('u0')])}${bad.join('\n')}\n`),
  ])
  assert.deepEqual([summary.erased, summary.inserted], [5, 1])
  assert.deepEqual(
    rejected.map(({ line }) => line),
    [6],
  )
})

// Blanks around it rejected the listing.
test('blanks around an href are cut; what nobody sees within it rejects the record', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const { summary } = await importRecords(opened, [
    { ...listing('blanks'), href: ` \t${hrefOf('blanks')}\n` },
    { ...listing('unseen'), href: `${hrefOf('un')}\u200bseen` },
    { ...listing('hyphen'), href: `${hrefOf('hy')}\u00adphen` },
  ])
  assert.deepEqual([summary.inserted, summary.rejected], [1, 2])
  assert.equal((await importRecords(opened, [listing('blanks')])).summary.unchanged, 1)
})
