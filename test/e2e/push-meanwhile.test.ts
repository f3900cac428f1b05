/** What changes between two attempts (contract 3, 4.3 to 4.6): processes die, listings, users and settings change. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OpenDatabase } from '../../src/db/open.ts'
import { endAbandoned } from '../../src/deliveries/ledger.ts'
import { findUser, recordUnsubscription, removeUser } from '../../src/users/users.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, zip } from '../support/house.ts'
import { startProgram } from '../support/program.ts'
import { requestsAtLeast, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const nameOf = ({ headers }: { headers: Record<string, unknown> }) => String(headers['x-service-api-key'])

/** Users with these names, which are their receiver keys too; each has a listing of a town of their own. */
async function build(names: readonly string[], answer: TestReceiver['answer']): Promise<House> {
  const database = await createDatabase()
  const opened = await database.open()
  const townOf = (at: number) => String(10_001 + at)
  await seedLeads(
    opened,
    names.map((name, at) => ({ href: hrefOf(name), postalCode: townOf(at) })),
  )
  await seedUsers(
    opened.db,
    names.map((name, at) => ({
      email: `${name}@example.com`,
      receiverKey: name,
      queries: [{ value: townOf(at), places: [townOf(at)] }],
    })),
  )
  await opened.close()
  return await buildHouse({ database, answer })
}

const push = ({ env }: House, args: string, more: Record<string, string> = {}) =>
  startProgram(['push', ...args.split(' '), '--json'], {
    env: { ...env, LEADPUSH_CONCURRENCY: '4', ...more },
  })

/** What each delivery of a push ended as, by the receiver key that its first request came with. */
const endsOf = ({ receiver }: House, json: unknown[]) =>
  Object.fromEntries(
    deliveriesOf(json).map(({ idempotencyKey, status, attempts, error }) => {
      const [first] = receiver.keys().get(idempotencyKey) ?? []
      return [first ? nameOf(first) : idempotencyKey, [status, attempts, error]]
    }),
  )
/** What is left when a listing is erased: nothing. */
async function eraseListing({ pool }: OpenDatabase, postalCode: string): Promise<void> {
  const { rows } = await pool.query('delete from leads where postal_key = $1 returning id', [postalCode])
  for (const table of ['lead_versions', 'lead_seen']) {
    await pool.query(`delete from ${table} where lead_id = $1`, [rows[0].id])
  }
}

const lost = 'nobody recorded what came of the attempt'

test('attempts that a kill cut off are used up: a second one with the same bytes after any change, then unknown, then nothing', async () => {
  const waiting = Array.from({ length: 12 }, (_, at) => `waiting-${at}`)
  const house = await build(['once', 'twice', 'late', 'cut', 'erased', ...waiting], (request) => {
    const nth = house.receiver.keys().get(request.key)?.length
    const name = nameOf(request).replace('changed-', '')
    if (name === 'late' && nth === 1) return 500
    if (name.startsWith('waiting') && request.path === '/moved') return 200
    if (nth === 2 && name === 'cut') return 500
    return nth === 2 && name === 'once' ? 200 : 'hang'
  })
  const { receiver, database } = house
  const opened = await database.open()
  // so long that even a busy machine does not make the second attempt of `late` before the kill
  const first = push(house, '--all', { LEADPUSH_CONCURRENCY: '5', LEADPUSH_RETRY_DELAY: '5m' })
  await requestsAtLeast(receiver, 6)
  first.kill('SIGKILL')
  await first.done
  // the server may still be at its last statement
  const others = 'from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()'
  const busy = `select ${others} and state <> 'idle'`
  await until('no statement is under way', async () => (await opened.pool.query(busy)).rowCount === 0)
  const endLeases = () => opened.pool.query('update workers set lease_until = now()')
  await endLeases()
  await opened.pool.query("update deliveries set due_at = now() where status = 'pending' and not under_way")
  const { rows: begun } = await opened.pool.query(
    'select u.receiver_key as name from deliveries d join users u on u.id = d.user_id where d.under_way',
  )
  assert.ok(begun.length >= 5 && begun.length <= 10, `${begun.length} attempts recorded`)
  // the first attempt of the last one shows that the receiver answers: without it second ones go one by one, and some hang
  await opened.pool.query(
    "update users set subscribed = false where receiver_key like 'waiting%' and receiver_key <> 'waiting-11'",
  )
  await eraseListing(opened, '10005')
  // no process could take the delivery of a removed user, and none ended it: `status --check` found it stuck for ever
  await removeUser(opened.db, (await findUser(opened.db, 'waiting-0@example.com')).user.id)
  await seedLeads(opened, [
    { href: hrefOf('once'), postalCode: '10001', price: 7 },
    { href: hrefOf('new'), postalCode: '10001' },
  ])
  await house.put(
    'users',
    ['once', 'twice', 'late', 'cut'].map((name) => ({
      email: `${name}@example.com`,
      receiverApiKey: `changed-${name}`,
      queries: [zip('99950')],
    })),
  )
  assert.equal((await house.call('status --check')).code, 1)
  const second = push(house, '--resume', {
    LEADPUSH_RECEIVER_URL: new URL('/moved', receiver.url).href,
    LEADPUSH_DATA_SOURCE: 'other',
    LEADPUSH_TIMEOUT: '10m',
  })
  const changed = () => receiver.requests.filter((request) => nameOf(request).startsWith('changed'))
  await until('four second attempts come', () => changed().length >= 4)
  for (const end of [
    /"user":"once@.*"delivered"/,
    /"user":"cut@.*"unknown","attempts":2,"httpStatus":500/,
    /"user":"erased@.*"unknown"/,
  ])
    await second.waitFor(end)
  for (const { name } of begun)
    if (name.startsWith('waiting') && name !== 'waiting-0')
      await second.waitFor(new RegExp(`"user":"${name}@.*"delivered"`))
  second.kill('SIGKILL')
  await second.done
  await endLeases()
  for (const requests of receiver.keys().values()) {
    const [one, two] = requests
    const name = nameOf(one as { headers: Record<string, unknown> })
    if (name.startsWith('waiting') || name === 'erased') continue
    assert.equal(requests.length, 2, name)
    assert.ok(two && one?.body.equals(two.body), name)
    assert.deepEqual([two.path, nameOf(two), two.headers['x-data-source']], ['/moved', `changed-${name}`, 'other'])
  }
  assert.deepEqual(endsOf(house, (await second.done).json).erased, ['unknown', 1, 'a listing was erased'])
  const sent = receiver.requests.length
  receiver.answer = () => 200
  const third = await push(house, '--resume').done
  assert.equal(third.code, 1, third.stderr)
  const { twice, late, cut, once } = endsOf(house, third.json)
  assert.deepEqual([twice, late, cut, once], [['unknown', 2, lost], ['unknown', 2, lost], undefined, undefined])
  const fourth = await push(house, '--all').done
  assert.deepEqual([fourth.code, deliveriesOf(fourth.json)], [0, []])
  assert.equal(receiver.requests.length, sent)
  assert.doesNotMatch((await house.call('status --check')).stdout, /no process is working on/)
  // its line had the end of the delivery, as if the attempt had come to that
  const shown = (await house.call('status --user erased@example.com')).stdout
  assert.match(shown, new RegExp(`: ${lost}\\n  a listing was erased\\n`))
  const log = (await house.call('status --user once@example.com --json')).json[0].attemptLog
  assert.deepEqual(log.map(({ httpStatus, error }: Record<string, unknown>) => [httpStatus, error]), [[null, lost], [200, null]]) // biome-ignore format: short
})

