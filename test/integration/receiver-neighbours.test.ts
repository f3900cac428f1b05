/**
 * Faults of a receiver that belong together (contract 4.12): of one place, of compressed bodies, of this machine. Pushes against a real
 * database and a real receiver, in this process.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { systemClock } from '../../src/base/clock.ts'
import { sendAttempt } from '../../src/deliveries/attempt.ts'
import { createHttp } from '../../src/http/client.ts'
import type { PushLine } from '../../src/index.ts'
import { databaseLedger } from '../../src/push/database/database-ledger.ts'
import { findTrouble } from '../../src/push/database/receivers.ts'
import { carryOut } from '../../src/push/run-push.ts'
import { httpWire } from '../../src/push/wire.ts'
import { all, build, most, resume, skips, stopAfter, users } from '../support/push-house.ts'
import { collectingReporter } from '../support/push-reporter.ts'
import { testPushSettings } from '../support/push-settings.ts'
import type { ReceivedRequest } from '../support/receiver.ts'

const brief = { retryDelayMs: 0, outageMs: 60_000 }
/** Users of ten places, one place after the other in the order of serving. */
const inPlaces = (count: number) =>
  users(count).map((user, at) => ({ ...user, receiverKey: `place${Math.floor((at * 10) / count)}-${at}` }))
const placeOf = (headers: ReceivedRequest['headers']) => Number(String(headers['x-service-api-key'])[5])

// 401 to the keys of one town held the push for all other towns, for days.
for (const [what, count, bad, answer] of [
  ['401 for one place', 200, [4], 401],
  ['422 for the first three places', 200, [0, 1, 2], 422],
  ['500 for the last three places', 200, [7, 8, 9], 500],
  ['a broken connection for every other place', 100, [1, 3, 5, 7, 9], 'drop'],
] as const) {
  test(`${what}: the users of all other places are served by the same run`, async (t) => {
    const isBad = (headers: ReceivedRequest['headers']) => (bad as readonly number[]).includes(placeOf(headers))
    const house = await build(t, { users: inPlaces(count), answer: ({ headers }) => (isBad(headers) ? answer : 200) })
    const push = await house.push(all, { ...brief, outageMs: 1_000 })
    assert.equal(push.summary.delivered, (count * (10 - bad.length)) / 10, push.notes.join('\n'))
  })
} // biome-ignore format: a table

test('several pushes at once serve the users of all other places', async (t) => {
  const house = await build(t, { users: inPlaces(200), answer: ({ headers }) => ([3, 4].includes(placeOf(headers)) ? 422 : 200) })
  const pushes = await Promise.all([1, 2, 3].map(() => house.push(all, brief)))
  assert.equal(pushes.reduce((sum, { summary }) => sum + summary.delivered, 0), 160)
  assert.equal(most(house), 2)
}) // biome-ignore format: long lines

// 20 second attempts were due, the receiver was down, and `--resume` had 20 failed within a second.
test('second attempts alone find an outage after two', async (t) => {
  const house = await build(t, { users: users(20), answer: () => 503 })
  await house.push(all, { ...brief, outageMs: 0, retryDelayMs: 300_000 }, stopAfter(house, 20))
  assert.deepEqual(await house.attempts(), { 'pending 1': 20 })
  const push = await house.push(resume, { ...brief, outageMs: 300 })
  assert.deepEqual([push.ok, await house.attempts()], [false, { 'failed 2': 2, 'pending 1': 18 }])
  house.receiver.answer = () => 200
  await passHours(house, 1)
  assert.equal((await house.push(resume, brief)).summary.delivered, 18)
})

// Each idle push made a HEAD. A receiver that knows none was found down, and `status --check` alarmed with nothing to be done.
test('a push with nothing to send asks the receiver nothing, and finds no trouble', async (t) => {
  const house = await build(t, { users: users(2) })
  assert.equal((await house.push(all, brief)).ok, true)
  let heads = 0
  house.receiver.head = () => {
    heads++
    return 500
  }
  for (const request of [resume, all]) {
    const { ok, notes, summary } = await house.push(request, brief)
    assert.deepEqual([ok, notes, summary.deliveries], [true, [], 0])
  }
  assert.deepEqual([heads, await findTrouble(house.db)], [0, undefined])
})

