/** A receiver whose first answers prove nothing (contract 4.5): pushes against a real database and a real receiver, in this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findFigures } from '../../src/inspect/report/figures/find-figures.ts'
import { buildReport } from '../../src/inspect/report/page/build-report.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import type { PushRequest } from '../../src/push/run-push.ts'
import { all, build, type Pushed, type PushHouse, resume, skips, users } from '../support/push-house.ts'

const settings = {
  timeZone: 'UTC',
  maxLeadAgeMs: 30 * 86_400_000,
  sameHouse: 'each',
  feedMaxAgeMs: undefined,
  keepAnswers: 'on',
} as const
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
  assert.match(skip?.reason ?? '', /^held: none of the last 20 answers .*--accept.*text\/html/)
  // the hold is that of one run: a mended receiver gets the rest at once
  house.receiver.answer = () => 200
  const mended = await house.push(resume)
  assert.deepEqual([mended.ok, skips(mended), house.receiver.keys().size], [true, [], 300])
})

test('two users who both get an empty success hold the push at its end, one does not, nor does `--user`', async (t) => {
  const house = await build(t, { users: users(2), answer: () => ({ status: 200, body: '{"ok":false}' }) })
  const both = await house.push()
  assert.deepEqual([both.ok, both.summary.delivered, warnings(both).length, skips(both).length], [false, 2, 2, 1])
  assert.match(skips(both)[0]?.reason ?? '', /^held: none of the last 2 answers .*"ok": false/)
  const later = await house.push(resume)
  assert.deepEqual([later.ok, later.summary.deliveries], [true, 0], 'nobody is owed anything')
  const single = await house.push(await house.userRequest('user-0000@example.com'))
  assert.deepEqual([single.ok, warnings(single).length, skips(single)], [true, 1, []])
  const one = await build(t, { users: users(1), answer: () => loginPage })
  const push = await one.push()
  assert.deepEqual([push.ok, warnings(push).length, skips(push)], [true, 1, []])
})

for (const [nth, delivered] of [[20, 60], [21, 20]] as const) {
  test(`of 60 users ${delivered} are served where each answer ${nth} alone is no login page`, async (t) => {
    const house = await build(t, { users: users(60), answer: (_request, at) => (at % nth === 0 ? 200 : loginPage) })
    const push = await house.push()
    assert.deepEqual([push.ok, push.summary.delivered, skips(push).length], delivered === 60 ? [true, 60, 0] : [false, 20, 1]) // biome-ignore format: short
  })
} // biome-ignore format: a table

test('--accept goes on after any first answers', async (t) => {
  const house = await build(t, { users: users(60), answer: () => loginPage })
  const push = await house.push(all, {}, new AbortController(), true)
  assert.deepEqual([push.ok, push.summary.delivered, warnings(push).length, skips(push)], [true, 60, 60, []])
})

// `status --check` said that all was well while a push had held back most of its users.
test('a push that its answers hold is an alarm until a later one is not held', async (t) => {
  const house = await build(t, { users: users(60), answer: () => loginPage })
  const { period } = (await house.push()).summary
  const look = async () => {
    const status = await findStatus(house.db, settings)
    const alarms = (await findAlarms(house.db, status, settings)).map(sentenceOf)
    return { held: status.held, alarm: alarms.find((alarm) => alarm.startsWith('A push was held')) }
  }
  const isHeld = async () => (await look()).alarm !== undefined
  const { held, alarm } = await look()
  assert.match(held?.reason ?? '', /^held: none of the last 20 answers/)
  assert.match(alarm ?? '', new RegExp(`^A push was held in ${period}, as none of the last 20 answers .*text/html`))
  assert.match(alarm ?? '', /LEADPUSH_RECEIVER_URL.*`leadpush push --resume` .*`leadpush push --all --accept`/)
  assert.match(await buildReport(await findFigures(house.db, settings), settings), /A push was held in/)
  await house.push(await house.userRequest('user-0000@example.com'))
  await house.push({ what: 'failed', ends: ['failed'] })
  assert.equal(await isHeld(), true, 'runs that were for others prove nothing')
  assert.equal((await house.push(resume)).summary.owed, 20)
  assert.equal(await isHeld(), true, 'held again')
  house.receiver.answer = () => 200
  assert.equal((await house.push(resume)).ok, true)
  assert.deepEqual(await look(), { held: undefined, alarm: undefined })
})

const doubtful: PushRequest = { what: 'failed', ends: ['failed', 'doubtful'] }

async function look({ db }: PushHouse) {
  const status = await findStatus(db, settings)
  const codes = (await findAlarms(db, status, settings)).map(({ code }) => code)
  return { users: status.doubtfulWithoutLater, alarms: codes.includes('doubtful') }
}

// Twenty users behind a login page got nothing, and nobody said so once it was mended.
test('the deliveries whose answers held a push are doubtful, and an alarm, until they are made anew', async (t) => {
  const house = await build(t, { users: users(60), answer: () => loginPage })
  await house.push(all, { concurrency: 64 })
  assert.deepEqual(await look(house), { users: 20, alarms: true })
  assert.equal((await house.push(doubtful)).summary.deliveries, 20, 'still the page: held again')
  house.receiver.answer = () => 200
  assert.equal((await house.push(resume)).ok, true)
  assert.equal((await house.push({ what: 'failed', ends: ['failed', 'unknown'] })).summary.deliveries, 0)
  assert.deepEqual(await look(house), { users: 20, alarms: true }, 'their deliveries of both pushes')
  const anew = await house.push(doubtful)
  assert.deepEqual([anew.ok, anew.summary.delivered], [true, 20])
  assert.deepEqual(await look(house), { users: 0, alarms: false })
  assert.equal((await house.push(doubtful)).summary.deliveries, 0)
})

test('a whole `push --all --accept` that finishes ends all doubt, one with a limit ends none', async (t) => {
  const house = await build(t, { users: users(25), answer: () => loginPage })
  const accept = (limit?: number) =>
    house.push({ what: 'all', force: false, limit }, { concurrency: 1 }, new AbortController(), true)
  await house.push(all, { concurrency: 1 })
  assert.equal((await accept(1)).summary.deliveries, 1)
  assert.deepEqual(await look(house), { users: 20, alarms: true })
  assert.equal((await accept()).ok, true)
  assert.deepEqual(await look(house), { users: 0, alarms: false })
})

test('a page among other answers is a warning alone', async (t) => {
  const house = await build(t, {
    users: users(60),
    answer: (_request, at) => (at <= 19 || at >= 31 ? loginPage : at === 20 ? 200 : 422),
  })
  const push = await house.push(all, { concurrency: 1, retryDelayMs: 60_000 })
  assert.deepEqual([push.ok, warnings(push).length], [false, 39])
  assert.equal((await look(house)).users, 20, 'those after the last other answer')
})
