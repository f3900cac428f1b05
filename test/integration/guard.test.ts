/** The guard of the weekly push (contract 4.14), week after week: a week passes when everything that is there becomes a week older. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Kysely, sql } from 'kysely'
import type { OpenDatabase } from '../../src/db/open.ts'
import type { Tables } from '../../src/db/tables.ts'
import { createHttp } from '../../src/http/client.ts'
import type { PushLine, SummaryLine } from '../../src/index.ts'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import { type PushRequest, type PushSettings, runPush } from '../../src/push/run-push.ts'
import { prune } from '../../src/upkeep/prune/prune.ts'
import { afterStatement } from '../support/after-statement.ts'
import { createDatabase } from '../support/database.ts'
import { owe } from '../support/owed.ts'
import { collectingReporter } from '../support/push-reporter.ts'
import { testPushSettings } from '../support/push-settings.ts'
import { startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const dayMs = 86_400_000
const all: PushRequest = { what: 'all', force: false, limit: undefined }
const resume: PushRequest = { what: 'resume' }
const seen = { timeZone: 'UTC', maxLeadAgeMs: 5 * dayMs, guard: 'on', sameHouse: 'each' } as const

interface Pushed {
  ok: boolean
  summary: SummaryLine
  notes: string[]
  /** The lines of what was skipped: `user: reason`. */
  skips: string[]
  /** Requests that came of it. */
  sent: number
}

class Weeks {
  private readonly opened: OpenDatabase
  private readonly receiver: TestReceiver

  constructor(opened: OpenDatabase, receiver: TestReceiver) {
    this.opened = opened
    this.receiver = receiver
  }

  /** The same, whose pushes meet `steps` after their statements with the text `asked`. */
  meanwhile(asked: string, ...steps: (() => Promise<unknown>)[]): Weeks {
    return new Weeks(afterStatement(this.opened, asked, ...steps), this.receiver)
  }

  get db(): Kysely<Tables> {
    return this.opened.db
  }

  query(statement: string) {
    return this.opened.pool.query(statement)
  }

  import(leads: Parameters<typeof seedLeads>[1]) {
    return seedLeads(this.opened, leads)
  }

  users(...names: string[]) {
    return seedUsers(
      this.db,
      names.map((name) => ({ email: `${name}@example.com` })),
    )
  }

  /** As if so many listings had been imported a moment ago, each with so many filled fields. */
  async feed(listings: number, filled: number | null = 10): Promise<void> {
    await sql`
      insert into lead_seen (lead_id, seen_at, filled) select 1000000 + n, now(), ${filled}::smallint from generate_series(1, ${listings}::integer) n
      on conflict (lead_id) do update set seen_at = excluded.seen_at, filled = excluded.filled
    `.execute(this.db)
  }

  /** The same for the listings that a source has; the others that it had before were not seen again. */
  async feedSource(name: string, first: number, listings: number): Promise<void> {
    await this.query(`
      insert into sources (name, imported_at) values ('${name}', now()) on conflict do nothing;
      insert into lead_seen (lead_id, seen_at, filled) select ${first} + n, now(), 10 from generate_series(1, ${listings}) n
      on conflict (lead_id) do update set seen_at = excluded.seen_at;
      insert into lead_sources select ${first} + n, id from generate_series(1, ${listings}) n, sources where name = '${name}'
      on conflict do nothing`)
  }

  /** Keys get another name, since the clock makes the same ones again; claims one for a moment: no two may meet. */
  async passWeek(): Promise<void> {
    const before = (period: string) => `to_char(to_date(${period}, 'IYYY-"W"IW') - 7, 'IYYY-"W"IW')`
    const week = `interval '7 days'`
    await this.query(`
      update runs set period = ${before('period')}, started_at = started_at - ${week}, ended_at = ended_at - ${week};
      update deliveries set idempotency_key = 'o' || idempotency_key, period = ${before('period')}, created_at = created_at - ${week};
      update claims set scope = 'x' || scope, claimed_at = claimed_at - ${week} where scope like 'weekly:%';
      update claims set scope = 'weekly:' || ${before('substr(scope, 9)')} where scope like 'xweekly:%';
      update lead_seen set seen_at = seen_at - ${week};`)
  }

