/** A receiver that is in trouble as a whole (contract 4.12, 4.5): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import type { PushLine } from '../../src/index.ts'
import { findFigures } from '../../src/inspect/report/figures/find-figures.ts'
import { buildReport } from '../../src/inspect/report/page/build-report.ts'
import { findAlarms, sentenceOf } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { findRefused, hashReceiver, KnownTrouble } from '../../src/push/known-trouble.ts'
import { Preview } from '../../src/push/preview.ts'
import type { PushRequest } from '../../src/push/run-push.ts'
import { all, build, type Pushed, type PushHouse, resume, stopAfter, users } from '../support/push-house.ts'
import { type ReceivedRequest, requestsAtLeast, startTestReceiver } from '../support/receiver.ts'
import { seedUsers } from '../support/seed.ts'

test('20 first failures in a row are an outage: the users it had not come to stay owed, and the run gives up', async (t) => {
  const house = await build(t, { users: users(100), answer: () => 503 })
  const { summary, ok, notes } = await house.push(all, { concurrency: 4, outageMs: 300, retryDelayMs: 60_000 })
  assert.equal(ok, false)
  assert.ok(
    house.receiver.requests.length >= 20 && house.receiver.requests.length <= 28,
    `${house.receiver.requests.length}`,
  )
  assert.ok(summary.owed >= 70)
  assert.match(notes.join('\n'), /is down: 20 first attempts in a row failed; the last: HTTP 5\d\d: /)
  house.receiver.answer = () => 200
  const after = await house.push()
  assert.equal(after.ok, true)
  assert.equal(house.receiver.keys().size, 100)
  assert.ok([...house.receiver.keys().values()].every(({ length }) => length <= 2))
})

test('one answer below 500 among 20 failures is no outage', async (t) => {
  const house = await build(t, { users: users(40), answer: (_request, nth) => (nth === 15 || nth === 30 ? 422 : 503) })
  const { notes } = await house.push(
    all,
    { concurrency: 1, outageMs: 60_000, retryDelayMs: 60_000 },
    stopAfter(house, 40),
  )
  assert.deepEqual(notes, [])
})

const down = { concurrency: 4, outageMs: 500, retryDelayMs: 0 }

// An hour after a push had given up, --resume made the second attempt of everybody, and both of everybody else.
test('what was found out outlives the run: the next one begins with one first attempt, whatever its form', async (t) => {
  const house = await build(t, { users: users(60), answer: () => 503 })
  await house.push(all, down)
  const { length } = house.receiver.requests
  assert.ok(length >= 20 && length < 30)
  const failed: PushRequest = { what: 'failed', unknown: true }
  for (const request of [resume, all, { ...all, limit: 5 }] as const) {
    const { ok, notes } = await house.push(request, down)
    assert.equal(ok, request === resume, 'to --resume it is nothing new')
    assert.equal(notes.at(-1), 'The receiver stayed down: giving up; what is left is owed.')
    assert.equal(notes.length, request === resume ? 1 : 2)
  }
  assert.deepEqual([house.receiver.requests.length, house.receiver.keys().size], [length + 3, length + 3])
  // nobody has a delivery that failed: there is nothing to be tried
  assert.equal((await house.push(failed, down)).ok, true)
  house.receiver.answer = () => 200
  const back = await house.push(resume, { ...down, outageMs: 30_000 })
  assert.deepEqual([back.ok, back.notes], [true, ['The receiver answers again: going on.']])
  assert.deepEqual(await house.attempts(), { 'delivered 1': 60 - length - 3, 'delivered 2': length + 3 })
})

// The next run made the second attempts of the 4 first: an outage cost them both.
test('a run that goes on after a stop in doubt makes first attempts first', async (t) => {
  const house = await build(t, { users: users(40), answer: () => ({ status: 503, delayMs: 100 }) })
  const minute = { ...down, retryDelayMs: 60_000 }
  await house.push(all, minute, stopAfter(house, 4))
  assert.ok(house.receiver.requests.length < 20, `${house.receiver.requests.length}`)
  await house.push(resume, minute)
  assert.ok(house.receiver.requests.length >= 24)
  assert.equal(house.receiver.keys().size, house.receiver.requests.length)
})

test('where only second attempts are left, one is made once a HEAD is answered below 500, and none for an hour after it', async (t) => {
  const house = await build(t, { users: users(3), answer: () => 503 })
  let heads = 0
  house.receiver.head = () => (++heads > 0 ? 503 : 200)
  const first = await house.push(all, down)
  assert.match(first.notes[0] ?? '', /^The receiver is down: 3 first attempts in a row failed/)
  assert.deepEqual([first.ok, await house.attempts()], [false, { 'pending 1': 3 }])
  await house.push(all, down)
  assert.deepEqual([heads, house.receiver.requests.length], [1, 3])
  house.receiver.head = () => 404
  for (let hour = 0; hour < 2; hour++) await house.push(all, down)
  assert.deepEqual(await house.attempts(), { 'failed 2': 1, 'pending 1': 2 })
  await sql`update receivers set second_at = now() - interval '1 hour'`.execute(house.db)
  house.receiver.answer = () => 422
  assert.deepEqual([(await house.push(all, down)).ok, await house.attempts()], [false, { 'failed 2': 3 }])
})

// A look at what others know, under way when the answer came, put the outage back: the push waited for a receiver that was well.
test('an outage that an answer has ended is not learnt again from a look that began before', async (t) => {
  const house = await build(t, { users: users(40), answer: () => 503 })
  await house.push(all, down)
  house.receiver.answer = async (_request, nth) => {
    if (nth > before + 1) return { status: 200, delayMs: 800 }
    // a look waits for the lock, and reads what stands there until the answer is noted
    const locked = house.db.transaction().execute(async (trx) => {
      await sql`lock table receivers in access exclusive mode`.execute(trx)
      await delay(1_600)
    })
    t.after(() => locked)
    await delay(1_200)
    return 422
  }
  const before = house.receiver.requests.length
  const next = await house.push(all, { ...down, outageMs: 30_000, concurrency: 20 })
  assert.doesNotMatch(next.notes.join('\n'), /as another push found: waiting/)
  assert.equal(next.summary.owed, 0)
})

// Below 20 users the warning named no cause.
test('of fewer than 20 users too the warning says how the last attempt failed', async (t) => {
  for (const [answer, words] of [[503, /HTTP 503: /], ['drop', /the connection broke/]] as const) {
    const house = await build(t, { users: users(4), answer: () => answer })
    const { notes } = await house.push(all, down)
    assert.match(notes[0] ?? '', /^The receiver is down: 4 first attempts in a row failed; the last: /)
    assert.match(notes[0] ?? '', words)
  }
}) // biome-ignore format: a table

test('nothing is begun before a connection can be made; --accept goes on regardless', async (t) => {
  const house = await build(t, { users: users(40), answer: () => 503 })
  await house.push(all, down)
  const { length } = house.receiver.requests
  await house.receiver.close()
  assert.equal((await house.push(all, down)).ok, false)
  const { rows } = await sql<{ n: number }>`select sum(attempts) as n from deliveries`.execute(house.db)
  assert.equal(Number(rows[0]?.n), length)
  const accepted = await house.push(all, down, new AbortController(), true)
  assert.deepEqual([accepted.summary.failed, accepted.summary.owed], [40, 0])
})

test('what one process finds out another that is at it learns, and what one tries is no other’s to try', async (t) => {
  const house = await build(t, { users: users(60), answer: () => 503 })
  const others = new KnownTrouble(house.db, house.receiver.url)
  const slow = house.push(all, { ratePerSecond: 1, outageMs: 2_000, retryDelayMs: 0 })
  while (house.receiver.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  await others.recordDown()
  const { notes, ok } = await slow
  assert.deepEqual([ok, notes[0]], [false, 'The receiver is down, as another push found: waiting for it.'])
  assert.ok(house.receiver.requests.length < 20)
  const taken = await Promise.all([1, 2, 3].map(() => others.take(0, 'first')))
  assert.deepEqual(taken.sort(), [false, false, true])
  assert.ok(((await others.find()).outage?.nextMs ?? 0) > 10_000)
  const seconds = [await others.take(1, 'second'), await others.take(2, 'second'), await others.take(2, 'first')]
  assert.deepEqual(seconds, [true, false, true])
  // a clock that was ahead for a minute must not keep it from being tried for as long
  await sql`update receivers set second_at = now() + interval '10 days'`.execute(house.db)
  assert.deepEqual([(await others.find()).outage?.secondMs, await others.take(3, 'second')], [0, true])
  assert.deepEqual(await new KnownTrouble(house.db, `${house.receiver.url}/other`).find(), {})
  await others.recordWell()
  assert.deepEqual([await others.find(), await others.take(4, 'first')], [{}, false])
})

const held = { retryDelayMs: 0, outageMs: 60_000 }
const counts = ({ receiver }: PushHouse) => [...receiver.keys().values()].map(({ length }) => length)
const most = (house: PushHouse) => Math.max(0, ...counts(house))
const skips = ({ lines }: Pick<Pushed, 'lines'>) => lines.filter((line) => line.type === 'skip')

/** As if the last attempt had been made so long ago. */
async function pass(house: PushHouse, interval: string) {
  await sql`
    update receivers set next_at = next_at - ${interval}::interval, second_at = second_at - ${interval}::interval
  `.execute(house.db)
}

