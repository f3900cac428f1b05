/** `prune` (contract 3, 4.7): what goes, what stays however short the duration, and that it disturbs nobody. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { frozenRunDays, importDays, pruneRowsMax } from '../../src/base/limits.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { createDatabase } from '../support/database.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, makeUsers } from '../support/house.ts'
import { type ProgramResult, startProgram } from '../support/program.ts'
import type { ReceivedRequest, TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const listings = (count: number, price = 100) =>
  Array.from({ length: count }, (_, at) => ({ href: hrefOf(at), price: price + at }))

/** So that listings are old as soon as anything else is. */
const ageless = { LEADPUSH_MAX_LEAD_AGE: '1s' }

const makeOlder = ({ pool }: OpenDatabase) =>
  pool.query(`update lead_seen set seen_at = seen_at - interval '2 seconds'`)

interface SeededHouse extends House {
  opened: OpenDatabase
}

async function build(counts: { leads: number; users: number }, answer?: TestReceiver['answer']): Promise<SeededHouse> {
  const house = await buildHouse(answer ? { answer } : {})
  const opened = await house.database.open()
  if (counts.leads > 0) await seedLeads(opened, listings(counts.leads))
  await seedUsers(
    opened.db,
    makeUsers(counts.users).map(({ email, receiverApiKey }) => ({ email, receiverKey: receiverApiKey })),
  )
  return { ...house, opened }
}

const shared = await build({ leads: 0, users: 0 })

const none = {
  type: 'prune', deliveries: 0, claims: 0, runs: 0, workers: 0, leads: 0, versions: 0, events: 0, imports: 0, searches: 0,
  triggers: 0, receiverDeliveries: 0, indexes: 0,
} // biome-ignore format: a list

function told({ code, stdout, stderr, json }: ProgramResult): Record<string, number> {
  assert.equal(code, 0, stdout + stderr)
  assert.equal(json.length, 1)
  return json[0]
}

async function column<T>(opened: OpenDatabase, statement: string): Promise<T[]> {
  const { rows } = await opened.pool.query({ text: statement, rowMode: 'array' })
  return rows.map(([value]) => value)
}

/** Starts a push, and kills it when `holds`. */
async function killPush(args: string[], env: Record<string, string>, holds: () => Promise<boolean>): Promise<void> {
  const pushing = startProgram(['push', ...args], { env })
  await until('the push is to be killed', holds)
  pushing.kill('SIGKILL')
  await pushing.done
}

const insertDeliveries = `insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes,
  query_list, recipe, attempts, under_way, created_at, status) select key, 1, 1, '2020-W01', 'weekly', 1, 1, 1, 0, 1, '', '', 1, false,`

