/** The files of `examples/feeds/`: each map takes in the file of its kind, whole. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { leadFields } from '../../src/leads/lead.ts'
import { buildHouse } from '../support/house.ts'

const folder = join(packageRoot, 'examples', 'feeds')
const mapOf = (name: string) => join(folder, `${name}.map`)

/** The listings that an import of `args` left in the database, by their href. */
async function takeIn(...args: string[]) {
  const house = await buildHouse()
  const ended = await house.call(['leads', 'import', ...args, '--json'])
  assert.equal(ended.code, 0, ended.stdout + ended.stderr)
  const { pool, close } = await house.database.open()
  const { rows } = await pool.query('select json from lead_versions')
  await close()
  const leads = rows.map(({ json }) => JSON.parse(json)).sort((a, b) => (a.href < b.href ? -1 : 1))
  return { summary: ended.json.at(-1), leads, stderr: ended.stderr }
}

const cases: [name: string, file: string, where: string[], filtered: number, first: object][] = [
  ['reso', 'reso.csv', ['StandardStatus=Active'], 1, { price: 425000, bedrooms: 3, city: 'Austin', postalCode: '78704', contactName: 'Robin Made-Up', propertyType: 'Single Family Residence' }],
  ['homeharvest', 'homeharvest.csv', ['status=FOR_SALE'], 1, { price: 389000, bathrooms: 2, contactPhone: '2025550103', sqft: 2100, description: 'A made-up house\nwith a text of two lines.', address: '1 Pine Rd' }],
  ['schema-org', 'schema-org.json', [], 0, { price: 259000, bathrooms: 1.5, sqft: 1310, propertyType: 'SingleFamilyResidence', contactPhone: '202-555-0104', state: 'ID', country: 'US' }],
  ['fsbo-sheet', 'fsbo-sheet.csv', [], 0, { price: 199900, sqft: 1450, bedrooms: 3, contactEmail: 'pat@example.com', description: 'By owner; no agents, please.' }],
  ['fsbo-lines', 'fsbo-lines.ndjson', ['status!=sold'], 1, { price: 345000, bathrooms: 2.5, contactName: 'Chris Made-Up', contactPhone: '202-555-0106', fullAddress: '14 Lake Dr, Madison, WI 53703' }],
] // biome-ignore format: a table

for (const [name, file, where, filtered, first] of cases) {
  test(`${name}.map takes in ${file}, and each field that it names has a value in it`, async () => {
    const conditions = where.flatMap((one) => ['--where', one])
    const { summary, leads, stderr } = await takeIn(join(folder, file), '--map-file', mapOf(name), ...conditions)
    assert.deepEqual([summary.rejected, summary.filtered, summary.inserted], [0, filtered, leads.length])
    const [lead] = leads
    assert.deepEqual(Object.fromEntries(Object.keys(first).map((field) => [field, lead[field]])), first)
    const { leadMaps } = await import('../../src/leads/field-map.ts')
    const lacking = leadFields.filter(({ name: field }) => !lead[field] && leadMaps.readFile(mapOf(name)).has(field))
    assert.deepEqual(lacking.map((field) => field.name).filter((field) => field !== 'secondAddress'), [])
    assert.doesNotMatch(stderr, /no column/)
  })
} // biome-ignore format: with the table

test('every map has a file of its kind here, and the other way round', () => {
  const [maps, files] = [/\.map$/, /\.(csv|json|ndjson)$/].map((ending) =>
    readdirSync(folder).filter((name) => ending.test(name)).map((name) => name.replace(ending, '')).sort(),
  ) // biome-ignore format: a chain
  assert.deepEqual(maps, files)
  assert.deepEqual(maps, cases.map(([name]) => name).sort())
})

/** A file that HomeHarvest wrote; none comes with the project. */
const real = process.env.TEST_LISTINGS_CSV ?? ''

test('homeharvest.map takes in a file of real listings', { skip: !existsSync(real) }, async () => {
  const { summary, leads } = await takeIn(real, '--map-file', mapOf('homeharvest'))
  assert.deepEqual([summary.rejected, summary.read > 3_000], [0, true])
  assert.ok(leads.filter(({ price }) => price > 0).length > leads.length * 0.9)
})