// It went on, and everybody had lost both attempts when the address or the keys were mended.
for (const [status, count, first] of [[401, 300, 20], [403, 300, 20], [404, 20, 20], [301, 21, 20], [413, 5, 5], [422, 2, 2]] as const) {
  test(`a receiver that answers ${status} to each of ${count} users holds the push; once mended nobody has lost both`, async (t) => {
    const house = await build(t, { users: users(count), answer: () => status })
    const push = await house.push(all, held)
    assert.deepEqual([push.ok, house.receiver.requests.length, most(house)], [false, first, 1])
    assert.deepEqual(await house.attempts(), { 'pending 1': first })
    assert.deepEqual([push.summary.owed, push.summary.skipped], [count - first, 0])
    const [skip, ...others] = skips(push)
    assert.deepEqual([others, skip?.user], [[], undefined])
    assert.match(skip?.reason ?? '', new RegExp(`^held: .*HTTP ${status}: .*--accept`))
    house.receiver.answer = () => 200
    const mended = await house.push(all, held)
    assert.deepEqual([mended.ok, skips(mended), mended.summary.owed], [true, [], 0])
    assert.deepEqual([house.receiver.keys().size, most(house)], [count, 2])
    const attempts = await house.attempts()
    assert.equal((attempts['delivered 1'] ?? 0) + (attempts['delivered 2'] ?? 0), count)
    assert.deepEqual((await house.push(all, held)).ok, true)
  })
} // biome-ignore format: a table

