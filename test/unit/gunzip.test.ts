import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { gunzip } from '../../src/records/gunzip.ts'

async function unzip(bytes: Buffer, chunkBytes: number): Promise<string> {
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes)
  }
  let text = ''
  for await (const chunk of gunzip(chunks(), 1_024)) text += chunk
  return text
}

const member = gzipSync('a line\n')

for (const chunkBytes of [1, 7, 26, 27, 100_000]) {
  const zeros = Buffer.alloc(30 * chunkBytes)

  test(`in chunks of ${chunkBytes} bytes: all members of a gzip are read, and zeros behind them do not count`, async () => {
    assert.equal(await unzip(member, chunkBytes), 'a line\n')
    assert.equal(await unzip(Buffer.concat([member, member]), chunkBytes), 'a line\na line\n')
    assert.equal(await unzip(Buffer.concat([member, zeros]), chunkBytes), 'a line\n')
  })

  test(`in chunks of ${chunkBytes} bytes: what follows the end of a gzip is not left out`, async () => {
    // behind zeros a second member, or anything else, was left out without a word
    for (const behind of [Buffer.from('garbage'), member, Buffer.from('\x1fx', 'latin1')])
      for (const padding of [zeros.subarray(0, 1), zeros.subarray(0, 10), zeros])
        await assert.rejects(unzip(Buffer.concat([member, padding, behind]), chunkBytes), /follows the end of its gzip/)
    await assert.rejects(unzip(Buffer.concat([member, Buffer.from('garbage')]), chunkBytes), /no valid gzip/)
    await assert.rejects(unzip(member.subarray(0, -1), chunkBytes), /gzip has no end/)
  })
}
