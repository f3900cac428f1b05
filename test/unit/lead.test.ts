import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  completeLead,
  givenFields,
  hrefSchema,
  importedHrefSchema,
  type Lead,
  type LeadPatch,
  leadFields,
  mergeLead,
  serialiseLead,
} from '../../src/leads/lead.ts'
import { deliveryBodySchema } from '../../src/receiver-kit/body/body-schema.ts'

const href = 'https://example.com/1'
const bare = { href, postalCode: '78704' }

test('a lead of which only href and postalCode are known carries every default, and no fullAddress', () => {
  assert.equal(
    serialiseLead(bare),
    '{"href":"https://example.com/1","postalCode":"78704","schemaVersion":"v0.1.0","price":0,"rawListingDate":null,' +
      '"sqft":0,"bedrooms":0,"bathrooms":0,"yearBuilt":0,"description":null,"propertyType":null,"contactName":null,' +
      '"contactPhone":null,"contactEmail":null,"address":null,"secondAddress":null,"city":null,"state":null,"country":null}',
  )
})

test('the fields stand on the wire in one order, not in the order in which they came', () => {
  const patch = { country: 'US', fullAddress: '1 Main St', price: 5, postalCode: '78704', href }
  const names = Object.keys(JSON.parse(serialiseLead(patch)))
  assert.deepEqual(
    names,
    leadFields.map(({ name }) => name),
  )
})

function merge(current: LeadPatch, later: LeadPatch): Lead {
  return mergeLead(completeLead(current), completeLead(later), givenFields(later))
}

test('a value that a later record does not know stays; a 0 replaces it', () => {
  const current = { ...bare, price: 350_000, city: 'Austin', fullAddress: '1 Main St', schemaVersion: 'v0.2.0' }
  const merged = merge(current, { href, price: 0, sqft: 900 })
  assert.deepEqual(merged, completeLead({ ...current, price: 0, sqft: 900 }))
})

test('a merged lead has the same JSON as one that was known at once', () => {
  const merged = merge({ ...bare, city: 'Austin' }, { href, fullAddress: '1 Main St', price: 7 })
  assert.equal(JSON.stringify(merged), serialiseLead({ ...bare, city: 'Austin', fullAddress: '1 Main St', price: 7 }))
})

test('each known field has a bit of its own among those that are given', () => {
  const bits = (given: number) => given.toString(2).replaceAll('0', '').length
  assert.equal(bits(givenFields(bare)), 2)
  assert.equal(bits(givenFields(completeLead({ ...bare, fullAddress: 'x' }) as LeadPatch)), leadFields.length)
  assert.equal(givenFields({}), 0)
})

const bytes = (count: number) => `https://example.com/${'é'.repeat(10)}`.padEnd(count - 10, 'x')

for (const [value, good] of [
  ['https://example.com/1', true],
  ['HTTP://EXAMPLE.COM', true],
  ['https://example.com/café?q=ü#x', true],
  ['http://192.0.2.1:8080/x', true],
  [bytes(2_047), true],
  [bytes(2_048), true],
  [bytes(2_049), false],
  ['', false],
  ['/listings/1', false],
  ['example.com/1', false],
  ['//example.com/1', false],
  ['ftp://example.com/1', false],
  ['https:example.com', false],
  ['https://', false],
  ['https://example.com/a b', false],
  [' https://example.com/', false],
  ['https://example.com/\n', false],
  ['https://example.com/\0', false],
  ['https://example.com/\ud800', false],
  [5, false],
] as const) {
  const shown = String(value).length > 60 ? `${Buffer.byteLength(String(value))} bytes` : JSON.stringify(value)
  test(`href ${shown} is ${good ? 'taken' : 'refused'}`, () => {
    assert.equal(hrefSchema.safeParse(value).success, good)
  })
}

for (const character of ['\r', '\u001b', '\u007f', '\u009b', '\u061c', '\u200e', '\u202e', '\u2069', '\u2028']) {
  test(`an import refuses an href with ${JSON.stringify(character)}, and says why`, () => {
    const message = importedHrefSchema.safeParse(`${href}/${character}1`).error?.issues[0]?.message
    assert.match(message ?? '', /^holds a control character/)
  })
}

for (const end of ['"', ',', ';', '|', '" ']) {
  test(`an import refuses an href that ends with ${JSON.stringify(end)}: a cell with wrong quotes leaves it`, () => {
    // the listing whose URL stood before the separator was taken for gone
    assert.ok(!importedHrefSchema.safeParse(`${href}/1${end}`).success)
    assert.ok(importedHrefSchema.safeParse(`${href}/${end.trim()}1`).success)
  })
}