test('one user of three who is refused holds nothing, nor does one alone, nor 20 in doubt whom another status follows', async (t) => {
  const keyed = users(60).map((user, index) => ({ ...user, receiverKey: index % 3 === 0 ? 'bad' : 'good' }))
  const some = await build(t, {
    users: keyed,
    answer: ({ headers }) => (headers['x-service-api-key'] === 'bad' ? 401 : 200),
  })
  const push = await some.push(all, held)
  assert.deepEqual([push.ok, skips(push)], [false, []])
  assert.deepEqual(await some.attempts(), { 'delivered 1': 40, 'failed 2': 20 })
  const one = await build(t, { users: users(1), answer: () => 401 })
  assert.deepEqual([(await one.push(all, held)).ok, await one.attempts()], [false, { 'failed 2': 1 }])
  const late = await build(t, { users: users(21), answer: (_request, nth) => (nth === 20 ? 403 : 401) })
  await late.push(all, held)
  assert.deepEqual(await late.attempts(), { 'failed 2': 21 })
})

test('until the first answer of another kind no more than 20 first attempts are begun, however many may be under way', async (t) => {
  let answer: (status: number) => void = () => {}
  const first = new Promise<number>((resolve) => {
    answer = resolve
  })
  const house = await build(t, { users: users(100), answer: () => first })
  const pushing = house.push(all, { ...held, concurrency: 64 })
  while (house.receiver.requests.length < 20) await new Promise((resolve) => setTimeout(resolve, 5))
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(house.receiver.requests.length, 20)
  answer(200)
  assert.equal((await pushing).ok, true)
})

