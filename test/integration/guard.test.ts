/**
 * The guard of the weekly push (contract 4.14), week after week: rows of pushes against a real database and a real receiver. A week passes
 * when everything that is there becomes a week older. The limits by themselves are in `test/unit/guard.test.ts`.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { PushLine, SummaryLine } from '../../src/index.ts'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus, type Held } from '../../src/inspect/status/status.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import type { PushRequest, PushSettings } from '../../src/push/run-push.ts'
import { prune } from '../../src/upkeep/prune/prune.ts'
import { afterStatement } from '../support/after-statement.ts'
import { owe } from '../support/owed.ts'
import { all, build, PushHouse, resume, stopAfter } from '../support/push-house.ts'
import { withoutFeed } from '../support/push-settings.ts'
import { type SeedUser, seedLeads, seedUsers } from '../support/seed.ts'

const dayMs = 86_400_000
const seen = { ...withoutFeed, maxLeadAgeMs: 5 * dayMs }
const force: PushRequest = { what: 'all', force: true, limit: undefined }
const limited = (limit: number): PushRequest => ({ what: 'all', force: false, limit })

/** What happens, then a push and what comes of it. Fields that are not there are not looked at. */
interface Step {
  weeks?: number
  /** Listings that were imported a moment ago, and how many filled fields each of them has. */
  feed?: number
  filled?: number
  /** The same of a source: its name, the first id, how many. */
  sources?: [string, number, number][]
  leads?: Parameters<typeof seedLeads>[1]
  users?: (string | SeedUser)[]
  sql?: string
  prunes?: true
  /** By default `push --all`; null: none. */
  run?: PushRequest | 'user' | null
  accept?: true
  settings?: Partial<PushSettings>
  /** What happens once the push has made a statement with that text. */
  meanwhile?: [asked: string, statement: string]
  /** So many requests have come in all: it is stopped. */
  stopAt?: number
  answers?: number[]
  /** Exit code 0. */
  ok?: boolean
  /** Requests that came of it. */
  sent?: number
  /** Why the run, or a user, is held: `user: reason`, `*` for all; null: nobody is. */
  held?: string | RegExp | null
  /** How many lines say so. */
  skips?: number
  summary?: Partial<SummaryLine>
  notes?: string[]
  /** A preview before it lists the same, and so many deliveries. */
  planned?: number
  status?: Held | undefined | null
  /** An alarm of `status --check`; null: there is none. */
  alarm?: RegExp | null
}

const one = { href: 'https://listings.example/0' }
const leads = (count: number, more = {}) =>
  Array.from({ length: count }, (_, n) => ({ href: `https://listings.example/${n}`, ...more }))
const full = { price: 1, city: 'Austin', state: 'TX', bedrooms: 3 }
const asks = (email: string, ...codes: string[]): SeedUser => ({
  email,
  queries: codes.map((code) => ({ value: code, places: [code] })),
})
const oldFrom = (id: number) => `update lead_seen set seen_at = now() - interval '6 days' where lead_id > ${id}`
const isSeen = 'update lead_seen set seen_at = now()'
const ofWeek = (now: number, before: number) =>
  `*: held: ${now} listings imported since the last weekly run instead of ${before} in the week before`
const ofUser = (name: string, now: string, before: number) =>
  `${name}@example.com: held: ${now} instead of ${before} in the last weekly delivery with the same queries`
const zones = (own: string, last: string) =>
  `*: held: LEADPUSH_TIME_ZONE is ${own}, and the last run used ${last}: give all machines that share this database the same, or, if it is ${own} from now on, use --accept`
// as late as UTC, with rules of its own
const there = { timeZone: 'Africa/Abidjan' }

