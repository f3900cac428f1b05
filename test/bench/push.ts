/**
 * `npm run bench`: what `push --all` costs end to end, as the real program with all that it records, beside the bare wire, a
 * script as most would write it, graphile-worker and pg-boss, in one run on one PostgreSQL and one receiver. Prints each
 * repetition, medians and ratios; fails where a user got no delivery, or two.
 *
 *   npm run bench -- [--users 2000,20000] [--listings 50000] [--repetitions 5] [--only leadpush,wire] [--small]
 *                    [--processes 4] [--no-fsync] [--against ANOTHER_CHECKOUT …] [--statements] [--line 1000] [--weeks 2]
 *
 * With 500,000 users or more it is another benchmark: what it is like to live with so many for `--weeks 2` (`large.ts`).
 * With `--line` the receiver reads no more than that many Mbit/s, as over a network.
 * Contenders that look leads up for each user, and take as long for each however many there are, serve 2,000 of them at most.
 * BENCH_NODE_OPTIONS='--cpu-prof --cpu-prof-dir=…' profiles leadpush.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { packageRoot } from '../../src/base/package-root.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { startPostgres } from '../chaos/postgres.ts'
import { measureLarge } from './large.ts'
import { askReceived, findServerPid, readCpu, readWal, runProcess } from './measure.ts'
import { fill, fillPlain } from './workload.ts'

const folder = dirname(fileURLToPath(import.meta.url))
const nodeOptions = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? []

const { values } = parseArgs({
  options: {
    users: { type: 'string', default: '2000,20000' },
    listings: { type: 'string', default: '50000' },
    repetitions: { type: 'string', default: '5' },
    only: { type: 'string', default: 'wire,leadpush,leadpush-gzip,script,graphile-worker,pg-boss' },
    processes: { type: 'string', default: '1' },
    small: { type: 'boolean', default: false },
    'no-fsync': { type: 'boolean', default: false },
    against: { type: 'string', multiple: true, default: [] },
    statements: { type: 'boolean', default: false },
    line: { type: 'string', default: '0' },
    weeks: { type: 'string', default: '2' },
  },
})
const listings = Number(values.listings)
const repetitions = Number(values.repetitions)
/** Those of other checkouts bear the names of their folders. */
const rootOf = new Map([
  ['leadpush', packageRoot],
  ['leadpush-gzip', packageRoot],
  ...values.against.map((root) => [basename(root), root] as const),
])
const contenders = [...values.only.split(','), ...values.against.map((root) => basename(root))]
const plainUsersMax = 2_000
const largeUsers = 500_000
const plain = ['script', 'graphile-worker', 'pg-boss']

interface Bench {
  opened: OpenDatabase
  databaseUrl: string
  receiver: ChildProcess
  receiverUrl: string
  work: string
  users: number
}

/** What one contender did once. */
interface Result {
  deliveries: number
  seconds: number
  /** Processor seconds of the sender, of PostgreSQL, of the receiver. */
  cpu: { sender: number; postgres: number; receiver: number }
  /** Of the largest process. */
  peakBytes: number
  walBytes: number
  bodyBytes: number
}

type Told = Pick<Result, 'deliveries' | 'seconds'> & { cpuSeconds: number; peakBytes: number }

async function runLeadpush(bench: Bench, root: string, isGzip: boolean): Promise<Told> {
  const { opened, databaseUrl, receiverUrl, work } = bench
  await opened.pool.query('truncate deliveries, claims, runs, workers cascade')
  const env = {
    DATABASE_URL: databaseUrl,
    LEADPUSH_RECEIVER_URL: receiverUrl,
    LEADPUSH_LOG_FORMAT: 'json',
    ...(isGzip && { LEADPUSH_COMPRESS: 'gzip' }),
  }
  const startedMs = performance.now()
  const args = [...nodeOptions, join(root, 'bin/leadpush.js'), 'push', '--all', '--json']
  const ended = await Promise.all(
    Array.from({ length: Number(values.processes) }, (_, at) => runProcess(args, env, work, `leadpush-${at}`)),
  )
  const seconds = (performance.now() - startedMs) / 1_000
  return {
    seconds,
    deliveries: ended.reduce((sum, { last }) => sum + last.deliveries, 0),
    cpuSeconds: ended.reduce((sum, { usage }) => sum + usage.cpuSeconds, 0),
    peakBytes: Math.max(...ended.map(({ usage }) => usage.peakBytes)),
  }
}

