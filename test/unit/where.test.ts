import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { holds, parseWhere } from '../../src/leads/where.ts'

const record: Record<string, string | number | null> = { city: 'Austin', price: 350000, state: null, 'a=b': 'x' }
const matches = (...entries: string[]) => holds(parseWhere(entries), (field) => record[field])

for (const [entry, expected] of [
  ['city=Austin', true],
  ['city=AUSTIN ', true],
  [' city =austin', true],
  ['city=Aust', false],
  ['city!=Austin', false],
  ['city!=Dallas', true],
  ['price=350000', true],
  ['price=350,000', false],
  ['state=', true],
  ['state!=', false],
  ['nothing=', true],
  ['city=', false],
  ['city!=', true],
  ['city==Austin', false],
] as const) {
  test(`--where ${JSON.stringify(entry)} ${expected ? 'holds' : 'does not hold'}`, () =>
    assert.equal(matches(entry), expected))
}

test('all conditions must hold; none is no condition', () => {
  assert.equal(matches('city=Austin', 'price!=1'), true)
  assert.equal(matches('city=Austin', 'price=1'), false)
  assert.equal(matches(), true)
})

for (const entry of ['city', '=Austin', '!=Austin', '', ' =x']) {
  test(`--where ${JSON.stringify(entry)} is wrong usage`, () => {
    assert.throws(
      () => parseWhere([entry]),
      (error) => error instanceof LeadpushError && error.code === 'usage' && /city=Austin/.test(error.message),
    )
  })
}

test('a field that the caller does not know is wrong usage', () => {
  const isField = (field: string) => field === 'city'
  assert.equal(parseWhere(['city=x'], isField).length, 1)
  assert.throws(() => parseWhere(['town=x'], isField), /no field town/)
})
