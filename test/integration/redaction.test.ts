/** The redaction of a lead's JSON in SQL, and the marks of lists at an import, on both versions of PostgreSQL. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { withTransaction } from '../../src/db/transaction.ts'
import { withoutContacts } from '../../src/leads/contacts.ts'
import { standardiseEmail } from '../../src/leads/drop-format.ts'
import { recordErasure } from '../../src/leads/erasures.ts'
import { type Lead, type LeadPatch, serialiseLead } from '../../src/leads/lead.ts'
import { recordWorkItems } from '../../src/leads/lists.ts'
import { createDatabase } from '../support/database.ts'
import { importing, listing, toLines, writeInput } from '../support/import-files.ts'

const none = { contactName: null, contactPhone: null, contactEmail: null }
/** Texts that look like the JSON around the contacts. */
const texts = fc.oneof(
  fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\0', '')),
  fc.constantFrom(
    ',"contactName":',
    '","address":',
    ',"fullAddress":"x"',
    '\\",\\"contactName\\":null',
    'null,"contactPhone":null',
    "it's",
  ),
)
const optional = fc.option(texts, { nil: undefined })
const patches = fc.record({
  href: fc.constant('https://example.com/,"address":'),
  postalCode: fc.constant('78704'),
  description: optional,
  contactName: optional,
  contactPhone: optional,
  contactEmail: optional,
  fullAddress: optional,
  address: optional,
})

test('a lead without its contacts is otherwise the same lead, with any texts', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const leads = fc.sample(patches, 2_000).map((patch) => serialiseLead(patch as LeadPatch))
  const { rows } = await opened.pool.query<{ json: string }>(
    `select ${withoutContacts('json')} as json from unnest($1::text[]) with ordinality as l (json, at) order by at`,
    [leads],
  )
  assert.deepEqual(
    rows.map(({ json }) => json),
    leads.map((json) => JSON.stringify({ ...(JSON.parse(json) as Lead), ...none })),
  )
})

test('of thousands on a list an import keeps out exactly these', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const emailOf = (at: number) => `Owner.${at}@Example.com`
  const items = Array.from({ length: 5_000 }, (_, at) => {
    return `item${at},${hash('sha256', standardiseEmail(emailOf(at * 2)), 'base64')}\n`
  })
  const name = writeInput('20260801_1234_Email.csv', `ID,Hash\n${items.join('')}`)
  const files = [{ name, type: 'Email' as const }]
  for (const added of [5_000, 0]) {
    const how = { redacts: true, dryRun: false }
    const counts = await withTransaction(opened, (connection) => recordWorkItems(connection, files, how))
    assert.deepEqual(counts, { read: 5_000, added, rejected: 0, removed: 0 })
  }
  const records = Array.from({ length: 4_000 }, (_, at) => listing(at, { contactEmail: emailOf(at), price: at }))
  const feed = [writeInput('feed.ndjson', toLines(records))]
  assert.equal((await importing(opened, feed)).summary.inserted, 4_000)
  const { rows } = await opened.pool.query<{ lead: Lead }>('select json::jsonb as lead from lead_versions')
  for (const { lead } of rows) {
    assert.deepEqual(
      [lead.contactEmail, typeof lead.price],
      [lead.price % 2 === 0 ? null : emailOf(lead.price), 'number'],
    )
  }
  assert.equal((await importing(opened, feed)).summary.unchanged, 4_000)
  // as erasures they outdo the redaction
  const how = { redacts: false, dryRun: false }
  assert.equal((await withTransaction(opened, (connection) => recordWorkItems(connection, files, how))).added, 5_000)
  assert.equal((await importing(opened, feed)).summary.erased, 2_000)
})

// One that was recorded again would have erased listings that were to be kept.
test('an erasure that redacts stays one however often it is recorded, and takes nothing back from one that erases', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const seen = []
  for (const redacts of [true, true, false, true]) {
    const href = 'https://listings.example/1'
    const { isNew } = await withTransaction(opened, (connection) => recordErasure(connection, { href }, redacts))
    const { rows } = await opened.pool.query('select redacts from erasures')
    seen.push([isNew, ...rows.map((row) => row.redacts)])
  }
  assert.deepEqual(seen, [[true, true], [false, true], [true, false], [false, false]]) // biome-ignore format: short
})