const lead = completeLead(bare)
const query = { type: 'zipcode', value: '78704', radius: 5 }
const leads = (count: number) => Array.from({ length: count }, (_, at) => ({ ...lead, href: `${href}/${at}` }))
const without = (name: string) => Object.fromEntries(Object.entries(lead).filter(([key]) => key !== name))

const bodies: [string, unknown, string | undefined][] = [
  ['one query and one lead', { queryList: [query], fsbos: [lead] }, undefined],
  ['no lead', { queryList: [query], fsbos: [] }, undefined],
  ['fullAddress', { queryList: [query], fsbos: [{ ...lead, fullAddress: '1 Main St' }] }, undefined],
  ['299 leads', { queryList: [query], fsbos: leads(299) }, undefined],
  ['300 leads', { queryList: [query], fsbos: leads(300) }, undefined],
  ['301 leads', { queryList: [query], fsbos: leads(301) }, 'fsbos'],
  ['301 leads of two queries', { queryList: [query, { ...query, radius: 6 }], fsbos: leads(301) }, undefined],
  ['a lead twice', { queryList: [query], fsbos: [lead, lead] }, 'fsbos.1.href'],
  ['a query twice', { queryList: [query, query], fsbos: [] }, 'queryList.1'],
  [
    'two queries of one hash',
    {
      queryList: [
        { ...query, radius: 10 },
        { ...query, value: '787041', radius: 0 },
      ],
      fsbos: [],
    },
    'queryList.1',
  ],
  ['a query without radius', { queryList: [{ type: 'text', value: 'x' }], fsbos: [] }, 'queryList.0.radius'],
  ['a radius of 100', { queryList: [{ ...query, radius: 100 }], fsbos: [] }, undefined],
  ['a radius of 100.5', { queryList: [{ ...query, radius: 100.5 }], fsbos: [] }, 'queryList.0.radius'],
  ['a negative radius', { queryList: [{ ...query, radius: -1 }], fsbos: [] }, 'queryList.0.radius'],
  ['another type', { queryList: [{ ...query, type: 'city' }], fsbos: [] }, 'queryList.0.type'],
  ['a value of 500 characters', { queryList: [{ ...query, value: '🏠'.repeat(500) }], fsbos: [] }, undefined],
  ['a value of 501 characters', { queryList: [{ ...query, value: 'x'.repeat(501) }], fsbos: [] }, 'queryList.0.value'],
  ['an empty value', { queryList: [{ ...query, value: '' }], fsbos: [] }, 'queryList.0.value'],
  ['another field in a query', { queryList: [{ ...query, hash: 'x' }], fsbos: [] }, 'queryList.0'],
  ['another field in a lead', { queryList: [query], fsbos: [{ ...lead, lat: 1 }] }, 'fsbos.0'],
  ['another field beside', { queryList: [query], fsbos: [], source: 'x' }, ''],
  ['a price as text', { queryList: [query], fsbos: [{ ...lead, price: '5' }] }, 'fsbos.0.price'],
  ['a price of null', { queryList: [query], fsbos: [{ ...lead, price: null }] }, 'fsbos.0.price'],
  ['an endless price', { queryList: [query], fsbos: [{ ...lead, price: Number.POSITIVE_INFINITY }] }, 'fsbos.0.price'],
  ['a fullAddress of null', { queryList: [query], fsbos: [{ ...lead, fullAddress: null }] }, 'fsbos.0.fullAddress'],
  [
    'a schemaVersion of null',
    { queryList: [query], fsbos: [{ ...lead, schemaVersion: null }] },
    'fsbos.0.schemaVersion',
  ],
  ['an empty postalCode', { queryList: [query], fsbos: [{ ...lead, postalCode: '' }] }, 'fsbos.0.postalCode'],
  ['a relative href', { queryList: [query], fsbos: [{ ...lead, href: '/1' }] }, 'fsbos.0.href'],
  ['no fsbos', { queryList: [query] }, 'fsbos'],
  ['no object', [], ''],
]

for (const [what, body, path] of bodies) {
  test(`a delivery body with ${what} is ${path === undefined ? 'valid' : `refused at ${path || 'its top'}`}`, () => {
    const parsed = deliveryBodySchema.safeParse(body)
    assert.equal(parsed.error?.issues[0]?.path.join('.'), path)
  })
}

for (const { name } of leadFields) {
  test(`a delivery body whose lead has no ${name} is ${name === 'fullAddress' ? 'valid' : 'refused'}`, () => {
    const parsed = deliveryBodySchema.safeParse({ queryList: [query], fsbos: [without(name)] })
    assert.equal(parsed.success, name === 'fullAddress')
  })
}
