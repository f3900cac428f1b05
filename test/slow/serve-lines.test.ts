/** Many subscription pushes at once behind `serve` (contract 5.3): a long line is one process for all, and loses and repeats nothing. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, beforeEach, test } from 'node:test'
import { pushesAloneMax } from '../../src/base/limits.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { owe, owed } from '../support/owed.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { createKeys, type Serve, startServe } from '../support/serve.ts'
import { until } from '../support/until.ts'

const users = makeUsers(60)
const house = await buildHouse({ users, leads: [{ href: hrefOf('a'), postalCode: '78704' }] })
const { receiver } = house
const opened = await house.database.open()
const lastKey = (await createKeys(house, ['user-59@example.com']))[0]?.apiKey ?? ''
const started: Serve[] = []
after(() => {
  for (const { program } of started) program.kill('SIGKILL')
})

beforeEach(() => {
  receiver.requests.length = 0
  receiver.answer = () => 200
})

async function start(env: Record<string, string> = {}): Promise<Serve> {
  const serve = await startServe(house, { LEADPUSH_ALLOW_INSECURE_HOOKS: '1', LEADPUSH_LEASE: '2s', ...env })
  started.push(serve)
  return serve
}

async function stop({ program }: Serve): Promise<void> {
  program.kill('SIGTERM')
  const { code, stderr } = await program.done
  assert.equal(code, 0, stderr)
}

/** As `subscribe` of a `serve` that died right after its answers. */
const oweFirst = (count: number) => opened.pool.query(owe('id in (select id from users order by id limit $1)'), [count])

const keyOf = (at: number) => `key-${at}`
const sentTo = (key: string) => receiver.requests.filter(({ headers }) => headers['x-service-api-key'] === key)

/** How many requests each of the first users got; all under one idempotency key. */
function countSent(count: number): number[] {
  return Array.from({ length: count }, (_, at) => {
    const sent = sentTo(keyOf(at))
    assert.ok(new Set(sent.map(({ key }) => key)).size <= 1, `user ${at} had two deliveries`)
    return sent.length
  })
}

const once = (count: number) => Array(count).fill(1)

async function countLeft(): Promise<{ owed: number; pending: number }> {
  const { rows } = await opened.pool.query(`select
    (select count(*) ${owed}) as owed,
    (select count(*) from deliveries where status = 'pending') as pending`)
  return rows[0]
}

const untilNothingIsLeft = () =>
  until('nothing is owed', async () => {
    const { owed, pending } = await countLeft()
    return owed + pending === 0
  })

const ended = (serve: Serve) => serve.log().filter(({ msg }) => /^The subscription push/.test(msg))

