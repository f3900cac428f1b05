/** Pushes at once (contract 4.7, 4.8, 4.13): one that dies beside others, and machines whose clocks are wrong. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { weeklyKey } from '../../src/deliveries/keys.ts'
import { makeGate } from '../support/gate.ts'
import { answerTogether, buildOverlap, emails, startPush, summaryOf } from '../support/overlap.ts'
import type { ProgramResult } from '../support/program.ts'
import { type Answer, requestsAtLeast } from '../support/receiver.ts'
import { until } from '../support/until.ts'

test('a process dies while another makes its last attempt: that serves whom it had in hand, too', async () => {
  const lastAnswer = makeGate()
  const never = new Promise<Answer>(() => {})
  let others = 0
  // so many are under way at once only after an answer
  const house = await buildOverlap(300, ({ path }) =>
    path === '/dies' ? never : ++others === 1 ? 200 : lastAnswer.opened.then(() => 200),
  )
  const settings = { LEADPUSH_CONCURRENCY: '256', LEADPUSH_RETRY_DELAY: '0s' }
  const dies = startPush(house, 'dies', '--all', { ...settings, LEADPUSH_CONCURRENCY: '1' })
  await requestsAtLeast(house.receiver, 1)
  const lives = startPush(house, 'lives', '--all', settings)
  const { pool, close } = await house.database.open()
  // whom the process that dies has in hand alone is left
  const othersLeft = `select from users u where u.subscribed and not exists (select from claims c where c.email = u.email) and not exists (
    select from user_ranges r join workers w on w.id = r.worker_id
    where w.process_id = ${dies.pid} and (u.home_key, u.id) between (r.first_home_key, r.first_user_id) and (r.last_home_key, r.last_user_id))`
  await until('the other has begun all others', async () => (await pool.query(othersLeft)).rowCount === 0)
  dies.kill('SIGKILL')
  await dies.done
  await pool.query('update workers set lease_until = now() where process_id = $1', [dies.pid])
  await close()
  lastAnswer.open()
  const { code, json, stderr } = await lives.done
  assert.equal(code, 0, stderr)
  const { owed, users, delivered } = json.at(-1)
  assert.deepEqual({ owed, users, delivered }, { owed: 0, users: 300, delivered: 300 })
  assert.equal(house.receiver.keys().size, 300)
})

test('machines whose clocks are wrong by weeks push beside a right one: nobody twice, under the same weekly keys', async () => {
  const house = await buildOverlap(700, answerTogether(3, 60))
  const shifted = (days: number) => ({
    NODE_OPTIONS: `--import=${join(packageRoot, 'test/support/shifted-clock.js')}`,
    CLOCK_SHIFT_DAYS: String(days),
  })
  const ends = await Promise.all([-40, 0, 40].map((days) => startPush(house, `${days}`, '--all', shifted(days)).done))
  for (const { code, stderr } of ends) assert.equal(code, 0, stderr)
  const { period } = summaryOf(ends[1] as ProgramResult)
  assert.deepEqual(
    house.receiver.requests.map(({ key }) => key).sort(),
    emails.map((email) => weeklyKey('leadpush', email, period, 1)).sort(),
  )
  assert.ok(house.receiver.requests.every(({ json }) => json.fsbos.length === 1))
  for (const end of ends) assert.deepEqual([summaryOf(end).period, summaryOf(end).delivered > 0], [period, true])
})
