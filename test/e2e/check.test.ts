/** `status --check` (contract 3): each alarm on both sides of its limit, and that the command named in its line ends it. */
import assert from 'node:assert/strict'
import { after, afterEach, test } from 'node:test'
import { leftDays, withoutLeadShare } from '../../src/base/limits.ts'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, passPauses, passTime, runTrigger } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers, zip } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { owe } from '../support/owed.ts'
import { defaults } from '../support/push-settings.ts'

const house = await buildHouse({ leads: [{ href: hrefOf(1), postalCode: '78704' }], users: makeUsers(3) })
const opened = await house.database.open()
const platform = await startHookReceiver()
after(() => platform.close())
const hooksEnv = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
const query = (text: string, values: unknown[] = []) => opened.pool.query(text, values)
let names = 0

await house.call('push --all')

/** What a monitor prints, a line each; it is empty exactly where the exit code is 0. */
async function check(env: Record<string, string> = {}): Promise<string[]> {
  const { code, stdout, stderr } = await house.call('status --check --quiet', { env })
  const lines = stdout.split('\n').filter((line) => line !== '')
  assert.deepEqual([code, stderr], [lines.length > 0 ? 1 : 0, ''], stdout)
  return lines
}

/** The same without a program, which takes connections of its own each time. */
async function look(): Promise<string[]> {
  const findings = await findAlarms(opened.db, await findStatus(opened.db, defaults), defaults)
  return findings.map((finding) => `${finding.where}  ${finding.level}  ${sentenceOf(finding)}`)
}

const well = async () => assert.deepEqual(await look(), [])

/** The one alarm there is. */
async function alarm(pattern: RegExp, lines?: string[]): Promise<string> {
  const [line = '', ...more] = lines ?? (await look())
  assert.deepEqual(more, [])
  assert.match(line, pattern)
  return line
}

/** Runs a command that an alarm named, in its words, but for a file. */
async function follow(line: string, command: string, run = command): Promise<void> {
  assert.ok(line.includes(`\`leadpush ${command}\``), line)
  const { code, stderr } = await house.call(run, { env: hooksEnv })
  assert.equal(code, 0, stderr)
}

/** A subscribed user who is owed a weekly delivery of this week, since before its push. */
async function addLate(queries = [zip('78704')]): Promise<string> {
  const email = `late-${++names}@example.com`
  await house.put('users', [{ email, receiverApiKey: `late-${names}`, queries }])
  await query(`update users set due_since = now() - interval '90 days' where email = $1`, [email])
  return email
}

const leadsFile = (...codes: string[]) =>
  writeInput('leads.ndjson', toLines(codes.map((postalCode) => ({ href: hrefOf(`new-${++names}`), postalCode }))))

afterEach(async () => {
  house.receiver.answer = () => 200
  platform.answer = () => 200
  await query('delete from hooks')
  await well()
})

test('all is well, and says so first; with --quiet nothing is said, and that goes with --check', async () => {
  assert.deepEqual(await check(), [])
  const { code, stdout } = await house.call('status --check')
  assert.equal(code, 0)
  assert.match(stdout, /^All is well\.\n\nperiod /)
  await query(`update imports set started_at = started_at - interval '9 days'`)
  assert.match((await house.call('status --check')).stdout, /^\w+ {2}problem {2}No import .*\n\nperiod /)
  // problems were shown only with --check
  const plain = await house.call('status')
  assert.equal(plain.code, 0)
  assert.match(plain.stdout, /^\w+ {2}problem {2}No import .*\n\nperiod /)
  const { json } = await house.call('status --check --quiet --json')
  assert.equal(json[0].findings.length, 1)
  await query(`update imports set started_at = started_at + interval '9 days'`)
  assert.equal((await house.call('status --quiet')).code, 2)
})

test('a delivery that nobody has in hand', async () => {
  await query(
    `update deliveries set status = 'pending', worker_id = null where ctid = (select min(ctid) from deliveries)`,
  )
  await follow(await alarm(/1 delivery waits/), 'push --resume')
})