  async push(
    request: PushRequest = all,
    { accept, ...more }: Partial<PushSettings> & { accept?: boolean; stop?: AbortController } = {},
  ): Promise<Pushed> {
    const lines: PushLine[] = []
    const notes: string[] = []
    const before = this.receiver.requests.length
    const settings = testPushSettings(this.receiver.url, { ...seen, ...more })
    const http = createHttp({ timeoutMs: settings.timeoutMs, concurrency: settings.concurrency })
    const reporter = collectingReporter(lines, notes)
    const stop = (more.stop ?? new AbortController()).signal
    const { ok, summary } = await runPush({ db: this.db, http, settings, request, accept, reporter, stop })
    await http.close()
    return { ok, summary, notes, skips: skipsOf(lines), sent: this.receiver.requests.length - before }
  }

  /** Whether a push was held as a whole, after so much was imported. */
  async holds(listings: number, filled = 10, request = all): Promise<boolean> {
    await this.feed(listings, filled)
    const { ok, skips } = await this.push(request)
    assert.equal(ok, skips.length === 0, skips.join())
    return !ok
  }

  async preview(force = false, more = {}) {
    const preview = await Preview.create(this.db, { what: 'all', force }, { ...seen, ...more })
    const lines: PushLine[] = []
    for await (const found of preview.lines()) lines.push('line' in found ? found.line : found)
    const summary = preview.summary(0)
    return { skips: skipsOf(lines), summary, planned: lines.filter(({ type }) => type === 'delivery').length }
  }

  status() {
    return findStatus(this.db, seen)
  }

  async alarms(): Promise<string[]> {
    const settings = { ...seen, feedMaxAgeMs: undefined }
    return (await findAlarms(this.db, await this.status(), settings)).map(sentenceOf)
  }
}

const skipsOf = (lines: readonly PushLine[]) =>
  lines.flatMap((line) => (line.type === 'skip' ? [`${line.user ?? '*'}: ${line.reason}`] : []))

async function begin(t: TestContext, answer?: TestReceiver['answer']): Promise<Weeks> {
  const database = await createDatabase(t)
  const receiver = await startTestReceiver(answer)
  t.after(() => receiver.close())
  return new Weeks(await database.open(), receiver)
}

const lead = (n: number, more = {}) => ({ href: `https://listings.example/${n}`, ...more })
const leads = (count: number, more = {}) => Array.from({ length: count }, (_, n) => lead(n, more))