test('keys that go bad on the way hold it too: what was recorded and not made is taken back', async (t) => {
  const house = await build(t, { users: users(200), answer: (_request, nth) => (nth > 100 ? 401 : 200) })
  const { ok, summary } = await house.push(all, { ...held, concurrency: 4 })
  assert.equal(ok, false)
  const { length } = house.receiver.requests
  assert.ok(length >= 120 && length <= 124, `${length}`)
  // those of `pending 0` were recorded, and taken back before they were made
  const { 'pending 0': taken = 0, ...made } = await house.attempts()
  assert.deepEqual(made, { 'delivered 1': 100, 'pending 1': length - 100 })
  assert.equal(summary.owed, 200 - length - taken)
})

for (const count of [60, 5]) {
  test(`a day of hourly --resume for ${count} users: an attempt an hour at most, one second one at most, told in one line`, async (t) => {
    const house = await build(t, { users: users(count), answer: () => 404 })
    await house.push(all, held)
    const { length } = house.receiver.requests
    for (let hour = 0; hour < 24; hour++) {
      const { ok, lines } = await house.push(resume, held)
      assert.equal(
        ok,
        count === 60 || hour > 0,
        'it tells nothing new, but for the delivery that a second attempt ends',
      )
      if (count === 5 && hour > 0) assert.equal(lines.length, 2)
      // within the hour nothing is tried, whatever asks
      if (hour === 0) assert.equal((await house.push(all, held)).ok, false)
      await pass(house, '1 hour')
    }
    const made = house.receiver.requests.length - length
    assert.ok(made <= 24, `${made}`)
    assert.ok(counts(house).filter((n) => n > 1).length <= 1)
    if (count === 60) assert.equal(made, 24)
    house.receiver.answer = () => 200
    await pass(house, '1 day')
    await house.push(resume, held)
    assert.equal(house.receiver.keys().size, count)
    assert.ok(((await house.attempts())['failed 2'] ?? 0) <= 1)
  })
}

test('a new address gets one attempt too before the push goes on', async (t) => {
  const [house, other] = [await build(t, { users: users(40), answer: () => 404 }), await startTestReceiver(() => 404)]
  t.after(() => other.close())
  await house.push(all, held)
  const moved = { ...held, receiverUrl: other.url }
  for (let times = 0; times < 2; times++) assert.equal((await house.push(all, moved)).ok, false)
  assert.deepEqual([house.receiver.requests.length, other.requests.length], [20, 1])
  await pass(house, '1 hour')
  other.answer = () => 200
  assert.equal((await house.push(all, moved)).ok, true)
  assert.deepEqual(await house.attempts(), { 'delivered 1': 19, 'delivered 2': 21 })
  assert.equal(await findRefused(house.db), undefined)
})

