import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LeadpushError } from '../../src/base/errors.ts'
import { FieldPicker } from '../../src/leads/pick-fields.ts'
import { countUnnamed, findKeys, type KeyKind } from '../../src/records/named-in-raw.ts'
import type { CsvHeader, ReadRecord, Splitter } from '../../src/records/record.ts'
import { ArraySplitter } from '../../src/records/split-array.ts'
import { CsvSplitter } from '../../src/records/split-csv.ts'
import { LineSplitter } from '../../src/records/split-lines.ts'
import { UserReader } from '../../src/users/read-user.ts'
import { isCsv, isIn, type Kind, listings, users, type World, worldsOf } from '../support/spoilt-files.ts'

/** Reads one record: whose it is, where that can be read, and what is wrong with it. */
type Read = (record: ReadRecord, header: CsvHeader | undefined) => { key: string | undefined; message?: string }

function readListings(): Read {
  const picker = new FieldPicker()
  return (record, header) => {
    if (header) picker.setHeader(header)
    const picked = picker.pick(record)
    if ('patch' in picked) return { key: picked.patch.href }
    assert.ok('message' in picked)
    return { key: picked.href, message: picked.message }
  }
}

function readUsers(): Read {
  const reader = new UserReader()
  return (record, header) => {
    reader.look({ records: [record], header })
    const parsed = reader.read(record)
    return 'user' in parsed ? { key: parsed.user.email } : { key: parsed.email, message: parsed.message }
  }
}

/** Who is there for a complete import of the file; undefined where it takes nobody away. */
async function findPresent({ form, file, rows }: World, of: Kind): Promise<Set<string> | undefined> {
  const splitter: Splitter = isCsv(form)
    ? new CsvSplitter(form, [of.columns[0]])
    : form === 'json'
      ? new ArraySplitter()
      : new LineSplitter()
  const read = of === users ? readUsers() : readListings()
  const present = new Set<string>()
  const rejects = []
  try {
    for (const record of [...splitter.push(file), ...splitter.end()]) {
      const { key, message } = read(record, splitter.header)
      if (key !== undefined) present.add(key)
      if (message === undefined) continue
      rejects.push({ line: record.line, path: '', message, raw: record.raw, isNamed: key !== undefined })
    }
  } catch (error) {
    if (error instanceof LeadpushError && (error.code === 'failed' || error.code === 'usage')) return undefined
    throw error
  }
  const known = new Set(rows.map(([key]) => key))
  const unnamed = await countUnnamed(rejects, of === users ? 'email' : 'url', async (keys) => {
    const places = [...keys.keys()].filter((at) => known.has(keys[at] as string))
    for (const at of places) present.add(keys[at] as string)
    return places
  })
  return unnamed > 0 ? undefined : present
}

for (const [who, of] of Object.entries({ listing: listings, user: users })) {
  test(`a complete file takes no ${who} away that stands in its bytes`, async () => {
    // a rejected record in which nobody found its owner took the owner away for good
    let [files, held] = [0, 0]
    await fc.assert(
      fc.asyncProperty(worldsOf(of), async (world) => {
        files++
        const present = await findPresent(world, of)
        if (!present) {
          held++
          return
        }
        for (const [key] of world.rows)
          if (isIn(world, key))
            assert.ok(present.has(key), `${key}: ${world.form} ${world.kind}\n${world.file.toString('latin1')}`)
      }),
      process.env.SPOILT_FILES ? { numRuns: Number(process.env.SPOILT_FILES) } : { numRuns: 3_000, seed: 3 },
    )
    // most name whom they are about: taking nobody away at all would keep the promise too
    assert.ok(held < files / 3, `${held} of ${files} files took nobody away`)
  })
}

const keysIn = (text: string | Buffer, kind: KeyKind) => {
  const keys = findKeys(Buffer.from(text), kind)
  return keys && [...keys].flatMap(([key, whole]) => (whole ? [key] : []))
}

test('a URL is found whatever stands around it', () => {
  for (const text of [
    'https://a.example/1,x',
    '"https://a.example/1"',
    '{"href":"https:\\/\\/a.example\\/1"',
    'x|https://a.example/1',
  ])
    assert.ok(keysIn(text, 'url')?.includes('https://a.example/1'), text)
  assert.deepEqual(keysIn('htps://a.example/1', 'url'), [])
})

test('what bytes that are no UTF-8 are part of is nobody’s key', () => {
  // \xff made ice@example.com of an address of alice
  const latin1 = Buffer.from('al\xffice@a.example,https://a.example/1\xff2,x', 'latin1')
  assert.deepEqual(keysIn(latin1, 'email'), [])
  assert.deepEqual(keysIn(latin1, 'url'), [])
})

test('an e-mail address is found whatever stands around it', () => {
  for (const text of [
    'A@b.example,key',
    '"a@b.example"',
    'mailto:a@b.example',
    'x;a@b.example;y',
    '{"email":"a\\u0040b.example"}',
  ])
    assert.ok(keysIn(text, 'email')?.includes('a@b.example'), text)
})

test('a record with any number of URLs is bounded, and names nobody for sure', () => {
  const urls = `https://a.example/${'-'.repeat(2_000)}`.repeat(100)
  assert.equal(findKeys(Buffer.from(urls), 'url'), undefined)
  assert.equal(findKeys(Buffer.from(`${'a.'.repeat(60)}@${'b.'.repeat(60)} `.repeat(100)), 'email'), undefined)
})