async function runContender(bench: Bench, name: string): Promise<Told> {
  const { databaseUrl, receiverUrl, work } = bench
  const rest = [name === 'wire' ? join(work, 'bodies') : databaseUrl, String(countUsers(bench, name))]
  const { last, usage } = await runProcess(
    [join(folder, `contenders/${name}.js`), receiverUrl, ...rest],
    {},
    work,
    name,
  )
  return { ...last, peakBytes: usage.peakBytes }
}

const countUsers = ({ users }: Bench, name: string) => (plain.includes(name) ? Math.min(users, plainUsersMax) : users)

async function measure(bench: Bench, name: string): Promise<Result> {
  const { opened, receiver } = bench
  const users = countUsers(bench, name)
  await opened.pool.query('checkpoint')
  const serverPid = await findServerPid(opened)
  await askReceived(receiver)
  const [cpuBefore, walBefore] = [readCpu(serverPid) ?? Number.NaN, await readWal(opened)]
  const root = rootOf.get(name)
  const told =
    root === undefined ? await runContender(bench, name) : await runLeadpush(bench, root, name === 'leadpush-gzip')
  await setTimeout(200)
  const received = await askReceived(receiver)
  if (received.users !== users || received.keys !== received.requests || received.requests !== told.deliveries)
    throw new Error(`${name}, ${users} users: the receiver saw ${JSON.stringify(received)}`)
  return {
    ...told,
    cpu: {
      sender: told.cpuSeconds,
      postgres: (readCpu(serverPid) ?? Number.NaN) - cpuBefore,
      receiver: received.cpuSeconds,
    },
    walBytes: (await readWal(opened)) - walBefore,
    bodyBytes: received.bytes,
  }
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b)
  return ((sorted[(sorted.length - 1) >> 1] ?? Number.NaN) + (sorted[sorted.length >> 1] ?? Number.NaN)) / 2
}

const rateOf = ({ deliveries, seconds }: Result) => deliveries / seconds

/** The bodies that the wire is measured with: of the first users, as leadpush itself would send them. */
async function writeBodies({ databaseUrl, receiverUrl, work, users }: Bench): Promise<void> {
  await mkdir(join(work, 'bodies'))
  const env = { PATH: process.env.PATH, HOME: work, DATABASE_URL: databaseUrl, LEADPUSH_RECEIVER_URL: receiverUrl }
  // every tenth user, 200 at most: more of them would only fill the memory
  const step = Math.max(10, Math.ceil(users / 200))
  for (let at = 0; at < users; at += step) {
    const args = [join(packageRoot, 'bin/leadpush.js'), 'preview', '--user', `user-${at}@example.com`, '--body']
    const body = execFileSync(process.execPath, args, { env, cwd: work, maxBuffer: 1e8 })
    await writeFile(join(work, `bodies/${at}`), body.subarray(0, body.lastIndexOf('}') + 1))
  }
}

function show(name: string, results: readonly Result[]): void {
  const each = (of: (result: Result) => number) => median(results.map((result) => of(result) / result.deliveries))
  const micros = (of: (result: Result) => number) =>
    Math.round(each(of) * 1e6)
      .toLocaleString('en-US')
      .padStart(8)
  const rates = results.map(rateOf)
  console.log(
    [
      `  ${name.padEnd(16)}`,
      Math.round(median(rates)).toLocaleString('en-US').padStart(7),
      `${Math.round(Math.min(...rates))}-${Math.round(Math.max(...rates))}`.padStart(12),
      micros(({ cpu }) => cpu.sender),
      micros(({ cpu }) => cpu.postgres),
      micros(({ cpu }) => cpu.receiver),
      `${Math.round(median(results.map(({ peakBytes }) => peakBytes)) / 1e6)} MB`.padStart(9),
      `${Math.round(each(({ walBytes }) => walBytes))} B`.padStart(9),
      `${Math.round(each(({ bodyBytes }) => bodyBytes) / 1_000)} kB`.padStart(8),
    ].join(''),
  )
}

