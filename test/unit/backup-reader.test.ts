import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { BackupReader } from '../../src/db/backup-reader.ts'

const tables: readonly (readonly [string, string])[] = [
  ['none', ''],
  ['looks like an end', 'a\\\\.\n\\\\.\nb\\\\\n.\n'],
  ['one', 'x\n'],
  ['an empty text', '\n\n'],
  ['long', `${'y'.repeat(3_000)}\n`],
]
const text = [...tables.map(([table, rows]) => `${JSON.stringify({ table })}\n${rows}\\.\n`), '{"tables":5}\n'].join('')

async function readAll(input: Readable): Promise<[string, string][]> {
  const reader = new BackupReader(input)
  const found: [string, string][] = []
  for (let line = await reader.readLine(); 'table' in line; line = await reader.readLine()) {
    const rows: Buffer[] = []
    for await (const bytes of reader.readRows()) rows.push(bytes)
    found.push([String(line.table), Buffer.concat(rows).toString()])
  }
  await reader.readEnd()
  return found
}

const inPieces = (bytes: Buffer, size: number) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    })(),
  )

test('each table gets its rows, wherever the pieces of the file end', async () => {
  // stored, not compressed: pieces of the file are pieces of the text
  const bytes = gzipSync(text, { level: 0 })
  for (const size of [1, 2, 3, 5, 7, 64, 65_536, bytes.length])
    assert.deepEqual(await readAll(inPieces(bytes, size)), tables, `${size}`)
})

test('a file that breaks off, is damaged or is not a backup is reported', async () => {
  const bytes = gzipSync(text)
  const broken = [
    bytes.subarray(0, -1),
    bytes.subarray(0, 100),
    Buffer.from('{}'),
    Buffer.alloc(0),
    gzipSync('{"table":'),
  ]
  const damaged = Buffer.from(bytes)
  damaged.writeUInt8(damaged.readUInt8(bytes.length - 8) ^ 1, bytes.length - 8)
  for (const input of [
    ...broken,
    damaged,
    gzipSync(`${text}{}\n`),
    gzipSync('null\n'),
    gzipSync('1'.repeat(1_500_000)),
  ])
    await assert.rejects(readAll(Readable.from([input])))
})
