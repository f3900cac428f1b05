/**
 * A receiver in trouble as a whole (contract 4.5, 4.12, 4.17): a row for each clause, of pushes against a real database and a real
 * receiver. Faults that meet by chance are the simulator's; the rules by themselves are in `test/unit/health.test.ts`.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { sql } from 'kysely'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { alikeFirstDrawnAfter, outageLookMs } from '../../src/base/limits.ts'
import { sendAttempt } from '../../src/deliveries/attempt.ts'
import { createHttp } from '../../src/http/client.ts'
import type { PushLine, SummaryLine } from '../../src/index.ts'
import { sentenceOf } from '../../src/inspect/finding.ts'
import { findFigures } from '../../src/inspect/report/figures/find-figures.ts'
import { buildReport } from '../../src/inspect/report/page/build-report.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { databaseLedger } from '../../src/push/database/database-ledger.ts'
import { databaseReceiver, findTrouble, hashReceiver } from '../../src/push/database/receivers.ts'
import { Preview } from '../../src/push/preview/preview.ts'
import type { Trouble } from '../../src/push/receiver/trouble.ts'
import { carryOut, type PushRequest, type PushSettings } from '../../src/push/run-push.ts'
import { httpWire } from '../../src/push/wire.ts'
import { makeGate } from '../support/gate.ts'
import {
  all,
  build,
  inHouse,
  most,
  type Pushed,
  type PushHouse,
  resume,
  skips,
  stopAfter,
  users,
} from '../support/push-house.ts'
import { collectingReporter } from '../support/push-reporter.ts'
import { withoutFeed as seen, testPushSettings } from '../support/push-settings.ts'
import { type ReceivedRequest, requestsAtLeast, type TestReceiver } from '../support/receiver.ts'
import { type SeedUser, seedUsers } from '../support/seed.ts'

/** A push, with what is given before it and what comes of it. Fields that are not there are not looked at. */
interface Step {
  run: PushRequest | 'user'
  /** From now on. */
  answer?: TestReceiver['answer'] | 200 | 401 | 404 | 422 | 503 | 'drop'
  head?: number
  /** Since the last step. */
  passes?: '1 hour' | '1 day'
  accept?: true
  /** So many requests have come in all: it is stopped. */
  stopAt?: number
  settings?: Partial<PushSettings>
  /** The receiver is known by another address. */
  elsewhere?: true
  /** That no connection can be made. */
  closed?: true
  /** So many of these pushes at once. */
  times?: number
  /** Exit code 0; of each, if there are several. */
  ok: boolean
  /** Requests that came of it, or the fewest and the most. */
  wire?: number | readonly [number, number]
  /** HEAD requests. */
  heads?: number
  /** All deliveries by status and number of attempts, after it. */
  rows?: Record<string, number>
  summary?: { [name in keyof SummaryLine]?: SummaryLine[name] | undefined }
  /** Warnings about a success that shows nothing. */
  warnings?: number
  /** What is noted, or why the push is held; null: nothing is. */
  says?: RegExp | null
  held?: RegExp | null
  /** Of the receiver that is in trouble last, as far as pushes know. */
  trouble?: Trouble | null
  /** It says what the receiver allows, and keeps it for the next push; false: neither. */
  slowed?: boolean
  /** An alarm of `status --check`; null: there is none of the receiver. */
  alarm?: RegExp | null
  /** Users whose delivery is doubtful. */
  doubtful?: number
}

interface Row {
  clause: '4.5' | '4.12' | '4.17'
  what: string
  users: number | SeedUser[]
  settings?: Partial<PushSettings>
  /** The receiver has said that it takes gzip. */
  takesGzip?: true
  steps: Step[]
}

const isDown: Trouble = { is: 'down' }
const refuses = (status: number): Trouble => ({ is: 'refuses', status })
const isGzip = ({ headers }: ReceivedRequest) => headers['content-encoding'] === 'gzip'
const page = { status: 200, headers: { 'content-type': 'text/html' }, body: '<title>Log in</title>' }
const no = { status: 200, body: '{"ok":false}' }
const asksForLess = { status: 429, headers: { 'retry-after': '1' } }
const slowing = /^The receiver asks for less \(HTTP 429\): slowing down\.$/
/** Only the ninth is told that. */
const onceToldTo =
  (headersOf: () => Record<string, string>): TestReceiver['answer'] =>
  (_request, nth) =>
    nth === 9 ? { status: 429, headers: headersOf() } : 200