test('what is older goes, what is younger or pending stays', async (t) => {
  const database = await createDatabase(t)
  const opened = await database.open()
  const house = await buildHouse({ database })
  await seedLeads(opened, listings(4))
  await seedLeads(opened, listings(2, 7))
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  // of every kind one row on either side of 90 days, and one that is old and still needed
  await opened.pool.query(`
    ${insertDeliveries} now() - days * interval '1 day', status from (values ('a', 90.1, 'delivered'), ('b', 90.1, 'failed'),
      ('c', 89.9, 'delivered'), ('d', 90.1, 'pending'), ('d-1', 90.1, 'delivered')) as o (key, days, status);
    update deliveries set user_id = 2 where idempotency_key like 'd%';
    insert into claims (scope, email, claimed_at) select 'weekly:2020-W01', days::text, now() - days * interval '1 day'
    from unnest(array[90.1, 89.9]) as days;
    update lead_seen set seen_at = now() - case lead_id when 4 then 89.9 else 90.1 end * interval '1 day' where lead_id > 1;
    insert into integrations (user_id, api_key_sha256, signing_secret) select id, sha256('x'), 'whsec_x' from users;
    insert into hooks (integration_id, url, url_sha256, looked_import_id) select id, 'x', sha256('x'), 1 from integrations;
    insert into lost_triggers (hook_id, kind, lost_at, lead_ids, version_ids, occurred_at, payloads)
    select id, 'new_lead', now() - days * interval '1 day', '{1, 2}', '{1, 2}', '{-infinity, -infinity}', '{null, null}' from hooks, unnest(array[90.1, 89.9]) as days;
    update leads set first_import_id = 2 where id = 2;
    update lead_versions set superseded_at = now() - (89.4 + lead_id / 2.0) * interval '1 day' where superseded_at is not null;
    insert into runs (id, command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome, came_to_end)
    select n, 'all', '2020-W01', 'UTC', 1, true, now() - days * interval '1 day', now() - days * interval '1 day', 'complete', true
    from unnest(array[200, 90.1, 89.9]) with ordinality as r (days, n);
    insert into workers (host, process_id, lease_until)
    select 'a', 1, now() - hours * interval '1 hour' from unnest(array[25, 23]) as hours;
    insert into imports (file, started_at) select '', now() - days * interval '1 day' from unnest(array[90.1, 89.9]) as days;
    update imports set started_at = now() - interval '1 year' where id = 1;
    insert into searches (meaning_sha256, kind, words, resolver) values (sha256('x'), 'words', 'x', 1000);
    insert into receiver_deliveries (idempotency_key, user_key_sha256, data_source, body_sha256, claim, claimed_until, first_at)
    select days::text, 'x', 'x', 'x', 'x', now(), now() - days * interval '1 day' from unnest(array[90.1, 89.9]) as days;
  `)
  // a delivery of the first run is pending: no version that was current since then may go
  const gone = {
    deliveries: 2,
    claims: 1,
    runs: 1,
    workers: 1,
    leads: 1,
    imports: 1,
    searches: 1,
    // only a later `trigger` deleted them, where there was one
    triggers: 2,
    receiverDeliveries: 1,
  }
  // of the listing that would go both versions would, but for the pending delivery
  const wouldGo = told(await house.call('prune --older-than 90d --json --dry-run'))
  assert.deepEqual(wouldGo, { ...none, dryRun: true, ...gone })
  assert.deepEqual(told(await house.call('prune --older-than 90d --json')), { ...none, ...gone })
  assert.deepEqual(await column(opened, 'select idempotency_key from deliveries order by 1'), ['c', 'd', 'd-1'])
  assert.deepEqual(await column(opened, 'select email from claims'), ['89.9'])
  // the ledger no longer knows for sure which users the older run served
  assert.deepEqual(await column(opened, 'select pruned from runs order by started_at'), [true, false])
  assert.deepEqual(await column(opened, 'select id from leads order by 1'), [1, 2, 4])
  // a hook is still to be looked at for the third, and its listings came with the first
  assert.deepEqual(await column(opened, 'select id from imports order by 1'), [2, 3, 4])
  await opened.pool.query(`update deliveries set status = 'failed' where status = 'pending'`)
  await opened.pool.query(`update hooks set looked_import_id = 4`)
  // the version that was superseded 90.4 days ago, and those of the listings which went
  const more = { deliveries: 2, runs: 1, leads: 1, versions: 3, events: 2, imports: 1 }
  const look = await house.call('prune --older-than 90d --dry-run')
  const pretty = await house.call('prune --older-than 90d')
  assert.deepEqual([pretty.code, pretty.stderr], [0, ''])
  assert.deepEqual([look.code, look.stdout], [0, `Nothing was deleted. This would go:\n\n${pretty.stdout}`])
  const counts = [...pretty.stdout.matchAll(/^(\w.*?) +(\d+)$/gm)].map(([, , count]) => Number(count))
  assert.deepEqual(counts, Object.values({ ...none, ...more }).slice(1))
  const countTriggers = 'select count(*) from lost_triggers'
  assert.deepEqual(await column(opened, countTriggers), [1])
  // `trigger --again` may ask for them
  await opened.pool.query(`update lost_triggers set lost_at = now() - interval '29.9 days'`)
  assert.equal(told(await house.call('prune --older-than 1d --json')).triggers, 0)
  assert.deepEqual(await column(opened, countTriggers), [1])
})

