/**
 * `npm run bench:push -- [USERS…]`: `push --all` as the real program, for each number of users on a database of its own with
 * 50,000 listings, against a receiver that reads and answers 200. Prints deliveries a second and the peak of its memory.
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startThrowAway } from '../../src/db/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import { packageRoot } from '../../src/root.ts'
import { importUsers } from '../../src/users/import.ts'

const listings = Number(process.env.BENCH_LEADS ?? 50_000)
/** For a profile: `--cpu-prof --cpu-prof-dir=…`. */
const nodeOptions = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? []

async function main(userCounts: number[]): Promise<void> {
  for (const users of userCounts.length > 0 ? userCounts : [2_000, 20_000]) {
    const server = await startThrowAway()
    const receiver = fork(fileURLToPath(import.meta.url), ['receiver'], { execArgv: ['--import', 'tsx'] })
    try {
      const [port] = await once(receiver, 'message')
      const opened = await openDatabase({ databaseUrl: server.url, home: '' }, { schema: 'any' })
      await migrate(opened.db)
      await fill(opened, users)
      await opened.close()
      await push(server.url, `http://127.0.0.1:${port}/`, users)
    } finally {
      receiver.kill()
      await server.leave()
    }
  }
}

function* lines<T>(n: number, build: (at: number) => T): Generator<string> {
  for (let at = 0; at < n; at++) yield `${JSON.stringify(build(at))}\n`
}

const random = (() => {
  let state = 42
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
})()

async function fill(opened: OpenDatabase, users: number): Promise<void> {
  const codes = (
    await opened.db.selectFrom('postal_codes').select('code').where('country', '=', 'US').orderBy('code').execute()
  ).map(({ code }) => code)
  // leads and users gather in the same 200 towns, as people do
  const towns = Array.from({ length: 200 }, () => random(codes.length - 40))
  const code = () => codes[(towns[random(towns.length)] ?? 0) + random(40)] ?? ''
  const leads = lines(listings, (at) => ({
    href: `https://listings.example/${at}`,
    postalCode: code(),
    price: 100_000 + random(900_000),
    bedrooms: 1 + random(5),
    bathrooms: 1 + random(3),
    sqft: 600 + random(3_000),
    yearBuilt: 1920 + random(100),
    description: 'A house for sale by owner. '.repeat(8 + random(20)),
    contactEmail: `owner-${at}@example.com`,
    address: `${random(9_000)} Main Street`,
  }))
  await importLeads(opened, ['-'], { stdin: Readable.from(leads, { objectMode: false }) })
  const people = lines(users, (at) => ({
    email: `user-${at}@example.com`,
    receiverApiKey: `key-${at}`,
    queries: [
      { type: 'zipcode', value: code(), radius: 25 },
      { type: 'zipcode', value: code(), radius: 10 },
    ],
  }))
  await importUsers(opened, ['-'], { stdin: Readable.from(people, { objectMode: false }) })
  await opened.pool.query('vacuum analyze')
}

async function measure(databaseUrl: string): Promise<{ wal: number; transactions: number }> {
  const opened = await openDatabase({ databaseUrl, home: '' })
  // the server tells its counters with a delay
  await setTimeout(1_500)
  const { rows } = await opened.pool.query(`
    select (pg_current_wal_insert_lsn() - '0/0')::double precision as wal,
      (select xact_commit from pg_stat_database where datname = current_database())::double precision as transactions`)
  await opened.close()
  return rows[0]
}

async function push(databaseUrl: string, receiverUrl: string, users: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'leadpush-bench-'))
  const peakFile = join(folder, 'peak')
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    DATABASE_URL: databaseUrl,
    LEADPUSH_RECEIVER_URL: receiverUrl,
    PEAK_MEMORY_FILE: peakFile,
  }
  const before = await measure(databaseUrl)
  const startedAt = performance.now()
  const hook = join(packageRoot, 'test/support/peak-memory.js')
  const child = spawn(
    process.execPath,
    [...nodeOptions, '--import', hook, join(packageRoot, 'bin/leadpush.js'), 'push', '--all', '--json'],
    { env, cwd: folder },
  )
  let last = ''
  let errors = ''
  child.stdout.on('data', (text) => {
    last = (last + text).slice(-2_000)
  })
  child.stderr.on('data', (text) => {
    errors = (errors + text).slice(-4_000)
  })
  const [code] = await once(child, 'close')
  const seconds = (performance.now() - startedAt) / 1_000
  if (code !== 0) console.error(`exit ${code}\n${errors}`)
  const after = await measure(databaseUrl)
  const summary = JSON.parse(last.trim().split('\n').at(-1) ?? '{}')
  const peak = Number(await readFile(peakFile, 'utf8'))
  await rm(folder, { recursive: true })
  console.log(
    `${users} users, ${listings} listings: ${summary.deliveries} deliveries of ${Math.round(summary.bytes / summary.deliveries / 1000)} kB in ${summary.seconds} s (${(summary.deliveries / summary.seconds).toFixed(0)}/s; process ${seconds.toFixed(1)} s), peak ${(peak / 1e6).toFixed(0)} MB, ${((after.wal - before.wal) / summary.deliveries).toFixed(0)} B WAL and ${((after.transactions - before.transactions) / summary.deliveries).toFixed(2)} transactions a delivery`,
  )
}

if (process.argv[2] === 'receiver') {
  const server = http.createServer((request, response) => {
    request.resume()
    request.on('end', () => response.end('{"ok":true}'))
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as { port: number }).port))
} else await main(process.argv.slice(2).map(Number))
