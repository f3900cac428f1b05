/** A receiver that refuses everything alike (contract 4.12): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { outageLookMs } from '../../src/base/limits.ts'
import type { PushLine } from '../../src/index.ts'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { databaseReceiver, findTrouble, hashReceiver } from '../../src/push/database/receivers.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import { makeGate } from '../support/gate.ts'
import { all, build, counts, most, type PushHouse, resume, skips, users } from '../support/push-house.ts'
import { type ReceivedRequest, requestsAtLeast, startTestReceiver } from '../support/receiver.ts'
import { seedUsers } from '../support/seed.ts'

const held = { retryDelayMs: 0, outageMs: 60_000 }

const troubleOf = async ({ db, receiver }: PushHouse) => (await databaseReceiver(db, receiver.url).read()).trouble

/** As if the last attempt had been made so long ago. */
async function pass(house: PushHouse, interval: string) {
  await sql`
    update receivers set next_at = next_at - ${interval}::interval, second_at = second_at - ${interval}::interval
  `.execute(house.db)
}

// It went on, and everybody had lost both attempts when the address or the keys were mended.
for (const [status, count, first] of [[401, 21, 20], [422, 2, 2]] as const) {
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
  const first = makeGate<number>()
  const house = await build(t, { users: users(100), answer: (_request, nth) => (nth <= 8 ? 401 : first.opened) })
  const pushing = house.push(all, { ...held, concurrency: 64 })
  await requestsAtLeast(house.receiver, 20)
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(house.receiver.requests.length, 20)
  first.open(200)
  assert.equal((await pushing).summary.delivered, 100)
})

test('keys that go bad on the way hold it too: attempts that were recorded and not made are taken back', async (t) => {
  const house = await build(t, { users: users(80), answer: (_request, nth) => (nth > 30 ? 401 : 200) })
  const { ok, summary } = await house.push(all, { ...held, concurrency: 4 })
  assert.equal(ok, false)
  const { length } = house.receiver.requests
  assert.ok(length >= 50 && length <= 54, `${length}`)
  // those of `pending 0` were recorded, and taken back before they were made: their users were neither delivered nor owed
  const { 'pending 0': _taken, ...made } = await house.attempts()
  assert.deepEqual(made, { 'delivered 1': 30, 'pending 1': length - 30 })
  assert.equal(summary.owed, 80 - length)
})

const hours = 3
for (const count of [60, 5]) {
  test(`hourly --resume for ${count} users: an attempt an hour at most, one second one at most, told in one line`, async (t) => {
    const house = await build(t, { users: users(count), answer: () => 404 })
    await house.push(all, held)
    const { length } = house.receiver.requests
    for (let hour = 0; hour < hours; hour++) {
      const { ok, lines } = await house.push(resume, held)
      assert.equal(
        ok,
        count === 60 || hour > 0,
        'it tells nothing new, but for the delivery that a second attempt ends',
      )
      if (count === 5 && hour > 0) assert.equal(lines.length, 2)
      // within the hour nothing is tried, by no command
      if (hour === 0) assert.equal((await house.push(all, held)).ok, false)
      await pass(house, '1 hour')
    }
    const made = house.receiver.requests.length - length
    assert.ok(made <= hours, `${made}`)
    assert.ok(counts(house).filter((n) => n > 1).length <= 1)
    if (count === 60) assert.equal(made, hours)
    house.receiver.answer = () => 200
    await pass(house, '1 day')
    await house.push(resume, held)
    assert.equal(house.receiver.keys().size, count)
    assert.ok(((await house.attempts())['failed 2'] ?? 0) <= 1)
  })
}

test('a new address begins unproven, and what the old one refused is held no more', async (t) => {
  const [house, other] = [await build(t, { users: users(40), answer: () => 404 }), await startTestReceiver()]
  t.after(() => other.close())
  await house.push(all, held)
  assert.equal((await house.push(all, { ...held, receiverUrl: other.url })).ok, true)
  assert.deepEqual(await house.attempts(), { 'delivered 1': 20, 'delivered 2': 20 })
  assert.equal(await findTrouble(house.db), undefined)
})