test('old triggers go in batches', async (t) => {
  // one statement deleted all there were, deaf to every signal, and locked them for as long
  const database = await createDatabase(t)
  const opened = await database.open()
  const house = await buildHouse({ database })
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  await opened.pool.query(`
    insert into integrations (user_id, api_key_sha256, signing_secret) select id, sha256('x'), 'whsec_x' from users;
    insert into hooks (integration_id, url, url_sha256, looked_import_id) select id, 'x', sha256('x'), 1 from integrations;
    insert into lost_triggers (hook_id, kind, lost_at, lead_ids, version_ids, occurred_at, payloads)
    select id, 'new_lead', now() - interval '91 days', '{1, 2}', '{1, 2}', '{-infinity, -infinity}', '{null, null}' from hooks, generate_series(1, 12000);
    create table batches (id bigint generated always as identity, name text, size bigint);
    create function note_batch() returns trigger language plpgsql as $$ begin
      insert into batches (name, size) select tg_table_name, count(*) from gone;
      return null;
    end $$;
    create trigger noted after delete on lost_triggers referencing old table as gone for each statement execute function note_batch();
  `)
  assert.equal(told(await house.call('prune --older-than 90d --json --dry-run')).triggers, 24_000)
  assert.deepEqual(await column(opened, 'select id from batches'), [])
  assert.equal(told(await house.call('prune --older-than 90d --json')).triggers, 24_000)
  const [largest, deleted] = await column(
    opened,
    'select max(size) from batches union all select sum(size) from batches',
  )
  assert.deepEqual([Number(largest) <= pruneRowsMax, Number(deleted)], [true, 12_000])
})

test('a claim lives until its period is over in every time zone, and while a run of it may go on', async () => {
  const { opened, call } = shared
  const dayMs = 86_400_000
  const today = Math.floor(Date.now() / dayMs)
  // in days since 1970-01-01, which was a Thursday
  const monday = today - ((today + 3) % 7)
  const mondays = [-1, 0, 1, 2, 3].map((weeks) => monday - 7 * weeks)
  for (const day of mondays) {
    await opened.pool.query(
      `insert into claims (scope, email, claimed_at)
       select 'weekly:' || to_char($1::timestamptz at time zone 'UTC', 'IYYY-"W"IW'), $2, now() - interval '1 year'`,
      [new Date(day * dayMs).toISOString(), String(day)],
    )
  }
  await opened.pool.query(`
    insert into claims (scope, email, claimed_at) select scope, 'x', now() - interval '1 year' from unnest(array[
      'weekly:2020-W10', 'weekly:2020-W11', 'weekly:2020-W12', 'weekly:2020-W53', 'forced:101', 'failed:102', 'forced:103',
      'forced:104']) as o (scope);
    insert into workers overriding system value values (900, 'a', 1, now() - interval '1 year', now() + interval '1 hour');
    insert into runs (id, command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome, came_to_end)
    select id, 'all', coalesce(period, to_char(now(), 'IYYY-"W"IW')), 'UTC', worker, true, now() - days * interval '1 day', null,
      outcome, false
    from (values (101, '2020-W20', 0, 1, 'stopped'), (102, null, 0, 1, 'complete'), (103, null, 0, 1, 'stopped'),
      (105, '2020-W10', 900, 400, 'running'), (106, '2020-W11', 0, ${frozenRunDays - 1}, 'running'), (107, '2020-W12', 0, ${frozenRunDays + 1}, 'running'))
      as o (id, period, worker, days, outcome)`)
  told(await call('prune --older-than 1s --json'))
  const kept = mondays.filter((day) => today < day + 9).map(String)
  assert.ok(kept.includes(String(monday)) && kept.length < mondays.length)
  assert.deepEqual(await column(opened, `select email from claims where email <> 'x' order by email`), kept.sort())
  assert.deepEqual(await column(opened, `select scope from claims where email = 'x' order by scope`), [
    ...['failed:102', 'forced:103', 'weekly:2020-W10', 'weekly:2020-W11'],
  ])
  await opened.pool.query('truncate claims, runs, workers cascade')
})

