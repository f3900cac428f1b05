import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { parseFieldMap } from '../../src/leads/field-map.ts'
import { FieldPicker, parseNumberText } from '../../src/leads/pick-fields.ts'
import { IgnoredFields } from '../../src/records/ignored-fields.ts'

const href = 'https://example.com/1'
const raw = Buffer.alloc(0)
const pickJson = (value: unknown, map: string[] = []) =>
  new FieldPicker({ map: parseFieldMap(map) }).pick({ line: 1, raw, value })

function pickCsv(names: string[], cells: string[], map: string[] = []) {
  const picker = new FieldPicker({ map: parseFieldMap(map) })
  picker.setHeader({ names, raw })
  return picker.pick({ line: 1, raw, cells })
}

for (const [text, number] of [
  ['350000', 350_000],
  ['$350,000', 350_000],
  ['$ 350,000.50', 350_000.5],
  [' 12 ', 12],
  ['0', 0],
  ['2.5', 2.5],
  ['.5', 0.5],
  ['3.', 3],
  ['1e5', 100_000],
  ['1,234,567', 1_234_567],
  ['12,34', Number.NaN],
  ['1,2345', Number.NaN],
  ['-5', Number.NaN],
  ['3 beds', Number.NaN],
  ['0x10', Number.NaN],
  ['NaN', Number.NaN],
  ['$', Number.NaN],
  ['.', Number.NaN],
  ['e5', Number.NaN],
  ['Infinity', Number.NaN],
] as const) {
  test(`a CSV cell ${JSON.stringify(text)} is ${Number.isNaN(number) ? 'no number' : number}`, () => {
    assert.deepEqual(parseNumberText(text), number)
  })
}

test('null, an empty text and a yearBuilt of 0 are unknown; another 0 is a value', () => {
  const value = { href, postalCode: '78704', city: null, state: '', price: 0, sqft: null, bedrooms: '', yearBuilt: 0 }
  assert.deepEqual(pickJson(value), { patch: { href, postalCode: '78704', price: 0 } })
})

test('CSV cells that are empty are unknown, numbers may be text, and a yearBuilt of 0 is unknown', () => {
  const names = ['href', 'price', 'sqft', 'yearBuilt', 'city', 'description']
  assert.deepEqual(pickCsv(names, [href, '$350,000', '  ', '0', '', ' x ']), {
    patch: { href, price: 350_000, description: ' x ' },
  })
})

const problems: [string, unknown, string][] = [
  ['a number as text', { href, price: '350000' }, 'price'],
  ['a text as number', { href, city: 5 }, 'city'],
  ['a boolean', { href, bedrooms: true }, 'bedrooms'],
  ['a negative number', { href, price: -1 }, 'price'],
  ['a number above 1e12', { href, price: 1e12 + 1 }, 'price'],
  ['an endless number', { href, price: JSON.parse('1e999') }, 'price'],
  ['a NUL', { href, description: 'a\0b' }, 'description'],
  ['half a surrogate pair', { href, city: '\ud83c' }, 'city'],
  ['no href', { postalCode: '78704' }, 'href'],
  ['a null href', { href: null }, 'href'],
  ['a list', [href], ''],
  ['a text', 'x', ''],
  ['null', null, ''],
]
for (const [what, value, path] of problems) {
  test(`a JSON record with ${what} is rejected at ${path || 'the record'}`, () => {
    const picked = pickJson(value)
    assert.ok('path' in picked)
    assert.equal(picked.path, path)
  })
}

for (const price of [0, -0, 1e12 - 1, 1e12]) {
  test(`a price of ${price} is taken`, () => assert.ok('patch' in pickJson({ href, price })))
}

test('a message never holds a value of the record', () => {
  const picked = pickCsv(['href', 'price'], [href, '202-555-0142'])
  assert.ok('message' in picked)
  assert.ok(!picked.message.includes('202'))
})

test('--map reads a field from another key, and then its own name is unknown', () => {
  const picker = new FieldPicker({ map: parseFieldMap(['price=list_price', 'address=street', 'city=street']) })
  const value = { href, list_price: 5, price: 7, street: 'Main', street2: 'x' }
  assert.deepEqual(picker.pick({ line: 1, raw, value }), { patch: { href, price: 5, address: 'Main', city: 'Main' } })
  assert.deepEqual(picker.ignored.toObject(), { price: 1, street2: 1 })
})

for (const entry of ['price', '=x', 'price=', 'cost=list_price', 'hasOwnProperty=x']) {
  test(`--map ${entry} is wrong usage`, () => {
    assert.throws(
      () => parseFieldMap([entry]),
      (error) => error instanceof LeadpushError && error.code === 'usage',
    )
  })
}

test('--map of one field twice is wrong usage', () => {
  assert.throws(() => parseFieldMap(['price=a', 'price=b']), /mapped twice/)
})

test('a column that --map names and the header lacks is wrong usage', () => {
  assert.throws(() => pickCsv(['href'], [href], ['price=cost']), /no column cost/)
})

test('a header that has the column of a field twice is refused; of an unknown one it is not', () => {
  assert.throws(() => pickCsv(['href', 'price', 'price'], [href, '1', '2']), /price twice/)
  assert.ok('patch' in pickCsv(['href', 'note', 'note', '', ''], [href, 'a', 'b', '', '']))
})

test('unknown fields are counted by name, also those that objects of JavaScript have', () => {
  const picker = new FieldPicker()
  const value = JSON.parse(`{"href":"${href}","__proto__":1,"constructor":2,"lat":3}`)
  picker.pick({ line: 1, raw, value })
  picker.pick({ line: 2, raw, value: { href, lat: 4 } })
  assert.equal(JSON.stringify(picker.ignored.toObject()), '{"__proto__":1,"constructor":1,"lat":2}')
})

test('of unknown names a bounded number is told apart', () => {
  const ignored = new IgnoredFields()
  for (let at = 0; at < IgnoredFields.namesMax + 50; at++) ignored.add(`field${at}`)
  const counts = ignored.toObject()
  assert.equal(Object.keys(counts).length, IgnoredFields.namesMax + 1)
  assert.equal(counts[IgnoredFields.others], 50)
})
