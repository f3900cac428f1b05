import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { columnsMax, recordBytesMax, recordDepthMax, recordKeysMax, recordValuesMax } from '../../src/base/limits.ts'
import { cutCells } from '../../src/records/csv-cells.ts'
import type { ReadRecord, Splitter } from '../../src/records/record.ts'
import { ArraySplitter } from '../../src/records/split-array.ts'
import { CsvSplitter } from '../../src/records/split-csv.ts'
import { LineSplitter } from '../../src/records/split-lines.ts'

function split(splitter: Splitter, input: string | Buffer, chunkBytes: number): ReadRecord[] {
  const bytes = Buffer.from(input as string)
  const records: ReadRecord[] = []
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    records.push(...splitter.push(Buffer.from(bytes.subarray(at, at + chunkBytes))))
  }
  return [...records, ...splitter.end()]
}

const shown = ({ line, value, cells, error }: ReadRecord) => [line, error === undefined ? (cells ?? value) : 'error']

/** Reads the records of a text; asserts that they are the same however it is cut into chunks. */
function assertRecords(make: () => Splitter, input: string | Buffer, expected: unknown[]): void {
  for (const chunkBytes of [1, 2, 3, 7, 1 << 20]) {
    assert.deepEqual(split(make(), input, chunkBytes).map(shown), expected, `in chunks of ${chunkBytes}`)
  }
}

function assertBroken(make: () => Splitter, input: string | Buffer, pattern: RegExp): void {
  for (const chunkBytes of [1, 5, 1 << 20]) {
    const isExpected = (error: unknown) =>
      error instanceof LeadpushError && error.code === 'failed' && pattern.test(error.message)
    assert.throws(() => split(make(), input, chunkBytes), isExpected)
  }
}

const lines = () => new LineSplitter()
const array = () => new ArraySplitter()
const csv = () => new CsvSplitter()

test('NDJSON: each line is a record, told by its line number; blank lines are skipped', () => {
  assertRecords(lines, '{"a":1}\n\n  \r\n{"a":"é"}\r\nnonsense\n[1]\n', [
    [1, { a: 1 }],
    [4, { a: 'é' }],
    [5, 'error'],
    [6, [1]],
  ])
})

test('NDJSON: a last line without a line end counts if it is JSON, and breaks the file off if not', () => {
  assertRecords(lines, '{"a":1}\n{"a":2}', [
    [1, { a: 1 }],
    [2, { a: 2 }],
  ])
  assertRecords(lines, '', [])
  assertBroken(lines, '{"a":1}\n{"a":2', /line 2/)
  assertBroken(lines, '{"a":1}\n{"a":"\xc3', /line 2/)
})

test('bytes that are not UTF-8 cost only their record', () => {
  const bad = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')])
  const good = Buffer.from('{"a":1}')
  const line = Buffer.from('\n')
  assertRecords(lines, Buffer.concat([bad, line, good, line]), [
    [1, 'error'],
    [2, { a: 1 }],
  ])
  const comma = Buffer.from(',')
  assertRecords(array, Buffer.concat([Buffer.from('['), bad, comma, good, Buffer.from(']')]), [
    [1, 'error'],
    [2, { a: 1 }],
  ])
  const cells = Buffer.concat([Buffer.from('a,b\n1,'), Buffer.from([0xc3]), Buffer.from('\n3,4\n')])
  assertRecords(csv, cells, [
    [2, 'error'],
    [3, ['3', '4']],
  ])
})

test('JSON array: elements are told by their number, however they are laid out', () => {
  assertRecords(array, ' [ {"a":"],}\\"["} ,\n{"a":{"b":[1,[2]]}}, 3 ]\n ', [
    [1, { a: '],}"[' }],
    [2, { a: { b: [1, [2]] } }],
    [3, 3],
  ])
  assertRecords(array, '[]', [])
  assertRecords(array, '[ \n ]', [])
})

test('JSON array: white space at the end of a chunk is kept within a string', () => {
  // the end of a file's first chunk was trimmed too: a description lost its white space there
  for (const chunkBytes of [7, 8, 9, 10]) {
    assert.deepEqual(split(array(), '[{"":"    "}]', chunkBytes).map(shown), [[1, { '': '    ' }]])
  }
})

test('JSON array: white space around an element does not count, however long it is', () => {
  // more than 16 MiB of it made a good element too large
  const blank = ' \n'.repeat(recordBytesMax + 1)
  const text = `[${blank}{"a":1}${blank},1${blank}2${blank},{"b":2}${blank}]`
  assert.deepEqual(split(array(), text, 1 << 20).map(shown), [
    [1, { a: 1 }],
    [2, 'error'],
    [3, { b: 2 }],
  ])
})