test('in its week a served user stays served, removed and imported again too, and what failed can be mended', async () => {
  const house = await build({ leads: 2, users: 3 }, ({ headers }, nth) =>
    headers['x-service-api-key'] === 'key-0' && nth <= 4 ? 400 : 200,
  )
  const prune = async () => told(await house.call('prune --older-than 1ms --json'))
  const sent = async (args: string) => deliveriesOf((await house.call(args)).json).map(({ user }) => user)
  assert.equal((await house.call('push --all')).code, 1)
  const { deliveries, claims, leads } = await prune()
  assert.deepEqual([deliveries, claims, leads], [2, 0, 0])
  assert.equal((await house.call('users remove user-1@example.com')).code, 0)
  await house.put('users', makeUsers(4))
  assert.deepEqual(await sent('push --all --json'), ['user-3@example.com'])
  assert.equal((await house.call('status --check')).code, 1)
  assert.deepEqual(await sent('push --failed --json'), ['user-0@example.com'])
  // a failed delivery goes before the one that made it good: in between no push may take the failed one for open
  assert.equal((await prune()).deliveries, 2)
  assert.deepEqual(await column(house.opened, 'select kind from deliveries'), ['forced'])
  assert.deepEqual(await sent('push --failed --json'), [])
  assert.equal((await prune()).deliveries, 1)
})

test('a delivery that waits for its second attempt gets it, byte for byte, even after a prune', async () => {
  const house = await build({ leads: 3, users: 1 }, (_, nth) => (nth === 1 ? 503 : 200))
  const { opened, call } = house
  const prune = async () => told(await call('prune --older-than 1ms --json', { env: ageless }))
  const hasFailedOnce = async () =>
    (await column(opened, 'select 1 from deliveries where first_status = 503')).length > 0
  await killPush(['--all'], { ...house.env, LEADPUSH_RETRY_DELAY: '5m' }, hasFailedOnce)
  await seedLeads(opened, listings(1, 900))
  // as if the merge had begun before the push, and ended after it
  await opened.pool.query(`
    update lead_versions set superseded_at = now() - interval '23 hours' where superseded_at is not null;
    update workers set lease_until = now(); update deliveries set due_at = now()`)
  await makeOlder(opened)
  const { deliveries, leads, versions } = await prune()
  assert.deepEqual([deliveries, leads, versions], [0, 3, 0])
  const { code, stderr } = await call('push --resume')
  assert.equal(code, 0, stderr)
  const [one, two] = house.receiver.requests as [ReceivedRequest, ReceivedRequest]
  assert.deepEqual([house.receiver.requests.length, two.key, two.json.fsbos.length], [2, one.key, 3])
  assert.ok(one.body.equals(two.body))
  // now nothing is pending, and no run may be under way that planned with them
  await opened.pool.query(`update runs set outcome = 'interrupted' where outcome = 'running'`)
  assert.equal((await prune()).versions, 4)
  assert.deepEqual(await column(opened, 'select id from lead_versions'), [])
})

test('users whom an interrupted --force had served are not served again after a prune', async () => {
  const house = await build({ leads: 1, users: 30 })
  const { opened, receiver } = house
  assert.equal((await house.call('push --all')).code, 0)
  receiver.answer = (_, nth) => (nth <= 36 ? 200 : 'hang')
  const served = async () => (await column(opened, `select 1 from deliveries where status = 'delivered'`)).length
  await killPush(['--all', '--force', '--concurrency', '4'], house.env, async () => (await served()) >= 36)
  receiver.answer = () => 200
  await opened.pool.query('update workers set lease_until = now()')
  told(await house.call('prune --older-than 1ms --json'))
  assert.equal((await house.call('push --resume')).code, 0)
  const keysOf = new Map<unknown, Set<string>>()
  for (const { headers, key } of receiver.requests) {
    const user = headers['x-service-api-key']
    keysOf.set(user, (keysOf.get(user) ?? new Set()).add(key))
  }
  assert.deepEqual(
    [...keysOf.values()].map(({ size }) => size),
    Array(30).fill(2),
  )
})