test('a week in which half of the listings are missing is held as a whole until it is accepted', async (t) => {
  const weeks = await begin(t)
  await weeks.import([lead(1)])
  await weeks.users('a', 'b')
  await weeks.feed(1_999)
  assert.equal((await weeks.push()).ok, true, 'a first week has nothing to be compared with')

  await weeks.passWeek()
  await weeks.import([lead(1)])
  await weeks.feed(999)
  const reason = 'held: 1000 listings imported since the last weekly run instead of 2000 in the week before'
  const before = await weeks.query('select * from runs')
  const preview = await weeks.preview(true)
  assert.deepEqual([preview.skips, preview.planned], [[`*: ${reason}`], 0])
  assert.deepEqual([preview.summary.users, preview.summary.owed, preview.summary.skipped], [2, 2, 0])
  assert.deepEqual((await weeks.query('select * from runs')).rows, before.rows)

  for (const request of [all, resume, resume, { ...all, limit: 1 }, { ...all, force: true }]) {
    const held = await weeks.push(request)
    // to --resume it is nothing new
    assert.deepEqual([held.ok, held.skips, held.sent], [request.what === 'resume', [`*: ${reason}`], 0])
    const { users, owed, skipped, already } = held.summary
    assert.deepEqual([users, owed, skipped, already], [2, 2, 0, 0])
  }
  const status = await weeks.status()
  assert.deepEqual([status.held, status.owed], [{ by: 'week', reason, users: 0 }, 2])
  const [alarm, ...others] = await weeks.alarms()
  assert.match(alarm ?? '', /holds back the weekly run \(1000 listings .*`leadpush push --all --accept`/)
  assert.deepEqual(others, [])
  await weeks.query(`update runs set ended_at = ended_at - interval '2 days'`)
  assert.match((await weeks.alarms()).join(), /No whole `push --all`/, 'a run that was held has not come to its end')

  const accepted = await weeks.push(resume, { accept: true })
  assert.deepEqual([accepted.ok, accepted.skips, accepted.sent], [true, [], 2])
  assert.equal((await weeks.status()).held, undefined)
  assert.deepEqual(await weeks.alarms(), [])
  await weeks.users('c')
  const later = await weeks.push()
  assert.deepEqual([later.ok, later.sent], [true, 1], 'the week was accepted')
  await weeks.query('delete from lead_seen where lead_id > 1000499')
  assert.equal((await weeks.push()).ok, true, 'nobody is left to be served')
  // it ended with 1 and no line: it had found nobody to hold when it began
  const meanwhile = weeks.meanwhile('"withoutQueries"', () => weeks.users('d'))
  for (const pushed of [await meanwhile.push(), await weeks.push()]) {
    assert.match(pushed.skips.join(), /^.: held: 500 listings .* instead of 1000 when this week was accepted/)
    assert.deepEqual([pushed.ok, pushed.summary.owed], [false, 1])
  }
})

// Given with --limit 1, it accepted the figures of the week for the push of everybody.
test('--accept with --limit accepts for its own users alone: the next push is held', async (t) => {
  const weeks = await begin(t)
  await weeks.import([lead(1)])
  await weeks.users('a', 'b', 'c')
  await weeks.feed(1_999)
  assert.equal((await weeks.push()).ok, true)
  await weeks.passWeek()
  await weeks.import([lead(1)])
  await weeks.feed(999)
  assert.equal((await weeks.push({ ...all, limit: 1 }, { accept: true })).sent, 1)
  const held = await weeks.push()
  assert.deepEqual([held.ok, held.sent, held.summary.owed], [false, 0, 2])
  assert.match(held.skips.join(), /^\*: held: 1000 listings .* instead of 2000 in the week before$/)
})

test('a feed that lost half of its fields is held, though nothing that was known is lost', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a')
  const full = { price: 1, city: 'Austin', state: 'TX', bedrooms: 3 }
  await weeks.import(leads(1_000, full))
  assert.equal((await weeks.push()).ok, true)
  await weeks.passWeek()
  // every listing twice: the last record of each counts, and of the fields those that it may be without
  await weeks.import(leads(1_000, full))
  await weeks.import(leads(1_000, { price: 2, city: null }).map((one, n) => (n === 0 ? { ...one, ...full } : one)))
  const [run] = (await weeks.query(`select listings, filled_fields from runs`)).rows
  assert.deepEqual(run, { listings: 1_000, filled_fields: 4_000 })
  assert.match(
    (await weeks.push()).skips.join(),
    /\*: held: 1003 filled fields in the 1000 listings .* instead of 4000/,
  )
  await weeks.import(leads(1_000, full))
  const mended = await weeks.push(resume)
  assert.deepEqual([mended.ok, mended.sent], [true, 1], 'what was mended need not be accepted')
})

test('a held week is no measure for later ones and does not disturb the next; an accepted one is like any other', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a')
  const week = async (listings: number) => {
    await weeks.passWeek()
    return await weeks.holds(listings)
  }
  assert.equal(await weeks.holds(1_000), false)
  assert.equal(await week(400), true)
  assert.equal(await week(450), true, 'nobody accepted 400')
  assert.equal(await week(1_000), false, 'imported since the run that was held')
  assert.equal(await week(500), true)
  assert.equal((await weeks.push(all, { accept: true })).ok, true)
  // 500, 1000, 1000
  assert.equal(await week(501), false)
  // 501, 500, 1000, 1000
  assert.equal(await week(0), true)
})

