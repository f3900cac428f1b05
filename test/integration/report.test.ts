/** The figures of a report, against a ledger that is small enough to be counted by hand. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { sql } from 'kysely'
import { type Figures, findFigures } from '../../src/inspect/report/figures/find-figures.ts'
import { buildReport } from '../../src/inspect/report/page/build-report.ts'
import { createDatabase } from '../support/database.ts'
import { fillHistory } from '../support/history.ts'
import { withoutFeed as settings } from '../support/push-settings.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const database = await createDatabase(undefined, { places: 'all' })
const opened = await database.open()
const { db } = opened

/** `weeksAgo` weeks before the current one, on its Monday at noon. */
const monday = (weeksAgo: number) =>
  sql<Date>`date_trunc('week', now()) - ${weeksAgo} * interval '1 week' + interval '12 hours'`

const twoHoursAgo = new Date(Date.now() - 2 * 3_600_000)

/** When the push of that week began: then, but never in the future, as it would be on a Monday morning. */
const begun = (weeksAgo: number) => sql<Date>`least(${monday(weeksAgo)}, ${twoHoursAgo}::timestamptz)`

/** `isLimited`: it was begun with `--limit`, an hour before that. */
async function addRun(weeksAgo: number, heldUsers = 0, isLimited = false): Promise<number> {
  const at = sql`(${begun(weeksAgo)} - ${Number(isLimited)} * interval '1 hour')`
  const { rows } = await sql<{ id: number }>`
    insert into runs (command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome, came_to_end, listings, held_users)
    values ('all', to_char(${monday(weeksAgo)}, 'IYYY-"W"IW'), 'UTC', 0, ${!isLimited}, ${at}, ${at} + interval '1 hour',
      'complete', true, 10, ${heldUsers}) returning id
  `.execute(db)
  return rows[0]?.id ?? 0
}

interface Sent {
  email: string
  weeksAgo: number
  /** From the beginning of the run. */
  afterSeconds: number
  kind?: string
  status: 'delivered' | 'failed' | 'unknown' | 'pending'
  ms?: [number | null, (number | null)?]
  error?: string
  endReason?: string
}

const runs = new Map<number, number>()
let figures: Figures
let sent = 0

async function addDelivery({
  email,
  weeksAgo,
  afterSeconds,
  kind = 'weekly',
  status,
  ms = [10],
  error,
  endReason,
}: Sent) {
  const [first, second] = ms
  const isSecond = second !== undefined
  const answer = status === 'delivered' ? 200 : null
  await sql`
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      created_at, status, attempts, under_way, first_at, first_ms, first_status, first_error, second_at, second_ms, second_status, second_error, end_reason)
    select ${`key-${++sent}`}, ${runs.get(weeksAgo) ?? 0}, u.id, to_char(${monday(weeksAgo)}, 'IYYY-"W"IW'), ${kind}, 1, 1, 1, 100, 5000, '[]', '\\x00',
      at, ${status}, ${isSecond ? 2 : 1}, false, at, ${first}, ${isSecond ? 503 : answer}, ${isSecond ? 'HTTP 503: in trouble' : (error ?? null)},
      ${isSecond ? sql`at + interval '10 seconds'` : null}, ${second ?? null}, ${isSecond ? answer : null}, ${isSecond ? (error ?? null) : null}, ${endReason ?? null}
    from users u, (select ${begun(weeksAgo)} + ${afterSeconds} * interval '1 second' as at) m where u.email = ${email}
  `.execute(db)
}

before(async () => {
  await seedLeads(opened, [
    { href: 'https://example.com/1', postalCode: '78704' },
    { href: 'https://example.com/2', postalCode: '78705' },
    { href: 'https://example.com/3', postalCode: 'M5V' },
    { href: 'https://example.com/4', postalCode: 'nowhere 1' },
  ])
  const query = { value: '78704', places: ['78704', '78705'] }
  await seedUsers(db, [
    { email: 'a@example.com', queries: [query] },
    { email: 'b@example.com', queries: [query, { value: '10001', places: ['10001'] }] },
    { email: 'c@example.com', queries: [{ value: 'nowhere', places: ['NOWHERE1'] }] },
    { email: 'd@example.com', queries: [] },
  ])
  await sql`update queries set radius = 25 where value = '78704'`.execute(db)
  for (const [weeksAgo, held] of [
    [7, 3],
    [1, 0],
    [0, 0],
  ] as const)
    runs.set(weeksAgo, await addRun(weeksAgo, held))
  // the run after it has judged the same users anew
  await addRun(7, 5, true)
  await addDelivery({ email: 'a@example.com', weeksAgo: 1, afterSeconds: 5, status: 'delivered', ms: [1_000, 2_000] })
  await addDelivery({ email: 'b@example.com', weeksAgo: 1, afterSeconds: 60, status: 'delivered', ms: [500] })
  await addDelivery({ email: 'c@example.com', weeksAgo: 1, afterSeconds: 30, status: 'failed', ms: [30, 40], error: 'HTTP 401: no key: do' })
  await addDelivery({ email: 'a@example.com', weeksAgo: 0, afterSeconds: 1, status: 'failed', ms: [20], endReason: 'a listing was erased' })
  await addDelivery({ email: 'a@example.com', weeksAgo: 0, afterSeconds: 600, status: 'delivered', kind: 'forced', ms: [0] })
  await addDelivery({ email: 'b@example.com', weeksAgo: 0, afterSeconds: 2, status: 'unknown', ms: [30_000], error: 'an answer did not come in time (LEADPUSH_TIMEOUT is 30 s)' })
  await addDelivery({ email: 'c@example.com', weeksAgo: 0, afterSeconds: 3, status: 'pending', ms: [null] })
  figures = await findFigures(db, settings)
}) // biome-ignore format: a delivery a line

