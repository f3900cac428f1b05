/** The pace of triggers over runs at once (contract 6.5): to one host, under way in all, and how runs share the hooks (6.2). */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import http from 'node:http'
import { after, beforeEach, test } from 'node:test'
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises'
import { hostTurnSpacingMs, shareKeptMs, shareLateMsMax, triggerTimeoutMs } from '../../src/base/limits.ts'
import { forgetHosts, HostPace, hostOf } from '../../src/triggers/host-pace.ts'
import { takeShare } from '../../src/triggers/shares.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { listen } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()
const opened = await database.open()
const platforms = [await startHookReceiver(), await startHookReceiver()] as const
after(() => Promise.all(platforms.map((platform) => platform.close())))
await seedUsers(opened.db, [{ email: 'user@example.com' }])
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks; delete from hook_hosts')
  for (const platform of platforms) {
    platform.calls.length = 0
    platform.answer = () => 200
  }
})

const calls = () => platforms.flatMap((platform) => platform.calls)
const addLeads = (count: number) =>
  seedLeads(
    opened,
    Array.from({ length: count }, () => ({ href: `https://listings.example.com/${++names}` })),
  )
/** So many hooks of one host, at two ports of it. */
async function addHooks(count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    await addHook(opened, 'user@example.com', platforms[n % 2 === 0 ? 0 : 1].url(`/${n}`))
  }
}

test('runs at once send at most 30 a second to one host, with any port, and share hooks, however few', async () => {
  await addHooks(30)
  await addLeads(4)
  const began = performance.now()
  const runs = await Promise.all([runTrigger(opened), runTrigger(opened), runTrigger(opened)])
  const ended = Math.max(...calls().map(({ atMs }) => atMs))
  const delivered = runs.map(({ counts }) => counts.delivered)
  assert.equal(
    delivered.reduce((sum, count) => sum + count, 0),
    120,
  )
  // of 120, 90 are not in the first second
  assert.ok(ended - began >= 3_000, `${ended - began} ms`)
  assert.ok(Math.min(...delivered) > 0, delivered.join())
  assert.equal(new Set(calls().map(({ path, webhookId }) => path + webhookId)).size, 120)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('a run that comes later gets its part of the hooks, and of what may be under way', async () => {
  await addHooks(40)
  await opened.pool.query('update hooks set last_status = 200, last_at = now()')
  await addLeads(3)
  for (const platform of platforms) platform.answer = () => ({ status: 200, delayMs: 300 })
  const first = runTrigger(opened)
  await until('the first run has hooks', () => calls().length >= 4)
  const second = await runTrigger(opened)
  assert.ok(second.counts.delivered > 0)
  assert.equal((await first).counts.delivered + second.counts.delivered, 120)
  assert.equal(new Set(calls().map(({ path, webhookId }) => path + webhookId)).size, 120)
})

test('all runs together have at most 64 triggers under way', async () => {
  const held: http.ServerResponse[] = []
  let peak = 0
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => {
      held.push(response)
      peak = Math.max(peak, held.length)
    })
  })
  const { port, close } = await listen(server)
  for (let n = 0; n < 100; n++) await addHook(opened, 'user@example.com', `http://127.0.0.1:${port}/${n}`)
  await opened.pool.query('update hooks set last_status = 200, last_at = now()')
  await addLeads(1)
  const runs = [runTrigger(opened), runTrigger(opened)]
  await until('64 are under way', () => held.length === 64)
  runs.push(runTrigger(opened))
  await until('a third run has come', async () => {
    const { rows } = await opened.pool.query('select from trigger_processes')
    return rows.length === 3
  })
  for (let answered = 0; answered < 100; answered++) {
    await until('one is under way', () => held.length > 0)
    held.shift()?.end()
  }
  const delivered = (await Promise.all(runs)).reduce((sum, { counts }) => sum + counts.delivered, 0)
  await close()
  assert.deepEqual([delivered, peak], [100, 64])
})

/** A process of which nothing was heard since it asked for its share, so many milliseconds ago; returns its id. */
async function addSilentProcess(askedMs: number): Promise<number> {
  const { rows } = await opened.pool.query(
    `with w as (insert into workers (host, process_id, lease_until) values ('killed', 1, now() + interval '1 hour') returning id)
    insert into trigger_processes (worker_id, at_once, asked_at) select id, 64, now() - $1 * interval '1 millisecond' from w
    returning worker_id as id`,
    [askedMs],
  )
  return rows[0].id
}

// A process that was killed kept all 64 until its lease was over, so that a later run sent nothing to any hook.
test('a killed run keeps from others what it had in hand, and no other hook for longer than an attempt', async () => {
  await addHooks(3)
  await addLeads(1)
  const killed = await addSilentProcess(shareKeptMs + 1_000)
  await opened.pool.query('update hooks set worker_id = $1 where url like $2', [killed, '%/0'])
  const stop = new AbortController()
  const run = runTrigger(opened, { stop: stop.signal })
  await until('the other hooks have theirs', () => calls().length === 2)
  stop.abort()
  assert.equal((await run).counts.delivered, 2)
  assert.deepEqual(calls().map(({ path }) => path).sort(), ['/1', '/2']) // biome-ignore format: one
  await opened.pool.query('delete from workers where id = $1', [killed])
})