const rows: Record<string, Step[]> = {
  'a week in which half of the listings are missing is held as a whole until it is accepted': [
    { leads: [one], users: ['a', 'b'], feed: 1_999, ok: true },
    { weeks: 1, leads: [one], feed: 999, ok: false, sent: 0, held: ofWeek(1_000, 2_000), planned: 0, summary: { users: 2, owed: 2, skipped: 0, already: 0 },
      status: { by: 'week', reason: ofWeek(1_000, 2_000).slice(3), users: 0 }, alarm: /holds back the weekly run \(1000 listings .*`leadpush push --all --accept`/ },
    // to --resume it is nothing new
    { run: resume, ok: true, sent: 0, held: ofWeek(1_000, 2_000) },
    { run: limited(1), ok: false, sent: 0 },
    { run: force, ok: false, sent: 0, summary: { owed: 2 } },
    // a run that was held has not come to its end
    { sql: `update runs set ended_at = ended_at - interval '2 days'`, run: null, alarm: /No whole `push --all`/ },
    { run: resume, accept: true, ok: true, sent: 2, held: null, status: null, alarm: null },
    { users: ['c'], ok: true, sent: 1 },
    // nobody is left to be served
    { sql: 'delete from lead_seen where lead_id > 1000499', ok: true },
    // it ended with 1 and no line: it had found nobody to hold when it began
    { meanwhile: ['"withoutQueries"', `insert into users (email, receiver_key, subscribed, home_key) values ('d@example.com', 'key', true, '78704');
        insert into queries select u.id, position, type, value, radius, hash, json, search_id from queries q, users u where q.user_id = (select min(id) from users) and u.email like 'd%'`],
      ok: false, held: /^\*: held: 500 listings .* instead of 1000 when this week was accepted/, summary: { owed: 1 } },
    { ok: false, held: /^\*: held: 500 listings .* instead of 1000 when this week was accepted/, summary: { owed: 1 } },
  ],
  // Given with --limit 1, it accepted the figures of the week for the push of everybody.
  '--accept with --limit accepts for its own users alone: the next push is held': [
    { leads: [one], users: ['a', 'b', 'c'], feed: 1_999, ok: true },
    { weeks: 1, leads: [one], feed: 999, run: limited(1), accept: true, sent: 1 },
    { ok: false, sent: 0, held: ofWeek(1_000, 2_000), summary: { owed: 2 } },
  ],
  'a feed that lost half of its fields is held, though nothing that was known is lost': [
    { users: ['a'], leads: leads(200, full), ok: true },
    { weeks: 1, leads: leads(200, full), run: null },
    // every listing twice: the last record of each counts, and of the fields those that it may be without
    { leads: leads(200, { price: 2, city: null }).map((each, n) => (n === 0 ? { ...each, ...full } : each)), ok: false, held: /^\*: held: 203 filled fields in the 200 listings .* instead of 800/ },
    { leads: leads(200, full), run: resume, ok: true, sent: 1 },
  ],
  'a held week is no measure for later ones and does not disturb the next; an accepted one is like any other': [
    { users: ['a'], feed: 1_000, ok: true },
    { weeks: 1, feed: 400, ok: false },
    // nobody accepted 400
    { weeks: 1, feed: 450, ok: false },
    { weeks: 1, feed: 1_000, ok: true },
    { weeks: 1, feed: 500, ok: false },
    { accept: true, ok: true },
    // 500, 1000
    { weeks: 1, feed: 374, ok: false },
    { weeks: 1, feed: 501, ok: true },
    { weeks: 1, feed: 0, ok: false },
  ],
  'a week begins with the first run of the period before, not with later ones, and skips periods without a run': [
    { users: ['a'], feed: 1_000, run: limited(1) },
    { weeks: 1, run: limited(1), settings: { guard: 'off' } },
    { feed: 1_000, users: ['b'], ok: true },
    { users: ['c'], ok: true },
    // two weeks ago is after the last run that had one
    { weeks: 2, sql: `update lead_seen set seen_at = now() - interval '10 days' where lead_id > 1000500`, feed: 100, ok: true },
    { weeks: 1, feed: 499, ok: false },
  ],
  'a run with a limit is no measure where a whole one follows, and a listing that is gone counts for no week': [
    { users: ['a', 'b'], leads: [one], run: limited(1) },
    { feed: 1_000, ok: true },
    { weeks: 1, sql: `update lead_seen set seen_at = now() - interval '10 days'`, feed: 400, ok: false, held: ofWeek(400, 1_001) },
    { feed: 600, ok: true },
    { weeks: 1, sql: `${isSeen}, gone = lead_id > 1000300`, ok: false },
  ],
  'weeks of a program that counted nothing are no measure, and their users are not held': [
    { users: ['a'], leads: leads(60), feed: 1_000 },
    { sql: 'update runs set listings = null, filled_fields = null; update claims set leads = null; update lead_seen set filled = null', run: null },
    { weeks: 1, sql: `${isSeen} where lead_id > 1000000`, ok: true },
    { weeks: 1, feed: 1_000, filled: 0, ok: true },
    { weeks: 1, feed: 500, filled: 0, ok: false },
  ],
  'only a user whose leads fell by 95 % is held, even after a prune; parts count together': [
    { users: ['a'], leads: leads(60, { description: 'x'.repeat(100_000) }), sent: 2 },
    { users: ['new'], weeks: 2, prunes: true, run: null },
    { leads: leads(3), ok: false, sent: 1, held: ofUser('a', '3 leads', 60), planned: 1, summary: { users: 2, skipped: 1, owed: 1 },
      status: { by: 'users', reason: null, users: 1 }, alarm: /^The guard holds back 1 user in/ },
    // it was told
    { run: resume, ok: true, sent: 0, held: null },
    { run: resume, accept: true, ok: true, sent: 1, status: null },
    { run: resume, accept: true, ok: true, sent: 0 },
    // what was accepted is what the next week is compared with
    { weeks: 1, ok: true },
  ],
  // Users who asked for less were held back every time until somebody accepted it: their own wish looked like a collapse.
  'a user who changed their queries is compared with the last delivery that had the same ones': [
    { users: [asks('a@example.com', '78704', '78705')], leads: [...leads(60), { href: 'https://listings.example/60', postalCode: '78705' }], ok: true },
    { weeks: 1, sql: `${isSeen}; create table dropped as select * from queries where position = 0; delete from queries where position = 0`, ok: true, summary: { leads: 1 } },
    { weeks: 1, sql: `${isSeen} where lead_id > 60`, run: null, planned: 1 },
    // back to what it was two weeks ago, in another order; nearly all of its listings are too old by now
    { sql: 'update queries set position = 1; insert into queries select * from dropped; update queries set position = 7 where position = 0', held: ofUser('a', '1 lead', 61), planned: 0 },
  ],
  '--force holds users back as well; --failed, --user and the guard that is off do not': [
    { users: ['a'], leads: leads(60), answers: [500, 500] },
    { sql: oldFrom(3), run: force, ok: false, skips: 1, sent: 0 },
    { run: { what: 'failed', ends: ['failed'] }, sent: 1 },
    { run: 'user', sent: 1 },
    // the forced delivery that was held
    { run: resume, accept: true, ok: true, sent: 1 },
    { weeks: 1, sql: `update claims set leads = 60; ${isSeen} where lead_id < 3`, settings: { guard: 'off' }, sent: 1 },
  ],
  'many users who are held are each told once, and hold up nobody': [
    { users: Array.from({ length: 100 }, (_, n) => `user-${n}`), leads: [one], settings: { guard: 'off' } },
    { weeks: 1, sql: `update claims set leads = 50 where email <> 'user-7@example.com'; ${isSeen}`, sent: 1, skips: 99, summary: { users: 100, owed: 99, skipped: 99, delivered: 1 } },
    // another at the same time left them to it
    { sql: `insert into runs (command, period, time_zone, worker_id, resumable, outcome, came_to_end, listings)
        select 'all', period, 'UTC', 0, true, 'complete', true, 1 from runs order by started_at desc limit 1`, run: null, status: { by: 'users', reason: null, users: 99 } },
    { run: limited(5), accept: true, ok: true, sent: 5 },
    { run: resume, accept: true, sent: 94, status: null },
  ],
  // They were planned without the figures of the week before, and got next to nothing. Users who came to their range later got nothing.
  'users who are planned anew after an erasure are compared as well, and hold up nobody who comes': [
    { users: ['a', 'b', 'c'], leads: leads(60) },
    // an erasure with a wrong list, once a's is begun
    { weeks: 1, sql: `${isSeen}; update users set subscribed = email not like 'b%'`, settings: { concurrency: 1 },
      meanwhile: ['record_pushes(', `update lead_seen set gone = true where lead_id > 2; select nextval('erasure_count');
        update users set subscribed = true; delete from claims where email like 'b%'`], ok: false, sent: 2, held: ofUser('c', '2 leads', 60) },
  ],
  '--resume sends the rest of a stopped accepted run; a run without --accept is held again': [
    { users: ['a', 'b', 'c'], leads: leads(60) },
    { weeks: 1, leads: leads(3), accept: true, settings: { concurrency: 1 }, stopAt: 4, ok: false, sent: 1 },
    { run: resume, ok: true, held: null, sent: 2 },
    { users: ['d'], sql: `insert into claims select scope, 'd@example.com', now(), 60, queries_mark from claims order by scope limit 1`, skips: 1 },
  ],
  // A machine with another time zone ran Monday's push for the week before; the next push of every other was for another week again.
  'a weekly push in another time zone than the last run is held until it is accepted': [
    { users: ['a', 'b'], leads: [one], sent: 2 },
    { settings: { ...there, guard: 'off' }, ok: false, held: zones('Africa/Abidjan', 'UTC'), sent: 0, planned: 0, summary: { owed: 0 } },
    { users: ['c'], settings: { ...there, guard: 'off' }, ok: false, held: zones('Africa/Abidjan', 'UTC'), sent: 0, summary: { owed: 1 } },
    // what goes on with it, which a push before it has told of, and what any other machine does, settles nothing
    { run: resume, settings: there, ok: true, held: zones('Africa/Abidjan', 'UTC'), sent: 0 },
    { run: 'user', settings: there, sent: 1, alarm: /holds back the weekly run \(LEADPUSH_TIME_ZONE is Africa/ },
    { run: resume, settings: there, ok: true, held: zones('Africa/Abidjan', 'UTC'), sent: 0 },
    { ok: true, held: null, sent: 1, status: null },
    // another name of the same zone
    { settings: { timeZone: 'Etc/UTC' }, ok: true },
    { settings: there, accept: true, ok: true },
    { settings: there, ok: true },
    { held: zones('UTC', 'Africa/Abidjan') },
  ],
  // it named the zone alone, and the week's fall went out with what was accepted for that
  'a hold for the time zone tells what else --accept would accept': [
    { leads: [one], users: ['a'], feed: 1_999, ok: true },
    { weeks: 1, leads: [one], feed: 999, settings: there, ok: false, sent: 0, held: `${zones('Africa/Abidjan', 'UTC')}, which accepts this too: ${ofWeek(1_000, 2_000).slice('*: held: '.length)}` },
    { settings: there, accept: true, ok: true, sent: 1 },
  ],
  'a run that is held makes second attempts and sends subscription pushes': [
    { users: ['a'], leads: [one], feed: 2_000, answers: [500], stopAt: 1 },
    { weeks: 1, users: ['b'], sql: owe(`email like 'b@%'`), ok: false, skips: 1, sent: 2, summary: { owed: 2, delivered: 2, users: 2 } },
  ],
  // Every hour it mailed the same ten lines, and the users again.
  '--resume reports held-back users once; after that it is one line, and no failure': [
    { users: ['a', 'b'], leads: leads(60) },
    { weeks: 1, leads: leads(3), ok: false, skips: 2, summary: { skipped: 2 } },
    ...[1, 2].map((): Step => ({ run: resume, ok: true, held: null, sent: 0, summary: { users: 2, owed: 2, skipped: 0 },
      notes: ['Users held back: 2, as a push before this one told; see leadpush status.'] })),
    { run: resume, accept: true, sent: 2 },
    { run: resume, notes: [] },
  ],
  // One of several feeds broke: the sum hardly changed.
  'a week in which a source brought half of its listings is held; a source whose listings are all gone is not looked at': [
    { users: ['a'], leads: [one], sources: [['small', 2_000_000, 1_000], ['large', 3_000_000, 9_000]], ok: true },
    { weeks: 1, leads: [one], sources: [['small', 2_000_000, 500], ['large', 3_000_000, 9_000], ['new', 4_000_000, 10]], ok: false, planned: 0,
      held: '*: held: 500 listings of the source small imported since the last weekly run instead of 1000 in the week before' },
    // its operator ended it
    { sql: 'update lead_sources set gone_at = now() where lead_id between 2000000 and 2999999', run: null, planned: 1 },
    { sql: 'update lead_sources set gone_at = null', sources: [['small', 2_000_000, 501]], run: resume, ok: true },
  ],
} // biome-ignore format: a table

const week = `interval '7 days'`
const before = (period: string) => `to_char(to_date(${period}, 'IYYY-"W"IW') - 7, 'IYYY-"W"IW')`
/** Keys get another name, since the clock makes the same ones again; claims one for a moment: no two may meet. */
const passWeek = `
  update runs set period = ${before('period')}, started_at = started_at - ${week}, ended_at = ended_at - ${week};
  update deliveries set idempotency_key = 'o' || idempotency_key, period = ${before('period')}, created_at = created_at - ${week};
  update claims set scope = 'x' || scope, claimed_at = claimed_at - ${week} where scope like 'weekly:%';
  update claims set scope = 'weekly:' || ${before('substr(scope, 9)')} where scope like 'xweekly:%';
  update lead_seen set seen_at = seen_at - ${week};`

const feed = (first: number, listings: number, filled: number) => `
  insert into lead_seen (lead_id, seen_at, filled) select ${first} + n, now(), ${filled} from generate_series(1, ${listings}) n
  on conflict (lead_id) do update set seen_at = excluded.seen_at, filled = excluded.filled;`

/** The listings that a source has; the others that it had before were not seen again. */
const feedSource = (name: string, first: number, listings: number) => `
  insert into sources (name, imported_at) values ('${name}', now()) on conflict do nothing; ${feed(first, listings, 10)}
  insert into lead_sources select ${first} + n, id from generate_series(1, ${listings}) n, sources where name = '${name}' on conflict do nothing;`

async function prepare(house: PushHouse, step: Step): Promise<void> {
  const query = (statement: string) => house.opened.pool.query(statement)
  for (let passed = 0; passed < (step.weeks ?? 0); passed++) await query(passWeek)
  if (step.users) await seedUsers(house.db, step.users.map((user) => (typeof user === 'string' ? { email: `${user}@example.com` } : user)))
  if (step.leads) await seedLeads(house.opened, step.leads)
  if (step.sql) await query(step.sql)
  if (step.feed) await query(feed(1_000_000, step.feed, step.filled ?? 10))
  for (const source of step.sources ?? []) await query(feedSource(...source))
  if (step.prunes) {
    const pruned = await prune(house.db, { olderThanMs: dayMs, maxLeadAgeMs: 30 * dayMs, stop: new AbortController().signal })
    assert.deepEqual([pruned.deliveries > 0, pruned.claims, pruned.runs], [true, 0, 0])
  }
  house.receiver.answer = () => step.answers?.shift() ?? 200
} // biome-ignore format: long lines

const skipsOf = (lines: readonly PushLine[]) =>
  lines.flatMap((line) => (line.type === 'skip' ? [`${line.user ?? '*'}: ${line.reason}`] : []))

/** Takes the same steps as a push, and writes nothing. */
async function preview({ db }: PushHouse, settings: Step['settings']) {
  const found = await Preview.create(db, { what: 'all', force: false }, { ...seen, ...settings })
  const lines: PushLine[] = []
  for await (const each of found.lines()) lines.push('line' in each ? each.line : each)
  return { skips: skipsOf(lines), planned: lines.filter(({ type }) => type === 'delivery').length }
}

async function push(house: PushHouse, step: Step): Promise<void> {
  const { run = all, settings, meanwhile } = step
  const met = meanwhile && afterStatement(house.opened, meanwhile[0], () => house.opened.pool.query(meanwhile[1]))
  const request = run === 'user' ? await house.userRequest('a@example.com') : run
  if (request === null) return
  const { length } = house.receiver.requests
  const stop = step.stopAt === undefined ? new AbortController() : stopAfter(house, step.stopAt)
  const meets = met ? new PushHouse(met, house.receiver) : house
  const { ok, lines, summary, notes } = await meets.push(request, { ...seen, ...settings }, stop, step.accept)
  const skips = skipsOf(lines)
  if (step.ok !== undefined) assert.equal(ok, step.ok, skips.join())
  if (step.sent !== undefined) assert.equal(house.receiver.requests.length - length, step.sent)
  if (step.held !== undefined) assert.equal(skips.length, step.held === null ? 0 : 1, skips.join())
  if (typeof step.held === 'string') assert.equal(skips[0], step.held)
  else if (step.held) assert.match(skips[0] ?? '', step.held)
  if (step.skips !== undefined) assert.deepEqual([skips.length, new Set(skips).size], [step.skips, step.skips])
  for (const [name, value] of Object.entries(step.summary ?? {})) assert.equal(summary[name as keyof SummaryLine], value, name)
  if (step.notes) assert.deepEqual(notes, step.notes)
} // biome-ignore format: long lines

async function carryOutStep(house: PushHouse, step: Step): Promise<void> {
  await prepare(house, step)
  if (step.planned !== undefined) {
    const { skips, planned } = await preview(house, step.settings)
    assert.deepEqual([skips, planned], [typeof step.held === 'string' ? [step.held] : [], step.planned])
  }
  await push(house, step)
  if (step.status === undefined && step.alarm === undefined) return
  const status = await findStatus(house.db, seen)
  if (step.status !== undefined) assert.deepEqual(status.held, step.status ?? undefined)
  const alarms = (await findAlarms(house.db, status, seen)).map(sentenceOf)
  if (step.alarm) assert.match(alarms.join(), step.alarm)
  if (step.alarm === null) assert.deepEqual(alarms, [])
}

for (const [what, steps] of Object.entries(rows)) {
  test(what, async (t: TestContext) => {
    const house = await build(t, { users: [], leads: [] })
    for (const [at, step] of steps.entries()) {
      await carryOutStep(house, step).catch((error) => {
        error.message = `step ${at + 1}: ${error.message}`
        throw error
      })
    }
  })
}
