/** How a push finds the users that it has to serve, where there are many. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { countUnclaimed, countUsersElsewhere, countUsersOfPass } from '../../src/push/database/users-left.ts'
import {
  drawUsers,
  findLeadsBefore,
  findUsersOwedSubscription,
  takeRange,
} from '../../src/push/database/users-to-serve.ts'
import { failedPass, forcedPass, type Pass, weeklyPass } from '../../src/push/whom/pass.ts'
import { reserveRank } from '../../src/push/whom/reserve.ts'
import { createDatabase } from '../support/database.ts'
import { owe } from '../support/owed.ts'
import { countRowsRead } from '../support/rows-read.ts'

const users = 10_001
/** SQL that makes subscribed users with one query each. */
const usersWhoAsk = (count: number) => `
    insert into users (email, receiver_key, subscribed) select n || '@example.com', 'key', true from generate_series(1, ${count}) n;
    insert into searches (meaning_sha256, kind, words, resolver) values (sha256('pool'), 'words', 'pool', 1);
    insert into queries select u.id, 0, 'text', 'pool', 0, 'pool0', '{}', s.id from users u, searches s;`

// The statistics know nothing of a week that has just begun. PostgreSQL took its claims for one row, and compared each user
// with all of them: 4 s and more for this stretch.
test('the last user of many is found at once, whose neighbours were all served in a week that the statistics do not know', async (t) => {
  const { db, pool } = await (await createDatabase(t)).open({ connectionsMax: 1 })
  await pool.query(`
    ${usersWhoAsk(users)}
    insert into workers (host, process_id, lease_until) values ('here', 1, now() + interval '1 hour');
    insert into claims select 'weekly:2020-W01', email, now(), 7, 1 from users;
    analyze;
    insert into claims select 'weekly:2020-W02', email, now(), 8, 1 from users where id < ${users};
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      attempts, under_way, created_at, status)
    select u.id::text, 1, u.id, '2020-W02', 'weekly', 1, 1, 1, 0, 1, '', '', 1, false, '2020-01-06', 'failed' from users u`)
  const { rows } = await pool.query('select id, this_server() as server from workers')
  const passes = [
    { pass: weeklyPass('2020-W02', ['2019-W52', '2020-W01', '2019-W51']), count: 1, leadsBefore: 7 },
    { pass: forcedPass('2020-W02', undefined, true), count: 625, leadsBefore: 8 },
    { pass: failedPass('2020-W02', 1, ['failed']), count: 625, leadsBefore: undefined },
  ]
  for (const { pass, count, leadsBefore } of passes) {
    const readBefore = await countRowsRead(pool)
    const found = (await takeRange(db, { worker: rows[0], pass, cursor: undefined, size: 625 })) ?? []
    const before = await findLeadsBefore(db, found, new Map(found.map(({ id }) => [id, 1])), pass.compared)
    const read = (await countRowsRead(pool)) - readBefore
    assert.deepEqual([found.length, before.get(found.at(-1)?.id ?? 0)], [count, leadsBefore])
    assert.ok(read < 50 * users, `${read} rows and entries were read`)
  }

  // a count of many users took so long that the database counted as absent, and one with many pending read all of them for each
  const weekly = weeklyPass('2020-W02')
  assert.deepEqual(await countUsersOfPass(db, weekly, [rows[0].id]), {
    elsewhere: 0,
    free: 1,
    uncounted: 1,
    claimed: users - 1,
    begun: 0,
    withoutQueries: 0,
  })
  await pool.query("update deliveries set status = 'pending' where user_id > 1000")
  assert.equal((await countUsersOfPass(db, weekly)).begun, users - 1_001)

  const draw = async (count: number, below: number) =>
    (await drawUsers(db, weeklyPass('2020-W03'), count, below)).map(({ id }) => id)
  const [some, others] = [await draw(8, 0.01), await draw(8, 0.01)]
  assert.ok([...some, ...others].every((id) => reserveRank(id) < 0.01))
  assert.notDeepEqual(some, others)
  for (let at = 0; at < 20; at++)
    assert.equal(
      new Set((await draw(8, at % 2)).map((id) => Math.floor((4 * id) / (users + 1)))).size,
      4,
      'of each quarter',
    )
  const reserved = Array.from({ length: users }, (_, at) => at + 1).filter((id) => reserveRank(id) < 0.01)
  const more = await draw(reserved.length + 5, 0.01)
  assert.deepEqual([more.length, new Set(more).size], [reserved.length + 5, reserved.length + 5])
  assert.deepEqual(
    more.slice(0, reserved.length).toSorted((a, b) => a - b),
    reserved,
  )
  assert.deepEqual(await drawUsers(db, weekly, 8, 1), [{ id: users, email: `${users}@example.com` }])
  // times a factor of 32 bits these ids are no bigint
  const far = [4_000_000_000, 2 ** 52 + 1]
  await pool.query(`
    insert into users (id, email, receiver_key, subscribed) overriding system value
    select n, n || '@example.com', 'key', true from unnest('{${far}}'::bigint[]) n;
    insert into queries select n, 0, 'text', 'pool', 0, 'pool0', '{}', s.id from searches s, unnest('{${far}}'::bigint[]) n`)
  const ranked = [users, ...far].toSorted((a, b) => reserveRank(a) - reserveRank(b))
  for (const [at, id] of ranked.entries()) {
    const first = await drawUsers(db, weekly, at + 1, reserveRank(id) + 2 ** -32)
    assert.deepEqual(new Set(first.map((it) => it.id)), new Set(ranked.slice(0, at + 1)))
  }
  await pool.query(`delete from users where id > ${users}`)

  // more than ten thousand subscription pushes took two runs; many are owed since one moment, others are a microsecond apart
  await pool.query(owe('true', "'2020-01-06'::timestamptz + (id / 2500) * interval '1 microsecond'"))
  const owed: number[] = []
  for await (const page of findUsersOwedSubscription(db)) owed.push(...page.map(({ id }) => id))
  assert.deepEqual([owed.length, new Set(owed).size], [users, users])
  // who subscribes while the last page is served is found by a look until there is nobody
  await pool.query('update subscription_pushes set owed_at = null where user_id > 1')
  const found: number[] = []
  for await (const page of findUsersOwedSubscription(db, true)) {
    found.push(...page.map(({ id }) => id))
    if (found.length === 1) await pool.query(owe('id = 2'))
  }
  assert.deepEqual(found, [1, 2])
})

