/**
 * `npm run bench:import [-- --records N,N --url postgresql://…]`: how fast listings are imported, first and again, with a tenth
 * of them changed, and how much memory that takes, against psql's `\copy` of the same rows and one merge of them in SQL. On
 * throw-away databases of the server at `--url`, or of one of its own.
 */
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot } from '../../src/base/package-root.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { completeLead, type Lead, type LeadPatch, serialiseLead } from '../../src/leads/lead.ts'
import { listingWords } from '../../src/matching/words.ts'
import { postalKey } from '../../src/places/postal-key.ts'
import { startServer, withDatabase } from '../support/servers.ts'
import { randomFrom } from './matching-data.ts'
import { runProcess } from './measure.ts'

const words =
  'house pool garden kitchen roof school quiet street large sunny bedroom bathroom garage basement fireplace lake view modern oak floor yard fence deck patio park highway downtown owner sale price cash inspection new original charming open plan master suite closet laundry solar water acre lot corner family gym beach river woods trail barn'.split(
    ' ',
  )

/** About 1.1 KB of JSON, as long as real ones. `changed`: every so many have another price. */
function buildListing(at: number, random: () => number, changed: number): LeadPatch & { href: string } {
  const description: string[] = []
  for (let word = 0; word < 110; word++) {
    const pick = Math.floor(random() * random() * 1_000)
    description.push(words[pick] ?? `w${(pick * 7_919).toString(36)}`)
  }
  const price = 100_000 + Math.floor(random() * 500_000)
  return {
    href: `https://listings.example.com/fsbo/${at}`,
    postalCode: String(10_000 + Math.floor(random() * 80_000)),
    price: changed > 0 && at % changed === 0 ? price + 1 : price,
    sqft: 900 + Math.floor(random() * 2_000),
    bedrooms: 3,
    bathrooms: 2.5,
    yearBuilt: 1900 + Math.floor(random() * 120),
    description: description.join(' '),
    propertyType: 'single family',
    contactPhone: '202-555-0100',
    contactEmail: `owner-${at}@example.com`,
    fullAddress: `${at} Main St, Town ${at % 500}, TX`,
    address: `${at} Main St`,
    city: `Town ${at % 500}`,
    state: 'TX',
  }
}

async function writeAll(path: string, lines: Iterable<string>): Promise<void> {
  const stream = createWriteStream(path)
  for (const line of lines) if (!stream.write(line)) await once(stream, 'drain')
  stream.end()
  await once(stream, 'close')
}

function* asJsonLines(records: number, changed: number): Generator<string> {
  const random = randomFrom(7)
  for (let at = 0; at < records; at++) yield `${JSON.stringify(buildListing(at, random, changed))}\n`
}

const escapeText = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\t', '\\t')

/** What the import stages, made beforehand: psql has only to copy it. */
function* asStagedRows(records: number): Generator<string> {
  const random = randomFrom(7)
  const sha256 = (text: string) => `\\\\x${createHash('sha256').update(text).digest('hex')}`
  for (let at = 0; at < records; at++) {
    const patch = buildListing(at, random, 0)
    const json = serialiseLead(patch)
    const found = listingWords(completeLead(patch) as Lead)
    const key = postalKey(patch.postalCode ?? '')
    yield `${[at, sha256(patch.href), key, escapeText(json), sha256(json), escapeText(found)].join('\t')}\n`
  }
}

const staged = '(n integer, href_sha256 bytea, postal_key text, json text, json_sha256 bytea, words text)'

/** The plainest merge that leaves the tables as the import does. */
const mergeNew = `
  insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
  select href_sha256, postal_key, 10000000 - n, json_sha256, (select max(id) from imports), to_tsvector('english'::regconfig, words)
  from staged;
  insert into lead_versions (id, lead_id, json) select l.version_id, l.id, s.json from staged s join leads l using (href_sha256);
  insert into lead_seen select id, now() from leads;`
const mergeAgain = `
  update lead_seen set seen_at = clock_timestamp() from staged s join leads l using (href_sha256)
  where lead_id = l.id and l.json_sha256 = s.json_sha256;`

/** Seconds of `\copy` and one merge in one transaction. */
function runPsql(url: string, file: string, merge: string): number {
  const script = `begin;\nset local work_mem = '64MB';\ncreate temp table staged ${staged} on commit drop;\n\\copy staged from '${file}'\nanalyze staged;\n${merge}\ncommit;\n`
  const start = performance.now()
  execFileSync('psql', [url, '-qXv', 'ON_ERROR_STOP=1'], { input: script, stdio: ['pipe', 'ignore', 'inherit'] })
  return (performance.now() - start) / 1_000
}