test('if two pushes run at once, one makes the attempt, and the other is held at once', async (t) => {
  const house = await build(t, { users: users(60), answer: () => 403 })
  const { requests } = house.receiver
  await house.push(all, held)
  assert.equal(requests.length, 20)
  const isHeld = makeGate()
  house.receiver.answer = () => isHeld.opened.then(() => 403)
  const both = ['a', 'b'].map((dataSource) => house.push(all, { ...held, dataSource }))
  void Promise.race(both).then(() => isHeld.open())
  assert.deepEqual((await Promise.all(both)).map(({ ok }) => ok), [false, false]) // biome-ignore format: short
  assert.deepEqual([requests.length, most(house)], [21, 1])
})

// A push that went on with what another had given up made all its second attempts, before it learnt why that one had given up.
test('a push that takes over from another first learns what that one found', async (t) => {
  const [begun, ended] = [makeGate(), makeGate()]
  const house = await build(t, {
    users: users(5),
    answer: async ({ headers }) => {
      if (headers['x-data-source'] === 'a') return begun.opened.then(() => 403)
      begun.open()
      return ended.opened.then(() => 200)
    },
  })
  const first = house.push(all, { ...held, dataSource: 'a', concurrency: 20 }).finally(() => ended.open())
  await requestsAtLeast(house.receiver, 5)
  await seedUsers(house.db, [{ email: 'new@example.com' }])
  // it looks at nothing by itself: its own answer comes first, however slow the machine is
  const every: Clock['every'] = (ms, call) => (ms === outageLookMs ? {} : systemClock.every(ms, call))
  const blind = { ...systemClock, every }
  const second = await house.push(all, { ...held, dataSource: 'b' }, new AbortController(), false, blind)
  assert.deepEqual([(await first).ok, second.ok], [false, false])
  assert.deepEqual([house.receiver.requests.length, most(house)], [6, 1])
})

test('--accept goes on regardless, and ends the hold once it is answered otherwise; --user is never held', async (t) => {
  const house = await build(t, { users: users(30), answer: () => 401 })
  await house.push(all, held)
  const single = await house.push(await house.userRequest('user-0000@example.com'), held)
  assert.equal(single.deliveries[0]?.attempts, 2)
  const accepted = await house.push(all, held, new AbortController(), true)
  assert.deepEqual([accepted.summary.failed, accepted.summary.owed, skips(accepted)], [30, 0, []])
  assert.deepEqual((await findTrouble(house.db))?.trouble, { is: 'refuses', status: 401 })
  house.receiver.answer = () => 200
  await house.push({ what: 'failed', ends: ['failed'] }, held, new AbortController(), true)
  assert.equal(await findTrouble(house.db), undefined)
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
  assert.deepEqual(other.notes.filter((note) => note.includes('everybody')), ['The receiver no longer answers HTTP 404 to everybody: HTTP 401 came, so other second attempts wait.']) // biome-ignore format: short
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
    assert.deepEqual(
      (await troubleOf(house))?.trouble,
      after === 503 ? { is: 'down' } : { is: 'refuses', status: after },
    )
    if (after === 503) assert.match(next.notes.join(' '), /is down: 2 attempts in a row failed; the last: HTTP 503/)
    else assert.match(skips(next)[0]?.reason ?? '', new RegExp(`^held: .*HTTP ${after}`))
    await pass(house, '1 day')
    house.receiver.answer = () => 200
    const mended = await house.push(resume, { ...brief, outageMs: 30_000 })
    assert.deepEqual([mended.ok, await house.attempts()], [true, { 'delivered 2': 18, 'failed 2': 2 }])
    assert.equal(await troubleOf(house), null)
  })
}

test('one user alone who is refused as a trouble ends holds nobody, with first attempts left or without', async (t) => {
  for (const count of [20, 21]) {
    const house = await build(t, { users: users(count), answer: () => 503 })
    await house.push(all, { ...held, outageMs: 300 })
    const { length } = house.receiver.requests
    house.receiver.answer = (_request, nth) => (nth === length + 1 ? 401 : 200)
    const { lines, notes } = await house.push(resume, held)
    assert.match(notes.join(' '), /HTTP 401 came, so other second attempts wait\./)
    assert.deepEqual(skips({ lines }), [])
    const left = Object.entries(await house.attempts()).filter(([what]) => what.startsWith('pending'))
    assert.deepEqual(left, [], `${count}`)
    assert.equal(await troubleOf(house), null)
  }
})