// Ids that are so far apart make pages of 50 users.
test('users are counted once each, on every page, and beside each other or in a transaction alike', async (t) => {
  const { db, pool } = await (await createDatabase(t)).open()
  const weekly = weeklyPass('2020-W02')
  const none = { elsewhere: 0, free: 0, uncounted: 0, claimed: 0, begun: 0, withoutQueries: 0 }
  assert.deepEqual(await countUsersOfPass(db, weekly), none)
  await pool.query(`
    insert into users (id, email, receiver_key, subscribed) overriding system value
      select n * 1000, n || '@example.com', 'key', n <> 5 from generate_series(1, 260) n;
    insert into searches (meaning_sha256, kind, words, resolver) values (sha256('pool'), 'words', 'pool', 1);
    insert into queries select u.id, 0, 'text', 'pool', 0, 'pool0', '{}', s.id from users u, searches s where u.id % 7000 > 0;
    insert into claims (scope, email) select 'weekly:2020-W02', email from users where id % 3000 = 0 or id = 5000;
    insert into claims (scope, email) values ('weekly:2020-W02', 'removed@example.com'), ('weekly:2020-W01', '1@example.com')`)
  const { rows } = await pool.query(`
    with of_pass as (
      select u.id % 3000 = 0 as claimed, exists (select from queries q where q.user_id = u.id) as asks from users u where u.subscribed
    )
    select count(*) filter (where not claimed and asks) as free, count(*) filter (where claimed) as claimed,
      count(*) filter (where not claimed and not asks) as "withoutQueries" from of_pass`)
  const expected = { ...none, ...rows[0], uncounted: rows[0].free }
  assert.deepEqual([expected.claimed, expected.withoutQueries], [86, 25])
  assert.deepEqual(await countUsersOfPass(db, weekly), expected)
  assert.deepEqual(await db.transaction().execute((one) => countUsersOfPass(one, weekly)), expected)
  assert.equal(await countUnclaimed(db, weekly), expected.free)
})

test('a user in the range of another process, who has one of its deliveries too, is counted with the range alone', async (t) => {
  const { db, pool } = await (await createDatabase(t)).open()
  await pool.query(`
    ${usersWhoAsk(3)}
    insert into workers (id, host, process_id, lease_until) overriding system value values (7, 'there', 1, now() + interval '1 hour');
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      attempts, under_way, worker_id, status)
    select u.id::text, 1, u.id, '2020-W02', 'single', 1, 1, 1, 0, 1, '', '', 1, true, 7, 'pending' from users u where u.id <> 2`)
  const { rows } = await pool.query('select id, this_server() as server from workers')
  const weekly = weeklyPass('2020-W02')
  const range = await takeRange(db, { worker: rows[0], pass: weekly, cursor: undefined, size: 2 })
  assert.deepEqual(range?.map(({ id }) => id), [1, 2])
  assert.deepEqual([(await countUsersOfPass(db, weekly)).elsewhere, await countUsersElsewhere(db, [weekly], [])], [2, 1])
  assert.equal(await countUsersElsewhere(db, [weekly], [7]), 0)
}) // biome-ignore format: short

// A pass for some of them shared its ranges with the pass for all, which left the users in between to it: nobody served them.
test('a pass for some users keeps no others from a pass for all', async (t) => {
  const { db, pool } = await (await createDatabase(t)).open()
  await pool.query(`
    ${usersWhoAsk(60)}
    insert into claims (scope, email, claimed_at) select 'weekly:2020-W02', email, now() - interval '1 hour' from users;
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      attempts, under_way, status)
    select u.id::text, 1, u.id, '2020-W02', 'weekly', 1, 1, 1, 0, 1, '', '', 2, false, 'failed' from users u where u.id % 59 = 1;
    insert into workers (host, process_id, lease_until) select 'here', n, now() + interval '1 hour' from generate_series(1, 3) n`)
  const { rows } = await pool.query('select id, this_server() as server from workers order by process_id')
  const all = forcedPass('2020-W02', undefined)
  const some = failedPass('2020-W02', 1, ['failed'])
  const take = async (at: number, pass: Pass) =>
    (await takeRange(db, { worker: rows[at], pass, cursor: undefined, size: 100 }))?.length
  assert.deepEqual([await take(0, some), await take(1, all), await take(2, all)], [2, 60, 0])
  assert.deepEqual(
    await countUsersOfPass(db, all, [rows[1].id]).then(({ elsewhere, free }) => [elsewhere, free]),
    [0, 60],
  )
})