const doubtful: PushRequest = { what: 'failed', ends: ['failed', 'doubtful'] }
const failed: PushRequest = { what: 'failed', ends: ['failed', 'unknown'] }
const limited = (limit: number): PushRequest => ({ what: 'all', force: false, limit })
/** Of ten places, one after the other in the order of serving. */
const ofPlaces = (count: number) =>
  users(count).map((user, at) => ({ ...user, receiverKey: `place${Math.floor((at * 10) / count)}-${at}` }))
const placeOf = ({ headers }: ReceivedRequest) => Number(String(headers['x-service-api-key'])[5])
/** Takes so many; the others get their answers, all at one moment, once they are that many in all. */
function downAtOnce(taken: number, inAll: number): TestReceiver['answer'] {
  const gate = makeGate()
  return async (_request, nth) => {
    if (nth <= taken) return 200
    if (nth === inAll) gate.open()
    await gate.opened
    return 503
  }
}
/** An outage is given up soon. */
const brief = { outageMs: 300, concurrency: 4 }
const mended = { run: resume, answer: 200, passes: '1 day', ok: true, held: null, trouble: null } as const

const rows: Row[] = [
  // It went on, and everybody had lost both attempts when the address or the keys were mended.
  { clause: '4.12', what: 'a receiver that answers 401 to everybody holds the push after 20, however many may be under way', users: 60,
    settings: { concurrency: 64 }, steps: [
    { run: all, answer: 401, ok: false, wire: 20, rows: { 'pending 1': 20 }, summary: { owed: 40, skipped: 0 }, held: /^held: .*HTTP 401: .*--accept/, trouble: refuses(401), alarm: /held since \S+Z, as the receiver refuses .* HTTP 401: .*\. Mend the receiver .*, then run `leadpush push --resume`/ },
    { run: all, answer: 200, ok: true, held: null, summary: { owed: 0 }, rows: { 'delivered 1': 40, 'delivered 2': 20 }, trouble: null, alarm: null },
    { run: all, ok: true, wire: 0 },
  ] },
  { clause: '4.12', what: 'with fewer users all of them hold it, one alone holds nothing', users: 2, steps: [
    { run: all, answer: 422, ok: false, wire: 2, rows: { 'pending 1': 2 }, held: /HTTP 422/ }, mended,
  ] },
  { clause: '4.12', what: 'one user alone who is refused loses both attempts', users: 1, steps: [{ run: all, answer: 401, ok: false, held: null, rows: { 'failed 2': 1 } }] },
  { clause: '4.12', what: 'keys that go bad on the way hold it too: attempts that were recorded and not made are taken back', users: 80, settings: { concurrency: 4 }, steps: [
    { run: all, answer: (_request, nth) => (nth > 30 ? 401 : 200), ok: false, wire: [50, 54], held: /401/ },
    { ...mended, wire: [50, 54] },
  ] },
  // It said that the next push begins with one attempt; those within the hour make none.
  { clause: '4.12', what: 'after a refusal each hour has one first attempt, and the hold says when the next one is allowed', users: 60, steps: [
    { run: all, answer: 404, ok: false, wire: 20, held: /mended the next push begins with one attempt; --accept/ },
    // to --resume it is nothing new
    { run: resume, ok: true, wire: 1, rows: { 'pending 1': 21 }, held: /a push that begins in (1 hour|\d\d minutes) or later begins/ },
    { run: all, ok: false, wire: 0, held: /a push that begins in (1 hour|\d\d minutes) or later begins/ },
    { run: resume, passes: '1 hour', ok: true, wire: 1 },
    { run: all, passes: '1 hour', times: 2, ok: false, wire: 1, rows: { 'pending 1': 23 } },
    { ...mended, rows: { 'delivered 1': 37, 'delivered 2': 23 } },
  ] },
  { clause: '4.12', what: 'if only second attempts are left, one a day is made', users: 5, steps: [
    { run: all, answer: 404, ok: false, wire: 5 },
    { run: resume, ok: false, wire: 1, rows: { 'failed 2': 1, 'pending 1': 4 }, held: /in (24 hours|1 day) or later begins/ },
    { run: all, ok: false, wire: 0, held: /in (24 hours|1 day) or later begins/ },
    { run: resume, passes: '1 hour', ok: true, wire: 0 },
    { ...mended, rows: { 'delivered 2': 4, 'failed 2': 1 } },
  ] },
  { clause: '4.12', what: 'another address begins anew, and what the first one refused is held no more', users: 40, steps: [
    { run: all, answer: 404, ok: false }, { run: all, answer: 200, elsewhere: true, ok: true, rows: { 'delivered 1': 20, 'delivered 2': 20 }, trouble: null },
  ] },
  { clause: '4.12', what: '--accept goes on regardless of refusals, and ends the hold once it is answered otherwise; --user is never held', users: 30, steps: [
    { run: all, answer: 401, ok: false, wire: 20 },
    { run: 'user', ok: false, wire: 2, held: null },
    { run: all, accept: true, ok: false, held: null, summary: { failed: 30, owed: 0 }, trouble: refuses(401) },
    { run: { what: 'failed', ends: ['failed'] }, accept: true, answer: 200, ok: true, trouble: null },
  ] },
  { clause: '4.12', what: 'an answer of another kind lets it go on to the next doubt, no answer does not', users: 100, steps: [
    { run: all, answer: 404, ok: false, wire: 20 },
    { run: all, answer: 'drop', ok: false, wire: 1, trouble: refuses(404) },
    { run: all, passes: '1 hour', answer: 401, ok: false, wire: 20, held: /HTTP 401/,
      says: /^The receiver no longer answers HTTP 404 to everybody: HTTP 401 came, so other second attempts wait\.$/, trouble: refuses(401) },
  ] },
  // The one attempt ended the first trouble, and everybody lost the second attempt to the next one.
  { clause: '4.12', what: 'where only second attempts are left and a hold turns into an outage, two are made and the others wait', users: 20, settings: brief, steps: [
    { run: all, answer: 401, ok: false, wire: 20 },
    { run: resume, answer: 503, ok: false, rows: { 'failed 2': 2, 'pending 1': 18 }, trouble: isDown, says: /: HTTP 503 came, so other second attempts wait\.[\s\S]* is down: 2 attempts in a row failed; the last: HTTP 503/ },
    { ...mended, settings: { outageMs: 30_000 }, rows: { 'delivered 2': 18, 'failed 2': 2 } },
  ] },
  { clause: '4.12', what: 'so they are where an outage turns into a refusal', users: 20, settings: brief, steps: [
    { run: all, answer: 503, ok: false, rows: { 'pending 1': 20 }, trouble: isDown },
    { run: resume, answer: 401, ok: false, rows: { 'failed 2': 2, 'pending 1': 18 }, trouble: refuses(401), held: /HTTP 401/, says: /: HTTP 401 came, so other second attempts wait\./ },
  ] },
  { clause: '4.12', what: 'one user alone who is refused as a trouble ends holds nobody', users: 20, settings: brief, steps: [
    { run: all, answer: 503, ok: false, wire: 20 },
    { run: resume, answer: (_request, nth) => (nth === 21 ? 401 : 200), settings: { outageMs: 60_000 }, ok: false, held: null, rows: { 'delivered 2': 19, 'failed 2': 1 }, says: /HTTP 401 came/, trouble: null },
  ] },
  { clause: '4.12', what: 'if the last first attempt ends a trouble with another, second attempts wait as well', users: 21, settings: { concurrency: 1 }, steps: [
    { run: all, answer: 401, ok: false, wire: 20 }, { run: resume, answer: 404, ok: false, rows: { 'failed 2': 1, 'pending 1': 20 } },
  ] },

  { clause: '4.12', what: '20 first attempts that fail in a row are an outage: the users it had not come to stay owed, and the run gives up', users: 60,
    settings: { ...brief, retryDelayMs: 60_000 }, steps: [
    { run: all, answer: 503, ok: false, wire: [20, 28], summary: { failed: 0 }, says: /is down: 20 first attempts in a row failed; the last: HTTP 503: /, trouble: isDown },
    { run: all, answer: 200, settings: { outageMs: 30_000, retryDelayMs: 0 }, ok: true, says: /trying it\.\nThe receiver answers again: going on\.$/, trouble: null },
  ] },
  // All failed at one moment, before anybody was drawn: they counted for nothing, and at one moment all lost their second attempts.
  { clause: '4.12', what: 'so are 20 of the last ones, which were all under way as it went down', users: 60, settings: { outageMs: 300, concurrency: 64 }, steps: [
    { run: all, answer: downAtOnce(8, 60), ok: false, wire: 60, rows: { 'delivered 1': 8, 'pending 1': 52 }, says: /The receiver is down: /, trouble: isDown },
    { ...mended, settings: { outageMs: 30_000 } },
  ] },
  // An hour after a push had given up, --resume made the second attempt of everybody, and both of everybody else.
  { clause: '4.12', what: 'the finding outlives the run: the next one, of any form, begins with one first attempt', users: 60, settings: brief, steps: [
    { run: all, answer: 503, ok: false, wire: [20, 28] },
    // to --resume it is nothing new
    { run: resume, ok: true, wire: 1, says: /^The receiver stayed down: giving up; the other users stay owed\.$/ },
    { run: all, ok: false, wire: 1, says: /as a push before this one found: trying it\.\n.*stayed down: giving up/ },
    { run: limited(5), ok: false, wire: 1 },
    // nobody has a delivery that failed: there is nothing to be tried
    { run: failed, ok: true, wire: 0 },
    { ...mended, settings: { outageMs: 30_000 }, says: /^The receiver answers again: going on\.$/ },
  ] },
  // The next run made the second attempts of the 4 first: an outage cost them both.
  { clause: '4.12', what: 'a run that goes on after a stop in doubt makes first attempts first', users: 40, settings: { ...brief, retryDelayMs: 60_000 }, steps: [
    { run: all, answer: 503, stopAt: 4, ok: false, wire: [4, 8] }, { run: resume, ok: false, wire: [20, 28] },
  ] },
  { clause: '4.12', what: 'if only second attempts are left, one is made once a HEAD is answered below 500 or with 501, and none for an hour after it', users: 4, settings: brief, steps: [
    { run: all, answer: 503, head: 500, ok: false, rows: { 'pending 1': 4 }, says: /^The receiver is down: 4 first attempts in a row failed; the last: HTTP 503: / },
    { run: all, ok: false, wire: 0, heads: 1 },
    { run: all, head: 501, ok: false, wire: 1 },
    { run: all, head: 404, ok: false, wire: 0, rows: { 'failed 2': 1, 'pending 1': 3 } },
    { run: all, passes: '1 hour', answer: 422, ok: false, rows: { 'failed 2': 3, 'pending 1': 1 }, settings: { retryDelayMs: 0, outageMs: 300 } },
  ] },
  { clause: '4.12', what: 'without an answer the warning says how the last attempt failed', users: 4, settings: brief, steps: [
    { run: all, answer: 'drop', ok: false, says: /^The receiver is down: 4 first attempts in a row failed; the last: the connection broke/ },
  ] },
  // Given for the guard, --accept took away the protection: everybody lost both attempts.
  { clause: '4.12', what: 'nothing is begun before a connection can be made; with --accept an outage costs nobody both attempts', users: 40, settings: brief, steps: [
    { run: all, answer: 503, ok: false, wire: [20, 28] },
    { run: all, closed: true, ok: false },
    { run: all, accept: true, ok: false, summary: { failed: 0 } },
  ] },
  // 20 second attempts were due, the receiver was down, and `--resume` had 20 failed within a second.
  { clause: '4.12', what: 'second attempts alone find an outage after two', users: 20, steps: [
    { run: all, answer: 503, settings: { outageMs: 0, retryDelayMs: 300_000 }, stopAt: 20, ok: false, rows: { 'pending 1': 20 } },
    { run: resume, settings: { outageMs: 300 }, ok: false, rows: { 'failed 2': 2, 'pending 1': 18 } },
    { ...mended, summary: { delivered: 18 } },
  ] },
  // The two that were due first were of one place, for which the receiver always failed: that was an outage for all others.
  { clause: '4.12', what: 'second attempts alone are drawn: two users who always fail hold up nobody', users: ofPlaces(100), settings: { concurrency: 1 }, steps: [
    { run: all, answer: 503, settings: { outageMs: 0, retryDelayMs: 300_000 }, stopAt: 100, ok: false, rows: { 'pending 1': 100 } },
    { run: resume, answer: ({ headers }) => (/^place0-[01]$/.test(String(headers['x-service-api-key'])) ? 503 : 200), settings: { outageMs: 300 }, ok: false, summary: { delivered: 98 } },
  ] },
  // Each idle push made a HEAD. A receiver that knows none was found down, and `status --check` alarmed with nothing to be done.
  { clause: '4.12', what: 'a push with nothing to send asks the receiver nothing, and finds no trouble', users: 2, steps: [
    { run: all, ok: true }, { run: resume, head: 500, ok: true, says: null, wire: 0 }, { run: all, ok: true, says: null, heads: 0, wire: 0, trouble: null },
  ] },
  // It went on for weeks, took both attempts of each user, and `status` said that all was well.
  { clause: '4.12', what: 'a receiver that only answers 429 is given up, and costs those who are left nothing', users: 60, settings: { concurrency: 4 }, steps: [
    { run: all, answer: () => asksForLess, settings: { outageMs: 3_000 }, ok: false, summary: { failed: 0, allowedPerSecond: undefined }, says: /takes nothing, and asks for less: giving up/, trouble: { is: 'asks' } },
    { run: all, answer: 200, ok: true, summary: { delivered: 60 }, trouble: null },
  ] },

  { clause: '4.12', what: 'a 429 without a Retry-After slows a push down: it says so once, and keeps the pace that it found', users: 40, settings: { retryDelayMs: 100 }, steps: [
    { run: all, answer: onceToldTo(() => ({})), ok: true, summary: { delivered: 40 }, says: slowing, slowed: true },
  ] },
  { clause: '4.12', what: 'so does a 429 with a Retry-After', users: 40, settings: { retryDelayMs: 100 }, steps: [
    { run: all, answer: onceToldTo(() => ({ date: new Date().toUTCString(), 'retry-after': new Date(Date.now() + 1_000).toUTCString() })), ok: true, summary: { delivered: 40 }, says: slowing, slowed: true },
  ] },
  { clause: '4.12', what: 'without a limit nothing is slowed, told or kept', users: 100, steps: [{ run: all, ok: true, summary: { delivered: 100 }, says: null, slowed: false }] },

  // 401 to the keys of one town held the push for all other towns, for days.
  { clause: '4.12', what: 'refusals of one place hold up no other', users: ofPlaces(100), steps: [
    { run: all, answer: (request) => (placeOf(request) === 4 ? 401 : 200), ok: false, held: null, rows: { 'delivered 1': 90, 'failed 2': 10 } },
  ] },
  { clause: '4.12', what: 'nor do broken connections of every other place', users: ofPlaces(100), settings: { outageMs: 1_000 }, steps: [
    { run: all, answer: (request) => (placeOf(request) % 2 === 1 ? 'drop' : 200), ok: false, summary: { delivered: 50 } },
  ] },

  // A 415 to a compressed first attempt counted for nothing: everybody lost both attempts. Then all first ones were made while the
  // second ones were waited for.
  { clause: '4.17', what: 'a receiver that answers 415 to everybody, compressed (gzip) or not, holds the push', users: 60, settings: { compress: 'gzip', retryDelayMs: 300, concurrency: 4 }, steps: [
    { run: all, answer: () => 415, ok: false, wire: [60, 62], held: /^held: .*HTTP 415/ },
  ] },
  { clause: '4.17', what: 'a receiver that answers 415 to everybody, compressed (auto) or not, holds the push', users: 5, takesGzip: true, settings: { retryDelayMs: 300, concurrency: 4 }, steps: [
    { run: all, answer: () => 415, ok: false, wire: [5, 7], held: /^held: .*HTTP 415/ },
  ] },
  { clause: '4.17', what: 'a receiver that refuses compressed deliveries alone gets all plain (gzip)', users: 1, settings: { compress: 'gzip' }, steps: [
    { run: all, answer: (request) => (isGzip(request) ? 415 : 200), ok: true, says: null, rows: { 'delivered 2': 1 } },
  ] },
  // It recorded compressed attempts ahead, got twenty 415, and held the week with the advice that the receiver takes no JSON.
  { clause: '4.17', what: 'a receiver that begins to refuse compressed deliveries gets each of them in that run', users: 80, settings: { concurrency: 32 }, steps: [
    { run: 'user', answer: () => ({ status: 200, headers: { 'accept-encoding': 'gzip' } }), ok: true },
    { run: all, answer: (request) => (isGzip(request) ? 415 : { status: 200, headers: { 'accept-encoding': 'gzip' } }), ok: true, says: null, wire: [81, 144], summary: { delivered: 80 } },
  ] },

  // A wrong URL that led to a login page took a whole week's deliveries for good: all were delivered, exit 0. `status --check` said that all
  // was well while a push had held back most of its users; those behind the page got nothing, and nobody said so once it was mended.
  { clause: '4.5', what: 'a login page as the first 20 answers holds that push, and is an alarm until a later one is not held; its deliveries stay doubtful until they are made anew', users: 60,
    settings: { concurrency: 64 }, steps: [
    { run: all, answer: () => page, ok: false, wire: 20, rows: { 'delivered 1': 20 }, summary: { delivered: 20, owed: 40, skipped: 0 }, warnings: 20,
      held: /^held: none of the last 20 answers .*--accept.*text\/html/, alarm: /^A push was held in \d{4}-W\d\d, as none of the last 20 answers .*text\/html.*LEADPUSH_RECEIVER_URL.*`leadpush push --resume` .*`leadpush push --all --accept`/, doubtful: 20 },
    // runs that are for others prove nothing
    { run: { what: 'failed', ends: ['failed'] }, ok: true, wire: 0, alarm: /^A push was held/ },
    { run: doubtful, ok: false, wire: 20, held: /none of the last/ },
    { run: resume, answer: 200, ok: true, wire: 40, held: null, alarm: null },
    { run: failed, ok: true, wire: 0 },
    { run: doubtful, ok: true, wire: 20, doubtful: 0 },
    { run: doubtful, ok: true, wire: 0 },
  ] },
  { clause: '4.5', what: 'two users who both get an empty success hold the push at its end', users: 2, steps: [
    { run: all, answer: () => no, ok: false, warnings: 2, summary: { delivered: 2 }, held: /^held: none of the last 2 answers .*"ok": false/ },
    { run: resume, ok: true, wire: 0 },
  ] },
  { clause: '4.5', what: 'one user who gets an empty success is warned of, and holds nothing', users: 1, steps: [
    { run: all, answer: () => page, ok: true, warnings: 1, held: null }, { run: 'user', ok: true, warnings: 1, held: null },
  ] },
  { clause: '4.5', what: '--accept goes on after any first answers, and as a whole ends all doubt; with a limit it ends none', users: 25, settings: { concurrency: 1 }, steps: [
    { run: all, answer: () => page, ok: false, wire: 20 },
    { run: limited(1), accept: true, ok: true, wire: 1, doubtful: 20 },
    { run: all, accept: true, ok: true, warnings: 4, held: null, doubtful: 0 },
  ] },
  // Stopped by somebody who read the warnings, a push left those behind the page without a delivery for the week, and nobody said so.
  { clause: '4.5', what: 'a push that is stopped after nothing but pages leaves their deliveries doubtful; after one page, or a page and another answer, it does not', users: 60, settings: { concurrency: 1, retryDelayMs: 60_000 }, steps: [
    { run: all, answer: () => page, stopAt: 1, ok: false, warnings: 1, doubtful: 0 },
    { run: all, answer: (_request, nth) => (nth === 3 ? 422 : page), stopAt: 3, ok: false, warnings: 1, doubtful: 0 },
    { run: all, answer: () => page, stopAt: 5, ok: false, warnings: 2, held: null, doubtful: 2 },
    { run: doubtful, answer: 200, ok: true, wire: 2, doubtful: 0 },
  ] },
  { clause: '4.5', what: 'a page among other answers is a warning alone; those after the last other answer are doubtful', users: 60, settings: { concurrency: 1, retryDelayMs: 60_000 }, steps: [
    { run: all, answer: (_request, at) => (at <= 19 || at >= 31 ? page : at === 20 ? 200 : 422), ok: false, warnings: 39, doubtful: 20 },
  ] },
] // biome-ignore format: a table