test('JSON array: an element that is not JSON costs no other', () => {
  assertRecords(array, '[{"a":1},,{"a":2},{"a" 3},{"a":4} {"a":5},{"a":6},]', [
    [1, { a: 1 }],
    [2, 'error'],
    [3, { a: 2 }],
    [4, 'error'],
    [5, { a: 4 }],
    [6, { a: 5 }],
    [7, { a: 6 }],
    [8, 'error'],
  ])
})

test('JSON array: without its end, with something after it, or none at all, the file fails', () => {
  assertBroken(array, '[{"a":1},{"a":2}', /no end/)
  assertBroken(array, '[{"a":1},{"a":"]', /no end/)
  assertBroken(array, '', /no end/)
  assertBroken(array, '[{"a":1}] x', /follows the end/)
  assertBroken(array, '{"a":1}\n', /no JSON array/)
})

test('CSV: quotes hold commas, quotes and line ends; the line is that on which the record begins', () => {
  assertRecords(csv, 'a,b\r\n1,"x, ""y"""\r\n\r\n"line 1\nline 2",2\n3,5" pipe\n', [
    [2, ['1', 'x, "y"']],
    [4, ['line 1\nline 2', '2']],
    [6, ['3', '5" pipe']],
  ])
})

test('empty lines of both kinds are counted, and within the quotes of CSV they are text', () => {
  const empty = '\n\r\n\r\n\n\n\r\n'
  assertRecords(lines, `${empty}{"a":1}\n${empty}\r\r\n{"a":2}\n${empty}`, [
    [7, { a: 1 }],
    [15, { a: 2 }],
  ])
  assertRecords(csv, `${empty}a,b\n${empty}1,"2\n${empty}3"\n${empty}4,5\r\n${empty}`, [
    [14, ['1', `2\n${empty}3`]],
    [28, ['4', '5']],
  ])
  assertBroken(csv, `a,b\n1,"2\n${empty}`, /breaks off inside quotes, in the record that begins on line 2/)
})

test('CSV: the last record needs no line end, and the header is not a record', () => {
  assertRecords(csv, 'a,b\n1,2', [[2, ['1', '2']]])
  assertRecords(csv, 'a,b\n', [])
  assertRecords(csv, 'a,b', [])
  assertRecords(csv, '', [])
  assertRecords(csv, 'a,b\n"1","2"', [[2, ['1', '2']]])
})

test('CSV: cells left out at the end are empty, and surplus ones may be empty', () => {
  // spreadsheets write rows so, and they were rejected
  assertRecords(csv, 'a,b\n1\n1,2,,  ,""\n,\n1,2\n', [
    [2, ['1', '']],
    [3, ['1', '2']],
    [5, ['1', '2']],
  ])
})

test('CSV: rows with too many cells, or with something behind a closing quote, are rejected', () => {
  assertRecords(csv, 'a,b\n1,2,3\n"1"x,2\n1,2\n', [
    [2, 'error'],
    [3, 'error'],
    [4, ['1', '2']],
  ])
})

test('CSV: a backslash and a quote within quotes are a quote, unless the cell ends there', () => {
  // a record as MySQL writes it was rejected, or swallowed those after it
  const lines = ['1,"x \\"y\\", z"', '"C:\\",2', '"\\"","""\\\\"', '"a\nb\\"c","d"', '1,"x \\""y"']
  assertRecords(csv, `a,b\n${lines.join('\n')}\n`, [
    [2, ['1', 'x "y", z']],
    [3, ['C:\\', '2']],
    [4, ['"', '"\\\\']],
    [5, ['a\nb"c', 'd']],
    [7, ['1', 'x \\"y']],
  ])
})

const keyed = () => new CsvSplitter(',', ['HREF'])
const urlOf = (n: number) => `https://x.example/${n}`

