import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { crc32, gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { buildBody, countBodyBytes } from '../../src/deliveries/body.ts'
import { combineCrcs, findCrcShift } from '../../src/deliveries/crc.ts'
import { GzipBodies } from '../../src/deliveries/gzip-body.ts'

interface TestLead {
  versionId: number
  json: Buffer
  place: string
}

function countBytes(queryList: string, leads: readonly TestLead[]): number {
  const leadBytes = leads.reduce((sum, { json }) => sum + json.length, 0)
  return countBodyBytes(1, Buffer.byteLength(queryList), leads.length, leadBytes)
}

const place = fc.constantFrom('78704', '10001', '')
const json = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.tuple(fc.string({ minLength: 1, maxLength: 20 }), fc.nat(9_000)).map(([text, times]) => text.repeat(times)),
)
const lead = fc.tuple(fc.nat(2 ** 31), place, json).map(([versionId, itsPlace, text]) => ({
  versionId,
  place: itsPlace,
  json: Buffer.from(`{${text}}`),
}))
const body = fc.tuple(
  fc.oneof(fc.string({ unit: 'binary', maxLength: 400 }), fc.constant('q'.repeat(200_000))),
  fc.uniqueArray(lead, { selector: ({ versionId }) => versionId, maxLength: 150 }),
)

test('any body decodes to the bytes that it has uncompressed, also from blocks that other bodies left', () => {
  fc.assert(
    fc.property(body, fc.nat(150), ([queryList, leads], from) => {
      // a version has one content for ever: bodies of another run may have given its id another one
      const bodies = new GzipBodies()
      for (const some of [leads, leads.slice(from), leads.slice(0, from), [...leads].reverse()]) {
        const bytes = countBytes(queryList, some)
        assert.deepEqual(gunzipSync(bodies.build(queryList, some, bytes)), buildBody(queryList, some, bytes))
      }
    }),
    { numRuns: 60 },
  )
})

test('a body without leads, and one that is not as long as it was planned', () => {
  const bodies = new GzipBodies()
  const bytes = countBytes('', [])
  assert.equal(gunzipSync(bodies.build('', [], bytes)).toString(), '{"queryList":[],"fsbos":[]}')
  for (const wrong of [bytes - 1, bytes + 1]) assert.throws(() => bodies.build('', [], wrong), RangeError)
})

const many = Array.from({ length: 300 }, (_, index) => ({
  versionId: 1_000 - index,
  place: String(78_700 + (index % 7)),
  json: Buffer.from(JSON.stringify({ href: `https://x.example/${index}`, description: 'a quiet street '.repeat(20) })),
}))

test('gzip and Python read it, as one member with nothing behind it', () => {
  const bytes = countBytes('"q"', many)
  const gzipped = new GzipBodies().build('"q"', many, bytes)
  const plain = buildBody('"q"', many, bytes)
  assert.ok(gzipped.length < plain.length / 3)
  assert.deepEqual(execFileSync('gzip', ['-d'], { input: gzipped, maxBuffer: 1e8 }), plain)
  // as Go and others have it: no second member, no bytes behind the trailer
  assert.equal(gzipped.indexOf(Buffer.from([0x1f, 0x8b, 8, 0]), 1), -1)
  assert.equal(gzipped.readUInt32LE(gzipped.length - 4), plain.length)
  assert.equal(gzipped.readUInt32LE(gzipped.length - 8), crc32(plain))
  const script =
    'import sys,zlib; d=zlib.decompressobj(31); o=d.decompress(sys.stdin.buffer.read()); assert d.eof and not d.unused_data; sys.stdout.buffer.write(o)'
  const python = spawnSync('python3', ['-c', script], { input: gzipped, maxBuffer: 1e8 })
  if (python.error === undefined) assert.deepEqual(python.stdout, plain)
})

test('the CRCs of two pieces make that of the whole', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 70_000 }), (a, b) => {
      const combined = combineCrcs(crc32(a), { crc: crc32(b), shift: findCrcShift(b.length) })
      assert.equal(combined, crc32(Buffer.concat([a, b])))
    }),
  )
})

test('a block has 64 leads at most, so that an insertion into a long list costs few blocks', () => {
  // no id is a multiple of 32, which would end a block too
  const leads = Array.from({ length: 129 }, (_, at) => ({
    versionId: at * 32 + 1,
    place: '78704',
    json: Buffer.from(JSON.stringify({ href: `https://x.example/${at}`, description: 'a quiet street '.repeat(20) })),
  }))
  const countBlocks = (count: number) => {
    const some = leads.slice(0, count)
    const gzipped = new GzipBodies().build('"q"', some, countBytes('"q"', some))
    // zlib ends with these bytes what is to be followed by more
    return gzipped.toString('latin1').split('\x00\x00\xff\xff').length - 1
  }
  assert.deepEqual([63, 64, 65, 129].map(countBlocks), [1, 1, 2, 3])
})