/** What its operator sees of it. */
async function look({ db }: PushHouse) {
  const status = await findStatus(db, seen)
  const alarms = (await findAlarms(db, status, seen)).map(sentenceOf)
  return {
    doubtful: status.doubtfulWithoutLater,
    alarm: alarms.find((each) => /^A push was held|held since/.test(each)),
  }
}

async function prepare(house: PushHouse, { answer, head, passes, closed }: Step): Promise<{ heads: number }> {
  const { receiver } = house
  if (answer !== undefined) receiver.answer = typeof answer === 'function' ? answer : () => answer
  const asked = { heads: 0 }
  const status = head ?? receiver.head()
  receiver.head = () => {
    asked.heads++
    return status
  }
  if (closed) await receiver.close()
  if (passes !== undefined)
    await sql`update receivers set next_at = next_at - ${passes}::interval, second_at = second_at - ${passes}::interval`.execute(house.db)
  return asked
} // biome-ignore format: a statement

function checkPush(step: Step, push: Pushed): void {
  const { ok, notes, lines, summary } = push
  const said = `${notes.join('\n')}\n${JSON.stringify(lines.slice(-3))}`
  assert.equal(ok, step.ok, said)
  for (const [name, value] of Object.entries(step.summary ?? {}))
    assert.deepEqual(summary[name as keyof SummaryLine], value, `${name}\n${said}`)
  if (step.warnings !== undefined) assert.equal(lines.filter(({ type }) => type === 'warning').length, step.warnings)
  if (step.slowed !== undefined) assert.equal((summary.allowedPerSecond ?? 0) > 0, step.slowed)
  if (step.slowed === false) assert.equal(summary.allowedPerSecond, undefined)
  if (step.says) assert.match(notes.join('\n'), step.says)
  if (step.says === null) assert.deepEqual(notes, [])
  if (step.held === undefined) return
  const [skip, ...others] = skips(push)
  assert.deepEqual([others, skip?.user, step.held !== null], [[], undefined, skip !== undefined], said)
  if (step.held) assert.match(skip?.reason ?? '', step.held)
}