test('of two pushes at once one makes the attempt, and the other waits for what comes of it', async (t) => {
  const house = await build(t, { users: users(60), answer: () => 403 })
  const both = () => Promise.all(['a', 'b'].map((dataSource) => house.push(all, { ...held, dataSource })))
  const { requests } = house.receiver
  const found = await both()
  const sources = requests.map(({ headers }) => headers['x-data-source'])
  for (const source of ['a', 'b']) assert.ok(sources.filter((found) => found === source).length <= 20, `${sources}`)
  // a push that came to one user alone cannot tell from that one before the other has told
  assert.ok(counts(house).filter((n) => n > 1).length <= 1, `${counts(house)}`)
  const { length } = requests
  const refused = await both()
  // one that finds everybody in the hands of the other has nothing to do
  for (const pushes of [found, refused]) assert.ok(pushes.some(({ ok }) => !ok))
  // the attempt of the push that comes next: of the second pair, or of the first where one began after the other had ended
  assert.ok(requests.length <= length + 1 && requests.length > 20, `${length}, then ${requests.length}`)
  await pass(house, '1 hour')
  house.receiver.answer = () => ({ status: 200, delayMs: 20 })
  assert.deepEqual((await both()).map((push) => [push.ok, skips(push)]), [[true, []], [true, []]]) // biome-ignore format: short
  assert.equal(house.receiver.keys().size, 60)
  assert.equal(most(house), 2)
})

// A push that went on with what another had given up made all its second attempts, before it learnt why that one had given up.
test('a push that takes over from another first learns what that one found', async (t) => {
  for (let tries = 0; ; tries++) {
    const house = await build(t, {
      users: users(20),
      answer: ({ headers }) =>
        headers['x-data-source'] === 'a' ? { status: 403, delayMs: 100 } : { status: 200, delayMs: 600 },
    })
    const first = house.push(all, { ...held, dataSource: 'a' })
    await requestsAtLeast(house.receiver, 20)
    await seedUsers(house.db, [{ email: 'new@example.com' }])
    const second = await house.push(all, { ...held, dataSource: 'b' })
    const { ok } = await first
    // on a machine that stalls it has learnt so before its own answer came, which then says that the receiver is well
    if (tries < 5 && second.notes.some((note) => note.includes('going on'))) continue
    assert.deepEqual([ok, second.ok], [false, false])
    assert.deepEqual([house.receiver.requests.length, most(house)], [21, 1])
    return
  }
})

test('--accept goes on regardless, and ends the hold once it is answered otherwise; --user is never held', async (t) => {
  const house = await build(t, { users: users(30), answer: () => 401 })
  await house.push(all, held)
  const single = await house.push(await house.userRequest('user-0000@example.com'), held)
  assert.equal(single.deliveries[0]?.attempts, 2)
  const accepted = await house.push(all, held, new AbortController(), true)
  assert.deepEqual([accepted.summary.failed, accepted.summary.owed, skips(accepted)], [30, 0, []])
  assert.equal((await findRefused(house.db))?.status, 401)
  house.receiver.answer = () => 200
  await house.push({ what: 'failed', unknown: false }, held, new AbortController(), true)
  assert.equal(await findRefused(house.db), undefined)
})

test('an answer of another kind lets it go on to the next doubt, no answer does not', async (t) => {
  const house = await build(t, { users: users(100), answer: () => 404 })
  await house.push(all, held)
  house.receiver.answer = () => 'drop'
  assert.equal((await house.push(all, held)).ok, false)
  assert.equal(house.receiver.requests.length, 21)
  await pass(house, '1 hour')
  house.receiver.answer = () => 401
  const other = await house.push(all, held)
  assert.match(skips(other)[0]?.reason ?? '', /HTTP 401/)
  assert.deepEqual([house.receiver.requests.length, most(house)], [41, 1])
})

