import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { readRecords } from '../../src/records/read-records.ts'

/** The most records of a page, and the records of the file. */
async function findPages(file: string): Promise<{ most: number; records: number }> {
  const stdin = Readable.from([Buffer.from(file)], { objectMode: false })
  const given = { name: '-', format: undefined, gzip: undefined, bytesTotal: undefined }
  let [most, records] = [0, 0]
  for await (const page of readRecords(given, { stdin, identity: ['href'] })) {
    most = Math.max(most, page.records.length)
    records += page.records.length
  }
  return { most, records }
}

test('a file with a bad record every two or three bytes comes in pages of a few thousand', async () => {
  // a page had all records of 128 KB: 2 MB of opening braces took 280 MB
  const header = 'href,postalCode\nhttps://a.example/1,78701\n'
  for (const [name, file, least] of [
    ['braces', `[${'{'.repeat(40_000)}}]`, 39_000],
    ['objects', `[${'{1'.repeat(20_000)}}]`, 19_000],
    ['commas', `[${','.repeat(40_000)}]`, 39_000],
    ['quotes', `${header}${'"a\n'.repeat(20_000)}"\n`, 9_000],
    ['cells', `${header}${',,x\n'.repeat(20_000)}`, 19_000],
  ] as const) {
    const { most, records } = await findPages(file)
    assert.ok(records >= least, `${name}: ${records} records`)
    assert.ok(most <= 5_000, `${name}: ${most} records in a page`)
  }
})

test('what follows many short records comes in whole chunks again', async () => {
  const long = JSON.stringify({ href: 'https://a.example/1', description: 'x'.repeat(50_000) })
  const { records } = await findPages(`[${'{},'.repeat(50_000)}${`${long},`.repeat(40)}{}]`)
  assert.equal(records, 50_041)
})
