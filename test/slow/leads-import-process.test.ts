import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { leadMaps } from '../../src/leads/field-map.ts'
import { createDatabase } from '../support/database.ts'
import { importing, listing, toLines, writeInput } from '../support/import-files.ts'
import { findScript } from '../support/scripts.ts'

const database = await createDatabase()
const opened = await database.open()

function startImport(file: string): ChildProcess {
  const script = findScript('support/import-process.ts')
  const args = [...script.execArgv, script.file, database.url, file]
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
}

async function readUntil(child: ChildProcess, pattern: RegExp): Promise<string> {
  let text = ''
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    text += chunk
    if (pattern.test(text)) break
  }
  return text
}

const description = 'A house with a pool and a garden, close to the school and the park. '.repeat(3)
const many = (count: number, name: string) =>
  toLines(Array.from({ length: count }, (_, at) => listing(`${name}-${at}`, { description: `${at} ${description}` })))

for (const phase of ['reading', 'merging']) {
  test(`an import whose process is killed while ${phase} leaves nothing, and the next one is not held up`, async () => {
    const file = writeInput(`killed-${phase}.ndjson`, many(20_000, phase))
    const child = startImport(file)
    const exit = once(child, 'exit')
    await readUntil(child, new RegExp(phase))
    if (phase === 'merging') await new Promise((resolve) => setTimeout(resolve, 300))
    child.kill('SIGKILL')
    await exit
    const { summary } = await importing(opened, [writeInput('next.ndjson', toLines([listing(`${phase}-0`)]))])
    assert.deepEqual([summary.inserted, summary.updated], [1, 0])
    const { rows } = await opened.pool.query(
      'select (select count(*) from lead_versions) - (select count(*) from leads) as gap',
    )
    assert.equal(rows[0].gap, 0)
  })
}

test('six times as many records take no more memory', async () => {
  const peaks: number[] = []
  // few and large records: bytes would pile up
  const rawListingDate = 'x'.repeat(6_000)
  for (const count of [3_000, 18_000]) {
    const records = Array.from({ length: count }, (_, at) => listing(`memory-${count}-${at}`, { rawListingDate }))
    const child = startImport(writeInput(`memory-${count}.ndjson`, toLines(records)))
    const text = await readUntil(child, /peak \d+\n/)
    peaks.push(Number(/peak (\d+)/.exec(text)?.[1]))
  }
  const [few = 0, more = 0] = peaks
  // 90 MB more went through; V8 collects when it sees fit, later the newer it is
  assert.ok(more < few + 64 * 1024, `${few} KiB, then ${more} KiB`)
})

/** Listings as a scraper writes them, where the machine has some: a CSV with the columns that are mapped below. */
const realListings = process.env.TEST_LISTINGS_CSV ?? ''

test('listings of a real source are imported, and are unchanged the second time', {
  skip: !existsSync(realListings),
}, async () => {
  const map = leadMaps.parse([
    'href=property_url',
    'postalCode=zip_code',
    'price=list_price',
    'description=text',
    'propertyType=style',
    'address=full_street_line',
    'secondAddress=unit',
    'bedrooms=beds',
    'bathrooms=full_baths',
    'yearBuilt=year_built',
    'rawListingDate=list_date',
    'contactName=agent_name',
    'contactEmail=agent_email',
  ])
  const first = await importing(opened, [realListings], { map })
  assert.equal(first.broken, undefined)
  assert.equal(first.summary.rejected, 0)
  assert.ok(first.summary.inserted > 0)
  const second = await importing(opened, [realListings], { map })
  assert.equal(second.summary.unchanged, first.summary.inserted)
  assert.equal(second.summary.repeated, first.summary.repeated)
})
