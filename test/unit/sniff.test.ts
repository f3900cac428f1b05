/** What the beginning of a file tells (contract 4.18): its format, its separator, its one list; by hand and at random. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { refuseNul } from '../../src/records/encoding.ts'
import { sniffFormat, sniffSeparator } from '../../src/records/sniff.ts'
import { CsvSplitter } from '../../src/records/split-csv.ts'
import { ObjectSplitter } from '../../src/records/split-object.ts'

const separatorOf = (text: string) => sniffSeparator(Buffer.from(text), true)

for (const [text, separator] of [
  ['a,b\n1,2\n', ','],
  ['a;b\n1;2', ';'],
  ['a\tb\n1\t2\n', '\t'],
  ['a|b\n', '|'],
  ['a\n1\n', ','],
  ['', ','],
  ['href;zip;price\nx;1;350,000\ny;2;1,000\n', ';'],
  ['href,text\nx,"a;b;c"\ny,"d;e"\n', ','],
  ['"a;b",c\n"1;2",3\n', ','],
  ['city, state;zip;href\nAustin, TX;78704;x\n', ';'],
  ['a,b\n1,2,\n3,4,\n', ','],
  ['sep=|\na;b|c\n1;2|3\n', '|'],
  ['a;b\n"x\ny";2\n', ';'],
] as const) {
  test(`the separator of ${JSON.stringify(text)} is ${JSON.stringify(separator)}`, () => {
    assert.equal(separatorOf(text), separator)
  })
}

test('the separator of a table with any cells is found, and the cells are read as they were', () => {
  const cell = fc.string({ unit: fc.constantFrom('a', 'é', ' ', '"', ',', ';', '\t', '|', '\n', '1') })
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`
  const table = fc.integer({ min: 2, max: 5 }).chain((columns) =>
    fc.record({
      separator: fc.constantFrom(',', ';', '\t', '|'),
      rows: fc.array(fc.array(cell, { minLength: columns, maxLength: columns }), { minLength: 1, maxLength: 8 }),
    }),
  )
  fc.assert(
    fc.property(table, ({ separator, rows }) => {
      const header = rows[0]?.map((_, at) => `column${at}`) ?? []
      const text = [header, ...rows.map((row) => row.map(quoted))].map((row) => `${row.join(separator)}\n`).join('')
      assert.equal(separatorOf(text), separator)
      const splitter = new CsvSplitter(separator)
      // a row of blanks alone is none
      const told = rows.filter((row) => row.some((text) => text.trim() !== ''))
      assert.deepEqual(splitter.push(Buffer.from(text)).map(({ cells }) => cells), told)
    }),
  ) // biome-ignore format: dense
})

for (const [text, format] of [
  [' [1]', 'json'],
  ['{"a":1}', 'ndjson'],
  ['{"a":1}\n{"a":2}\n', 'ndjson'],
  ['{"a" 1}\n{"a":2}\n', 'ndjson'],
  ['{\n"a":1}', 'json'],
  ['{"n":1,"list":[{"a":1}]}', 'json'],
  ['{"list":[{"a":1}],"href":"x"}', 'ndjson'],
  ['{"email":"x","queries":[{"a":1}]}\n', 'ndjson'],
  ['{"queries":[{"a":1}],"email":"x"}', 'ndjson'],
  ['{"email":"x","receiverApiKey":"k","users":[{"a":1}]}', 'json'],
  ['href,postalCode\n', 'csv'],
  ['', 'csv'],
] as const) {
  test(`${JSON.stringify(text)} is ${format}`, () => assert.equal(sniffFormat(Buffer.from(text), true), format))
}

function split(text: string, chunkBytes: number): unknown[] {
  const splitter = new ObjectSplitter()
  const bytes = Buffer.from(text)
  const records = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    records.push(...splitter.push(Buffer.from(bytes.subarray(at, at + chunkBytes))))
  }
  return [...records, ...splitter.end()].map(({ value }) => value)
}

test('the one list of objects is found, however the object is cut into chunks', () => {
  const listings = [{ a: '],}{[' }, { b: [{ c: '\\"' }] }]
  const text = JSON.stringify({ 'x"': 1, tags: ['[{'], page: { items: [{ no: 1 }] }, none: [], listings, end: '}' })
  for (const chunkBytes of [1, 2, 3, 7, 1 << 20]) {
    assert.deepEqual(split(text, chunkBytes), listings)
    assert.deepEqual(split(JSON.stringify({ photos: listings, href: 'x' }), chunkBytes), [
      { photos: listings, href: 'x' },
    ])
    assert.deepEqual(split(' {"listings": [ ] } ', chunkBytes), [])
    assert.deepEqual(split('{"a":{"b":1}}', chunkBytes), [{ a: { b: 1 } }])
  }
})

test('an href alone makes an object a record; the queries of a user are no list of records', () => {
  // any email made it a record, also that of the office whose listings are in its list
  const some = [{ a: 1 }, { a: 2 }]
  for (const chunkBytes of [1, 1 << 20]) {
    for (const more of [{ email: 'x' }, { email: 'x', receiverApiKey: 'k' }, { subscribed: true }, { count: 2 }]) {
      for (const whole of [
        { ...more, some },
        { some, ...more },
      ])
        assert.deepEqual(split(JSON.stringify(whole), chunkBytes), some)
    }
    for (const record of [{ Href: 'x', some }, { some, Href: 'x' }, { email: 'x', Queries: some }, { queries: [] }])
      assert.deepEqual(split(JSON.stringify(record), chunkBytes), [record])
    assert.deepEqual(split(JSON.stringify({ queries: [{ b: 1 }], users: some }), chunkBytes), some)
  }
})

test('a long list is handed on while it comes, and what follows it can no longer make it a record', () => {
  const splitter = new ObjectSplitter()
  const element = JSON.stringify({ text: 'x'.repeat(1_000) })
  let handed = splitter.push(Buffer.from('{"listings":[')).length
  for (let at = 0; at < 1_000; at++) handed += splitter.push(Buffer.from(`${element},`)).length
  assert.equal(handed, 1_000)
  assert.equal(splitter.push(Buffer.from(`${element}],"count":1}`)).length, 1)
  assert.deepEqual(splitter.end(), [])
  const late = `{"photos":[${Array.from({ length: 100 }, () => element).join()}],"href":"x"}`
  assert.throws(() => split(late, 1_000), /has the list photos and, after it, href/)
})

test('an object with two lists of objects, without an end, or with something behind it fails', () => {
  for (const [text, pattern] of [
    ['{"a":[{}],"b":[{}]}', /two lists of objects, a and b/],
    ['{"a":[{}]', /no end/],
    ['{"a":[{}', /no end/],
    ['{"a":[{}]}{}', /something follows/],
  ] as const) {
    for (const chunkBytes of [1, 1 << 20]) assert.throws(() => split(text, chunkBytes), pattern)
  }
})

test('a quarter of NUL bytes is UTF-16 without a mark; fewer cost their values, not the file', () => {
  const refuse = (text: string) => () => refuseNul(Buffer.from(text, 'latin1'), 'ndjson')
  assert.throws(refuse('a\0bc'), { hint: 'Give its encoding: --encoding utf-16le' })
  assert.throws(refuse('\0abc'), { hint: 'Give its encoding: --encoding utf-16be' })
  assert.doesNotThrow(refuse('a\0bcd'))
})