async function carryOutStep(house: PushHouse, step: Step, common: Partial<PushSettings>): Promise<void> {
  const asked = await prepare(house, step)
  const { length } = house.receiver.requests
  const request = step.run === 'user' ? await house.userRequest('user-0000@example.com') : step.run
  const elsewhere = step.elsewhere && { receiverUrl: `${house.receiver.url}/elsewhere` }
  const settings = { retryDelayMs: 0, outageMs: 60_000, ...common, ...step.settings, ...elsewhere }
  const stop = step.stopAt === undefined ? new AbortController() : stopAfter(house, step.stopAt)
  const push = () => house.push(request, settings, stop, step.accept)
  for (const each of await Promise.all(Array.from({ length: step.times ?? 1 }, push))) checkPush(step, each)

  const made = house.receiver.requests.length - length
  const [fewest, mostMade] = typeof step.wire === 'number' ? [step.wire, step.wire] : (step.wire ?? [0, 1e9])
  assert.ok(made >= fewest && made <= mostMade, `${made} requests`)
  if (step.heads !== undefined) assert.equal(asked.heads, step.heads)
  if (step.rows) assert.deepEqual(await house.attempts(), step.rows)
  if (step.trouble !== undefined) assert.deepEqual((await findTrouble(house.db))?.trouble ?? null, step.trouble)
  if (step.slowed !== undefined) {
    const { rows } = await sql<{ rate: number | null }>`select rate from receivers`.execute(house.db)
    const rate = rows[0]?.rate ?? null
    assert.ok(step.slowed ? Number(rate) > 0 : rate === null, `a rate of ${rate}`)
  }
  if (step.alarm === undefined && step.doubtful === undefined) return
  const found = await look(house)
  if (step.doubtful !== undefined) assert.equal(found.doubtful, step.doubtful)
  if (step.alarm) assert.match(found.alarm ?? '', step.alarm)
  if (step.alarm === null) assert.equal(found.alarm, undefined)
}