// It went on for weeks, took both attempts of each user, and `status` said that all was well.
test('a receiver that only answers 429 is given up, and costs those who are left nothing', async (t) => {
  const house = await build(t, { users: users(60), answer: () => ({ status: 429, headers: { 'retry-after': '1' } }) })
  const push = await house.push(all, { ...brief, outageMs: 3_000, concurrency: 4 })
  assert.deepEqual([push.ok, push.summary.failed, push.summary.allowedPerSecond], [false, 0, undefined])
  assert.ok(push.summary.owed > 40, `${push.summary.owed} owed`)
  assert.match(push.notes.join(' '), /takes nothing, and asks for less: giving up/)
  assert.deepEqual((await findTrouble(house.db))?.trouble, { is: 'asks' })
  house.receiver.answer = () => 200
  const next = await house.push(all, brief)
  assert.deepEqual([next.ok, next.summary.delivered, await findTrouble(house.db)], [true, 60, undefined])
})

// It recorded compressed attempts ahead, got twenty 415, and held the week with the advice that the receiver takes no JSON.
test('a receiver that begins to refuse compressed bodies gets every delivery in that run', async (t) => {
  let isStrict = false
  const house = await build(t, {
    users: users(80),
    answer: ({ headers }) => {
      if (headers['content-encoding'] === 'gzip' && isStrict) return 415
      return { status: 200, headers: { 'accept-encoding': 'gzip' } }
    },
  })
  await house.push(await house.userRequest('user-0000@example.com'), brief)
  isStrict = true
  const push = await house.push(all, { ...brief, compress: 'auto', concurrency: 32 })
  assert.deepEqual([push.ok, push.summary.delivered, skips(push)], [true, 80, []])
})

// `ulimit -n 60`: 89 of 400 failed with EMFILE twice, and "the receiver is down".
test('what this machine lacks costs no attempt: fewer are under way at once, and a line says so', async (t) => {
  const house = await build(t, { users: users(60) })
  const settings = testPushSettings(house.receiver.url, { ...brief, concurrency: 32 })
  const http = createHttp({ timeoutMs: settings.timeoutMs, concurrency: settings.concurrency })
  t.after(() => http.close())
  const [lines, notes]: [PushLine[], string[]] = [[], []]
  const real = httpWire(http, settings)
  let underWay = 0
  let mostAtOnce = 0
  const send: typeof real.send = async (request) => {
    underWay++
    try {
      // as an operating system does that gives eight descriptors
      if (underWay > 8) return await sendAttempt({ post: async () => emfile }, settings, request)
      mostAtOnce = Math.max(mostAtOnce, underWay)
      return await real.send(request)
    } finally {
      underWay--
    }
  }
  const world = { ledger: databaseLedger(house.db), clock: systemClock, reporter: collectingReporter(lines, notes) }
  const stop = new AbortController().signal
  const { ok, summary } = await carryOut({ ...world, wire: { ...real, send }, settings, request: all, stop })
  assert.deepEqual([ok, summary.delivered, most(house)], [true, 60, 1])
  assert.match(
    notes.join('\n'),
    /This machine lacks file descriptors for this process \(ulimit -n\): at most \d+ requests/,
  )
})

const emfile = {
  kind: 'no-answer',
  sent: false,
  stage: 'connect',
  error: 'EMFILE',
  code: 'EMFILE',
  reused: false,
} as const

type House = Awaited<ReturnType<typeof build>>

async function passHours(house: House, hours: number) {
  await sql`update receivers set next_at = next_at - ${hours} * interval '1 hour', second_at = second_at - ${hours} * interval '1 hour'`.execute(house.db)
} // biome-ignore format: a statement