test('weeks have their deliveries by how they ended', () => {
  const { weeks } = figures
  assert.equal(weeks.length, 8, 'the weeks before the first run are left out')
  const shown = weeks.map(({ period: _, monday: __, ...week }) => Object.values(week))
  assert.deepEqual(shown[0], [0, 0, 0, 3])
  assert.deepEqual(shown.at(-2), [2, 1, 0, 0])
  // a@example.com's failed delivery of this week was made good, which counted as failed beside it
  assert.deepEqual(shown.at(-1), [1, 0, 1, 0])
  for (const week of shown.slice(1, -2)) assert.deepEqual(week, [0, 0, 0, 0])
})

test('deliveries of the week that did not arrive are shown by cause, as in status', () => {
  const { causes, status } = figures
  // what failed for a@example.com was delivered later
  assert.deepEqual(
    causes.map(({ what, failed, unknown, users }) => [what, failed, unknown, users]),
    [['an answer did not come in time', 0, 1, ['b@example.com']]],
  )
  assert.match(causes[0]?.toDo ?? '', /LEADPUSH_TIMEOUT/)
  assert.deepEqual([status.stuck, status.withoutQueries], [1, 1])
})

test('listings are counted by the day of their import', () => {
  const { days } = figures
  assert.deepEqual([days.length, days.at(-1)?.inserted, days.at(-2)?.inserted], [42, 4, 0])
})

test('the page of a long ledger is small', async () => {
  const other = await (await createDatabase(undefined, { places: 'all' })).open()
  await fillHistory(other.db, { leads: 300, users: 1_700, weeks: 4 })
  await sql`update deliveries set status = 'failed', first_error = repeat('long ', 100) where user_id < 1500`.execute(
    other.db,
  )
  const page = buildReport(await findFigures(other.db, settings), settings)
  assert.ok(page.length < 100_000, String(page.length))
})

test('a database with users and nothing else makes a page of sentences, not of empty plots', async () => {
  const other = await (await createDatabase(undefined, { places: 'all' })).open()
  await seedUsers(other.db, [{ email: 'a@example.com' }])
  const page = buildReport(await findFigures(other.db, settings), settings)
  assert.match(page, /<h1>2 things need attention\.<\/h1>/)
  for (const words of ['No delivery has ended', 'Nothing was imported', '>None.<'])
    assert.ok(page.includes(words), words)
  assert.doesNotMatch(page, /class="plot|"[^"<]*(NaN|Infinity|undefined)[^"<]*"/)
})

// A week in which nobody got anything counted for nothing: 100 % of the deliveries of the weeks beside it had arrived.
test('users who were due in a week and got nothing are part of it, but for a week that was pruned', async () => {
  const id = await addRun(3)
  await sql`update runs set came_to_end = false, outcome = 'stopped' where id = ${id}`.execute(db)
  const due = (weeks: number) => sql`update users set due_since = now() - ${weeks} * interval '1 week'`.execute(db)
  const find = () => findFigures(db, settings)
  const missedOf = ({ weeks }: Figures) => weeks.map(({ missed }) => missed)
  await due(1)
  assert.deepEqual(missedOf(await find()), [3, 0, 0, 0, 0, 0, 0, 0])
  await due(6)
  // who asks for nothing was not due
  const found = await find()
  assert.deepEqual(missedOf(found), [3, 0, 0, 0, 3, 0, 0, 0])
  assert.match(
    buildReport(found, settings),
    /5 deliveries in 8 weeks: 27\.3 % delivered, 1 failed, 1 unknown; 6 users got nothing\./,
  )
  await sql`insert into claims (scope, email) select 'weekly:' || period, 'a@example.com' from runs where id = ${id}`.execute(
    db,
  )
  assert.equal(missedOf(await find())[4], 2)
  await sql`update runs set pruned = true where id = ${id}`.execute(db)
  assert.equal(missedOf(await find())[4], 0)

  await sql`delete from deliveries where user_id = (select id from users where email = 'b@example.com') and period = (
    select period from runs where id = ${runs.get(0) ?? 0})`.execute(db)
  const now = await find()
  assert.equal(missedOf(now)[7], 1)
  assert.match(buildReport(now, settings), /<dt>Got nothing<\/dt><dd[^>]*>1<small>[^<]*50\.0 % of 2/)
})