for (const { clause, what, users: count, settings = {}, takesGzip, steps } of rows) {
  const given = { users: typeof count === 'number' ? users(count) : count }
  test(`${clause}: ${what}`, () => inHouse(given, async (house) => {
    if (takesGzip)
      await sql`insert into receivers (url_sha256, takes_gzip) values (${hashReceiver(house.receiver.url)}, true)`.execute(house.db)
    for (const [at, step] of steps.entries()) {
      await carryOutStep(house, step, settings).catch((error) => {
        error.message = `step ${at + 1}: ${error.message}`
        throw error
      })
    }
    assert.ok(most(house) <= 2, 'nobody gets a third attempt')
  }))
} // biome-ignore format: a statement

async function holdByPage(t: TestContext) {
  const house = await build(t, { users: users(60), answer: () => page })
  return { house, push: await house.push() }
}

test('a preview lists the hold of the push, and the report shows it', async (t) => {
  const refused = await build(t, { users: users(30), answer: () => 404 })
  const push = await refused.push(all, { outageMs: 60_000 })
  const lines: PushLine[] = []
  const preview = await Preview.create(refused.db, { what: 'all', force: false }, seen)
  for await (const found of preview.lines()) if (!('line' in found)) lines.push(found)
  assert.deepEqual(lines, skips(push))
  const { house, push: held } = await holdByPage(t)
  assert.equal(held.lines.at(-2)?.type, 'skip')
  assert.match(await buildReport(await findFigures(house.db, seen), seen), /A push was held in/)
})