test('a week begins with the first run of the period before, not with later ones, and skips periods without a run', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a')
  await weeks.feed(1_000)
  await weeks.push({ ...all, limit: 1 })
  await weeks.passWeek()
  await weeks.push({ ...all, limit: 1 }, { guard: 'off' })
  await weeks.feed(1_000)
  await weeks.users('b')
  assert.equal((await weeks.push()).ok, true)
  await weeks.users('c')
  assert.equal((await weeks.push()).ok, true, 'the same week again')
  await weeks.passWeek()
  await weeks.passWeek()
  await weeks.query(`update lead_seen set seen_at = now() - interval '10 days' where lead_id > 1000500`)
  await weeks.feed(100)
  assert.equal((await weeks.push()).ok, true, 'two weeks ago is after the last run that had one')
  await weeks.passWeek()
  assert.equal(await weeks.holds(499), true)
})

test('weeks of a program that counted nothing are no measure, and their users are not held', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a')
  await weeks.import(leads(60))
  await weeks.feed(1_000)
  await weeks.push()
  await weeks.query(`
    update runs set listings = null, filled_fields = null; update claims set leads = null; update lead_seen set filled = null`)
  await weeks.passWeek()
  await weeks.query(`update lead_seen set seen_at = now() where lead_id > 1000000`)
  assert.equal((await weeks.push()).ok, true)
  const { rows } = await weeks.query('select listings, filled_fields from runs order by started_at desc limit 1')
  assert.deepEqual(rows, [{ listings: 1_000, filled_fields: null }])
  await weeks.passWeek()
  assert.equal(await weeks.holds(1_000, 0), false)
  await weeks.passWeek()
  assert.equal(await weeks.holds(500, 0), true)
})

test('only a user whose leads fell by 95 % is held, even after a prune; parts count together', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a')
  await weeks.import(leads(60, { description: 'x'.repeat(100_000) }))
  assert.equal((await weeks.push()).summary.deliveries, 2)
  await weeks.users('new')
  await weeks.passWeek()
  await weeks.passWeek()
  const pruned = await prune(weeks.db, {
    olderThanMs: dayMs,
    maxLeadAgeMs: 30 * dayMs,
    stop: new AbortController().signal,
  })
  assert.deepEqual([pruned.deliveries, pruned.claims, pruned.runs], [2, 0, 0])
  await weeks.import(leads(3))

  const reason = 'a@example.com: held: 3 leads instead of 60 in the last weekly delivery with the same queries'
  const preview = await weeks.preview()
  assert.deepEqual([preview.skips, preview.planned], [[reason], 1])
  const held = await weeks.push()
  assert.deepEqual([held.ok, held.skips, held.sent], [false, [reason], 1])
  for (const { users, skipped, owed } of [preview.summary, held.summary])
    assert.deepEqual([users, skipped, owed], [2, 1, 1])
  const status = await weeks.status()
  assert.deepEqual([status.held, status.owed], [{ by: 'users', reason: null, users: 1 }, 1])
  assert.match((await weeks.alarms()).join(), /^The guard holds back 1 user in/)
  const again = await weeks.push(resume)
  assert.deepEqual([again.ok, again.skips, again.sent], [true, [], 0], 'it was told')

  // with a fourth lead it is less than 95 %
  await weeks.import([lead(3)])
  assert.deepEqual((await weeks.preview()).skips, [])
  await weeks.query(`update lead_seen set seen_at = now() - interval '6 days' where lead_id = 4`)
  const { ok, sent } = await weeks.push(resume, { accept: true })
  assert.deepEqual([ok, sent], [true, 1])
  const done = await weeks.push(resume, { accept: true })
  assert.deepEqual([done.ok, done.sent, (await weeks.status()).held], [true, 0, undefined])
  await weeks.passWeek()
  assert.equal((await weeks.push()).ok, true, 'what was accepted is what the next week is compared with')
})