// The one attempt ended the first trouble, and everybody lost the second attempt to the next one.
for (const [what, before, after] of [
  ['a hold turns into an outage', 401, 503],
  ['an outage turns into a refusal', 503, 401],
  ['a hold turns into another', 401, 404],
] as const) {
  test(`where only second attempts are left and ${what}, two of 20 are made and the others wait`, async (t) => {
    const house = await build(t, { users: users(20), answer: () => before })
    const brief = { ...held, outageMs: 300, concurrency: 4 }
    await house.push(all, brief)
    assert.deepEqual(await house.attempts(), { 'pending 1': 20 })
    house.receiver.answer = () => after
    const next = await house.push(resume, brief)
    assert.deepEqual([next.ok, await house.attempts()], [false, { 'failed 2': 2, 'pending 1': 18 }])
    assert.match(next.notes.join(' '), new RegExp(`: HTTP ${after} came, so other second attempts wait\\.`))
    const known = await new KnownTrouble(house.db, house.receiver.url).find()
    assert.deepEqual(
      [known.outage !== undefined, known.refusal?.status],
      after === 503 ? [true, undefined] : [false, after],
    )
    if (after === 503) assert.match(next.notes.join(' '), /is down: 2 attempts in a row failed; the last: HTTP 503/)
    else assert.match(skips(next)[0]?.reason ?? '', new RegExp(`^held: .*HTTP ${after}`))
    await pass(house, '1 day')
    house.receiver.answer = () => 200
    const mended = await house.push(resume, { ...brief, outageMs: 30_000 })
    assert.deepEqual([mended.ok, await house.attempts()], [true, { 'delivered 2': 18, 'failed 2': 2 }])
    assert.deepEqual(await new KnownTrouble(house.db, house.receiver.url).find(), {})
  })
}

test('one user alone who is refused as a trouble ends holds nobody, with first attempts left or without', async (t) => {
  for (const count of [20, 21, 60]) {
    const house = await build(t, { users: users(count), answer: () => 503 })
    await house.push(all, { ...held, outageMs: 300 })
    const { length } = house.receiver.requests
    house.receiver.answer = (_request, nth) => (nth === length + 1 ? 401 : 200)
    const { lines, notes } = await house.push(resume, held)
    assert.match(notes.join(' '), /HTTP 401 came, so other second attempts wait\./)
    assert.deepEqual(skips({ lines }), [])
    const left = Object.entries(await house.attempts()).filter(([what]) => what.startsWith('pending'))
    assert.deepEqual(left, [], `${count}`)
    assert.deepEqual(await new KnownTrouble(house.db, house.receiver.url).find(), {})
  }
})

test('where the last first attempt ends a trouble with another, second attempts wait as well', async (t) => {
  const house = await build(t, { users: users(21), answer: () => 401 })
  await house.push(all, { ...held, concurrency: 1 })
  house.receiver.answer = () => 404
  const { ok } = await house.push(resume, held)
  assert.deepEqual([ok, await house.attempts()], [false, { 'failed 2': 1, 'pending 1': 20 }])
})

// It said that the next push begins with one attempt; those within the hour make none.
test('where the attempt of the hour is made, the hold says when the next one is allowed', async (t) => {
  for (const [count, words] of [[30, /a push that begins in (1 hour|\d\d minutes) or later begins/], [5, /in 24 hours or later begins|in 1 day or later begins/]] as const) {
    const house = await build(t, { users: users(count), answer: () => 401 })
    const push = async () => skips(await house.push(all, held))[0]?.reason ?? ''
    assert.match(await push(), /mended the next push begins with one attempt; --accept/)
    // of these two the first makes the attempt
    for (let times = 0; times < 2; times++) assert.match(await push(), words)
    assert.equal(house.receiver.requests.length, Math.min(20, count) + 1)
  }
}) // biome-ignore format: a table

const isGzip = ({ headers }: ReceivedRequest) => headers['content-encoding'] === 'gzip'

// A 415 to a compressed first attempt counted for nothing: everybody lost both attempts. Then all first ones were made while the
// second ones were waited for.
for (const [compress, count] of [['gzip', 60], ['gzip', 5], ['auto', 60], ['auto', 5]] as const) {
  test(`a receiver that answers 415 to ${count} users, compressed (${compress}) or not, holds the push`, async (t) => {
    const house = await build(t, { users: users(count), answer: () => 415 })
    await sql`insert into receivers (url_sha256, takes_gzip) values (${hashReceiver(house.receiver.url)}, true)`.execute(house.db)
    const push = await house.push(all, { ...held, retryDelayMs: 300, compress, concurrency: 4 })
    assert.match(skips(push)[0]?.reason ?? '', /^held: .*HTTP 415/)
    assert.deepEqual([push.ok, counts(house).filter((n) => n > 1).length <= 2], [false, true], `${counts(house)}`)
    assert.equal(house.receiver.keys().size, Math.min(20, count))
  })
} // biome-ignore format: a table

