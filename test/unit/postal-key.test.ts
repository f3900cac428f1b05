import assert from 'node:assert/strict'
import { test } from 'node:test'
import { postalKey } from '../../src/places/postal-key.ts'

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