// Users who asked for less were held back every time until somebody accepted it: their own wish looked like a collapse.
test('a user who changed their queries is compared with the last delivery that had the same ones', async (t) => {
  const weeks = await begin(t)
  await seedUsers(weeks.db, [
    { email: 'a@example.com', queries: ['78704', '78705'].map((code) => ({ value: code, places: [code] })) },
  ])
  await weeks.import([...leads(60), lead(60, { postalCode: '78705' })])
  assert.equal((await weeks.push()).ok, true)
  await weeks.passWeek()
  await weeks.query(`update lead_seen set seen_at = now(); create table dropped as select * from queries where position = 0;
    delete from queries where position = 0`)
  const fewer = await weeks.push()
  assert.deepEqual([fewer.ok, fewer.summary.leads], [true, 1], 'one lead is what the one query brings')
  await weeks.passWeek()
  await weeks.query('update lead_seen set seen_at = now() where lead_id > 60')
  assert.equal((await weeks.preview()).planned, 1, '1 lead again')
  // back to what it was two weeks ago, in another order; nearly all of its listings are too old by now
  await weeks.query(
    'update queries set position = 1; insert into queries select * from dropped; update queries set position = 7 where position = 0',
  )
  const reason = 'a@example.com: held: 1 lead instead of 61 in the last weekly delivery with the same queries'
  assert.deepEqual([(await weeks.preview()).skips, (await weeks.push()).skips], [[reason], [reason]])
})

test('--force holds users back as well; --failed, --user and the guard that is off do not', async (t) => {
  const answers: number[] = []
  const weeks = await begin(t, () => answers.shift() ?? 200)
  await weeks.users('a')
  await weeks.import(leads(60))
  answers.push(500, 500)
  await weeks.push()
  await weeks.query(`update lead_seen set seen_at = now() - interval '6 days' where lead_id > 3`)
  const force: PushRequest = { what: 'all', force: true, limit: undefined }
  const held = await weeks.push(force)
  assert.deepEqual([held.ok, held.skips.length, held.sent], [false, 1, 0])
  assert.equal((await weeks.push({ what: 'failed', ends: ['failed'] })).sent, 1)
  const [user] = (await weeks.query('select id, email from users')).rows
  assert.equal((await weeks.push({ what: 'user', user, owed: false })).sent, 1)
  const accepted = await weeks.push(resume, { accept: true })
  assert.deepEqual([accepted.ok, accepted.sent], [true, 1], 'the forced delivery that was held')
  await weeks.passWeek()
  await weeks.query(`update claims set leads = 60; update lead_seen set seen_at = now() where lead_id < 3`)
  assert.deepEqual((await weeks.push(all, { guard: 'off' })).sent, 1)
})

test('many users who are held are each told once, and hold up nobody', async (t) => {
  const weeks = await begin(t)
  const names = Array.from({ length: 300 }, (_, n) => `user-${n}`)
  await weeks.users(...names)
  await weeks.import([lead(1)])
  await weeks.push(all, { guard: 'off' })
  await weeks.query(`update claims set leads = 50 where email <> 'user-7@example.com'`)
  await weeks.passWeek()
  await weeks.query('update lead_seen set seen_at = now()')
  const held = await weeks.push()
  assert.deepEqual([held.sent, held.skips.length, new Set(held.skips).size], [1, 299, 299])
  const { users, owed, skipped, delivered } = held.summary
  assert.deepEqual([users, owed, skipped, delivered], [300, 299, 299, 1])
  // another at the same time left them to it
  await weeks.query(`insert into runs (command, period, time_zone, worker_id, resumable, outcome, came_to_end, listings)
    select 'all', period, 'UTC', 0, true, 'complete', true, 1 from runs order by started_at desc limit 1`)
  assert.deepEqual((await weeks.status()).held, { by: 'users', reason: null, users: 299 })
  const limited = await weeks.push({ ...all, limit: 5 }, { accept: true })
  assert.deepEqual([limited.ok, limited.sent], [true, 5])
  assert.deepEqual((await weeks.push(resume, { accept: true })).sent, 294)
  assert.equal((await weeks.status()).held, undefined)
})

