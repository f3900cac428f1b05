/** `deliveries list`: the ledger by period, status, kind, user and time, as lines, CSV and JSON (contract 3). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildHouse, deliveriesOf, hrefOf, makeUsers } from '../support/house.ts'

const leads = ['a', 'b'].map((name) => ({ href: hrefOf(name), postalCode: '78704' }))
const answers: Record<string, number> = { 'key-0': 200, 'key-1': 422, 'key-2': 200, 'key-3': 503 }

test('the ledger is listed by each filter, as lines, CSV and JSON', async () => {
  const { call, database } = await buildHouse({
    leads,
    users: makeUsers(4),
    answer: ({ headers }) => answers[String(headers['x-service-api-key'])] ?? 599,
  })
  assert.equal((await call('deliveries list')).stdout, 'No delivery is like that.\n')
  const pushed = deliveriesOf((await call('push --all --json')).json)
  await call('push --user user-2@example.com')
  const list = async (args: string) => (await call(`deliveries list ${args} --json`.replace('  ', ' '))).json
  const usersOf = (lines: { user: string }[]) => lines.map(({ user }) => user.slice(5, 6)).sort().join('') // biome-ignore format: short

  const all = await list('')
  assert.deepEqual([all.length, all[0].kind, all[0].user], [5, 'single', 'user-2@example.com'])
  const weekly = all
    .slice(1)
    .map(({ firstAt: _, lastAt: _at, durationMs: _ms, cause: _why, doubtful: _not, ...line }) => line)
  const byKey = (lines: { idempotencyKey: string }[]) =>
    [...lines].sort((a, b) => a.idempotencyKey.localeCompare(b.idempotencyKey))
  assert.deepEqual(byKey(weekly), byKey(pushed), 'as `push --json` prints them')

  const [failed] = await list('--user user-1@example.com')
  assert.match(failed.cause, /^HTTP 422/)
  assert.ok(failed.firstAt < failed.lastAt, 'two attempts')
  assert.equal(usersOf(await list('--status failed')), '13')
  assert.equal(usersOf(await list('--status unknown --status pending')), '')
  assert.equal(usersOf(await list('--status delivered --status failed --kind weekly')), '0123')
  assert.equal(usersOf(await list('--kind single --kind forced')), '2')
  assert.equal(usersOf(await list(`--period ${all[0].period} --status delivered`)), '022')
  assert.deepEqual(await list('--period 2001-W01'), [])
  assert.equal((await list('--limit 2')).length, 2)
  const opened = await database.open()
  await opened.pool.query(`update deliveries set first_at = first_at - interval '3 days', created_at = created_at - interval '3 days',
    second_at = case when http_status_of(deliveries) = 422 then second_at else second_at - interval '3 days' end where kind = 'weekly'`)
  assert.equal(usersOf(await list('--since 2d')), '12', 'by the last attempt')

  // the second attempt counts, and one that nobody recorded took no time
  await opened.pool.query(`update deliveries set first_ms = 9000, second_ms = 2000 where http_status_of(deliveries) = 422;
    update deliveries set first_ms = 2001, second_ms = 100 where http_status_of(deliveries) = 503;
    update deliveries set first_ms = null where attempts = 1 and kind = 'single'`)
  const slow = (than: string) => list(`--slower-than ${than} --kind weekly --status failed`)
  assert.equal(usersOf(await slow('1999ms')), '1')
  assert.equal(usersOf(await slow('2s')), '')
  assert.equal(usersOf(await slow('0s')), '13')
  const [{ durationMs, doubtful }] = await list('--user user-1@example.com')
  assert.deepEqual([durationMs, doubtful], [2_000, false])
  assert.deepEqual(
    [(await list('--kind single'))[0].durationMs, await list('--kind single --slower-than 0s')],
    [null, []],
  )

  // only the delivery that no later one made good is still doubtful
  await opened.pool.query("update deliveries set doubtful = true where status = 'delivered' and kind = 'weekly'")
  assert.equal(usersOf(await list('--doubtful')), '0')
  // the last two are of one moment, so their keys order them, which differ from week to week
  const doubtfulOf = (await list('--status delivered')).map((line) => line.doubtful)
  assert.deepEqual([doubtfulOf[0], doubtfulOf.toSorted()], [false, [false, false, true]])
  assert.match((await call('deliveries list --doubtful')).stdout, /: doubtful: the answer did not show/)
  await opened.pool.query('update deliveries set doubtful = false')

  const csv = (await call('deliveries list --csv --status failed')).stdout.trimEnd().split('\n')
  assert.equal(csv[0], `${Object.keys(failed).filter((name) => name !== 'type')}`)
  assert.equal(csv.length, 3)
  assert.match(csv[1] ?? '', /^user-[13]@example\.com,weekly,[^,]+,\d{4}-W\d\d,1,1,1,2,\d+,failed,2,(422|503),/)
  // somebody hostile chose the address
  await opened.pool.query(`update users set email = '+1|x!a1@example.com' where email = 'user-0@example.com'`)
  assert.match((await call('deliveries list --csv')).stdout, /^'\+1\|x!a1@example\.com,weekly,/m)
  const { stdout } = await call('deliveries list --status failed --user user-1@example.com')
  assert.match(
    stdout,
    /^[\d-]+ [\d:]+ {2}[\d-]+ [\d:]+ {2}\d+ m?s +\d{4}-W\d\d {2}[!-~]{43} {2}user-1@example\.com {2}failed {2}weekly, 2 leads, .*, 2 attempts: HTTP 422.*\n$/,
  )
  await opened.close()
  await call('users remove user-1@example.com')
  assert.deepEqual((await list('--status failed')).map(({ user }) => user).sort(), ['user-3@example.com', null].sort())
})

test('more deliveries than one page are listed once each, the newest first', async () => {
  const { call, database } = await buildHouse()
  const opened = await database.open()
  await opened.pool.query(`insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes,
      query_list, recipe, created_at, status, attempts, under_way, first_at, first_status)
    select 'key-' || n, 1, 1, '2026-W01', 'weekly', 1, 1, 1, 1, 1, '[]', '', t, 'delivered', 1, false, t, 200
    from generate_series(1, 1001) n cross join lateral (select now() - n * interval '1 second' as t) at`)
  const keys = async (args: string) =>
    (await call(`deliveries list --json${args}`)).json.map(({ idempotencyKey }) => Number(idempotencyKey.slice(4)))
  const inOrder = (count: number) => Array.from({ length: count }, (_, at) => at + 1)
  for (const count of [999, 1_000, 1_001]) assert.deepEqual(await keys(` --limit ${count}`), inOrder(count))
  assert.deepEqual(await keys(''), inOrder(1_001))
  await opened.close()
})

test('wrong values of filters are wrong usage', async () => {
  const { call } = await buildHouse()
  for (const args of [
    '--status lost',
    '--kind daily',
    '--period 47',
    '--since 2',
    '--slower-than 2',
    '--limit 0',
    '--csv --json',
    '--user nobody@example.com',
  ]) {
    const { code, stdout, stderr } = await call(`deliveries list ${args}`)
    assert.deepEqual([args, code, stdout], [args, 2, ''])
    assert.notEqual(stderr, '')
  }
})