interface Run {
  seconds: number
  megabytes: number
  counts: string
}

/** The program itself, as an operator runs it. */
async function runImport(url: string, file: string, folder: string): Promise<Run> {
  const start = performance.now()
  const program = join(packageRoot, 'bin/leadpush.js')
  const { last, usage } = await runProcess(
    [program, 'leads', 'import', file, '--json'],
    { DATABASE_URL: url },
    folder,
    'import',
  )
  const seconds = (performance.now() - start) / 1_000
  const counts = `${last.inserted} new, ${last.updated} changed, ${last.unchanged} as before`
  return { seconds, megabytes: usage.peakBytes / 1e6, counts }
}

async function withThrowAway<T>(server: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = `bench_${randomBytes(4).toString('hex')}`
  const admin = await openDatabase({ databaseUrl: server, home: '' }, { schema: 'any' })
  await admin.pool.query(`create database ${name} template template0`)
  try {
    const url = withDatabase(server, name)
    const opened = await openDatabase({ databaseUrl: url, home: '' }, { schema: 'any' })
    await migrate(opened.db)
    await opened.close()
    return await work(url)
  } finally {
    await admin.pool.query(`drop database ${name} with (force)`)
    await admin.close()
  }
}

async function showHot(url: string): Promise<void> {
  const opened = await openDatabase({ databaseUrl: url, home: '' })
  const { rows } = await opened.pool.query(
    `select n_tup_upd as updated, n_tup_hot_upd as hot from pg_stat_user_tables where relname = 'lead_seen'`,
  )
  console.log(`  lead_seen: ${rows[0].updated} updates, ${((100 * rows[0].hot) / rows[0].updated).toFixed(1)} % HOT`)
  await opened.close()
}

async function measure(server: string, records: number, folder: string): Promise<number> {
  const file = join(folder, 'listings.ndjson')
  const changedFile = join(folder, 'changed.ndjson')
  const rowsFile = join(folder, 'rows.tsv')
  await writeAll(file, asJsonLines(records, 0))
  await writeAll(changedFile, asJsonLines(records, 10))
  await writeAll(rowsFile, asStagedRows(records))
  const show = (what: string, seconds: number, rest = '') =>
    console.log(`  ${what.padEnd(28)} ${seconds.toFixed(1).padStart(7)} s ${Math.round(records / seconds)}/s ${rest}`)
  console.log(`${records} records`)

  const psql = await withThrowAway(server, async (url) => {
    const opened = await openDatabase({ databaseUrl: url, home: '' })
    await opened.pool.query(`insert into imports (file) values ('psql')`)
    await opened.close()
    return { first: runPsql(url, rowsFile, mergeNew), again: runPsql(url, rowsFile, mergeAgain) }
  })
  show('psql, all new', psql.first)
  show('psql, all as before', psql.again)

  return withThrowAway(server, async (url) => {
    let peak = 0
    const runs = [
      ['import, all new', file, psql.first],
      ['import, all as before', file, psql.again],
      ['import, a tenth changed', changedFile, undefined],
      ['import, all as before', changedFile, psql.again],
    ] as const
    for (const [what, path, against] of runs) {
      const { seconds, megabytes, counts } = await runImport(url, path, folder)
      peak = Math.max(peak, megabytes)
      const share = against ? `${Math.round((100 * against) / seconds)} % of psql's rate, ` : ''
      show(what, seconds, `${share}${Math.round(megabytes)} MB (${counts})`)
    }
    await showHot(url)
    return peak
  })
}

const { values } = parseArgs({
  options: { records: { type: 'string', default: '100000' }, url: { type: 'string' } },
})

const server = values.url === undefined ? await startServer(18) : undefined
const folder = mkdtempSync(join(tmpdir(), 'leadpush-bench-'))
try {
  const peaks: number[] = []
  for (const records of values.records.split(',').map(Number)) {
    peaks.push(await measure(values.url ?? server?.url ?? '', records, folder))
  }
  const [first, last] = [peaks[0] ?? 0, peaks.at(-1) ?? 0]
  if (peaks.length > 1) console.log(`peak memory: ${(last / first).toFixed(2)} times that of the fewest records`)
} finally {
  rmSync(folder, { recursive: true, force: true })
  await server?.leave()
}
