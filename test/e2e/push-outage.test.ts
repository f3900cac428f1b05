/** A receiver that is down as a whole (contract 4.12, LEADPUSH_OUTAGE), through the program; the tests wait side by side. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createDatabase } from '../support/database.ts'
import { buildHouse, deliveriesOf, type House, hrefOf } from '../support/house.ts'
import { startProgram } from '../support/program.ts'
import type { TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const users = 24
const template = await createDatabase()
const opened = await template.open()
await seedLeads(opened, [{ href: hrefOf('a') }])
await seedUsers(
  opened.db,
  Array.from({ length: users }, (_, at) => ({ email: `user-${at}@example.com` })),
)
await opened.close()
const houses: House[] = []
for (let n = 0; n < 3; n++) houses.push(await buildHouse({ database: await template.copy(), answer: () => 503 }))

const push = ({ env }: House, more: Record<string, string | undefined>) =>
  startProgram(['push', '--all', '--json'], {
    env: { ...env, LEADPUSH_CONCURRENCY: '1', LEADPUSH_RETRY_DELAY: '5m', ...more },
  })

const attemptsOf = (receiver: TestReceiver) => [...receiver.keys().values()].map(({ length }) => length)

describe('a receiver that is down', { concurrency: true }, () => {
  test('by default is tried again after 10 s, and then gets all the rest', async () => {
    const { receiver, ...house } = houses[0] as House
    const program = push({ receiver, ...house }, { LEADPUSH_RETRY_DELAY: '9s' })
    await program.waitFor(/The receiver is down: 20 first attempts in a row failed; the last: HTTP 503/)
    const before = receiver.requests.length
    receiver.answer = () => 200
    const { code, json, stderr } = await program.done
    assert.equal(code, 0, stderr)
    assert.match(stderr, /The receiver answers again/)
    const [last, probe] = receiver.requests.slice(before - 1)
    assert.ok(last && probe && probe.atMs - last.atMs > 9_900, 'no attempt for 10 s')
    assert.equal(json.at(-1).delivered, users)
    assert.ok(attemptsOf(receiver).every((attempts) => attempts <= 2))
  })

  test('for longer than LEADPUSH_OUTAGE ends the run with 1; whoever it had not come to is owed, and served by the next', async () => {
    const house = houses[1] as House
    const { code, json, stderr } = await push(house, { LEADPUSH_OUTAGE: '1s' }).done
    assert.equal(code, 1, stderr)
    assert.equal(house.receiver.requests.length, 20)
    assert.ok(deliveriesOf(json).every(({ status }) => status === 'pending'))
    const unsent = deliveriesOf(json).filter(({ attempts }) => attempts === 0).length
    assert.equal(unsent + json.at(-1).owed, users - 20)
    house.receiver.answer = () => 200
    const next = await push(house, {}).done
    assert.equal(next.code, 0, next.stderr)
    assert.deepEqual(attemptsOf(house.receiver), [...Array(20).fill(2), ...Array(users - 20).fill(1)])
  })

  test('is not looked for with LEADPUSH_OUTAGE=0s: every delivery has its two attempts', async () => {
    const house = houses[2] as House
    const { code, json, stderr } = await push(house, { LEADPUSH_OUTAGE: '0s', LEADPUSH_RETRY_DELAY: '50ms' }).done
    assert.equal(code, 1)
    assert.doesNotMatch(stderr, /is down/)
    assert.deepEqual([json.at(-1).failed, attemptsOf(house.receiver)], [users, Array(users).fill(2)])
  })
})
