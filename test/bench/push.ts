/**
 * `npm run bench:push -- [--processes N] [USERS…]`: `push --all` as the real program, for each number of users on a database of
 * its own with 50,000 listings, against a receiver that reads and answers 200; with `--processes`, after that as N processes at
 * once. Prints deliveries a second, peak memory, and what the database had to bear; fails where a user got none or two.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import { packageRoot } from '../../src/root.ts'
import { importUsers } from '../../src/users/import.ts'
import { startPostgres } from '../chaos/postgres.ts'

const listings = Number(process.env.BENCH_LEADS ?? 50_000)
/** For a profile: `--cpu-prof --cpu-prof-dir=…`. */
const nodeOptions = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? []

async function main(userCounts: number[], processCounts: number[]): Promise<void> {
  for (const users of userCounts.length > 0 ? userCounts : [2_000, 20_000]) {
    const server = await startPostgres("fsync = off\nshared_preload_libraries = 'pg_stat_statements'")
    const receiver = fork(fileURLToPath(import.meta.url), ['receiver'], { execArgv: ['--import', 'tsx'] })
    const databaseUrl = server.url('leadpush')
    try {
      const [port] = await once(receiver, 'message')
      const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
      await opened.pool.query('create extension pg_stat_statements')
      await migrate(opened.db)
      await fill(opened, users)
      for (const processes of processCounts) {
        await opened.pool.query('truncate deliveries, claims, runs, workers cascade')
        await opened.pool.query('vacuum analyze')
        await push({ opened, databaseUrl, receiver, receiverUrl: `http://127.0.0.1:${port}/` }, users, processes)
      }
      await opened.close()
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

interface Burden {
  statements: number
  ms: number
  transactions: number
  walBytes: number
}

async function measure({ pool }: OpenDatabase): Promise<Burden> {
  // the server tells its counters with a delay
  await setTimeout(1_500)
  const { rows } = await pool.query(`
    select (select sum(calls)::double precision from pg_stat_statements) as statements,
      (select sum(total_exec_time) from pg_stat_statements) as ms,
      (select xact_commit from pg_stat_database where datname = current_database()) as transactions,
      (select wal_bytes::double precision from pg_stat_wal) as "walBytes"`)
  return rows[0]
}

interface Received {
  requests: number
  keys: number
  users: number
}

async function askReceived(receiver: ChildProcess): Promise<Received> {
  receiver.send('tell')
  const [received] = await once(receiver, 'message')
  return received
}

interface Pushed {
  deliveries: number
  bytes: number
  seconds: number
  peakBytes: number
}

/** One `push --all` to its end. */
async function runPush(env: NodeJS.ProcessEnv, folder: string, name: number): Promise<Pushed> {
  const peakFile = join(folder, `peak-${name}`)
  const hook = join(packageRoot, 'test/support/peak-memory.js')
  const child = spawn(
    process.execPath,
    [...nodeOptions, '--import', hook, join(packageRoot, 'bin/leadpush.js'), 'push', '--all', '--json'],
    { env: { ...env, PEAK_MEMORY_FILE: peakFile }, cwd: folder },
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
  if (code !== 0) throw new Error(`exit ${code}\n${errors}`)
  const { deliveries, bytes, seconds } = JSON.parse(last.trim().split('\n').at(-1) ?? '{}')
  return { deliveries, bytes, seconds, peakBytes: Number(await readFile(peakFile, 'utf8')) }
}

interface Bench {
  opened: OpenDatabase
  databaseUrl: string
  receiver: ChildProcess
  receiverUrl: string
}

async function push({ opened, databaseUrl, receiver, receiverUrl }: Bench, users: number, processes: number) {
  const folder = await mkdtemp(join(tmpdir(), 'leadpush-bench-'))
  const env = { PATH: process.env.PATH, HOME: folder, DATABASE_URL: databaseUrl, LEADPUSH_RECEIVER_URL: receiverUrl }
  const [before] = [await measure(opened), await askReceived(receiver)]
  const startedAt = performance.now()
  const pushed = await Promise.all(Array.from({ length: processes }, (_, at) => runPush(env, folder, at)))
  const seconds = (performance.now() - startedAt) / 1_000
  const [after, received] = [await measure(opened), await askReceived(receiver)]
  await rm(folder, { recursive: true })

  if (received.users !== users || received.keys !== received.requests)
    throw new Error(`${users} users: the receiver saw ${JSON.stringify(received)}`)
  const sum = (of: (one: Pushed) => number) => pushed.reduce((total, one) => total + of(one), 0)
  const deliveries = sum((one) => one.deliveries)
  const each = (of: keyof Burden) => (after[of] - before[of]) / deliveries
  console.log(
    `${users} users, ${listings} listings, ${processes === 1 ? '1 process' : `${processes} processes`}: ${deliveries} deliveries of ${Math.round(sum((one) => one.bytes) / deliveries / 1000)} kB, ${pushed.map((one) => one.deliveries).join(' + ')}, each user once, no key twice
  ${seconds.toFixed(1)} s, start included (${(deliveries / seconds).toFixed(0)}/s; load of the machine ${loadavg()[0]?.toFixed(1)}), peak ${pushed.map((one) => (one.peakBytes / 1e6).toFixed(0)).join(', ')} MB
  a delivery: ${each('statements').toFixed(2)} statements of ${each('ms').toFixed(2)} ms, ${each('transactions').toFixed(2)} transactions, ${each('walBytes').toFixed(0)} B of WAL`,
  )
}

/** Answers 200 to everything; tells what came since it told last. */
function receive(): void {
  let requests = 0
  let keys = new Set<unknown>()
  let users = new Set<unknown>()
  const server = http.createServer((request, response) => {
    requests++
    keys.add(request.headers['x-idempotency-key'])
    users.add(request.headers['x-service-api-key'])
    request.resume()
    request.on('end', () => response.end('{"ok":true}'))
  })
  process.on('message', () => {
    process.send?.({ requests, keys: keys.size, users: users.size })
    requests = 0
    keys = new Set()
    users = new Set()
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as { port: number }).port))
}

if (process.argv[2] === 'receiver') receive()
else {
  const { values, positionals } = parseArgs({ options: { processes: { type: 'string' } }, allowPositionals: true })
  await main(positionals.map(Number), values.processes === undefined ? [1] : [1, Number(values.processes)])
}