// They were planned without the figures of the week before, and got next to nothing. Users who came to their range later got nothing.
test('users who are planned anew after an erasure are compared as well, and hold up nobody who comes', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a', 'b', 'c')
  await weeks.import(leads(60))
  await weeks.push()
  await weeks.passWeek()
  await weeks.query(`update lead_seen set seen_at = now(); update users set subscribed = email not like 'b%'`)
  // an erasure with a wrong list, once a's is begun
  const meets = weeks.meanwhile('record_pushes(', () =>
    weeks.query(`update lead_seen set gone = true where lead_id > 2; select nextval('erasure_count');
      update users set subscribed = true; delete from claims where email like 'b%'`),
  )
  const { ok, skips, sent } = await meets.push(all, { concurrency: 1 })
  assert.deepEqual([ok, sent, skips.length], [false, 2, 1])
  assert.match(skips[0] ?? '', /^c@example.com: held: 2 leads instead of 60/)
})

test('--resume sends the rest of a stopped accepted run; a run without --accept is held again', async (t) => {
  const stop = new AbortController()
  const weeks = await begin(t, (_, nth) => {
    if (nth === 4) stop.abort()
    return 200
  })
  await weeks.users('a', 'b', 'c')
  await weeks.import(leads(60))
  await weeks.push()
  await weeks.passWeek()
  await weeks.import(leads(3))
  const stopped = await weeks.push(all, { accept: true, concurrency: 1, stop })
  assert.deepEqual([stopped.ok, stopped.sent], [false, 1])
  const resumed = await weeks.push(resume)
  assert.deepEqual([resumed.ok, resumed.skips, resumed.sent], [true, [], 2])
  await weeks.users('d')
  await weeks.query(
    `insert into claims select scope, 'd@example.com', now(), 60, queries_mark from claims order by scope limit 1`,
  )
  assert.equal((await weeks.push()).skips.length, 1)
})

