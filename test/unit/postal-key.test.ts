import assert from 'node:assert/strict'
import { test } from 'node:test'
import { postalKey, postalKeyOf } from '../../src/places/postal-key.ts'

const cases: readonly (readonly [string, string | undefined])[] = [
  ['78704', '78704'],
  [' 78704 ', '78704'],
  ['78704-1234', '78704'],
  ['78704 1234', '78704'],
  ['787041234', '78704'],
  ['78704–1234', '78704'],
  ['７８７０４', '78704'],
  ['2134', '02134'],
  ['601', '00601'],
  ['60', '60'],
  ['787041', '787041'],
  ['M5V 3L9', 'M5V'],
  ['m5v3l9', 'M5V'],
  ['m5v-3l9', 'M5V'],
  ['M5V', 'M5V'],
  ['M5V 3L', 'M5V3L'],
  ['D5V 3L9', 'D5V3L9'],
  ['sw1a 1aa', 'SW1A1AA'],
  ['', undefined],
  [' - ', undefined],
]

for (const [text, key] of cases) {
  test(`the postal key of ${JSON.stringify(text)} is ${key}`, () => assert.equal(postalKey(text), key))
}

test('a key has 100 characters at most, none of them torn', () => {
  assert.equal(postalKey('x'.repeat(99)), 'X'.repeat(99))
  assert.equal(postalKey('x'.repeat(100)), 'X'.repeat(100))
  assert.equal(postalKey('x'.repeat(101)), 'X'.repeat(100))
  assert.equal(postalKey('🏠'.repeat(101)), '🏠'.repeat(100))
})

const ofCountry: readonly (readonly [postalCode: string, country: string | null, state: string | null, key: string])[] =
  [
    ['10115', 'Germany', 'Berlin', '10115*'],
    ['10115', 'DE', null, '10115*'],
    ['10115', 'deutschland', null, '10115*'],
    ['10115', 'DEU', null, '10115*'],
    ['2000', 'Australia', 'WA', '02000*'],
    ['06000', 'México', null, '06000*'],
    ['SW1A 1AA', 'U.K.', null, 'SW1A1AA'],
    ['10115', null, 'NY', '10115'],
    ['10115', '', null, '10115'],
    ['10115', 'U.S.A.', null, '10115'],
    ['10115', 'United States of America', null, '10115'],
    ['00901', 'Puerto Rico', null, '00901'],
    ['96910', 'GUM', null, '96910'],
    ['M5V 3L9', 'Canada', 'ON', 'M5V'],
    ['M5V 3L9', 'CA', null, 'M5V'],
    ['10115', 'N/A', null, '10115'],
    ['30303', 'Georgia', null, '30303'],
    // a column of states that was taken for that of countries
    ['19901', 'DE', 'DE', '19901'],
  ]
for (const [postalCode, country, state, key] of ofCountry) {
  test(`the key of ${postalCode} in the country ${JSON.stringify(country)}, state ${state}, is ${key}`, () => {
    assert.equal(postalKeyOf({ postalCode, country, state }), key)
  })
}
