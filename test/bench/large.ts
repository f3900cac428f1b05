/**
 * What a million users are to live with, for `npm run bench -- --users 1000000`: fills a database, pushes a week, runs the commands
 * of an operator as whole processes, pushes a second week, and prunes the first. Bodies are small, so that a line of 1 Gbit/s could
 * carry them. With `--against` another checkout runs the commands too.
 */
import type { ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { askReceived, findServerPid, readCpu, readWal, runProcess } from './measure.ts'
import { fill } from './workload.ts'

export interface LargeBench {
  databaseUrl: string
  receiver: ChildProcess
  receiverUrl: string
  work: string
  users: number
  listings: number
  weeks: number
  /** Checkouts by their names: `leadpush` pushes, all of them run the commands, turn about. */
  roots: ReadonlyMap<string, string>
}

const ownName = 'leadpush'
const sampleMs = 10_000
const tablesShown = 8
/** Exit code 1 of `status --check`: somebody should look, which is no fault here. */
const codes = [0, 1]

const commands = [
  'push --all --json',
  'preview --json',
  'status --json',
  'status --check --json',
  'report --out report.html --json',
  'users list',
  'users list --json',
  'validate --json',
  'users show user-7@example.com --json',
]

const megabytes = (bytes: number) => `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`

/** The database's clock is ahead by so many days: functions before those of PostgreSQL in the search path. */
async function moveClock({ pool }: OpenDatabase, days: number): Promise<void> {
  for (const [name, volatility] of [
    ['now', 'stable'],
    ['clock_timestamp', 'volatile'],
  ])
    await pool.query(`
      create or replace function public.${name}() returns timestamptz language sql ${volatility} parallel safe
      return pg_catalog.${name}() + interval '${days} days'`)
}

async function open(databaseUrl: string): Promise<OpenDatabase> {
  const first = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
  await moveClock(first, 0)
  await first.pool.query('alter database leadpush set search_path = public, pg_catalog')
  await first.close()
  // sessions from now on go by that clock, and so do the defaults of the tables
  const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
  await migrate(opened.db)
  return opened
}

function residentBytes(pid: number): number {
  return 1_024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
}

class Large {
  private readonly bench: LargeBench
  private readonly opened: OpenDatabase

  constructor(bench: LargeBench, opened: OpenDatabase) {
    this.bench = bench
    this.opened = opened
  }

  /** Runs leadpush to its end, and prints what it took. `name`: of another checkout than the first. */
  async run(
    line: string,
    { onStart, name = ownName }: { onStart?: (pid: number) => void; name?: string } = {},
  ): Promise<{ seconds: number; last: Record<string, number> }> {
    const { databaseUrl, receiverUrl, work, roots } = this.bench
    const env = { DATABASE_URL: databaseUrl, LEADPUSH_RECEIVER_URL: receiverUrl, LEADPUSH_LOG_FORMAT: 'json' }
    const serverPid = await findServerPid(this.opened)
    const [cpuBefore, startedMs] = [readCpu(serverPid) ?? Number.NaN, performance.now()]
    const args = [join(roots.get(name) as string, 'bin/leadpush.js'), ...line.split(' ')]
    const { last, usage } = await runProcess(args, env, work, 'large', { onStart, codes })
    const seconds = (performance.now() - startedMs) / 1_000
    const cpu = (readCpu(serverPid) ?? Number.NaN) - cpuBefore
    const [took, own, server] = [seconds, usage.cpuSeconds, cpu].map((value) => value.toFixed(1).padStart(7))
    console.log(
      `  ${(name === ownName ? line : `${line} (${name})`).padEnd(38)}${took} s${own} s${server} s${megabytes(usage.peakBytes).padStart(9)}`,
    )
    return { seconds, last }
  }

  /** `push --all` of a week in which nobody was served; a line each 10 s. */
  async push(): Promise<void> {
    const { receiver, users } = this.bench
    const received = { requests: 0, bytes: 0 }
    const [walBefore, startedMs] = [await readWal(this.opened), performance.now()]
    let sampling: NodeJS.Timeout | undefined
    const ask = async () => {
      const { requests, bytes } = await askReceived(receiver)
      received.requests += requests
      received.bytes += bytes
      return requests
    }
    await ask()
    Object.assign(received, { requests: 0, bytes: 0 })
    const onStart = (pid: number) => {
      sampling = setInterval(async () => {
        const memory = residentBytes(pid)
        const rate = ((await ask()) * 1_000) / sampleMs
        const at = Math.round((performance.now() - startedMs) / 1_000)
        console.log(
          `  ${at} s: ${received.requests.toLocaleString('en-US')} sent, ${rate} a second, ${megabytes(memory)}`,
        )
      }, sampleMs)
    }
    const { seconds, last } = await this.run('push --all --json', { onStart }).finally(() => clearInterval(sampling))
    await ask()
    if (received.requests !== users || last.delivered !== users)
      throw new Error(`the receiver saw ${received.requests} requests; the summary says ${JSON.stringify(last)}`)
    const wal = (await readWal(this.opened)) - walBefore
    console.log(
      `  ${Math.round(users / seconds).toLocaleString('en-US')} deliveries a second, ${Math.round(received.bytes / users / 1e3)} KB a body, ${megabytes(wal)} of WAL, ${Math.round(wal / users)} bytes a delivery`,
    )
  }

  async showTables(): Promise<void> {
    const { rows } = await this.opened.pool.query(`
      select relname as name, pg_table_size(oid) as bytes, pg_indexes_size(oid) as indexes from pg_class
      where relkind = 'r' and relnamespace = 'public'::regnamespace order by pg_total_relation_size(oid) desc limit ${tablesShown}`)
    for (const { name, bytes, indexes } of rows)
      console.log(`  ${name.padEnd(16)}${megabytes(bytes).padStart(10)}, indexes ${megabytes(indexes)}`)
  }

  async runCommands(): Promise<void> {
    console.log('  command                                  took     own  server     peak   (seconds; processor)')
    for (const line of commands) for (const name of this.bench.roots.keys()) await this.run(line, { name })
  }
}

export async function measureLarge(bench: LargeBench): Promise<void> {
  const { users, listings, weeks } = bench
  const opened = await open(bench.databaseUrl)
  try {
    const large = new Large(bench, opened)
    const startedMs = performance.now()
    await fill(opened, { users, listings, small: true })
    console.log(`filled in ${Math.round((performance.now() - startedMs) / 1_000)} s`)
    for (let week = 1; week <= weeks; week++) {
      console.log(`\nweek ${week}`)
      await moveClock(opened, 7 * (week - 1))
      // as an import of the same listings leaves them
      await opened.pool.query('update lead_seen set seen_at = now()')
      await large.push()
      await large.showTables()
      await large.runCommands()
    }
    if (weeks < 2) return
    console.log('\nprune')
    await large.run('prune --older-than 6d --json')
    await large.showTables()
  } finally {
    await opened.close()
  }
}
