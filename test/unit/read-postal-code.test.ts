import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { postalKey } from '../../src/places/postal-key.ts'
import { readPostalCode } from '../../src/places/read-postal-code.ts'
import { postalForms } from '../support/value-forms.ts'

for (const [written, taken] of postalForms) {
  test(`the postal code ${written} is ${taken}`, () => assert.equal(readPostalCode(written), taken))
}

for (const [text, key] of [
  ['2138.0', '02138'],
  [' 84321.00 ', '84321'],
  ['84321.5', '84321.5'],
  ['ma, 02138', '02138'],
  ['02138 Massachusetts', '02138'],
  ['m5v3l9 ON', 'M5V'],
  ['Cambridge 02138', 'CAMBRIDGE02138'],
  ['12 Main St, MA 02138', '12MAINST,MA02138'],
] as const) {
  test(`a listing with the postal code ${JSON.stringify(text)} is found by ${key}`, () =>
    assert.equal(postalKey(readPostalCode(text)), key))
}

test('any code beside any state, in either order, is that code; any other text stays as it is', () => {
  const code = fc.integer({ min: 0, max: 99_999 }).map((number) => String(number).padStart(5, '0'))
  const state = fc.constantFrom('MA', 'tx', 'New York', 'Puerto Rico', 'DC')
  const between = fc.constantFrom(' ', ', ', ',', '  ')
  fc.assert(
    fc.property(code, state, between, (zip, name, gap) => {
      assert.equal(readPostalCode(`${name}${gap}${zip}`), zip)
      assert.equal(readPostalCode(`${zip}${gap}${name}`), zip)
      assert.equal(readPostalCode(`${zip}.0`), zip)
      for (const other of [zip, `${zip}-1234`, `${name}${zip}`, `XX ${zip}`]) assert.equal(readPostalCode(other), other)
    }),
  )
})

test('a long text is read quickly, and stays as it is', () => {
  for (const text of [`${' ,'.repeat(49)}x`, `${'9'.repeat(100_000)}.0`]) assert.equal(readPostalCode(text), text)
})
