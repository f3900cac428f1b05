/** Map files, conditions and the `--map` options that a message suggests (contract 4.18). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearestNames } from '../../src/base/nearest.ts'
import { leadMaps } from '../../src/leads/field-map.ts'
import { FieldPicker } from '../../src/leads/pick-fields.ts'
import { readValue } from '../../src/leads/read-value.ts'
import { leadVocabulary } from '../../src/leads/usual-names.ts'
import { checkEncoding } from '../../src/records/encoding.ts'
import { readFiledOptions } from '../../src/records/field-map.ts'
import { suggestMap } from '../../src/records/suggest-map.ts'
import { writeInput } from '../support/import-files.ts'

test('a map file has a line for each field, comments, blank lines and names in quotes', () => {
  const text =
    '# a comment\r\n\r\n href = Listing URL \r\nprice=list_price # asking\nbedrooms="# Beds"  # quoted\nsqft=Sq#Ft\n'
  const map = leadMaps.parseFile('a.map', text)
  const columns = [...map].map(([field, { column, told }]) => [field, column, told])
  assert.deepEqual(columns, [
    ['href', 'Listing URL', 'a.map:3'],
    ['price', 'list_price', 'a.map:4'],
    ['bedrooms', '# Beds', 'a.map:5'],
    ['sqft', 'Sq#Ft', 'a.map:6'],
  ])
})

for (const [text, pattern] of [
  ['price', /--map-file a\.map:1: must be FIELD=COLUMN/],
  ['\nprice= # none', /--map-file a\.map:2: must be FIELD=COLUMN/],
  ['prise=x', /--map-file a\.map:1: a lead has no field prise; did you mean price/],
  ['price=a\n\nprice=b', /--map-file a\.map:3: price is mapped twice/],
] as const) {
  test(`a map file with ${JSON.stringify(text)} is refused with its name and line`, () => {
    assert.throws(() => leadMaps.parseFile('a.map', text), pattern)
  })
}

test('a map file may hold options of the import, each a line', () => {
  const file = writeInput(
    'options.map',
    'href=url\n--null N/A # of old\n--null "# none"\n--where status=active\n--encoding windows-1252\n',
  )
  assert.deepEqual([...leadMaps.readFile(file).keys()], ['href'])
  const allowed = ['null', 'where', 'encoding'] as const
  assert.deepEqual(readFiledOptions(file, allowed), [
    ['null', 'N/A'],
    ['null', '# none'],
    ['where', 'status=active'],
    ['encoding', 'windows-1252'],
  ])
  assert.throws(() => readFiledOptions(file, ['encoding']), /options\.map:2: a map file has no --null/)
  for (const [line, pattern] of [
    ['--complete', /:1: a map file has no --complete/],
    ['--null', /:1: it needs a value/],
    ['--encodin latin1', /:1: a map file has no --encodin; did you mean encoding\?/],
  ] as const)
    assert.throws(() => readFiledOptions(writeInput('bad.map', line), allowed), pattern)
})

test('--map wins over --map-file, and a map file that is not there is wrong usage', () => {
  const mapFile = writeInput('wins.map', '\ufeffhref=url\nprice=a\n')
  const map = leadMaps.read({ map: ['price=b'], mapFile })
  assert.deepEqual([map.get('href')?.column, map.get('price')?.column], ['url', 'b'])
  assert.throws(() => leadMaps.read({ mapFile: `${mapFile}.gone` }), /--map-file .*gone: there is no such file/)
})

test('a name with dots leads to a key within another, and a key of that very name comes first', () => {
  const map = leadMaps.parse(['postalCode=address.zip', 'contactPhone=seller.phones.0', 'city=address.city'])
  const picker = new FieldPicker(map)
  const href = 'https://example.com/1'
  const value = { href, address: { zip: '78704' }, seller: { phones: ['1', '2'] }, 'address.city': 'Austin', other: 1 }
  assert.deepEqual(picker.pick({ line: 1, raw: Buffer.alloc(0), value }), {
    patch: { href, postalCode: '78704', contactPhone: '1', city: 'Austin' },
  })
  assert.deepEqual(picker.ignored.toObject(), { other: 1 })
})

test('keys of JSON may be in any case', () => {
  const value = { HREF: 'https://example.com/1', PostalCode: '78704' }
  const picked = new FieldPicker().pick({ line: 1, raw: Buffer.alloc(0), value })
  assert.deepEqual(picked, { patch: { href: 'https://example.com/1', postalCode: '78704' } })
})

test('an encoding is what TextDecoder knows; a wrong one is met with the nearest', () => {
  assert.equal(checkEncoding('latin1'), 'windows-1252')
  assert.throws(() => checkEncoding('windows-125'), /no such encoding; did you mean windows-125/)
  assert.throws(() => checkEncoding('utf16'), /did you mean utf-16/)
})

test('near names come first, far ones not at all', () => {
  assert.deepEqual(nearestNames('list prise', ['price', 'list_prices', 'city', 'list_price']), [
    'list_price',
    'list_prices',
  ])
  assert.deepEqual(nearestNames('xyz', ['city', 'price']), [])
})

const urls = Array.from({ length: 20 }, (_, at) => `https://example.com/${at}`)
const codes = Array.from({ length: 20 }, (_, at) => String(78701 + at))
const prices = Array.from({ length: 20 }, (_, at) => String(85_000 + 500 * at))
const suggest = (columns: Record<string, string[]>) =>
  Object.fromEntries(suggestMap(leadVocabulary, new Map(Object.entries(columns))))

test('short names of columns are known, and so is when a listing was first seen', () => {
  // neither was suggested
  assert.deepEqual(suggest({ ST: ['TX'], 'First Seen': ['2026-10-01'] }), { rawListingDate: 'First Seen', state: 'ST' })
})

test('the first number of a list of phones in one text counts, as JSON or Python writes it', () => {
  const read = (text: string) => readValue(text, 'contactPhone', new Set())
  assert.equal(read(`[{"number": "2025550103", "type": "Mobile"}]`), '2025550103')
  assert.equal(read(`[{'primary': True, 'number': '2025550103'}, {'number': '2025550104'}]`), '2025550103')
  assert.equal(read('(202) 555-0103'), '(202) 555-0103')
  assert.equal(read('[]'), '[]')
})

for (const [what, columns, expected] of [
  ['usual names', { property_url: urls, zip_code: codes, list_price: prices, beds: ['3'], text: ['x'] }, { href: 'property_url', postalCode: 'zip_code', price: 'list_price', bedrooms: 'beds', description: 'text' }],
  ['names of the RESO Data Dictionary', { ListingURL: urls, PostalCode: codes, ListPrice: prices, LivingArea: ['900'], YearBuilt: ['1990'] }, { href: 'ListingURL', price: 'ListPrice', sqft: 'LivingArea' }],
  ['names within names', { 'offer.url': urls, 'address.postalCode': codes }, { href: 'offer.url', postalCode: 'address.postalCode' }],
  ['misspelt names', { hreff: urls, postal_cod: codes }, { href: 'hreff', postalCode: 'postal_cod' }],
  ['values alone', { a: urls, b: prices, c: codes }, { href: 'a', postalCode: 'c' }],
  ['a name whose values say otherwise', { url: codes, link: urls, zip: ['a', 'b'] }, { href: 'link', postalCode: 'url' }],
  ['a usual name with a few values that cannot be used', { URL: urls, 'Zip Code': ['78704', 'MA 02138', 'call'] }, { href: 'URL', postalCode: 'Zip Code' }],
  ['photos', { photo_url: urls, url: urls.map((url) => `${url}.jpg`), zip: codes }, { postalCode: 'zip' }],
  ['one URL in all rows', { source: urls.map(() => 'https://example.com/'), zip: codes }, { postalCode: 'zip' }],
  ['prices of five digits', { amount_due: prices, link: urls }, { href: 'link' }],
] as [string, Record<string, string[]>, Record<string, string>][]) {
  test(`columns are suggested: ${what}`, () => {
    const { href, postalCode, ...others } = suggest(columns)
    const found: Record<string, string | undefined> = { ...(href && { href }), ...(postalCode && { postalCode }), ...others }
    assert.deepEqual(Object.fromEntries(Object.keys(expected).map((key) => [key, found[key]])), expected)
    for (const key of ['href', 'postalCode']) if (!(key in expected)) assert.equal(found[key], undefined, key)
  })
} // biome-ignore format: a table

test('no column of counties is suggested for a field of a listing', () => {
  // the county was suggested as the country: the two are spelt alike
  for (const column of ['county', 'County', 'address.county', 'county_name'])
    assert.deepEqual(suggest({ href: urls, postalCode: codes, [column]: ['Cache', 'Salt Lake'] }), {}, column)
  assert.deepEqual(suggest({ county: codes, contry: ['US'] }), { country: 'contry' })
})