// The push slept 250 ms for ever, and the next push was held for an hour by a try that nobody had made.
test('a try whose user is gone by then is taken back, and the push ends', async (t) => {
  const house = await build(t, { users: users(1) })
  const row = databaseReceiver(house.db, house.receiver.url, 1)
  await row.begin(true)
  await row.tell({ says: 'trouble', trouble: refuses(401), inARow: 20, error: '' })
  await sql`
    create function lose_user() returns trigger language plpgsql as $$
      begin update users set subscribed = false; return null; end $$
  `.execute(house.db)
  await sql`create trigger taken after update of tries on receivers execute function lose_user()`.execute(house.db)
  await house.push(all, { outageMs: 60_000 })
  assert.equal(house.receiver.requests.length, 0)
  assert.deepEqual((await row.read()).trouble, { trouble: refuses(401), tries: 0, nextMs: 0, secondMs: 0 })
})

test('a pause that was asked for holds for every attempt, and for other processes; one too far ahead does not', () =>
  inHouse({ users: users(60) }, async (house) => {
    const { receiver } = house
    receiver.answer = (_request, nth) => (nth === 40 ? { status: 503, headers: { 'retry-after': '1' } } : 200)
    const { summary } = await house.push(all, { outageMs: 600_000, concurrency: 4 })
    assert.equal(summary.delivered, 60)
    const times = receiver.requests.map(({ atMs }) => atMs)
    // what was under way went on, and what began before the answer was read
    const early = times.slice(47).filter((time) => time - (times[39] ?? 0) < 990)
    assert.deepEqual(early, [], 'every attempt waits')
    const pause = (interval: string) => sql`update receivers set paused_until = now() + ${interval}::interval`.execute(house.db)
    const push = () => house.push({ what: 'all', force: true, limit: 2 }, { outageMs: 600_000 })
    const startedAt = performance.now()
    await pause('0.7 seconds')
    await push()
    assert.ok((receiver.requests[times.length]?.atMs ?? 0) - startedAt >= 600)
    await pause('10 days')
    assert.equal((await push()).summary.delivered, 2)
  })) // biome-ignore format: short

