/** Small files that swell to a lot (contract 4.10): they cost a bounded time for each byte, and bounded memory. */
import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { findRecordFile, readRecords } from '../../src/records/read-records.ts'
import { writeInput } from '../support/import-files.ts'

const megabyte = 1024 * 1024
const blockBytes = 16 * megabyte
const blocks = 32

/** Writes a gzip file with `unit` over and over between two texts: one block, compressed once. */
function writeSwelling(name: string, before: string, unit: string, behind: string): string {
  const path = writeInput(name, gzipSync(before))
  const block = gzipSync(unit.repeat(blockBytes / unit.length))
  for (let times = 0; times < blocks; times++) appendFileSync(path, block)
  appendFileSync(path, gzipSync(behind))
  return path
}

const record = '{"href":"https://a.example/1"}'
const link = 'https://a.example/1'

// Lines that end in CR LF took 0.4 µs each, and those within quotes 2 µs: an hour and more for 4 GB, which a file of 4 MB swells to.
for (const [what, name, before, unit, behind, records] of [
  ['empty lines among JSON lines', 'a.ndjson.gz', `${record}\n`, '\n', record, 2],
  ['empty lines that end in CR LF among JSON lines', 'b.ndjson.gz', `${record}\n`, '\r\n', record, 2],
  ['empty lines of CSV', 'a.csv.gz', `href,price\n${link},1\n`, '\n', `${link},1\n`, 2],
  ['empty lines of CSV that end in CR LF', 'b.csv.gz', `href,price\r\n${link},1\r\n`, '\r\n', `${link},1\n`, 2],
  ['empty lines within quotes', 'c.csv.gz', `href,note\n${link},"`, '\n', `"\n${link},1\n`, 2],
  ['line ends in an array', 'a.json.gz', `[${record}`, '\n', `,${record}]`, 2],
  ['line ends before an array', 'b.json.gz', '', '\n', `[${record}]`, 1],
  ['line ends in an object', 'c.json.gz', `{"listings":[${record}`, '\n', `,${record}]}`, 2],
] as const) {
  test(`a file that swells to ${(blocks * blockBytes) / megabyte} MB of ${what} is read to its end, and memory stays small`, async () => {
    const file = findRecordFile(writeSwelling(name, before, unit, behind), ['csv', 'json', 'ndjson'])
    const atFirst = process.memoryUsage().rss
    let [count, most] = [0, 0]
    for await (const page of readRecords(file)) {
      count += page.records.length
      most = Math.max(most, process.memoryUsage().rss - atFirst)
    }
    assert.equal(count, records)
    assert.ok(most < 200 * megabyte, `${most}`)
  })
}