// Removing a user ended deliveries that a living push was to try again, and the push neither told of them nor ended with 1.
// Then its line had no e-mail, though the push had begun the delivery.
test('users who are removed or unsubscribed in the middle of push --all', async () => {
  const paused = ['paused-removed', 'paused-unsubscribed']
  const underWay = ['begun-removed', 'begun-unsubscribed', 'held-1', 'held-2']
  const recordedAhead = Array.from({ length: 8 }, (_, at) => `next-${at}`)
  const waiting = ['waiting-removed', 'waiting-unsubscribed', 'waiting']
  const gate = makeGate()
  const house = await build([...paused, ...underWay, ...recordedAhead, ...waiting], async (request) => {
    const name = nameOf(request)
    if (house.receiver.keys().get(request.key)?.length === 2) return 200
    if (paused.includes(name)) return 500
    await gate.opened
    return name.startsWith('begun') ? 500 : 200
  })
  const program = push(house, '--all', { LEADPUSH_RETRY_DELAY: '6s' })
  await requestsAtLeast(house.receiver, paused.length + underWay.length)
  const opened = await house.database.open()
  for (const name of ['paused', 'begun', 'waiting']) {
    await removeUser(opened.db, (await findUser(opened.db, `${name}-removed@example.com`)).user.id)
    await recordUnsubscription(opened.db, (await findUser(opened.db, `${name}-unsubscribed@example.com`)).user.id)
  }
  assert.deepEqual(await endAbandoned(opened.db), [])
  await seedLeads(opened, [{ href: hrefOf('paused-unsubscribed'), postalCode: '10002', price: 7 }])
  gate.open()
  const { code, json, stderr } = await program.done
  assert.equal(code, 1, stderr)
  assert.ok(deliveriesOf(json).some(({ user }) => user === 'paused-removed@example.com'))
  assert.deepEqual(endsOf(house, json), {
    'paused-removed': ['failed', 1, 'the user was removed'],
    'paused-unsubscribed': ['delivered', 2, null],
    'begun-removed': ['failed', 1, 'the user was removed'],
    'begun-unsubscribed': ['delivered', 2, null],
    ...Object.fromEntries(
      ['held-1', 'held-2', ...recordedAhead, 'waiting'].map((name) => [name, ['delivered', 1, null]]),
    ),
  })
  for (const requests of house.receiver.keys().values()) {
    assert.ok(requests.every(({ body }) => requests[0]?.body.equals(body)))
  }
  const times = [...house.receiver.keys().values()].map(({ length }) => length)
  assert.equal(
    times.reduce((sum, length) => sum + length),
    17,
  )
})