test('if the last first attempt ends a trouble with another, second attempts wait as well', async (t) => {
  const house = await build(t, { users: users(21), answer: () => 401 })
  await house.push(all, { ...held, concurrency: 1 })
  house.receiver.answer = () => 404
  const { ok } = await house.push(resume, held)
  assert.deepEqual([ok, await house.attempts()], [false, { 'failed 2': 1, 'pending 1': 20 }])
})

// It said that the next push begins with one attempt; those within the hour make none.
test('if the attempt of the hour is made, the hold says when the next one is allowed', async (t) => {
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
for (const [compress, count] of [['gzip', 60], ['auto', 5]] as const) {
  test(`a receiver that answers 415 to ${count} users, compressed (${compress}) or not, holds the push`, async (t) => {
    const house = await build(t, { users: users(count), answer: () => 415 })
    await sql`insert into receivers (url_sha256, takes_gzip) values (${hashReceiver(house.receiver.url)}, true)`.execute(house.db)
    const push = await house.push(all, { ...held, retryDelayMs: 300, compress, concurrency: 4 })
    assert.match(skips(push)[0]?.reason ?? '', /^held: .*HTTP 415/)
    assert.deepEqual([push.ok, counts(house).filter((n) => n > 1).length <= 2], [false, true], `${counts(house)}`)
    assert.equal(house.receiver.keys().size, count)
  })
} // biome-ignore format: a table

for (const [compress, count] of [['gzip', 1], ['auto', 60]] as const) {
  test(`a receiver that refuses compressed deliveries alone (${compress}) gets all ${count} plain`, async (t) => {
    const house = await build(t, { users: users(count), answer: (request) => (isGzip(request) ? 415 : 200) })
    await sql`insert into receivers (url_sha256, takes_gzip) values (${hashReceiver(house.receiver.url)}, true)`.execute(house.db)
    const push = await house.push(all, { ...held, compress, concurrency: 4 })
    assert.deepEqual([push.ok, push.summary.delivered, push.notes], [true, count, []])
  })
} // biome-ignore format: a table

// The push slept 250 ms for ever, and the next push was held for an hour by a try that nobody had made.
test('a try whose user is gone by then is taken back, and the push ends', async (t) => {
  const house = await build(t, { users: users(1) })
  const row = databaseReceiver(house.db, house.receiver.url)
  await row.begin(true)
  await row.tell({ says: 'trouble', trouble: { is: 'refuses', status: 401 }, inARow: 20, error: '' })
  await sql`
    create function lose_user() returns trigger language plpgsql as $$
      begin update users set subscribed = false; return null; end $$
  `.execute(house.db)
  await sql`create trigger taken after update of tries on receivers execute function lose_user()`.execute(house.db)
  await house.push(all, held)
  assert.equal(house.receiver.requests.length, 0)
  assert.deepEqual(await troubleOf(house), {
    trouble: { is: 'refuses', status: 401 },
    tries: 0,
    nextMs: 0,
    secondMs: 0,
  })
})

test('preview, status and its alarms tell what is held and what to do', async (t) => {
  const house = await build(t, { users: users(30), answer: () => 404 })
  const settings = {
    timeZone: 'UTC',
    maxLeadAgeMs: 30 * 86_400_000,
    guard: 'on',
    sameHouse: 'each',
    feedMaxAgeMs: undefined,
  } as const
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
    /held since \S+Z, as the receiver refuses .* HTTP 404: .*\. Mend the receiver .*, then run `leadpush push --resume`/,
  )
  house.receiver.answer = () => 200
  await house.push(all, held)
  const after = await look()
  assert.deepEqual([after.lines, after.status.refused], [[], undefined])
  assert.doesNotMatch(after.alarms.join(), /HTTP 404/)
})