// A receiver had answered 30 deliveries with 409, so that each was `unknown`, and the check said that all is well.
test('deliveries that failed or are unknown, of users who would get them anew', async () => {
  const [one, two] = [await addLate(), await addLate()]
  house.receiver.answer = () => 409
  assert.equal((await house.call('push --all')).code, 1)
  const unknown = await alarm(/2 users have a delivery of .* that may not have arrived/)
  house.receiver.answer = () => 401
  assert.equal((await house.call(`push --user ${one}`)).code, 1)
  await alarm(/1 user has a delivery of .* that failed, 2 users have .* may not have arrived/)
  // users who had unsubscribed, or had no query any more, stayed in the alarm for ever: no command sends them anything
  await query(`update users set subscribed = false where email = $1`, [one])
  const { rows } = await query(
    `delete from queries q using users u where u.id = q.user_id and u.email = $1 returning q.*`,
    [two],
  )
  await well()
  await query(`update users set subscribed = true where email = $1`, [one])
  await query(`insert into queries select * from jsonb_populate_recordset(null::queries, $1)`, [JSON.stringify(rows)])
  const { stdout } = await house.call('status')
  assert.match(stdout, new RegExp(one))
  house.receiver.answer = () => 200
  await follow(unknown, 'push --failed --unknown')
  await well()
  assert.doesNotMatch((await house.call('status')).stdout, new RegExp(`${one}|${two}`), 'they had a later one')

  house.receiver.answer = () => 401
  await addLate()
  assert.equal((await house.call('push --all')).code, 1)
  const failed = await alarm(/1 user has a delivery of .* that failed, and no later one/)
  house.receiver.answer = () => 200
  await follow(failed, 'push --failed')
})

// After a push that gave up, or a database that had lost deliveries of a complete push, users stayed owed without an alarm.
test('users whom a push of this week left a day ago', async () => {
  const leave = (ago: string, outcome = 'complete') =>
    query(`update runs set outcome = $2, started_at = now() - interval '2 days', ended_at = now() - $1::interval`, [
      ago,
      outcome,
    ])
  await leave(`${leftDays} day`)
  await house.put('users', makeUsers(1, 10))
  await well()
  // who was there and asked for nothing was not due then
  const asking = { email: 'asking@example.com', receiverApiKey: 'asking' }
  await house.put('users', [{ ...asking, queries: [] }])
  await query(
    `update users set due_since = now() - interval '3 days' where email in ('user-10@example.com', 'asking@example.com')`,
  )
  await house.put('users', [{ ...asking, queries: [zip('78704')] }])
  for (const outcome of ['complete', 'failures', 'stopped']) {
    await leave(`${leftDays} day`, outcome)
    await alarm(/^\w+ {2}problem {2}1 user whom a push did not reach has been owed/)
    await leave('23 hours 59 minutes', outcome)
    await well()
  }
  await leave('23 hours 59 minutes')
  // one whose process is gone
  await query(`insert into runs (command, period, time_zone, worker_id, resumable, started_at)
    select 'all', period, 'UTC', 77, true, now() - interval '2 days' from runs limit 1`)
  await query(
    `insert into workers (id, host, process_id, lease_until) overriding system value values (77, '', 1, now() + interval '1 minute')`,
  )
  await well()
  await query(`update workers set lease_until = now() - interval '23 hours 59 minutes'`)
  await well()
  await query('delete from workers')
  const line = await alarm(/1 user whom a push/)
  // who unsubscribed and came back is due from then on
  await house.call('users unsubscribe user-10@example.com')
  await well()
  await house.put('users', [{ email: 'user-10@example.com', subscribed: true }])
  await well()
  await query(`update users set due_since = now() - interval '3 days' where email = 'user-10@example.com'`)
  await follow(line, 'push --resume')
})

test('users whose further delivery, or whose subscription push, was left a day ago', async () => {
  await query(`update claims set claimed_at = now() - interval '3 days'`)
  await query(`insert into runs (command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome)
    select 'force', period, 'UTC', 0, true, now() - interval '2 days', now() - interval '23 hours 59 minutes', 'stopped' from runs limit 1`)
  await query(`insert into forced_scopes select period, id from runs where command = 'force'`)
  await well()
  await query(`update runs set ended_at = now() - interval '1 day' where command = 'force'`)
  await follow(await alarm(/^\w+ {2}problem {2}\d users whom a push/), 'push --resume')
  await well()
  const oweSince = (ago: string) => query(owe("email = 'user-0@example.com'", 'now() - $1::interval'), [ago])
  await oweSince('23 hours 59 minutes')
  await well()
  await oweSince('1 day')
  await follow(await alarm(/^\w+ {2}problem {2}1 user whom a push/), 'push --all')
})