for (const [compress, count] of [['gzip', 60], ['gzip', 1], ['auto', 60]] as const) {
  test(`a receiver that refuses compressed deliveries alone (${compress}) gets all ${count} plain`, async (t) => {
    const house = await build(t, { users: users(count), answer: (request) => (isGzip(request) ? 415 : 200) })
    await sql`insert into receivers (url_sha256, takes_gzip) values (${hashReceiver(house.receiver.url)}, true)`.execute(house.db)
    const push = await house.push(all, { ...held, compress, concurrency: 4 })
    assert.deepEqual([push.ok, push.summary.delivered, push.notes], [true, count, []])
  })
} // biome-ignore format: a table

// It was no answer at all: an outage lasted until it gave up, and a hold until a day later.
for (const before of [503, 401]) {
  test(`a 415 to a compressed delivery ends what ${before} had begun, and a plain one shows whether all is well`, async (t) => {
    for (const after of [200, 401]) {
      const house = await build(t, { users: users(40), answer: () => before })
      await house.push(all, { ...held, outageMs: 300, compress: 'off', concurrency: 4 })
      house.receiver.answer = (request) => (isGzip(request) ? 415 : after)
      const next = await house.push(resume, { ...held, compress: 'gzip', concurrency: 4 })
      const { 'failed 2': failed = 0, ...others } = await house.attempts()
      assert.match(next.notes.join(' '), /: HTTP 415 came, so other second attempts wait\./)
      if (after === 200) assert.deepEqual([next.ok, failed, others['pending 1']], [true, 0, undefined])
      else assert.ok(!next.ok && failed <= 2, `${failed}`)
      assert.equal((await findRefused(house.db))?.status, after === 200 ? undefined : 401)
    }
  })
}

test('preview, status and its alarms tell what is held and what to do', async (t) => {
  const house = await build(t, { users: users(30), answer: () => 404 })
  const settings = { timeZone: 'UTC', maxLeadAgeMs: 30 * 86_400_000, guard: 'on', feedMaxAgeMs: undefined } as const
  const look = async () => {
    const preview = await Preview.create(house.db, { what: 'all', force: false }, settings)
    const lines: PushLine[] = []
    for await (const found of preview.lines()) if (!('line' in found)) lines.push(found)
    const status = await findStatus(house.db, settings)
    return { lines, status, alarms: (await findAlarms(house.db, status, settings)).map(sentenceOf) }
  }
  const push = await house.push(all, held)
  const during = await look()
  assert.deepEqual(during.lines, skips(push))
  assert.equal(during.status.refused?.status, 404)
  assert.match(
    during.alarms[0] ?? '',
    /held since \S+Z, as the receiver refuses .* HTTP 404: .*: mend that, then run `leadpush push --all`/,
  )
  house.receiver.answer = () => 200
  await house.push(all, held)
  const after = await look()
  assert.deepEqual([after.lines, after.status.refused], [[], undefined])
  assert.doesNotMatch(after.alarms.join(), /HTTP 404/)
})

const loginPage = { status: 200, headers: { 'content-type': 'text/html' }, body: '<title>Log in</title>' }
const warnings = ({ lines }: Pushed) => lines.filter((line) => line.type === 'warning')

// A wrong URL that led to a login page took a whole week's deliveries for good: all were delivered, exit 0.
test('a login page as the first 20 answers holds the push: 20 are delivered with a warning, the others stay owed', async (t) => {
  const house = await build(t, { users: users(300), answer: () => loginPage })
  const push = await house.push(all, { concurrency: 64 })
  assert.equal(push.ok, false)
  assert.deepEqual([house.receiver.requests.length, await house.attempts()], [20, { 'delivered 1': 20 }])
  assert.deepEqual([push.summary.delivered, push.summary.owed, push.summary.skipped], [20, 280, 0])
  assert.deepEqual([warnings(push).length, skips(push).length, push.lines.at(-2)?.type], [20, 1, 'skip'])
  const [skip] = skips(push)
  assert.equal(skip?.user, undefined)
  assert.match(skip?.reason ?? '', /^held: none of the first 20 answers .*--accept.*text\/html/)
  // the hold is that of one run: a mended receiver gets the rest at once
  house.receiver.answer = () => 200
  const mended = await house.push(resume)
  assert.deepEqual([mended.ok, skips(mended), house.receiver.keys().size], [true, [], 300])
})

