/** Who is taken away by a complete import of a file with spoilt records (contract 4.18), on a real database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { OpenDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import { type ImportCounts, type ImportOutcome, RefusedImport } from '../../src/records/import-each.ts'
import { importUsers } from '../../src/users/import.ts'
import { createDatabase } from '../support/database.ts'
import { writeInput } from '../support/import-files.ts'
import { isCsv, isIn, type Kind, listings, users, type World, worldsOf, writeGood } from '../support/spoilt-files.ts'

type Import = (opened: OpenDatabase, file: string, accept?: boolean) => Promise<ImportOutcome<ImportCounts>>

const importListings: Import = (opened, file, accept = false) =>
  importLeads(opened, [file], { source: { name: 'mls', complete: true, accept, maxLeadAgeMs: 86_400_000 } })
const importAll: Import = (opened, file, accept) => importUsers(opened, [file], { complete: true, accept })

const liveListings = `
  select v.json::json ->> 'href' as key from lead_sources m join leads l on l.id = m.lead_id
  join lead_versions v on v.id = l.version_id where m.gone_at is null`
const subscribed = 'select email as key from users where subscribed'

const extensions: Record<string, string> = { ndjson: 'ndjson', json: 'json', '\t': 'tsv' }
const worlds = Number(process.env.SPOILT_IMPORTS ?? 40)

async function checkWorlds(of: Kind, importing: Import, present: string): Promise<void> {
  const opened = await (await createDatabase()).open()
  let [held, files] = [0, 0]
  const check = async (world: World) => {
    const name = `${of.columns[0]}-${++files}`
    const subscribes =
      of === users ? (text: string) => text.replaceAll('"photos"', '"subscribed":true,"photos"') : String
    await importing(opened, writeInput(`${name}.ndjson`, subscribes(writeGood(world.rows, of))), true)
    const ending = isCsv(world.form) ? (extensions[world.form] ?? 'csv') : world.form
    const outcome = await importing(opened, writeInput(`${name}-spoilt.${ending}`, world.file)).catch((error) => {
      if (error instanceof RefusedImport) return undefined
      throw error
    })
    if (!outcome || (outcome.summary as { unnamed?: number }).unnamed) held++
    const { rows } = await opened.pool.query<{ key: string }>(present)
    const there = new Set(rows.map(({ key }) => key))
    for (const [key] of world.rows)
      if (isIn(world, key))
        assert.ok(there.has(key), `${key}: ${world.form} ${world.kind}\n${world.file.toString('latin1')}`)
  }
  await fc.assert(fc.asyncProperty(worldsOf(of), check), { numRuns: worlds, seed: 3, endOnFailure: true })
  assert.ok(held < files, 'some took somebody away')
}

test('a complete import of a spoilt file ends no listing that stands in its bytes', () =>
  checkWorlds(listings, importListings, liveListings))

test('a complete import of a spoilt file unsubscribes no user who stands in its bytes', () =>
  checkWorlds(users, importAll, subscribed))

const listing = (n: number) => JSON.stringify({ href: listings.keyOf(n), postalCode: '78701' })
const lines = (...each: string[]) => each.map((line) => `${line}\n`).join('')

/** What a complete import of the lines takes away of five listings, and how many records name none. */
async function takeAway(name: string, each: string[], accept = false) {
  const opened = await (await createDatabase()).open()
  await importListings(opened, writeInput(`${name}-first.ndjson`, lines(...[1, 2, 3, 4, 5].map(listing))))
  const { summary } = await importListings(opened, writeInput(`${name}.ndjson`, lines(...each)), accept)
  const { rows } = await opened.pool.query<{ key: string }>(liveListings)
  const { gone, unnamed } = summary as { gone?: number; unnamed?: number }
  return {
    live: rows
      .map(({ key }) => key.slice(-1))
      .sort()
      .join(''),
    gone,
    unnamed,
  }
}

test('a rejected record that names no listing takes none away, unless accepted', async () => {
  // it took listing 4 away, whose record it was
  const each = [listing(1), listing(2), listing(3), '{"href":"htt']
  assert.deepEqual(await takeAway('unnamed', each), { live: '12345', gone: 0, unnamed: 1 })
  assert.deepEqual(await takeAway('accepted', each, true), { live: '123', gone: 2, unnamed: undefined })
})

test('the URLs in a rejected record are there, and the others are gone', async () => {
  const each = [listing(1), listing(2), listing(3), `{"url":"${listings.keyOf(4)}","price":}`]
  assert.deepEqual(await takeAway('named', each), { live: '1234', gone: 1, unnamed: undefined })
})

test('a rejected record of which only the beginning is kept takes nobody away', async () => {
  const large = `{"href":"${listings.keyOf(4)}","description":"${'x'.repeat(9_000_000)}"}`
  const each = [listing(1), listing(2), listing(3), large]
  assert.deepEqual(await takeAway('large', each), { live: '12345', gone: 0, unnamed: 1 })
})