test('users of the week before who were due and got nothing', async () => {
  const before = `to_char(to_date(period, 'IYYY-"W"IW') - 7, 'IYYY-"W"IW')`
  await query(
    `update runs set period = ${before}, started_at = now() - interval '7 days', ended_at = now() - interval '7 days'`,
  )
  await query(
    `update deliveries set idempotency_key = 'old' || idempotency_key, period = ${before}, created_at = now() - interval '7 days'`,
  )
  await query(`update claims set scope = 'weekly:' || (select period from runs limit 1) where scope like 'weekly:%'`)
  await well()
  const email = await addLate()
  const due = (ago: string) => query(`update users set due_since = now() - $1::interval where email = $2`, [ago, email])
  await due('6 days 23 hours')
  await well()
  await due('8 days')
  const line = await alarm(
    /^\w+ {2}problem {2}1 user who was due in \d{4}-W\d\d got no delivery in it, and has none in/,
  )
  // any delivery in one of the two weeks counts
  assert.equal((await house.call(`push --user ${email}`)).code, 0)
  await well()
  await query(`update deliveries set period = ${before} where kind = 'single'`)
  await well()
  await query(`delete from deliveries where kind = 'single'`)
  await query(`update runs set resumable = false`)
  assert.doesNotMatch((await look()).join(), /was due/, 'a push with --limit leaves nobody')
  await query(`update runs set resumable = true`)
  await follow(line, 'push --all')
})

test('no whole push of all users in 8 days', async () => {
  await query(`update runs set ended_at = now() - interval '8 days' + interval '1 minute'`)
  await well()
  await query(`update runs set ended_at = now() - interval '8 days'`)
  assert.equal((await house.call('push --all --limit 5')).code, 0)
  const line = await alarm(/No whole `push --all` finished in the last 8 days/)
  await query('delete from runs')
  await alarm(/No whole `push --all` has finished yet/)
  await follow(line, 'push --all')
})

test('half of the subscribed users without a lead', async () => {
  assert.equal(withoutLeadShare, 1 / 2)
  await query('update users set subscribed = false where email <> $1', ['user-0@example.com'])
  const far = await addLate([zip('10001')])
  await query(`update users set due_since = now() where email = $1`, [far])
  // who asks for nothing is neither with a lead nor without
  await house.put('users', [{ email: 'nothing@example.com', receiverApiKey: 'key', queries: [] }])
  const line = await alarm(/^\w+ {2}problem {2}1 of 2 subscribed users with queries has no lead to send/)
  await query(`update users set subscribed = true where email = 'user-1@example.com'`)
  await well()
  await query(`update users set subscribed = false where email = 'user-1@example.com'`)
  await follow(line, 'leads import FILE', `leads import ${leadsFile('10001')}`)
  await well()
  // a listing that is too old is none
  await query(`update lead_seen set seen_at = now() - interval '31 days'`)
  assert.match((await look()).join('\n'), /2 of 2 subscribed users with queries have no lead/)
  await query(`update lead_seen set seen_at = now()`)
  await query(`update users set subscribed = email like 'user-%'`)
})

test('listings that are no longer imported', async () => {
  const age = (text: string) => query(`update imports set started_at = now() - $1::interval`, [text])
  await age('8 days -1 minute')
  await well()
  await age('8 days 1 second')
  const line = await alarm(
    /^\w+ {2}problem {2}No import of listings has finished since \S+ \(LEADPUSH_FEED_MAX_AGE is 8 days\)/,
  )
  assert.deepEqual(await check(), [line])
  assert.deepEqual(await check({ LEADPUSH_FEED_MAX_AGE: 'off' }), [])
  assert.deepEqual(await check({ LEADPUSH_FEED_MAX_AGE: '9d' }), [])
  await age('61 minutes')
  await alarm(/LEADPUSH_FEED_MAX_AGE is 1 hour/, await check({ LEADPUSH_FEED_MAX_AGE: '1h' }))
  await well()
  await age('70 days')
  assert.equal((await house.call('prune --older-than 60d')).code, 0)
  await alarm(/No import of listings/)
  await follow(line, 'leads import FILE', `leads import ${leadsFile('78704')}`)
  await well()
  await query('update leads set first_import_id = 0')
  await query('delete from imports')
  await well()
})