test('two users who both get an empty success hold the push at its end, one does not, nor does `--user`', async (t) => {
  const house = await build(t, { users: users(2), answer: () => ({ status: 200, body: '{"ok":false}' }) })
  const both = await house.push()
  assert.deepEqual([both.ok, both.summary.delivered, warnings(both).length, skips(both).length], [false, 2, 2, 1])
  assert.match(skips(both)[0]?.reason ?? '', /^held: none of the first 2 answers .*"ok": false/)
  const later = await house.push(resume)
  assert.deepEqual([later.ok, later.summary.deliveries], [true, 0], 'nobody is owed anything')
  const single = await house.push(await house.userRequest('user-0000@example.com'))
  assert.deepEqual([single.ok, warnings(single).length, skips(single)], [true, 1, []])
  const one = await build(t, { users: users(1), answer: () => loginPage })
  const push = await one.push()
  assert.deepEqual([push.ok, warnings(push).length, skips(push)], [true, 1, []])
})

for (const [nth, delivered] of [[20, 60], [21, 20]] as const) {
  test(`of 60 users ${delivered} are served where the answer ${nth} is the first that is no login page`, async (t) => {
    const house = await build(t, { users: users(60), answer: (_request, at) => (at === nth ? 200 : loginPage) })
    const push = await house.push()
    assert.deepEqual([push.ok, push.summary.delivered, skips(push).length], delivered === 60 ? [true, 60, 0] : [false, 20, 1]) // biome-ignore format: short
  })
} // biome-ignore format: a table

test('--accept goes on whatever the first answers are', async (t) => {
  const house = await build(t, { users: users(60), answer: () => loginPage })
  const push = await house.push(all, {}, new AbortController(), true)
  assert.deepEqual([push.ok, push.summary.delivered, warnings(push).length, skips(push)], [true, 60, 60, []])
})

// `status --check` said that all was well while a push had held back most of its users.
test('a push that its answers hold is an alarm until a later one is not held', async (t) => {
  const house = await build(t, { users: users(60), answer: () => loginPage })
  const { period } = (await house.push()).summary
  const settings = {
    timeZone: 'UTC',
    maxLeadAgeMs: 30 * 86_400_000,
    feedMaxAgeMs: undefined,
    keepAnswers: 'on',
  } as const
  const look = async () => {
    const status = await findStatus(house.db, settings)
    const alarms = (await findAlarms(house.db, status, settings)).map(sentenceOf)
    return { held: status.held, alarm: alarms.find((alarm) => alarm.startsWith('A push was held')) }
  }
  const isHeld = async () => (await look()).alarm !== undefined
  const { held, alarm } = await look()
  assert.match(held?.reason ?? '', /^held: none of the first 20 answers/)
  assert.match(alarm ?? '', new RegExp(`^A push was held in ${period}, as none of the first 20 answers .*text/html`))
  assert.match(alarm ?? '', /LEADPUSH_RECEIVER_URL.*`leadpush push --all --accept`/)
  assert.match(await buildReport(await findFigures(house.db, settings), settings), /A push was held in/)
  await house.push(await house.userRequest('user-0000@example.com'))
  await house.push({ what: 'failed', unknown: false })
  assert.equal(await isHeld(), true, 'runs that were for others prove nothing')
  assert.equal((await house.push(resume)).summary.owed, 20)
  assert.equal(await isHeld(), true, 'held again')
  house.receiver.answer = () => 200
  assert.equal((await house.push(resume)).ok, true)
  assert.deepEqual(await look(), { held: undefined, alarm: undefined })
})