test('CSV: a quote that is not closed costs its own record alone, whatever quotes come after it', () => {
  // the lines up to the next quote became one record, or none of them went in
  const header = 'href,text,code\n'
  const open = `${urlOf(0)},"spoilt,78704\n`
  const [plain, quoted] = [`${urlOf(1)},fine,78704\n`, `${urlOf(2)},"fine",78704\n`]
  const lines = `${urlOf(3)},"fine\nhouse",78704\n`
  const [one, two, three] = [
    [urlOf(1), 'fine', '78704'],
    [urlOf(2), 'fine', '78704'],
    [urlOf(3), 'fine\nhouse', '78704'],
  ]
  const assertFile = (rows: string, expected: unknown[]) => assertRecords(keyed, header + rows, expected)
  assertFile(plain + open + quoted + plain, [[2, one], [3, 'error'], [4, two], [5, one]]) // biome-ignore format: a line a file
  assertFile(open + plain + quoted, [[2, 'error'], [3, one], [4, two]]) // biome-ignore format: a line a file
  assertFile(open + lines + quoted, [[2, 'error'], [3, three], [5, two]]) // biome-ignore format: a line a file
  assertFile(open + open + lines + lines, [[2, 'error'], [3, 'error'], [4, three], [6, three]]) // biome-ignore format: a line a file
  assertFile(`${open}a line of it\n${urlOf(4)},fine\n${plain}`, [[2, 'error'], [4, [urlOf(4), 'fine', '']], [5, one]]) // biome-ignore format: a line a file
  assertBroken(keyed, header + plain + open, /line 3/)
  assertBroken(keyed, `${header + open}a line of it\n`, /line 2/)
})

test('CSV: lines within quotes are text, but for one with as many cells and a URL where it belongs', () => {
  const text = `a\nsee a,b,c\n${urlOf(9)}\nx,${urlOf(9)},78704\n,,\n`
  assertRecords(keyed, `href,text,code\n${urlOf(1)},"${text}",78704\n`, [[2, [urlOf(1), text, '78704']]])
})

test('CSV: two neighbours with a quote that is not closed each do not become one record', () => {
  // the quote of the second was taken for the end of the first one's: a record had the URL and the text of another
  const last = (rows: string, expected: unknown[]) => assertRecords(keyed, `text,code,href\n${rows}`, expected)
  const good = `fine,78704,${urlOf(3)}\n`
  const three = ['fine', '78704', urlOf(3)]
  last(`"two\nlines","78704,${urlOf(1)}\n,",${urlOf(2)}\n${good}`, [[2, 'error'], [4, 'error'], [5, three]]) // biome-ignore format: a line a file
  last(`see,"78704,${urlOf(1)}\n,",${urlOf(2)}\n${good}`, [[2, 'error'], [3, 'error'], [4, three]]) // biome-ignore format: a line a file
  const first = `${urlOf(1)},"a,78704\n${urlOf(2)},b,c",d\n`
  assertRecords(keyed, `href,text,code\n${first}`, [[2, 'error'], [3, 'error']]) // biome-ignore format: a line a file
})

test('CSV: a text that ends its first line with a URL is one text', () => {
  // where the URL of the record is the last cell, the record was taken for one whose quote is not closed
  const text = `See it, ${urlOf(9)}\nSoon`
  assertRecords(keyed, `text,code,href\n"${text}",78704,${urlOf(1)}\n`, [[2, [text, '78704', urlOf(1)]]])
})

for (const extra of [-1, 0, 1]) {
  test(`a header of 10,000 columns ${extra < 0 ? extra : `+${extra}`} is ${extra > 0 ? 'refused' : 'taken'}`, () => {
    const file = `${'a,'.repeat(columnsMax + extra - 1)}b\n1\n`
    if (extra > 0) assert.throws(() => split(csv(), file, 1 << 20), /more than 10000 columns/)
    else assert.equal(split(csv(), file, 1 << 20)[0]?.cells?.length, columnsMax + extra)
  })
}

test('CSV: a file that ends inside quotes is broken off', () => {
  assertBroken(csv, 'a,b\n1,2\n3,"4\n5,6\n', /line 3/)
  assertBroken(csv, 'a,"b\n', /line 1/)
})

test('CSV: a file whose lines end in CR alone fails; a CR in quotes, or before CR LF, does not count', () => {
  // the file was taken for a header without records: nothing was imported, and no error was told
  assertBroken(csv, 'a,b\r1,2\r', /carriage return alone/)
  assertBroken(csv, '"a","b"\r1,2\r', /carriage return alone/)
  assertRecords(csv, '"a\r1",b\r\r\n3,4\n', [[2, ['3', '4']]])
})

test('CSV: a header that is not UTF-8 fails the file', () => {
  assertBroken(csv, Buffer.from([0xff, 0xfe, 0x61, 0x00, 0x0a, 0x00]), /UTF-8/)
})

