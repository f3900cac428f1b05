/** A week that turns while `push` runs, or between two of them (contract 1, 3, 4.7): by the database's clock and nobody else's. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { weeklyKey } from '../../src/deliveries/keys.ts'
import { countsOf, deliveriesOf, noCounts } from '../support/house.ts'
import { startProgram } from '../support/program.ts'
import { type Answer, requestsAtLeast, startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { startTurningWeek, type TurningWeek, turningZone, type WeekDatabase } from '../support/turning-week.ts'
import { until } from '../support/until.ts'

const emails = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `${name}@example.com`)
let week: TurningWeek
let database: WeekDatabase
let receiver: TestReceiver

before(async () => {
  week = await startTurningWeek()
  database = await week.createDatabase(async (opened) => {
    await seedLeads(opened, [{ href: 'https://listings.example/a' }])
    await seedUsers(
      opened.db,
      emails.map((email) => ({ email })),
    )
  })
  receiver = await startTestReceiver()
})
after(async () => {
  await receiver.close()
  await week.leave()
})

const env = { LEADPUSH_TIME_ZONE: turningZone, LEADPUSH_CONCURRENCY: '1', LEADPUSH_RETRY_DELAY: '5m' }
const push = (...args: string[]) =>
  startProgram(['push', ...args, '--json'], {
    env: { ...env, DATABASE_URL: database.url, LEADPUSH_RECEIVER_URL: receiver.url },
  })

async function findPeriod(): Promise<string> {
  const [row] = await database.query(`select to_char(now() at time zone '${turningZone}', 'IYYY-"W"IW') as period`)
  return row.period
}

const keysOf = (period: string, of = emails) => of.map((email) => weeklyKey('leadpush', email, period, 1)).sort()
const keysSince = (before: number) => receiver.requests.slice(before).map(({ key }) => key)

test('a run finishes in the period in which it began, though the week turns meanwhile; the next run begins the new one', async () => {
  const period = await findPeriod()
  let turned = () => {}
  receiver.answer = (_, nth) => (nth === 1 ? new Promise((resolve) => (turned = () => resolve(200))) : 200)
  const program = push('--all')
  await requestsAtLeast(receiver, 1)
  await week.turn()
  const next = await findPeriod()
  assert.notEqual(next, period)
  turned()
  const { code, json, stderr } = await program.done
  assert.equal(code, 0, stderr)
  assert.deepEqual(keysSince(0).sort(), keysOf(period))
  assert.deepEqual(new Set(json.map((line) => line.period)), new Set([period]))

  const second = await push('--all').done
  assert.deepEqual(countsOf(second.json.at(-1)), { ...noCounts, users: 6, deliveries: 6, delivered: 6, leads: 6 })
  assert.deepEqual(keysSince(6).sort(), keysOf(next))
  assert.equal((await push('--all').done).json.at(-1).already, 6)
})

test('a run that was stopped in a past week: its begun deliveries are finished, and its other users are not served', async () => {
  await week.turn()
  const period = await findPeriod()
  let answer = () => {}
  const answered = new Promise<Answer>((resolve) => (answer = () => resolve(500)))
  receiver.answer = () => answered
  const before = receiver.requests.length
  const program = push('--all')
  await requestsAtLeast(receiver, before + 1)
  // one attempt is recorded ahead, and will not be made
  const recorded = `select from deliveries where period = '${period}'`
  await until('one is recorded ahead', async () => (await database.query(recorded)).length >= 2)
  program.kill('SIGTERM')
  await program.waitFor(/SIGTERM: finishing/)
  answer()
  assert.equal((await program.done).code, 143)
  const begun = keysSince(before)
  assert.equal(begun.length, 1)

  await week.turn()
  receiver.answer = () => 200
  const planned = await startProgram(['preview', '--json'], { env: { ...env, DATABASE_URL: database.url } }).done
  assert.equal(deliveriesOf(planned.json).filter((line) => line.period === period).length, begun.length)
  const resumed = await push('--resume').done
  assert.equal(resumed.code, 0, resumed.stderr)
  assert.deepEqual(keysSince(before + begun.length).sort(), begun.sort())
  assert.deepEqual(
    deliveriesOf(resumed.json).map((line) => [line.period, line.status, line.attempts]),
    begun.map(() => [period, 'delivered', 2]),
  )
  const resumedAt = receiver.requests.length
  const next = await push('--all').done
  assert.equal(next.code, 0, next.stderr)
  assert.deepEqual(keysSince(resumedAt).sort(), keysOf(await findPeriod()))
  const pending = "select count(*)::integer as n from deliveries where status = 'pending'"
  assert.deepEqual(await database.query(pending), [{ n: 0 }])
})