/** Where PostgreSQL's time went in the last run, a delivery. */
async function showStatements({ opened }: Bench, deliveries: number): Promise<void> {
  const { rows } = await opened.pool.query(`
    select calls, total_exec_time + total_plan_time as ms, rows, wal_bytes::double precision as wal, regexp_replace(query, '\\s+', ' ', 'g') as query
    from pg_stat_statements order by 2 desc limit 14`)
  for (const { calls, ms, rows: count, wal, query } of rows)
    console.log(
      `  ${((ms * 1_000) / deliveries).toFixed(1).padStart(7)} µs ${(calls / deliveries).toFixed(3)} calls ${(count / deliveries).toFixed(1)} rows ${Math.round(wal / deliveries)} B WAL  ${query.slice(0, 110)}`,
    )
}

async function compare(bench: Bench): Promise<void> {
  if (contenders.some((name) => plain.includes(name))) await fillPlain(bench.opened)
  if (contenders.includes('wire')) await writeBodies(bench)
  const results = new Map<string, Result[]>(contenders.map((name) => [name, []]))
  for (let round = 0; round < repetitions; round++)
    // turn about: what else the machine does meets all of them
    for (const name of contenders) {
      if (plain.includes(name)) await bench.opened.pool.query('truncate bench.sent')
      if (values.statements) await bench.opened.pool.query('select pg_stat_statements_reset()')
      const result = await measure(bench, name)
      results.get(name)?.push(result)
      if (values.statements) await showStatements(bench, result.deliveries)
    }
  console.log(`
${bench.users.toLocaleString('en-US')} users, ${listings.toLocaleString('en-US')} listings, ${repetitions} repetitions, load ${loadavg()[0]?.toFixed(1)}
                   per s       range  sender postgres receiver     peak      WAL    body   (µs of processor, a delivery)`)
  for (const [name, of] of results) show(name, of)
  const own = median((results.get('leadpush') ?? []).map(rateOf))
  for (const [name, of] of results)
    if (name !== 'leadpush' && own > 0) {
      const ratio = own / median(of.map(rateOf))
      console.log(`  leadpush is ${ratio.toFixed(ratio < 2 ? 2 : 1)} times ${name}`)
    }
}

/** What a person waits for: whole processes, for one user. */
async function showOneUser({ databaseUrl, receiverUrl, work }: Bench): Promise<void> {
  const env = { DATABASE_URL: databaseUrl, LEADPUSH_RECEIVER_URL: receiverUrl }
  for (const command of ['preview', 'push']) {
    const seconds: number[] = []
    for (let at = 0; at < Math.max(5, repetitions); at++) {
      const startedMs = performance.now()
      const args = [join(packageRoot, 'bin/leadpush.js'), command, '--user', `user-${at}@example.com`, '--json']
      await runProcess(args, env, work, command)
      seconds.push((performance.now() - startedMs) / 1_000)
    }
    console.log(`  ${command} --user: ${Math.round(1_000 * median(seconds))} ms, as a whole process`)
  }
}

for (const users of values.users.split(',').map(Number)) {
  const server = await startPostgres(
    `max_wal_size = 8GB
    ${values.statements ? "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track_planning = on" : ''}
    ${values['no-fsync'] ? 'fsync = off' : ''}`,
  )
  const receiver = fork(join(folder, 'receiver.js'), [values.line])
  const work = await mkdtemp(join(tmpdir(), 'leadpush-bench-'))
  const databaseUrl = server.url('leadpush')
  try {
    const [port] = await once(receiver, 'message')
    const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
    if (values.statements) await opened.pool.query('create extension pg_stat_statements')
    await migrate(opened.db)
    if (users >= largeUsers) {
      await opened.close()
      const roots = new Map([...rootOf].filter(([name]) => name !== 'leadpush-gzip'))
      const weeks = Number(values.weeks)
      await measureLarge({
        databaseUrl,
        receiver,
        receiverUrl: `http://127.0.0.1:${port}/`,
        work,
        users,
        listings,
        weeks,
        roots,
      })
      continue
    }
    await fill(opened, { users, listings, small: values.small })
    const bench = { opened, databaseUrl, receiver, receiverUrl: `http://127.0.0.1:${port}/`, work, users }
    await compare(bench)
    await showOneUser(bench)
    await opened.close()
  } finally {
    receiver.kill()
    await server.leave()
    await rm(work, { recursive: true })
  }
}