// A machine with another time zone ran Monday's push for the week before; the next push of every other was for another week again.
test('a weekly push in another time zone than the last run is held until it is accepted', async (t) => {
  const weeks = await begin(t)
  await weeks.import([lead(1)])
  await weeks.users('a', 'b')
  // as late as UTC, with rules of its own
  const there = { timeZone: 'Africa/Abidjan' }
  assert.equal((await weeks.push()).sent, 2)
  const zones = (own: string, last: string) =>
    `*: held: LEADPUSH_TIME_ZONE is ${own}, and the last run used ${last}: give all machines that share this database the same, or, if it is ${own} from now on, use --accept`
  for (const names of [[], ['c']]) {
    await weeks.users(...names)
    const held = await weeks.push(all, { ...there, guard: 'off' })
    const { owed } = held.summary
    assert.deepEqual([held.ok, held.skips, held.sent, owed], [false, [zones('Africa/Abidjan', 'UTC')], 0, names.length])
    assert.deepEqual((await weeks.preview(false, there)).skips, held.skips)
  }
  // what goes on with it, which a push before it has told of, and what any other machine does, settles nothing
  const resumed = await weeks.push(resume, there)
  assert.deepEqual([resumed.ok, resumed.skips, resumed.sent], [true, [zones('Africa/Abidjan', 'UTC')], 0])
  const [user] = (await weeks.query(`select id, email from users where email like 'a@%'`)).rows
  assert.equal((await weeks.push({ what: 'user', user, owed: false }, there)).sent, 1)
  assert.match((await weeks.alarms()).join(), /holds back the weekly run \(LEADPUSH_TIME_ZONE is Africa/)
  const here = await weeks.push()
  assert.deepEqual([here.ok, here.skips, here.sent], [true, [], 1])
  assert.equal((await weeks.status()).held, undefined)
  assert.equal((await weeks.push(all, { timeZone: 'Etc/UTC' })).ok, true, 'another name of the same zone')
  assert.equal((await weeks.push(all, { ...there, accept: true })).ok, true)
  assert.equal((await weeks.push(all, there)).ok, true)
  assert.deepEqual((await weeks.push()).skips, [zones('UTC', 'Africa/Abidjan')])
})

test('a run that is held makes second attempts and sends subscription pushes', async (t) => {
  const stop = new AbortController()
  const weeks = await begin(t, (_, nth) => {
    if (nth === 1) stop.abort()
    return nth === 1 ? 500 : 200
  })
  await weeks.users('a')
  await weeks.import([lead(1)])
  await weeks.feed(2_000)
  await weeks.push(all, { stop })
  await weeks.passWeek()
  await weeks.users('b')
  await weeks.query(owe(`email like 'b@%'`))
  const held = await weeks.push()
  const { owed, delivered, users } = held.summary
  assert.deepEqual([held.ok, held.skips.length, held.sent, owed, delivered, users], [false, 1, 2, 2, 2, 2])
})

// Every hour it mailed the same ten lines, and the users again.
test('--resume reports held-back users once; after that it is one line, and no failure', async (t) => {
  const weeks = await begin(t)
  await weeks.users('a', 'b')
  await weeks.import(leads(60))
  await weeks.push()
  await weeks.passWeek()
  await weeks.import(leads(3))
  const held = await weeks.push()
  assert.deepEqual([held.ok, held.skips.length, held.summary.skipped], [false, 2, 2])
  for (let hour = 0; hour < 2; hour++) {
    const again = await weeks.push(resume)
    assert.deepEqual([again.ok, again.skips, again.sent], [true, [], 0])
    assert.deepEqual([again.summary.users, again.summary.owed, again.summary.skipped], [2, 2, 0])
    assert.deepEqual(again.notes, ['Users held back: 2, as a push before this one told; see leadpush status.'])
  }
  assert.deepEqual([(await weeks.push(resume, { accept: true })).sent], [2])
  assert.deepEqual([(await weeks.push(resume)).notes], [[]])
})

// One of several feeds broke: the sum hardly changed.
test('a week in which a source brought half of its listings is held; a source whose listings are all gone is not looked at', async (t) => {
  const weeks = await begin(t)
  await weeks.import([lead(1)])
  await weeks.users('a')
  await weeks.feedSource('small', 2_000_000, 1_000)
  await weeks.feedSource('large', 3_000_000, 9_000)
  assert.equal((await weeks.push()).ok, true, 'a first week has nothing to be compared with')
  const kept = await weeks.query('select listings, filled_fields from run_sources order by listings')
  assert.deepEqual(kept.rows, [
    { listings: 1_000, filled_fields: 10_000 },
    { listings: 9_000, filled_fields: 90_000 },
  ])

  await weeks.passWeek()
  await weeks.import([lead(1)])
  await weeks.feedSource('small', 2_000_000, 500)
  await weeks.feedSource('large', 3_000_000, 9_000)
  await weeks.feedSource('new', 4_000_000, 10)
  const reason =
    'held: 500 listings of the source small imported since the last weekly run instead of 1000 in the week before'
  assert.deepEqual((await weeks.preview()).skips, [`*: ${reason}`])
  assert.deepEqual((await weeks.push()).skips, [`*: ${reason}`])
  await weeks.query('update lead_sources set gone_at = now() where lead_id between 2000000 and 2999999')
  assert.deepEqual((await weeks.preview()).skips, [], 'its operator ended it')
  await weeks.query('update lead_sources set gone_at = null')
  await weeks.feedSource('small', 2_000_000, 501)
  assert.equal((await weeks.push(resume)).ok, true)
})