/** The process id of the child that serves all. */
function findForAll({ program }: Serve): number | undefined {
  const children = readFileSync(`/proc/${program.pid}/task/${program.pid}/children`, 'utf8').split(' ').filter(Boolean)
  const found = children.find((pid) => {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return args.includes('--owed') && !args.some((arg) => arg.startsWith('--user'))
  })
  return found === undefined ? undefined : Number(found)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test(`${pushesAloneMax} in line have a process each, one more have one for all`, async () => {
  for (const [count, messages] of [
    [pushesAloneMax, Array(pushesAloneMax).fill(/^The subscription push of user \d+ ended: delivered\.$/)],
    [pushesAloneMax + 1, [/^The subscription pushes of a long line ended: 5 delivered\.$/]],
  ] as const) {
    receiver.requests.length = 0
    await oweFirst(count)
    const serve = await start()
    await untilNothingIsLeft()
    await until('all are told', () => ended(serve).length === messages.length)
    for (const [at, { msg, exitCode }] of ended(serve).entries()) {
      assert.match(msg, messages[at] as RegExp)
      assert.equal(exitCode, 0)
    }
    assert.deepEqual(countSent(6), [...once(count), ...Array(6 - count).fill(0)])
    await stop(serve)
  }
})

test('a process that is killed in the middle of a long line costs what it had under way one attempt, and nobody the push', async () => {
  receiver.answer = () => ({ status: 200, delayMs: 100 })
  await oweFirst(60)
  const serve = await start({ LEADPUSH_CONCURRENCY: '4' })
  await requestsAtLeast(receiver, 20)
  process.kill(findForAll(serve) as number, 'SIGKILL')
  await untilNothingIsLeft()
  const sent = countSent(60)
  const twice = sent.filter((times) => times === 2).length
  assert.deepEqual(sent.filter((times) => times !== 2), once(60 - twice)) // biome-ignore format: short
  // under way, and recorded ahead of that
  assert.ok(twice <= 8, `${twice} had a second attempt`)
  await until('its end is told', () => ended(serve).length > 0)
  assert.deepEqual(ended(serve)[0]?.exitCode, null)
  assert.match(ended(serve)[0]?.msg, /^The subscription pushes of a long line ended: \d+ delivered\. Its process ended with a signal\.$/) // biome-ignore format: short
  await stop(serve)
})

test('a signal in the middle of a long line ends it after what is under way; the next start sends the rest', async () => {
  const isHeard = makeGate()
  receiver.answer = (_, nth) => (nth < 10 ? 200 : isHeard.opened.then(() => 200))
  await oweFirst(60)
  const serve = await start({ LEADPUSH_CONCURRENCY: '4' })
  await requestsAtLeast(receiver, 10)
  const pid = findForAll(serve) as number
  serve.program.kill('SIGTERM')
  await until('the process has the signal', () => serve.log().some(({ msg }) => msg.startsWith('SIGTERM: finishing')))
  isHeard.open()
  assert.equal((await serve.program.done).code, 0)
  // on a busy machine it ends after `serve`
  await until('the process has ended', () => !isAlive(pid))
  const sent = receiver.requests.length
  assert.ok(sent < 60)
  // some were recorded, and not sent
  const { owed, pending } = await countLeft()
  assert.equal(owed + pending, 60 - sent)
  const next = await start()
  await untilNothingIsLeft()
  assert.deepEqual(countSent(60), once(60))
  await stop(next)
})

test('a user who subscribes while the receiver hangs for a long line gets the push at once', async () => {
  const goesOn = makeGate()
  receiver.answer = ({ headers }) => (headers['x-service-api-key'] === keyOf(59) ? 200 : goesOn.opened.then(() => 200))
  await oweFirst(12)
  const serve = await start({ LEADPUSH_CONCURRENCY: '4', LEADPUSH_TIMEOUT: '10m' })
  await requestsAtLeast(receiver, 4)
  await opened.pool.query('update subscription_pushes set begun_at = null')
  assert.equal((await serve.subscribe(lastKey)).status, 200)
  await until('the user is told', () => ended(serve).length === 1)
  assert.match(ended(serve)[0]?.msg, /^The subscription push of user \d+ ended: delivered\.$/)
  assert.deepEqual([receiver.requests.length, sentTo(keyOf(59)).length], [5, 1])
  assert.notEqual(findForAll(serve), undefined)
  goesOn.open()
  await untilNothingIsLeft()
  assert.deepEqual(countSent(12), once(12))
  await stop(serve)
})

test('a receiver that refuses everybody is told in one line, costs 20 attempts, and starts no process after another', async () => {
  receiver.answer = (_, nth) => (nth <= 20 ? 401 : 200)
  await oweFirst(50)
  const serve = await start()
  await until('it is told', () => ended(serve).length > 0)
  const [{ msg, exitCode, time }] = ended(serve)
  assert.equal(exitCode, 1)
  assert.match(msg, /^The subscription pushes of a long line ended: 20 pending, the last error: HTTP 401[^;]*; held: the receiver refuses every delivery alike: HTTP 401/) // biome-ignore format: short
  await untilNothingIsLeft()
  const nextMs = performance.timeOrigin + (receiver.requests[20]?.atMs ?? 0)
  assert.ok(nextMs - Date.parse(time) >= 2_900, 'it is a while until the next one')
  const sent = countSent(50)
  assert.equal(sent.filter((times) => times === 2).length, 20)
  assert.equal(
    sent.reduce((sum, times) => sum + times),
    70,
  )
  await until('the second is told', () => ended(serve).length === 2)
  await stop(serve)
})

test('push --owed sends subscription pushes and nothing else', async () => {
  receiver.answer = () => 503
  const weekly = await house.run('push --all --limit 1 --json', { env: { LEADPUSH_OUTAGE: '0s' } })
  assert.equal(weekly.code, 1)
  await opened.pool.query(
    "update deliveries set status = 'pending', attempts = 1, due_at = now() where kind = 'weekly'",
  )
  receiver.requests.length = 0
  receiver.answer = () => 200
  await oweFirst(3)
  const { code, json } = await house.run('push --owed --json')
  assert.equal(code, 0)
  assert.deepEqual(json.map(({ type, kind, status }) => [type, kind, status]), [...Array(3).fill(['delivery', 'subscription', 'delivered']), ['summary', undefined, undefined]]) // biome-ignore format: short
  assert.deepEqual(countSent(4), [1, 1, 1, 0])
  assert.equal((await countLeft()).pending, 1)
  for (const form of ['--all', '--resume', '--failed']) assert.equal((await house.call(`push ${form} --owed`)).code, 2)
})