test('the part of a silent process is free once none of its attempts can be under way, and no sooner', async () => {
  assert.ok(shareLateMsMax + triggerTimeoutMs < shareKeptMs)
  const id = await addSilentProcess(0)
  const other = await addSilentProcess(shareKeptMs - 1_000)
  const ask = (ids: number[], underWay: number) =>
    takeShare(opened.db, { ids, dueUntil: 'infinity' }, { underWay, hooksMax: 1 })
  await opened.pool.query('update trigger_processes set at_once = 0 where worker_id = $1', [id])
  assert.deepEqual(await ask([id], 0), { processes: 2, atOnce: 0, hooksDue: 0 })
  await opened.pool.query(`update trigger_processes set asked_at = asked_at - interval '2 seconds'`)
  assert.deepEqual(await ask([id], 0), { processes: 1, atOnce: 64, hooksDue: 0 })
  // it was frozen, and counts 64 whose time is up: more begin once the others give some back
  assert.equal((await ask([other], 64)).atOnce, 0)
  assert.equal((await ask([id], 0)).atOnce, 0)
  assert.equal((await ask([other], 0)).atOnce, 32)
  assert.equal((await ask([id], 0)).atOnce, 32)
  await opened.pool.query('delete from workers where id = any ($1)', [[id, other]])
})

test('no second has more than 30 turns at a host in it, over several processes; another host has its own', async () => {
  const fail = (error: unknown) => assert.fail(String(error))
  const paces = [1, 2, 3].map(() => new HostPace(opened.db, fail))
  const turns: number[] = []
  const take = async (pace: HostPace, count: number) => {
    for (let n = 0; n < count; n++) {
      await pace.waitForTurn('busy.example.com')
      turns.push(performance.now())
    }
  }
  // each asks for several turns at a time
  const busy = paces.flatMap((pace) => [take(pace, 9), take(pace, 9), take(pace, 9), take(pace, 9)])
  await until('the host is busy', () => turns.length >= 3)
  const [pace] = paces
  await pace?.waitForTurn('other.example.com')
  assert.ok(turns.length < 108)
  await Promise.all(busy)
  turns.sort((a, b) => a - b)
  for (const [at, turn] of turns.entries()) {
    const inSecond = turns.filter((other) => other >= turn && other < turn + 1_000).length
    assert.ok(inSecond <= 30, `${inSecond} in the second after turn ${at}`)
  }
  // and so no five minutes have more than 10,000
  assert.ok((300_000 + hostTurnSpacingMs) / hostTurnSpacingMs < 10_000)
})

test('a clock that was wrong holds up no host, and hosts that nobody calls are forgotten', async () => {
  await opened.pool.query(`insert into hook_hosts values ('ahead.example.com', now() + interval '1 day'),
    ('old.example.com', now() - interval '61 minutes'), ('young.example.com', now() - interval '59 minutes')`)
  await new HostPace(opened.db, () => {}).waitForTurn('ahead.example.com')
  await forgetHosts(opened.db)
  const { rows } = await opened.pool.query('select host from hook_hosts order by host')
  assert.deepEqual(
    rows.map(({ host }) => host),
    ['ahead.example.com', 'young.example.com'],
  )
})

test('a slow answer of the database books no turns of seconds at a host', async () => {
  // the doubt about the clock that such an answer leaves once stretched each turn asked for next: 16 were booked for 23 s
  const host = 'slow.example.com'
  const answers = new EventEmitter()
  const pace = new HostPace(
    opened.db.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        answers.emit('answer')
        return result
      },
    }),
    () => {},
  )
  await opened.pool.query('insert into hook_hosts (host, next_at) values ($1, now())', [host])
  const other = await opened.pool.connect()
  await other.query('begin')
  await other.query('lock table hook_hosts')
  const first = pace.waitForTurn(host)
  await sleep(1_000)
  const answered = once(answers, 'answer')
  await other.query('commit')
  other.release()
  await answered
  // by then the pace has noted it, and has no other yet
  await nextTick()
  const turns = Promise.all([first, ...Array.from({ length: 16 }, () => pace.waitForTurn(host))])
  let bookedSeconds = 0
  await until('all turns', async () => {
    const { rows } = await opened.pool.query(
      'select extract(epoch from next_at - clock_timestamp())::float8 as s from hook_hosts where host = $1',
      [host],
    )
    bookedSeconds = Math.max(bookedSeconds, rows[0].s)
    return (await Promise.race([turns, sleep(0, 'waiting')])) !== 'waiting'
  })
  assert.ok(bookedSeconds < 4, `${bookedSeconds} s`)
})

test('a host is a name or an address, in any spelling and with any port', () => {
  for (const [url, host] of [
    ['https://Hooks.Example.com./a?b', 'hooks.example.com'],
    ['https://hooks.example.com:8443/', 'hooks.example.com'],
    ['https://0x5db8d70e/', '93.184.215.14'],
    ['https://[2606:2800:0::1]:444/', '[2606:2800::1]'],
    ['https://b%C3%BCcher.example/', 'xn--bcher-kva.example'],
    ['no URL', ''],
  ]) {
    assert.equal(hostOf(url ?? ''), host)
  }
})