test('cells: empty ones count', () => {
  const cells = (text: string) => cutCells(text, { separator: ',', cellsMax: 9 }).cells
  assert.deepEqual(cells(',,'), ['', '', ''])
  assert.deepEqual(cells('"",""'), ['', ''])
  assert.deepEqual(cells('a,"b"'), ['a', 'b'])
  assert.equal(cutCells('"a""', { separator: ',', cellsMax: 9 }).isOpen, true)
})

const record = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`

for (const extra of [-1, 0, 1]) {
  test(`a record of 8 MiB ${extra < 0 ? extra : `+${extra}`} bytes is ${extra > 0 ? 'rejected, and reading goes on' : 'taken'}`, () => {
    const large = record(recordBytesMax + extra)
    assert.equal(large.length, recordBytesMax + extra)
    const outcome = extra > 0 ? ['error', 'object'] : ['object', 'object']
    const kinds = (records: ReadRecord[]) => records.map(({ error, value }) => (error ? 'error' : typeof value))
    assert.deepEqual(kinds(split(lines(), `${large}\r\n{"a":1}\n`, 100_000)), outcome)
    assert.deepEqual(kinds(split(array(), `[${large},{"a":1}]`, 100_000)), outcome)
    const row = `${'x'.repeat(recordBytesMax + extra - 4)},"b"`
    const cells = split(csv(), `a,b\n${row}\n1,2\n`, 100_000).map(({ error }) => (error ? 'error' : 'object'))
    assert.deepEqual(cells, outcome)
  })
}

for (const extra of [-1, 0, 1]) {
  test(`a record nested 100 deep ${extra < 0 ? extra : `+${extra}`} is ${extra > 0 ? 'rejected, and reading goes on' : 'taken'}`, () => {
    const lists = recordDepthMax + extra - 1
    const deep = `{"a":1,"b":${'['.repeat(lists)}${']'.repeat(lists)}}`
    for (const records of [split(lines(), `${deep}\n{"a":1}\n`, 100), split(array(), `[${deep},{"a":1}]`, 100)]) {
      const outcome = extra > 0 ? 'is nested more than 100 deep' : undefined
      assert.deepEqual(
        records.map(({ error }) => error),
        [outcome, undefined],
      )
    }
  })
}

for (const extra of [-1, 0, 1]) {
  test(`a record of 200,000 values ${extra < 0 ? extra : `+${extra}`} is ${extra > 0 ? 'rejected, and reading goes on' : 'taken'}`, () => {
    // a small file of gzip with millions of values took a gigabyte
    const wide = `[${'0,'.repeat(recordValuesMax + extra - 2)}0]`
    for (const records of [split(lines(), `${wide}\n{"a":1}\n`, 65_536), split(array(), `[${wide},{"a":1}]`, 65_536)]) {
      const outcome = extra > 0 ? 'has more than 200000 values' : undefined
      assert.deepEqual(
        records.map(({ error }) => error),
        [outcome, undefined],
      )
    }
  })
}

for (const extra of [-1, 0, 1]) {
  test(`a record of 50,000 names ${extra < 0 ? extra : `+${extra}`} is ${extra > 0 ? 'rejected, and reading goes on' : 'taken'}`, () => {
    // one of 190,000 took 380 MB
    const wide = `{${Array.from({ length: recordKeysMax + extra }, (_, at) => `"${at}:":1`).join()}}`
    for (const records of [split(lines(), `${wide}\n{"a":1}\n`, 65_536), split(array(), `[${wide},{"a":1}]`, 65_536)]) {
      const outcome = extra > 0 ? 'has more than 50000 names of values' : undefined
      assert.deepEqual(
        records.map(({ error }) => error),
        [outcome, undefined],
      )
    }
  })
}

test('a record that is far too large is told by its line, and the next ones are read', () => {
  const large = record(3 * recordBytesMax)
  const records = split(lines(), `{}\n${large}\n{"b":1}\n`, 65_536)
  assert.deepEqual(
    records.map(({ line, error }) => [line, error !== undefined]),
    [
      [1, false],
      [2, true],
      [3, false],
    ],
  )
  assert.ok((records[1]?.raw.length ?? 0) <= 65_536)
  assert.deepEqual(
    split(lines(), `{}\n${large}`, 65_536).map(({ error }) => error !== undefined),
    [false, true],
  )
  assert.throws(() => split(lines(), `{}\n${large.slice(0, -2)}`, 65_536), /breaks off/)
})

test("the JSON parser's message, which quotes the record, is not passed on", () => {
  const [bad] = split(lines(), '{"receiverApiKey":"secret-key" oops}\n', 1_000)
  assert.ok(bad?.error && !bad.error.includes('secret'))
})