test('prunes beside a push and imports harm neither', async () => {
  const users = 40
  const house = await build({ leads: 300, users }, () => ({ status: 200, delayMs: 50 }))
  const pushing = house.call('push --all --json --concurrency 2')
  let isPushed = false
  const work = async (again: () => Promise<unknown>) => {
    while (!isPushed) await again()
  }
  let price = 1_000
  const [push] = await Promise.all([
    pushing.finally(() => {
      isPushed = true
    }),
    work(async () => told(await house.call('prune --older-than 1ms --json', { env: ageless }))),
    work(() => seedLeads(house.opened, listings(500, price++))),
  ])
  assert.equal(push.code, 0, push.stderr)
  assert.deepEqual([push.json.at(-1).delivered, house.receiver.keys().size], [users, users])
  await seedLeads(house.opened, listings(500))
  const { json } = await house.call('validate --json')
  assert.equal(json.at(-1).leads, 500)
  assert.deepEqual(
    json.filter(({ where }) => String(where).startsWith('lead')),
    [],
  )
})

test('a prune waits for an import, rides out a short absence of the database, and ends on SIGHUP', async () => {
  const { opened, env } = shared
  await seedLeads(opened, listings(2))
  await makeOlder(opened)
  const importing = await opened.pool.connect()
  await importing.query('select pg_advisory_lock(7310401)')
  const startWaiting = async () => {
    await opened.pool.query(`${insertDeliveries} now() - interval '1 year', 'failed' from (values ('a')) as o (key)`)
    const program = startProgram(['prune', '--older-than', '1ms', '--json'], { env: { ...env, ...ageless } })
    await until('the deliveries go', async () => (await column(opened, 'select 1 from deliveries')).length === 0)
    await importing.query(`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and query like '%pg_try_advisory%'`)
    return program
  }
  const stopped = await startWaiting()
  stopped.kill('SIGHUP')
  const { code, json } = await stopped.done
  assert.deepEqual([code, json[0]?.deliveries, json[0]?.leads], [129, 1, 0])
  const waiting = await startWaiting()
  await importing.query('select pg_advisory_unlock(7310401)')
  importing.release()
  assert.equal(told(await waiting.done).leads, 2)
})

test('imports are kept as long as they are told of, however short the duration', async () => {
  const { opened, call } = shared
  await opened.pool.query(`insert into imports (file, started_at)
    select file, now() - days * interval '1 day' from (values (${importDays - 0.1}, 'kept'), (${importDays + 0.1}, 'old'), (0, 'last')) as i (days, file)`)
  told(await call('prune --older-than 1d --json'))
  assert.deepEqual(await column(opened, `select file from imports where file in ('kept', 'old')`), ['kept'])
})

test('a duration that is none is refused, and so is a prune where no database is', async () => {
  for (const given of ['0s', '90', '36501d']) {
    const { code, stderr } = await shared.call(['prune', '--older-than', given])
    assert.deepEqual([code, /--older-than: holds .*allowed: .* such as 90d/.test(stderr)], [2, true], stderr)
  }
  const { code, stderr } = await shared.call('prune --older-than 90d', { env: { DATABASE_URL: undefined } })
  assert.deepEqual([code, /DATABASE_URL/.test(stderr)], [2, true], stderr)
})

test('a push clears away the rows of processes that were killed long ago', async () => {
  const { opened, call } = shared
  await opened.pool.query(`
    insert into workers (host, process_id, lease_until)
    select host, 1, now() - hours * interval '1 hour' from (values ('a', 25), ('b', 23)) as o (host, hours);
    insert into user_ranges select id, 'weekly:2020-W01', '', id, '', id from workers`)
  assert.equal((await call('push --resume')).code, 0)
  assert.deepEqual(await column(opened, 'select host from workers join user_ranges on worker_id = id'), ['b'])
})