// `ulimit -n 60`: 89 of 400 failed with EMFILE twice, and "the receiver is down".
test('what this machine lacks costs no attempt: fewer are under way at once, and a line says so', async (t) => {
  const house = await build(t, { users: users(60) })
  const settings = testPushSettings(house.receiver.url, { outageMs: 60_000, concurrency: 32 })
  const http = createHttp({ timeoutMs: settings.timeoutMs, concurrency: settings.concurrency })
  t.after(() => http.close())
  const [lines, notes]: [PushLine[], string[]] = [[], []]
  const real = httpWire(http, settings)
  const emfile = { kind: 'no-answer', sent: false, stage: 'connect', error: 'EMFILE', code: 'EMFILE', reused: false } as const
  let underWay = 0
  const send: typeof real.send = async (request) => {
    underWay++
    try {
      // as an operating system does that gives eight descriptors
      return await (underWay > 8 ? sendAttempt({ post: async () => emfile }, settings, request) : real.send(request))
    } finally {
      underWay--
    }
  }
  const world = { ledger: databaseLedger(house.db), clock: systemClock, reporter: collectingReporter(lines, notes) }
  const stop = new AbortController().signal
  const { ok, summary } = await carryOut({ ...world, wire: { ...real, send }, settings, request: all, stop })
  assert.deepEqual([ok, summary.delivered, most(house)], [true, 60, 1])
  assert.match(notes.join(), /This machine lacks file descriptors for this process \(ulimit -n\): at most \d+ requests/)
}) // biome-ignore format: short

