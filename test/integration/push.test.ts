/**
 * Whole pushes against a real database and a real receiver, in this process: a row for each clause of the contract. What meets by chance
 * is the simulator's.
 */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { raiseErasureCount } from '../../src/deliveries/erasure-count.ts'
import { endAbandoned } from '../../src/deliveries/ledger.ts'
import type { PushLine, SummaryLine } from '../../src/index.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import type { PushRequest, PushSettings } from '../../src/push/run-push.ts'
import { rangeScopeOf, weeklyPass } from '../../src/push/whom/pass.ts'
import { importUsers } from '../../src/users/import.ts'
import { findUser, recordSubscription, recordUnsubscription, removeUser } from '../../src/users/users.ts'
import { afterStatement, answerLost } from '../support/after-statement.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { toLines } from '../support/import-files.ts'
import { owe } from '../support/owed.ts'
import { all, counts, inHouse, lead, type Pushed, PushHouse, resume, skips, stopAfter, users } from '../support/push-house.ts' // biome-ignore format: a list
import { defaults } from '../support/push-settings.ts'
import { type Answer, type ReceivedRequest, requestsAtLeast, startTestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

/** A number, or the fewest and the most. */
type Amount = number | readonly [number, number]

/** A push, with what is given before it and what comes of it. Fields that are not there are not looked at. */
interface Step {
  run: PushRequest | 'user'
  /** What happened before it, and what once the user is found whom it is for. */
  given?: (house: PushHouse) => unknown
  found?: (house: PushHouse) => unknown
  /** What others do after its first statement with a text. */
  after?: [statement: string, (house: PushHouse) => Promise<unknown>]
  /** From now on; `nth` counts all requests. */
  answer?: Answer | ((request: ReceivedRequest, nth: number, house: PushHouse) => Answer | Promise<Answer>)
  settings?: Partial<PushSettings>
  /** So many requests have come in all: it is stopped. */
  stopAt?: number
  /** So many of these pushes at once; amounts are those of all together. */
  times?: number
  /** A preview names the users whom it serves, each once. */
  foretold?: true
  /** Exit code 0. */
  ok: boolean
  /** Requests that came of it. */
  wire?: Amount
  /** Its lines of deliveries, in no order: kind, status, attempts, and a status of HTTP that is no success. Or what each is like. */
  deliveries?: string[] | RegExp
  summary?: { [name in keyof SummaryLine]?: SummaryLine[name] | Amount }
  /** Users who are skipped, with the reason. */
  skips?: RegExp[]
  /** Users whom the guard holds back. */
  held?: number
  notes?: string[]
  /** Forced deliveries that each user has by then. */
  forced?: number
}

type Done = Pushed & { made: number; beganMs: number }

interface Row {
  clause: '3' | '4.3' | '4.4' | '4.5' | '4.6' | '4.7' | '4.8' | '4.12' | '4.13' | '4.14' | '4.15'
  what: string
  /** By default one. */
  users?: number | Parameters<typeof users>
  leads?: ReturnType<typeof lead>[]
  steps: Step[]
  /** How often each delivery was on the wire, in the order of their first requests. */
  sent?: number[]
  /** What holds in the end. */
  end?: (house: PushHouse, ...done: Done[]) => unknown
}

const force: PushRequest = { what: 'all', force: true, limit: undefined }
const limited = (limit: number): PushRequest => ({ what: 'all', force: false, limit })
const two = { concurrency: 2 }
const email = 'user-0000@example.com'
const times = <T>(what: T, count: number) => Array.from({ length: count }, () => what)
/** Answers so to each delivery at first, and then takes it. */
const firstly = (status: number) => {
  const seen = new Set<string>()
  return ({ key }: ReceivedRequest) => (seen.size === seen.add(key).size ? 200 : status)
}
const first =
  (status: number): NonNullable<Step['answer']> =>
  (_request, nth) =>
    nth === 1 ? status : 200
/** It answers once so many are under way. */
function once(count: number): NonNullable<Step['answer']> {
  const gate = makeGate()
  return async (_request, nth) => {
    if (nth === count) gate.open()
    await gate.opened
    return 200
  }
}

const erase = ({ db }: PushHouse) => db.transaction().execute(raiseErasureCount)
const remove = async ({ db }: PushHouse) => removeUser(db, (await findUser(db, email)).user.id)
const subscribe = async ({ db }: PushHouse) => recordSubscription(db, (await findUser(db, email)).user.id)
const subscribeAll = async ({ db }: PushHouse) => {
  for (const { id } of await db.selectFrom('users').select('id').execute()) await recordSubscription(db, id)
}
const setSubscribed = ({ opened }: PushHouse, subscribed: boolean, id: number) =>
  opened.pool.query('update users set subscribed = $1 where id % 20 = $2', [subscribed, id])

/** What the ledger looks like after a kill: so many attempts of the first deliveries are under way, by a process that has a lease. */
const killed =
  (...attempts: number[]) =>
  async ({ db, receiver }: PushHouse) => {
    const keys = [...receiver.keys().keys()].slice(0, attempts.length)
    await sql`
      with dead as (insert into workers (host, process_id, lease_until) values ('gone', 1, now() + interval '1 hour') returning id)
      update deliveries set status = 'pending', under_way = true, attempts = given.attempts, worker_id = dead.id, first_status = null,
        first_error = null, second_status = null, second_error = null
      from dead, unnest(${keys}::text[], ${attempts}::int[]) given (key, attempts) where idempotency_key = given.key
    `.execute(db)
  }

/** Ends the lease of a process that is gone; an answer of the receiver, which does so while a push runs. */
async function endLease({ db }: PushHouse): Promise<200> {
  await sql`update workers set lease_until = now() where host = 'gone'`.execute(db)
  return 200
}

/** As if the attempts that were recorded had been taken back before they were made. */
const takeBack = ({ db }: PushHouse) =>
  sql`
    update deliveries set status = 'pending', attempts = 0, under_way = false, worker_id = null, due_at = now(), first_status = null
  `.execute(db)

const set = (text: string) => (house: PushHouse) => house.opened.pool.query(text)

/** A process is at work, and has begun another's user. */
const theirs = `
  insert into workers (id, host, process_id, lease_until) values (1, 'there', 1, now() + interval '1 hour');
  insert into claims (scope, email) select 'weekly:' || period, '${email}' from runs;
  insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
    attempts, under_way, worker_id, status)
  select 'theirs', 1, u.id, period, 'weekly', 1, 1, 1, 0, 1, '', '', 1, true, 1, 'pending' from runs, users u where u.email = '${email}'`

const stoppedTwice: Step[] = [
  { run: all, ok: true },
  { run: force, settings: two, stopAt: 26, ok: false, summary: { owed: [1, 20] } },
  { run: force, settings: two, stopAt: 30, ok: false, summary: { owed: [1, 20] } },
]
const nobody = { deliveries: [], wire: 0 }

const rows: Row[] = [
  { clause: '4.8', what: 'every subscribed user gets one delivery; the second run of the week sends nothing', users: 40, steps: [
    { given: ({ db }) => seedUsers(db, [{ email: 'off@example.com', subscribed: false }]), run: all, ok: true, wire: 40,
      summary: { users: 40, deliveries: 40, delivered: 40, failed: 0, unknown: 0, skipped: 0, already: 0, elsewhere: 0, owed: 0, leads: 80 } },
    { run: all, ok: true, wire: 0, summary: { users: 0, already: 40, deliveries: 0 } },
  ] },
  { clause: '4.5', what: 'a failed attempt is followed by one more with the same key and the same bytes, also when the leads changed between', steps: [
    { run: all, settings: { retryDelayMs: 500 }, ok: true, deliveries: ['weekly delivered 2'],
      answer: async (_request, nth, { opened }) => (nth === 1 ? seedLeads(opened, [lead('c')]).then(() => 503) : 200) },
  ], sent: [2], end: ({ receiver: { requests: [one, other] } }) => {
    assert.ok(one && other?.body.equals(one.body) && other.atMs - one.atMs >= 490)
  } },

  { clause: '3', what: 'push --all first goes on with a --force that was stopped, nobody twice', users: 20, steps: [
    { run: all, ok: true },
    { run: force, settings: two, stopAt: 24, ok: false, summary: { delivered: [0, 19] } },
    { run: all, ok: true, deliveries: /^forced delivered/, summary: { already: 20 } },
  ], sent: times(1, 40) },
  // Each of the stopped runs was resumed by itself: users got two deliveries in one command, and a summary counted 52 of 30 users.
  { clause: '3', what: 'a --force that was stopped twice is resumed as one run, for the users whom neither served', users: 20, steps: [
    ...stoppedTwice,
    { run: resume, foretold: true, ok: true, deliveries: /^forced delivered/, forced: 1 },
    { run: resume, ok: true, ...nobody },
  ], sent: times(1, 40) },
  // Users whom the stopped run had served got another one.
  { clause: '3', what: '--force after one that was stopped goes on with it, nobody twice; after one that finished it begins anew', users: 20, steps: [
    ...stoppedTwice,
    { run: force, foretold: true, ok: true, summary: { owed: 0 }, forced: 1 },
    { run: resume, ok: true, ...nobody },
    { run: force, foretold: true, ok: true, summary: { deliveries: 20 }, forced: 2 },
  ] },
  // Each served everybody.
  { clause: '3', what: 'two --force at once share their users, and a later one begins anew', users: 20, steps: [
    { run: all, ok: true },
    { run: force, times: 2, settings: two, ok: true, summary: { delivered: 20 }, forced: 1 },
    { run: force, ok: true, forced: 2 },
  ] },
  // It had one line for each run that was held.
  { clause: '4.14', what: 'a user whom --force holds back twice has one line', steps: [
    { run: all, ok: true },
    ...[1, 2, 3].map(() => ({ given: set('update claims set leads = 60'), run: force, ok: false, deliveries: [], skips: [/^user-0000@example.com: held: /], held: 1, summary: { users: 1, owed: 1 } })),
  ] },
  { clause: '3', what: '--limit serves so many, and no --resume goes on with it', users: 5, steps: [
    { run: limited(2), ok: true, summary: { deliveries: 2, owed: 3 } }, { run: resume, ok: true, deliveries: [] }, { run: all, ok: true, summary: { deliveries: 3 } },
  ] },
  { clause: '3', what: 'no --resume goes on with a --limit that was stopped either, but for what it had recorded', users: 40, steps: [
    { run: limited(30), settings: two, stopAt: 4, ok: false, summary: { deliveries: [0, 14] } }, { run: resume, ok: true }, { run: all, ok: true },
  ], end: (_house, stopped, resumed, rest) => {
    const { deliveries } = stopped.summary
    assert.deepEqual([stopped.made + resumed.made, rest.summary.delivered], [deliveries, 40 - deliveries])
  } },
  // Three owed subscription pushes made four deliveries of `--limit 1`.
  { clause: '3', what: 'with a limit owed subscription pushes wait', users: 5, steps: [
    { given: set(owe('id in (select id from users order by id limit 3)')), run: limited(1), ok: true, deliveries: ['weekly delivered 1'] },
    { run: all, ok: true, deliveries: [...times('subscription delivered 1', 3), ...times('weekly delivered 1', 4)] },
  ] },
  // A resumed user counted once for each attempt.
  { clause: '3', what: 'a stop finishes the attempts under way and gives back the rest; --resume continues, and serves nobody twice', users: 60, steps: [
    { run: all, settings: { concurrency: 4 }, stopAt: 12, ok: false, wire: [12, 29], deliveries: /^weekly (delivered \d|pending 0)$/ },
    { run: resume, answer: firstly(500), ok: true },
    { run: resume, ok: true, deliveries: [] },
  ], end: ({ receiver }, { summary: { delivered }, made }, resumed) => {
    const rest = 60 - delivered
    assert.deepEqual([made, resumed.summary.users, resumed.made, receiver.keys().size], [delivered, rest, 2 * rest, 60])
  } },
  // Nobody waited for it but the process that had begun it: --resume ended with 0, and without the second attempt.
  { clause: '3', what: '--resume waits for the rest of a pause that a process had begun which was killed', steps: [
    { run: all, answer: first(500), settings: { retryDelayMs: 60_000 }, stopAt: 1, ok: false },
    { given: set(`update deliveries set due_at = now() + interval '700 milliseconds'`), run: resume, ok: true, deliveries: ['weekly delivered 2'] },
  ] },

  // Whose delivery ended without another attempt was named, and not counted.
  { clause: '4.6', what: 'a delivery that a dead process had begun gets its second attempt once its lease is over; after two attempts it ends unknown', users: 3, steps: [
    { run: limited(2), settings: { concurrency: 1 }, ok: true },
    { given: killed(1, 2), run: all, ok: true, summary: { elsewhere: 2, delivered: 1 } },
    { given: endLease, run: resume, ok: false, deliveries: ['weekly delivered 2', 'weekly unknown 2'], summary: { users: 2 } },
  ], sent: [2, 1, 1], end: ({ receiver }, _, __, { deliveries }) => {
    assert.equal(deliveries.find(({ status }) => status === 'delivered')?.idempotencyKey, receiver.requests[0]?.key)
  } },
  // The second attempt was answered; nobody knows what came of the first.
  { clause: '4.6', what: 'a delivery that a dead process had begun ends unknown, not failed, if the second attempt is refused', steps: [
    { run: all, answer: 422, ok: false },
    { given: (house) => killed(1)(house).then(() => endLease(house)), run: resume, ok: false, deliveries: ['weekly unknown 2 422'], summary: { unknown: 1, failed: 0 } },
  ] },
  { clause: '4.6', what: 'an attempt that --user had recorded and not made is sent, even to a user who is not subscribed', users: [1, { subscribed: false }], steps: [
    { run: 'user', ok: true }, { given: takeBack, run: resume, ok: true, deliveries: ['single delivered 1'] },
  ] },
  // Of one its attempts are used up, of another the second is due; all get another delivery besides.
  { clause: '4.15', what: 'a user counts once, however many of their deliveries a run continues, begins and ends', users: 3, steps: [
    { run: all, ok: true },
    { given: killed(1, 2), answer: (_request, _nth, house) => endLease(house), run: force, settings: { concurrency: 1 }, ok: false,
      deliveries: [...times('forced delivered 1', 3), 'weekly delivered 2', 'weekly unknown 2'], forced: 1, summary: { users: 3, owed: 0 } },
  ] },
  // It looked for interrupted runs before the lease was over, for leases to wait for after: nobody was served, and it said 0.
  { clause: '4.13', what: '--resume goes on with a run whose lease ends while it is at something else', users: 2, steps: [
    { given: async (house) => {
      await set(`
        with dead as (insert into workers (host, process_id, lease_until) values ('gone', 1, now() + interval '1 minute') returning id)
        insert into runs (command, period, time_zone, worker_id, resumable)
        select 'all', to_char(now() at time zone 'UTC', 'IYYY-"W"IW'), 'UTC', id, true from dead`)(house)
      await set(owe(`email like '%0@example.com'`))(house)
    }, answer: (_request, _nth, house) => endLease(house), run: resume, ok: true,
      // who got two pushes is one user
      deliveries: ['subscription delivered 1', ...times('weekly delivered 1', 2)], summary: { users: 2 } },
  ] },
  // It waited for 863759 seconds: for the lease, and then for the pause before the second attempt.
  { clause: '4.13', what: '--resume waits for nothing that a clock which was ten days ahead left behind', users: 2, steps: [
    { run: limited(1), ok: true },
    { run: all, ok: true },
    { given: async ({ db }) => {
      const { period } = await db.selectFrom('runs').select('period').limit(1).executeTakeFirstOrThrow()
      await sql`
        with dead as (
          insert into workers (host, process_id, lease_until) values ('gone', 1, now() + interval '60 seconds') returning id
        ), left_behind as (insert into user_ranges select id, ${rangeScopeOf(weeklyPass(period))}, '', 0, '~', 1000 from dead)
        update deliveries set status = 'pending', attempts = 1, worker_id = dead.id, due_at = now() + interval '5 seconds' from dead
      `.execute(db)
    }, run: all, ok: true, deliveries: [], summary: { elsewhere: 2 } },
    { given: set(`
      with ahead as (update deliveries set due_at = due_at + interval '10 days')
      update workers set lease_until = lease_until + interval '10 days', renewed_at = renewed_at + interval '10 days'`),
      run: resume, ok: true, notes: [], deliveries: times('weekly delivered 2', 2) },
  ], end: async ({ opened }) => assert.equal((await opened.pool.query('select from workers')).rowCount, 0, 'nor does its row stay') },

  { clause: '4.7', what: 'a user who was removed and imported again in the same week gets none', steps: [
    { run: all, ok: true },
    { given: async (house) => { await remove(house); await seedUsers(house.db, users(1)) }, run: all, ok: true, summary: { already: 1 } },
  ], sent: [1] },
  // It said that they had no queries.
  { clause: '3', what: '--user of a user who is removed before the plan is made says so', steps: [
    { run: 'user', found: remove, ok: true, ...nobody, skips: [/^user-0000@example.com: the user was removed meanwhile$/], summary: { users: 1, skipped: 1 } },
  ] },
  { clause: '3', what: '--user sends the subscription push if one is owed, else a further delivery, also to who is not subscribed', users: [1, { subscribed: false }], steps: [
    { run: 'user', ok: true, deliveries: ['single delivered 1'] },
    { given: async (house) => assert.deepEqual(await subscribe(house), { was: false, owed: true, tooSoon: false }), run: 'user', ok: true, deliveries: ['subscription delivered 1'] },
    { given: async (house) => {
      await recordUnsubscription(house.db, (await findUser(house.db, email)).user.id)
      assert.deepEqual(await subscribe(house), { was: false, owed: false, tooSoon: true })
    }, run: all, ok: true, deliveries: ['weekly delivered 1'] },
  ] },
  // Each waits for the other until that has renewed its lease.
  { clause: '3', what: 'a subscription push that is owed is sent by --resume, once, also when two resume at once', users: [5, { subscribed: false }], steps: [
    { given: subscribeAll, run: resume, times: 2, settings: { leaseMs: 9_000 }, ok: true, wire: 5 },
  ] },

  { clause: '3', what: 'no more attempts begin than the rate allows', users: 7, steps: [{ run: all, settings: { ratePerSecond: 10 }, ok: true }],
    end: ({ receiver }, { beganMs }) => {
      const lastMs = (receiver.requests.at(-1)?.atMs ?? 0) - beganMs
      assert.ok(lastMs >= 590, `six pauses of 100 ms in ${lastMs} ms`)
    } },
  { clause: '3', what: 'no more requests are under way at once than the concurrency', users: 30, steps: [{ run: all, answer: once(3), settings: { concurrency: 3 }, ok: true }],
    end: ({ receiver }) => assert.equal(receiver.peak(), 3) },
  // An erasure meanwhile had users planned anew, who were warned again.
  { clause: '4.4', what: 'that a listing is too large is told once, also of users who are planned anew in the run', users: 4,
    leads: [lead('large', { description: 'x'.repeat(5_000_000) }), lead('a')], steps: [
    { run: all, answer: (_request, _nth, house) => erase(house).then(() => 200), settings: { concurrency: 1 }, ok: true, summary: { delivered: 4 } },
  ], end: (_house, { lines }) => {
    const warned = lines.flatMap((line) => (line.type === 'warning' ? [line.user] : []))
    assert.deepEqual([warned.length, new Set(warned).size], [4, 4])
  } },

  // The repeat found the attempt that was recorded, and the push was planned anew as well, with a key of its own: both went out.
  { clause: '4.6', what: 'a push for one user whose statement lost its answer, and met an erasure, goes out once', steps: [
    { run: 'user', after: ['record_pushes(', async (house) => { await erase(house); throw answerLost() }], ok: true, wire: 1, summary: { delivered: 1 } },
  ] },
  // It looked for them outside of the ranges that it had taken, counted them everywhere, and ended with 1.
  { clause: '3', what: 'users who subscribe while push --all is under way get theirs from it, wherever they are', users: 20, steps: [
    { given: async (house) => { await setSubscribed(house, false, 10); await setSubscribed(house, false, 15) }, settings: two, run: all,
      answer: async (_request, nth, house) => {
        if (nth === 5) await setSubscribed(house, true, 10)
        // by now the push has looked once more
        if (nth === 19) await setSubscribed(house, true, 15)
        return 200
      }, ok: true, summary: { delivered: 20, owed: 0 } },
  ] },
  // It was -1: users with a claim, less those with an attempt left, who had grown in number between the two counts.
  { clause: '4.15', what: 'a user whom another push begins while this one counts does not count as served before', users: 2, steps: [
    { run: all, after: ['unclaimed as (', set(theirs)], ok: true, summary: { already: 0, delivered: 1, elsewhere: 1 } },
  ] },
] // biome-ignore format: a table

/** Who a push or a preview has deliveries for, in no order. */
const usersOf = (lines: readonly PushLine[]) =>
  lines.flatMap((line) => (line.type === 'delivery' ? (line.user ?? '') : [])).sort()

async function previewed(house: PushHouse, forces = false): Promise<PushLine[]> {
  const planned: PushLine[] = []
  for await (const found of (await Preview.create(house.db, { what: 'all', force: forces }, defaults)).lines())
    planned.push('line' in found ? found.line : found)
  return planned
}

/** After the statement of this step the house is as it was. */
const meanwhile = (house: PushHouse, [statement, ...steps]: NonNullable<Step['after']>) =>
  new PushHouse(afterStatement(house.opened, statement, ...steps.map((step) => () => step(house))), house.receiver)

const isWithin = (value: unknown, amount: Amount) =>
  typeof amount === 'number' ? value === amount : Number(value) >= amount[0] && Number(value) <= amount[1]

function describe({ kind, status, attempts, httpStatus, error }: Pushed['deliveries'][number]): string {
  if (status === 'delivered') assert.deepEqual([httpStatus, error], [200, null])
  return [kind, status, attempts, ...(httpStatus === null || httpStatus === 200 ? [] : [httpStatus])].join(' ')
}

function checkPushes(step: Step, pushes: readonly Pushed[]): void {
  const said = JSON.stringify(pushes.map(({ lines, notes }) => [...notes, ...lines.slice(-3)]))
  for (const { ok } of pushes) assert.equal(ok, step.ok, said)
  for (const [name, amount] of Object.entries(step.summary ?? {})) {
    const sum = pushes.reduce((sum, { summary }) => sum + Number(summary[name as keyof SummaryLine]), 0)
    assert.ok(isWithin(sum, amount as Amount), `${name}: ${sum}\n${said}`)
  }
  const described = pushes.flatMap(({ deliveries }) => deliveries.map(describe)).sort()
  if (step.deliveries instanceof RegExp) for (const each of described) assert.match(each, step.deliveries)
  else if (step.deliveries) assert.deepEqual(described, step.deliveries)
  const skipped = pushes.flatMap(skips)
  if (step.skips) assert.equal(skipped.length, step.skips.length, said)
  for (const [at, reason] of (step.skips ?? []).entries())
    assert.match(`${skipped[at]?.user}: ${skipped[at]?.reason}`, reason)
  for (const { heldUsers, notes, lines, deliveries } of pushes) {
    if (step.held !== undefined) assert.equal(heldUsers, step.held)
    if (step.notes) assert.deepEqual(notes, step.notes)
    if (step.held !== undefined) assert.equal(lines.length, deliveries.length + step.held + 1, said)
  }
}

async function carryOutStep(house: PushHouse, step: Step): Promise<Done> {
  const { receiver } = house
  await step.given?.(house)
  const { answer } = step
  if (answer !== undefined)
    receiver.answer = typeof answer === 'function' ? (request, nth) => answer(request, nth, house) : () => answer
  const request = step.run === 'user' ? await house.userRequest(email) : step.run
  await step.found?.(house)
  const foretold = step.foretold && usersOf(await previewed(house, 'force' in request && request.force))
  const asked = receiver.requests.length
  const stop = step.stopAt === undefined ? new AbortController() : stopAfter(house, step.stopAt)
  const its = step.after ? meanwhile(house, step.after) : house
  const beganMs = performance.now()
  const push = () => its.push(request, step.settings, stop)
  const [pushed, ...others] = await Promise.all([push(), ...Array.from({ length: (step.times ?? 1) - 1 }, push)])
  checkPushes(step, [pushed, ...others])
  const made = receiver.requests.length - asked
  if (step.wire !== undefined) assert.ok(isWithin(made, step.wire), `${made} requests`)
  if (foretold) {
    assert.deepEqual([usersOf(pushed.lines), new Set(foretold).size], [foretold, foretold.length])
    assert.deepEqual([pushed.summary.users, pushed.summary.deliveries], [foretold.length, foretold.length])
  }
  if (step.forced !== undefined) {
    const { rows } = await sql<{ n: number }>`
      select (select count(*) from deliveries where user_id = users.id and kind = 'forced') as n from users
    `.execute(house.db)
    assert.deepEqual(new Set(rows.map(({ n }) => n)), new Set([step.forced]))
  }
  return { ...pushed, made, beganMs }
}

for (const { clause, what, users: given = 1, leads, steps, sent, end } of rows) {
  const whom = typeof given === 'number' ? users(given) : users(...given)
  test(`${clause}: ${what}`, () => inHouse({ users: whom, ...(leads && { leads }) }, async (house) => {
    const done: Done[] = []
    for (const [at, step] of steps.entries()) {
      done.push(await carryOutStep(house, step).catch((error) => {
        error.message = `step ${at + 1}: ${error.message}`
        throw error
      }))
    }
    if (sent) assert.deepEqual(counts(house), sent)
    await end?.(house, ...done)
  }))
} // biome-ignore format: a statement

/** A database whose words and places are looked up too slowly where they are said to be slow. */
async function buildSlow(t: TestContext): Promise<PushHouse> {
  const database = await createDatabase(t)
  const before = await database.open()
  await before.pool.query(`
    create function plainto_tsquery(regconfig, text) returns tsquery language plpgsql stable as $$ begin
      if $2 like 'slow%' then raise query_canceled; end if;
      return pg_catalog.plainto_tsquery($1, $2);
    end $$;
    create function unnest(text[]) returns setof text language plpgsql stable as $$ begin
      if '10001' = any ($1) then raise query_canceled; end if;
      return query select pg_catalog.unnest($1);
    end $$;
    alter database ${new URL(database.url).pathname.slice(1)} set search_path = public, pg_catalog`)
  await before.close()
  const receiver = await startTestReceiver()
  t.after(() => receiver.close())
  const house = new PushHouse(await database.open(), receiver)
  await seedLeads(house.opened, [lead('a', { description: 'slow' })])
  return house
}

const put = (house: PushHouse, records: readonly object[]) =>
  importUsers(house.opened, ['-'], { stdin: Readable.from([toLines(records)], { objectMode: false }) })
const text = (value: string) => ({ type: 'text', value })
const asks = (name: string, ...queries: object[]) => ({ email: `${name}@example.com`, receiverApiKey: 'key', queries })

// It ended the push of all users, and a user who got what the other queries match would have had their week. So did one look-up of
// places that took too long, and the eleventh text, with which runs begin.
test('a query that takes too long holds back those who have it, and nobody else, however many there are', async (t) => {
  const house = await buildSlow(t)
  await put(house, ['pool', 'slow', 'slow', 'lake'].map((word, at) => asks(`${at}-${word}`, text('house'), text(word))))

  const push = await house.push()
  const { summary, ok, heldUsers } = push
  assert.deepEqual([ok, push.deliveries.length, summary.skipped, summary.owed, summary.users], [false, 2, 2, 2, 4])
  assert.equal(heldUsers, 0, 'by the guard: --accept would be no help')
  const reason = 'a query takes too long to look up: {"type":"text","value":"slow","radius":0}'
  const held = [1, 2].map((at) => ({ type: 'skip', user: `${at}-slow@example.com`, reason }))
  assert.deepEqual([skips(push), await previewed(house)], [held, held])
  const one = await house.push(await house.userRequest('1-slow@example.com'))
  assert.deepEqual([one.ok, one.lines[0]], [false, held[0]])
  // once the query is another one, the hourly run serves them
  await put(house, [asks('1-slow', text('house'), text('lake'))])
  const resumed = await house.push(resume)
  assert.deepEqual(
    resumed.deliveries.map(({ user, status }) => [user, status]),
    [['1-slow@example.com', 'delivered']],
  )
  assert.equal(resumed.ok, false)

  await put(house, [
    ...Array.from({ length: 14 }, (_, at) => asks(`text-${at}`, text(`slow${'x'.repeat(at)}`))),
    ...['78704', '10001', '73301', '60601', '94110'].map((value) => asks(`zip-${value}`, { type: 'zipcode', value })),
  ])
  const many = await house.push()
  // who was held before is one of them
  assert.deepEqual([many.ok, many.summary.skipped, many.summary.owed, many.summary.users], [false, 16, 16, 20])
  const served = ['60601', '73301', '78704', '94110'].map((zip) => `zip-${zip}@example.com`)
  assert.deepEqual(many.deliveries.map(({ user }) => user).sort(), served)
  const ofPlace = skips(many).find(({ user }) => user === 'zip-10001@example.com')
  assert.match(ofPlace?.reason ?? '', /^a query takes too long to look up: .*10001/)
}) // biome-ignore format: short

/** A test of its own, with a database as rows have it. */
const own = (name: string, given: Parameters<typeof inHouse>[0], work: (house: PushHouse) => Promise<void>) =>
  test(name, () => inHouse(given, work))

own('a --force is over, and the next one begins anew, although another push is working on weekly deliveries', { users: users(20) }, async (house) => {
  await house.push(limited(10))
  const gate = makeGate()
  let requests = 0
  house.receiver.answer = () => (++requests === 1 ? gate.opened.then(() => 200) : 200)
  const weekly = house.push(all, { concurrency: 1 })
  await until('the first of ten is under way', () => requests === 1)
  const { summary } = await house.push(force)
  assert.equal(summary.elsewhere, 10)
  assert.equal((await house.push(force)).summary.deliveries, summary.deliveries)
  gate.open()
  await weekly
}) // biome-ignore format: short

own('a stop ends the pause before a second attempt: the next run need not wait for its rest', {}, async (house) => {
  house.receiver.answer = (_request, nth) => (nth === 1 ? 500 : 200)
  const stop = new AbortController()
  const pushing = house.push(all, { retryDelayMs: 60_000 }, stop)
  const paused = 'select from deliveries where first_status = 500'
  await until('the pause has begun', async () => (await house.opened.pool.query(paused)).rowCount === 1)
  stop.abort()
  assert.deepEqual((await pushing).deliveries.map(describe), ['weekly pending 1 500'])
  // a run that waited for its rest would deliver it too
  assert.equal((await house.opened.pool.query(`${paused} and due_at <= now()`)).rowCount, 1)
  assert.deepEqual((await house.push(resume, { retryDelayMs: 60_000 })).deliveries.map(describe), ['weekly delivered 2'])
}) // biome-ignore format: short

own('deliveries of a past week that were never sent are forgotten, but not while their process is alive', {}, async (house) => {
  await house.push()
  await takeBack(house)
  await set(`
    with living as (insert into workers (host, process_id, lease_until) values ('gone', 1, now() + interval '1 hour') returning id)
    update deliveries set period = '2020-W01', worker_id = living.id from living`)(house)
  const count = async () => (await house.opened.pool.query('select from deliveries')).rowCount
  await endAbandoned(house.db)
  assert.equal(await count(), 1)
  await endLease(house)
  await endAbandoned(house.db)
  assert.equal(await count(), 0)
}) // biome-ignore format: short

// Outcomes that the next statement of first attempts would have taken along counted as room for second attempts, which take none
// along: a kill left 9 attempts under way at a concurrency of 4.
own('no more attempts are recorded as under way than twice the concurrency, also where second ones are due at once', { users: users(80) }, async (house) => {
  const found = new Set<number>()
  const underWay = 'select count(*) as n from deliveries where under_way'
  const count = async () => void found.add(Number((await house.opened.pool.query(underWay)).rows[0].n))
  const answer = firstly(500)
  house.receiver.answer = (request) => count().then(() => answer(request))
  let isOver = false
  const pushing = house.push(all, { concurrency: 4, retryDelayMs: 1 }).finally(() => {
    isOver = true
  })
  while (!isOver) await sleep(5).then(count)
  assert.equal((await pushing).summary.delivered, 80)
  assert.deepEqual([...found].filter((n) => n > 8), [])
}) // biome-ignore format: short

// A user with an interrupted delivery also counted as served, and a preview knew of nobody who had theirs.
own('a preview shows what the push then sends, byte for byte, interrupted deliveries first', { users: users(5) }, async (house) => {
  house.receiver.answer = (_request, nth) => (nth === 1 ? 500 : 200)
  await house.push(all, { retryDelayMs: 60_000, concurrency: 1 }, stopAfter(house, 3))
  const sentBefore = house.receiver.requests.length
  const preview = await Preview.create(house.db, { what: 'all', force: false }, { ...defaults, maxLeadAgeMs: 1e9 })
  const bodies: string[] = []
  const attempts: number[] = []
  for await (const found of preview.lines()) {
    if ('line' in found) bodies.push((await found.readBody()).toString())
    if ('line' in found) attempts.push(found.line.attempts)
  }
  const { summary } = await house.push()
  assert.equal(preview.summary(0).users, summary.users, 'a user with a begun delivery counts too')
  assert.deepEqual([preview.summary(0).already, summary.already], [5 - summary.users, 5 - summary.users])
  const sent = house.receiver.requests.slice(sentBefore).map(({ body }) => body.toString())
  assert.deepEqual(bodies.sort(), sent.sort())
  assert.equal(attempts.filter((n) => n === 1).length, 1, 'the one that was begun is among them')
}) // biome-ignore format: short

// It listed what a living push had in hand, while a push left that to the other and counted it as `elsewhere`.
own('a preview counts what a living push has in hand as elsewhere, and lists the rest', { users: users(12) }, async (house) => {
  const gate = makeGate()
  house.receiver.answer = () => gate.opened.then(() => 200)
  const other = house.push(all, { concurrency: 2, timeoutMs: 60_000 })
  await requestsAtLeast(house.receiver, 1)
  const preview = await Preview.create(house.db, { what: 'all', force: false }, defaults)
  const planned: PushLine[] = []
  for await (const found of preview.lines()) planned.push('line' in found ? found.line : found)
  const { summary, deliveries } = await house.push()
  gate.open()
  await other
  assert.deepEqual([usersOf(planned), deliveries], [[], []])
  assert.ok(preview.summary(0).elsewhere > 0 && summary.elsewhere > 0)
}) // biome-ignore format: short

// It stayed owed, and the push ended with 0.
own('a subscription push waits for no lock that another transaction has on its user', { users: users(1, { subscribed: false }) }, async (house) => {
  await subscribe(house)
  const other = await house.opened.pool.connect()
  try {
    await other.query('begin; select from users for update')
    const { ok, deliveries } = await house.push({ what: 'owed' })
    assert.deepEqual([ok, deliveries.map(describe)], [true, ['subscription delivered 1']])
  } finally {
    await other.query('rollback')
    other.release()
  }
}) // biome-ignore format: short

// It took a range of users more than it served, and the other push left these to it: nobody served them. `elsewhere` counted who had a
// delivery in hand and lay in a range twice.
own('push --limit takes nobody from others whom it does not serve', { users: users(40) }, async (house) => {
  const gate = makeGate()
  house.receiver.answer = (_request, nth) => (nth > 2 ? 200 : gate.opened.then(() => 200))
  const few = house.push(limited(4), { concurrency: 2, timeoutMs: 60_000 })
  await requestsAtLeast(house.receiver, 2)
  const { ok, summary } = await house.push()
  gate.open()
  assert.deepEqual([ok, summary.delivered, summary.elsewhere, summary.owed], [true, 36, 4, 0])
  assert.equal((await few).summary.delivered, 4)
}) // biome-ignore format: short
