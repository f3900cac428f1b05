import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { recordBytesMax, recordDepthMax } from '../../src/base/limits.ts'
import type { ReadRecord, Splitter } from '../../src/records/record.ts'
import { ArraySplitter } from '../../src/records/split-array.ts'
import { CsvSplitter, splitCells } from '../../src/records/split-csv.ts'
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

test('JSON array: an element that is not JSON costs no other', () => {
  assertRecords(array, '[{"a":1},,{"a":2},{"a" 3},{"a":4} {"a":5},{"a":6},]', [
    [1, { a: 1 }],
    [2, 'error'],
    [3, { a: 2 }],
    [4, 'error'],
    [5, 'error'],
    [6, { a: 6 }],
    [7, 'error'],
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

test('CSV: the last record needs no line end, and the header is not a record', () => {
  assertRecords(csv, 'a,b\n1,2', [[2, ['1', '2']]])
  assertRecords(csv, 'a,b\n', [])
  assertRecords(csv, 'a,b', [])
  assertRecords(csv, '', [])
  assertRecords(csv, 'a,b\n"1","2"', [[2, ['1', '2']]])
})

test('CSV: rows with too many or too few cells, or with something behind a closing quote, are rejected', () => {
  assertRecords(csv, 'a,b\n1\n1,2,3\n"1"x,2\n1,2\n', [
    [2, 'error'],
    [3, 'error'],
    [4, 'error'],
    [5, ['1', '2']],
  ])
})

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
  assert.deepEqual(splitCells(',,'), ['', '', ''])
  assert.deepEqual(splitCells('"",""'), ['', ''])
  assert.deepEqual(splitCells('a,"b"'), ['a', 'b'])
  assert.equal(splitCells('"a""'), undefined)
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
