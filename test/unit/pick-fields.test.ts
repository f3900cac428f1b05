import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LeadpushError } from '../../src/base/errors.ts'
import { leadMaps } from '../../src/leads/field-map.ts'
import { type LeadField, leadFields } from '../../src/leads/lead.ts'
import { FieldPicker, type ReadOptions } from '../../src/leads/pick-fields.ts'
import { buildNulls, describeUnreadable } from '../../src/leads/read-value.ts'
import { IgnoredFields } from '../../src/records/ignored-fields.ts'

const href = 'https://example.com/1'
const raw = Buffer.alloc(0)
const pickJson = (value: unknown, options?: ReadOptions) =>
  new FieldPicker(leadMaps.parse([]), options).pick({ line: 1, raw, value })

function pickCsv(names: string[], cells: string[], map: string[] = [], options?: ReadOptions) {
  const picker = new FieldPicker(leadMaps.parse(map), options)
  picker.setHeader({ names, raw })
  return picker.pick({ line: 1, raw, cells })
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

test('a text of blanks alone is unknown in each field but href', () => {
  // it was a text, and an import wiped out what an earlier one knew
  for (const blanks of [' ', '  \t\n', '\u00a0\u2003\ufeff']) {
    const texts = { postalCode: blanks, city: blanks, description: blanks, contactName: blanks, price: blanks }
    assert.deepEqual(pickJson({ href, ...texts }), { patch: { href } })
    assert.deepEqual(pickCsv(['href', ...Object.keys(texts)], [href, ...Object.values(texts)]), { patch: { href } })
    const picked = pickJson({ href: blanks, postalCode: '78704' })
    assert.ok('path' in picked && picked.path === 'href' && picked.message !== 'is missing')
  }
})

const unread: [string, LeadField, unknown, RegExp][] = [
  ['a text that is no number', 'price', 'call', /^cannot be read as a number without a guess: "call"$/],
  ['a range', 'price', '300-350K', /: "300-350K"$/],
  ['a boolean for a number', 'bedrooms', true, /: true$/],
  ['a list for a number', 'sqft', [1850], /: \[…\]$/],
  ['a negative number', 'price', -1, /^is not from 0 to 1000000000000: -1$/],
  ['a number above 1e12', 'price', 1e12 + 1, /: 1000000000001$/],
  ['a text above 1e12', 'price', '1,000,001M', /: "1,000,001M"$/],
  ['a number beyond the limit as text', 'price', '1000000000001', /^is not from 0 to 1000000000000: "…"$/],
  ['a phone number in a column of prices', 'price', 'ask 512-555-0143', /: "ask …"$/],
  ['an address in a column of numbers', 'sqft', 'carl@x.example or 5', /: "… or 5"$/],
  ['an endless number', 'price', JSON.parse('1e999'), /^is not from 0/],
  ['a NUL', 'description', 'a\0b', /^holds a NUL character or half of a surrogate pair: "a\\u0000b"$/],
  ['half a surrogate pair', 'city', '\ud83c', /: "\\ud83c"$/],
  ['a boolean for a text', 'city', false, /^is no text: false$/],
  ['an object for a text', 'address', { street: 'Main St' }, /^is no text: {…}$/],
  ['a list for a contact', 'contactPhone', ['202-555-0142'], /: \[…\]$/],
  ['a long text, which is cut', 'price', 'x'.repeat(10_000), /: "x{59}…$/],
  ['what a terminal would obey, which is spelt out', 'price', '\u009b1m\u202e5', /: "\\u009b1m\\u202e5"$/],
]
for (const [what, field, value, message] of unread) {
  test(`a record with ${what} goes in without that value; with strict it is rejected, and both show it`, () => {
    const record = { href, postalCode: '78704', state: 'TX', [field]: value }
    const picked = pickJson(record)
    assert.ok('patch' in picked)
    assert.deepEqual(picked.patch, { href, postalCode: '78704', state: 'TX' })
    assert.deepEqual(picked.unread, [{ field, value }])
    assert.match(describeUnreadable({ field, value }).message, message)
    const strict = pickJson(record, { strict: true })
    assert.ok('path' in strict)
    assert.deepEqual([strict.path, strict.href], [field, href])
    assert.match(strict.message, message)
  })
}

const problems: [string, unknown, string, RegExp][] = [
  ['no href', { postalCode: '78704' }, 'href', /^is missing$/],
  ['a null href', { href: null }, 'href', /^is missing$/],
  ['an href that is no URL', { href: '/listings/1' }, 'href', /URL: "\/listings\/1"$/],
  ['an href that is a number', { href: 5 }, 'href', /: 5$/],
  ['an href with a control character', { href: `${href}\u009b` }, 'href', /\\u009b"$/],
  ['a postal code that is a list', { href, postalCode: ['78704'] }, 'postalCode', /: \[…\]$/],
  ['a postal code with NUL', { href, postalCode: '78704\0' }, 'postalCode', /: "78704\\u0000"$/],
  ['a list', [href], '', /no JSON object/],
  ['a text', 'x', '', /no JSON object/],
  ['null', null, '', /no JSON object/],
]
for (const [what, value, path, message] of problems) {
  test(`a JSON record with ${what} is rejected at ${path || 'the record'}`, () => {
    const picked = pickJson(value)
    assert.ok('path' in picked)
    assert.equal(picked.path, path)
    assert.match(picked.message, message)
  })
}

test('each of several unreadable values is reported', () => {
  const picked = pickJson({ href, price: 'call', sqft: 'TBD', bedrooms: '3 bd', city: 7, contactPhone: 5_125_550_100 })
  assert.ok('patch' in picked)
  assert.deepEqual(picked.patch, { href, bedrooms: 3, city: '7', contactPhone: '5125550100' })
  assert.deepEqual(
    picked.unread?.map(({ field }) => field),
    ['price', 'sqft'],
  )
})

test('texts that mean unknown do so in every field, in any case and with blanks around them', () => {
  const options = { nulls: buildNulls(['N/A', ' tbd ', '-1', 'false']), strict: true }
  const record = {
    href,
    price: ' n/a ',
    sqft: 'TBD',
    bedrooms: -1,
    bathrooms: 0,
    city: 'Tbd',
    state: 'TBDs',
    postalCode: 'n/A',
    address: false,
  }
  assert.deepEqual(pickJson(record, options), { patch: { href, bathrooms: 0, state: 'TBDs' } })
  const texts = Object.entries(record).map(([name, value]) => [name, String(value)] as const)
  const csv = pickCsv(
    texts.map(([name]) => name),
    texts.map(([, text]) => text),
    [],
    options,
  )
  assert.deepEqual(csv, { patch: { href, bathrooms: 0, state: 'TBDs' } })
  assert.deepEqual(pickJson({ href: 'n/a' }, options), { path: 'href', message: 'is missing' })
})

test('CSV and JSON read the same', () => {
  const pieces = fc.constantFrom(
    '350',
    ',',
    '000',
    '.',
    ' ',
    '$',
    'K',
    'M',
    'sqft',
    'ba',
    '½',
    'call',
    '-',
    'MA',
    '02138',
    '.0',
    '\0',
  )
  const text = fc.oneof(
    fc.array(pieces, { maxLength: 5 }).map((parts) => parts.join('')),
    fc.string(),
    fc.double({ noNaN: true, min: 0, max: 1e14 }).map(String),
  )
  const names = fc.constantFrom(...leadFields.map(({ name }) => name).filter((name) => name !== 'href'))
  fc.assert(
    fc.property(names, text, fc.boolean(), (name, written, strict) => {
      const options = { nulls: buildNulls(['-']), strict }
      const csv = pickCsv(['href', name], [href, written], [], options)
      assert.deepEqual(pickJson({ href, [name]: written }, options), csv)
      // a JSON number that JSON writes as it stands
      const number = Number(written)
      if (String(number) !== written || !(Math.abs(number) <= Number.MAX_SAFE_INTEGER) || written.includes('e')) return
      const json = pickJson({ href, [name]: number }, options)
      const shown = (picked: typeof json) => ('patch' in picked ? picked.patch : 'path' in picked ? picked.path : '')
      assert.deepEqual(shown(json), shown(csv), written)
    }),
    { numRuns: 2_000 },
  )
})

for (const price of [0, -0, 1e12 - 1, 1e12]) {
  test(`a price of ${price} is taken`, () => assert.ok('patch' in pickJson({ href, price })))
}

test('--map reads a field from another key, and then its own name is unknown', () => {
  const picker = new FieldPicker(leadMaps.parse(['price=list_price', 'address=street', 'city=street']))
  const value = { href, list_price: 5, price: 7, street: 'Main', street2: 'x' }
  assert.deepEqual(picker.pick({ line: 1, raw, value }), { patch: { href, price: 5, address: 'Main', city: 'Main' } })
  assert.deepEqual(picker.ignored.toObject(), { price: 1, street2: 1 })
})

for (const entry of ['price', '=x', 'price=', 'cost=list_price', 'hasOwnProperty=x']) {
  test(`--map ${entry} is wrong usage`, () => {
    assert.throws(
      () => leadMaps.parse([entry]),
      (error) => error instanceof LeadpushError && error.code === 'usage',
    )
  })
}

test('a key of JSON that --map names and no record has is told after the last one', () => {
  // it was silent, and every price was unknown
  const map = leadMaps.parse(['price=nope', 'sqft=size.living', 'city=Town', 'state=a.b', 'address=full_adress'])
  const picker = new FieldPicker(map)
  const pick = (value: unknown) => picker.pick({ line: 1, raw, value })
  assert.deepEqual(new FieldPicker(map).finish(), [])
  pick('no object')
  assert.deepEqual(picker.finish(), [])
  pick({ href, price: 1, town: null, size: { living: null }, full_address: 'x' })
  assert.deepEqual(picker.finish(), [
    'no record has a key nope, which --map reads price from',
    'no record has a key a.b, which --map reads state from',
    'no record has a key full_adress, which --map reads address from; did you mean full_address?',
  ])
  pick({ href, NOPE: 1, 'a.b': 1, full_adress: 1 })
  assert.deepEqual(picker.finish(), [])
})

test('--map of one field twice is wrong usage', () => {
  assert.throws(() => leadMaps.parse(['price=a', 'price=b']), /mapped twice/)
})

test('a column that --map names and the header lacks is wrong usage', () => {
  assert.throws(() => pickCsv(['href'], [href], ['price=cost']), /no column cost/)
})

test('a header that has a column twice is refused, whether the column is read or not; columns without a name may be many', () => {
  assert.throws(() => pickCsv(['href', 'price', 'price'], [href, '1', '2']), /price twice/)
  // one that nothing reads was taken
  assert.throws(() => pickCsv(['href', 'note', 'Note'], [href, 'a', 'b']), /Note twice: it is column 2 \(as note\)/)
  assert.ok('patch' in pickCsv(['href', 'note', '', '', ' '], [href, 'a', 'b', '', '']))
})

test('unknown fields are counted by name, also those that objects of JavaScript have', () => {
  const picker = new FieldPicker()
  const value = JSON.parse(`{"href":"${href}","__proto__":1,"constructor":2,"lat":3}`)
  picker.pick({ line: 1, raw, value })
  picker.pick({ line: 2, raw, value: { href, lat: 4 } })
  assert.equal(JSON.stringify(picker.ignored.toObject()), '{"__proto__":1,"constructor":1,"lat":2}')
})

test('a bounded number of unknown names is counted one by one', () => {
  const ignored = new IgnoredFields()
  for (let at = 0; at < IgnoredFields.namesMax + 50; at++) ignored.add(`field${at}`)
  const counts = ignored.toObject()
  assert.equal(Object.keys(counts).length, IgnoredFields.namesMax + 1)
  assert.equal(counts[IgnoredFields.others], 50)
})

test('postal codes and phone numbers as spreadsheets write them are read, and what has lost digits is not', () => {
  // they went out as they stood, and a code N/A was taken
  for (const [value, code] of [
    ['="02138"', '02138'],
    ['="84321.0"', '84321'],
    ['84321.0', '84321'],
    ['D-10115', 'D-10115'],
  ] as const) {
    const picked = pickJson({ href, postalCode: value })
    assert.equal('patch' in picked && picked.patch.postalCode, code, value)
  }
  for (const value of ['8.4321E+04', '="8.4E+04"', 'N/A', '---']) {
    const picked = pickJson({ href, postalCode: value })
    assert.equal('path' in picked && picked.path, 'postalCode', value)
  }
  for (const [value, phone] of [
    ['="5125550102"', '5125550102'],
    ['5125550100.0', '5125550100'],
    ['512.555.0100', '512.555.0100'],
    ['5.12556E+09', undefined],
  ] as const) {
    const picked = pickJson({ href, contactPhone: value })
    assert.equal('patch' in picked && picked.patch.contactPhone, phone, value)
  }
})

test('a text for unknown is no contact, and where several values have it --null is proposed for it', () => {
  // customers got N/A as the name of an owner
  const picker = new FieldPicker()
  const pick = (value: object) => picker.pick({ line: 1, raw, value })
  const unknown = { contactName: 'N/A', contactPhone: ' n/a', contactEmail: 'not provided', city: 'N/A', price: 'tbd' }
  const picked = pick({ href, ...unknown })
  assert.ok('patch' in picked)
  assert.deepEqual(picked.patch, { href, city: 'N/A' })
  const [name] = picked.unread ?? []
  assert.equal(name && describeUnreadable(name).message, 'is no contact: "N/A"')
  assert.deepEqual(picked.unread?.map(({ field }) => field).sort(), [
    'contactEmail',
    'contactName',
    'contactPhone',
    'price',
  ])
  for (const name of ['Nan', 'Na', 'Nona N/A', 'Unknown Owner LLC'])
    assert.deepEqual(pick({ href, contactName: name }), { patch: { href, contactName: name } })
  assert.deepEqual(picker.finish(), ['3 values N/A: if that means unknown, add --null N/A'])
})