// A push that went on with what another had given up made all its second attempts, before it learnt why that one had given up.
test('a push that takes over from another first learns what that one found', async (t) => {
  const [begun, ended] = [makeGate(), makeGate()]
  const house = await build(t, { users: users(20) })
  house.receiver.answer = async ({ headers }) => {
    if (headers['x-data-source'] === 'a') return begun.opened.then(() => 403)
    begun.open()
    return ended.opened.then(() => (house.receiver.requests.length === 21 ? 200 : 403))
  }
  const settings = { retryDelayMs: 0, outageMs: 60_000 }
  const first = house.push(all, { ...settings, dataSource: 'a', concurrency: 20 }).finally(() => ended.open())
  await requestsAtLeast(house.receiver, alikeFirstDrawnAfter)
  await seedUsers(house.db, [{ email: 'new@example.com' }])
  // it looks at nothing by itself: its own answer comes first, however slow the machine is
  const every: Clock['every'] = (ms, call) => (ms === outageLookMs ? {} : systemClock.every(ms, call))
  const blind = { ...systemClock, every }
  const second = await house.push(all, { ...settings, dataSource: 'b' }, new AbortController(), false, blind)
  assert.deepEqual([(await first).ok, second.ok], [false, false])
  // nobody else is left: one second attempt decides
  assert.deepEqual([house.receiver.requests.length, most(house)], [22, 2])
})