const addHookOf = (path: string) => addHook(opened, 'user-0@example.com', platform.url(path))
const importOne = async () => assert.equal((await house.call(`leads import ${leadsFile('78704')}`)).code, 0)

test('triggers that have been due for a day, and no run of trigger', async () => {
  await addHookOf('/waiting')
  await importOne()
  await query(`update imports set started_at = now() - interval '1 day' + interval '1 minute'`)
  await well()
  await query(`update imports set started_at = now() - interval '1 day'`)
  const line = await alarm(/Triggers for 1 hook have been due for more than a day, and no `trigger` has run/)
  await follow(line, 'trigger')
  await well()
  // found, and then sent by nobody
  platform.answer = () => 500
  await importOne()
  await runTrigger(opened)
  const due = async (ago: string) => {
    await query(`update triggers set due_at = now() - $1::interval`, [ago])
    await query(`update hooks set last_at = null`)
  }
  await due('23 hours 59 minutes')
  await well()
  await due('1 day')
  await alarm(/Triggers for 1 hook have been due/)
  await query(`update hooks set last_at = now()`)
  await well()
  await due('1 day')
  await query(`update triggers set due_at = now() - interval '1 day'`)
  platform.answer = () => 200
  await follow(line, 'trigger')
})

// What waited for the end of a pause of two days was told as due, and that no run had looked for it.
test('a hook that asks for a long pause has no triggers that a run should have sent, until a day after its end', async () => {
  await addHookOf('/pausing')
  assert.equal((await house.call(`leads import ${leadsFile('78704', '78704')}`)).code, 0)
  platform.answer = () => ({ status: 503, headers: { 'Retry-After': String(2 * 86_400) } })
  assert.equal((await runTrigger(opened)).counts.failed, 1)
  await passTime(opened, 1.5 * 86_400_000)
  assert.deepEqual((await runTrigger(opened)).lines, [])
  await alarm(/^\w+ {2}problem {2}1 hook has failed for more than a day/)
  await passTime(opened, 1.6 * 86_400_000)
  const [line = '', ...more] = await look()
  assert.match(
    line,
    /^\w+ {2}problem {2}Triggers for 1 hook have been due for more than a day, and no `trigger` has run/,
  )
  assert.equal(more.length, 1)
  platform.answer = () => 200
  await follow(line, 'trigger')
  await well()
})

test('a hook that has failed for a day', async () => {
  await addHookOf('/failing')
  await importOne()
  platform.answer = () => 500
  await runTrigger(opened)
  await well()
  const since = (ago: string) => query(`update hooks set failing_since = now() - $1::interval`, [ago])
  await since('23 hours 59 minutes')
  await well()
  await since('1 day')
  const line = await alarm(/^\w+ {2}problem {2}1 hook has failed for more than a day/)
  await passPauses(opened)
  await runTrigger(opened)
  await alarm(/1 hook has failed/)
  platform.answer = () => 200
  await passPauses(opened)
  await follow(line, 'trigger --again')
  await well()
  const { rows } = await query('select failing_since from hooks')
  assert.equal(rows[0].failing_since, null)

  platform.answer = () => 500
  await importOne()
  await runTrigger(opened)
  await since('1 day')
  const again = await alarm(/1 hook has failed/)
  const [, command = ''] = /`leadpush (integrations revoke \d+)`/.exec(again) ?? []
  await follow(again, command)
})

test('triggers that were given up or dropped in the last day', async () => {
  const { integrationId } = await addHookOf('/gone')
  await importOne()
  platform.answer = () => 500
  await runTrigger(opened)
  await query('update triggers set attempts = 8')
  await passPauses(opened)
  const { counts } = await runTrigger(opened)
  assert.equal(counts.abandoned, 1)
  const line = await alarm(/Triggers for 1 hook were given up in the last day/)
  await query(`update hooks set abandoned_at = now() - interval '1 day'`)
  await well()
  await query(`update hooks set abandoned_at = now() - interval '1 day' + interval '1 minute'`)
  await follow(line, `integrations revoke ${integrationId}`)
  await well()

  const other = await addHookOf('/dropped')
  await query(`update hooks set dropped_at = now() - interval '1 day'`)
  await well()
  await query(`update hooks set dropped_at = now()`)
  await follow(await alarm(/New listings for 1 hook were dropped/), `integrations revoke ${other.integrationId}`)
})
