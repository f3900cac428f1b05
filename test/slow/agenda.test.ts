/** A preview lists what a push does, in every state: both read one agenda. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { OpenDatabase } from '../../src/db/open.ts'
import { endUnwanted } from '../../src/deliveries/ledger.ts'
import { findPeriod } from '../../src/deliveries/runs.ts'
import { createHttp } from '../../src/http/client.ts'
import type { PushLine, SummaryLine } from '../../src/index.ts'
import { Preview, type PreviewRequest } from '../../src/push/preview/preview.ts'
import { type PushRequest, runPush } from '../../src/push/run-push.ts'
import { createDatabase } from '../support/database.ts'
import { owe } from '../support/owed.ts'
import { collectingReporter } from '../support/push-reporter.ts'
import { testPushSettings } from '../support/push-settings.ts'
import { startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const usersInAll = 6
const emailOf = (user: number) => `${user}@example.com`
const all = { what: 'all', force: false, limit: undefined } as const

let opened: OpenDatabase
let receiver: TestReceiver

const settings = () => testPushSettings(receiver.url, { timeoutMs: 20_000, concurrency: 4 })

/** Each answer of `answers` in turn, the last of them for ever; with `stopsAfter` the push is stopped after so many. */
async function push(request: PushRequest, answers: number[] = [200], stopsAfter = Number.POSITIVE_INFINITY) {
  const lines: PushLine[] = []
  const stop = new AbortController()
  let answered = 0
  receiver.answer = () => {
    answered++
    if (answered >= stopsAfter) stop.abort()
    return answers[Math.min(answered, answers.length) - 1] ?? 200
  }
  const http = createHttp({ timeoutMs: 20_000, concurrency: 4 })
  const reporter = collectingReporter(lines)
  try {
    await runPush({ db: opened.db, http, settings: settings(), request, reporter, stop: stop.signal })
    return lines
  } finally {
    await http.close()
  }
}

async function preview(request: PreviewRequest): Promise<PushLine[]> {
  const planned = await Preview.create(opened.db, request, settings())
  const lines: PushLine[] = []
  for await (const found of planned.lines()) lines.push('line' in found ? found.line : found)
  return [...lines, planned.summary(0)]
}

/** What happened before: each step leaves a state that the next one begins with. */
const step = fc.oneof(
  fc.record({ do: fc.constant('push' as const), answers: fc.array(fc.constantFrom(200, 500, 409), { minLength: 1, maxLength: 8 }) }),
  fc.record({ do: fc.constant('limited' as const), limit: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ do: fc.constant('stopped' as const), force: fc.boolean(), after: fc.integer({ min: 1, max: 5 }), answer: fc.constantFrom(200, 500) }),
  fc.record({ do: fc.constant('forced' as const) }),
  fc.record({ do: fc.constant('owed' as const), user: fc.nat(usersInAll - 1) }),
  fc.record({ do: fc.constant('unsubscribed' as const), user: fc.nat(usersInAll - 1) }),
  fc.record({ do: fc.constant('subscribed' as const), user: fc.nat(usersInAll - 1) }),
  fc.record({ do: fc.constant('week over' as const), leads: fc.constantFrom(1, 100) }),
) // biome-ignore format: a table

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

async function take(one: Step): Promise<void> {
  const { pool } = opened
  if (one.do === 'push') await push(all, one.answers)
  else if (one.do === 'limited') await push({ ...all, limit: one.limit })
  else if (one.do === 'stopped') await push({ ...all, force: one.force }, [one.answer], one.after)
  else if (one.do === 'forced') await push({ ...all, force: true })
  else if (one.do === 'owed') await pool.query(owe('email = $1'), [emailOf(one.user)])
  else if (one.do === 'week over') await endWeek(one.leads)
  else {
    const isOn = one.do === 'subscribed'
    await pool.query('update users set subscribed = $2 where email = $1', [emailOf(one.user), isOn])
    // as `users unsubscribe` does it; otherwise the next push ends what nobody wants, and tells of it
    if (!isOn) await endUnwanted(opened.db)
  }
}

/** All that was becomes the week before's, in which each delivery had so many leads. */
async function endWeek(leads: number): Promise<void> {
  const { pool } = opened
  const { period } = await findPeriod(opened.db, settings())
  const before = `to_char(now() at time zone 'UTC' - interval '7 days', 'IYYY"-W"IW')`
  await pool.query(`delete from claims where scope = 'weekly:' || ${before}`)
  await pool.query(
    `update claims set scope = 'weekly:' || ${before}, claimed_at = claimed_at - interval '7 days', leads = $2 where scope = $1`,
    [`weekly:${period}`, leads],
  )
  await pool.query(
    `update runs set period = ${before}, started_at = started_at - interval '7 days', ended_at = ended_at - interval '7 days'
    where period = $1`,
    [period],
  )
  await pool.query(`delete from deliveries where period = ${before}`)
  await pool.query(
    `update deliveries set period = ${before}, idempotency_key = replace(idempotency_key, period, ${before}),
      created_at = created_at - interval '7 days' where period = $1`,
    [period],
  )
}

/** What both must say alike, in no order. */
function toFacts(lines: PushLine[]): string[] {
  return lines
    .flatMap((line) => {
      if (line.type === 'delivery') {
        const { user, kind, period, part, parts, queries, leads, bytes } = line
        return [JSON.stringify({ user, kind, period, part, parts, queries, leads, bytes })]
      }
      return line.type === 'summary' ? [] : [JSON.stringify(line)]
    })
    .sort()
}

function toCounts(lines: PushLine[]) {
  const { users, deliveries, skipped, already, owed, leads, bytes } = lines.at(-1) as SummaryLine
  return { users, deliveries, skipped, already, owed, leads, bytes }
}

async function reset(queries: readonly number[]): Promise<void> {
  await opened.pool.query('truncate users, deliveries, claims, runs, user_ranges, workers, receivers, erased_deliveries cascade')
  const values = [{ value: '78704', places: ['78704'] }, { value: '10001', places: ['10001'] }]
  await seedUsers(opened.db, queries.map((count, user) => ({ email: emailOf(user), queries: values.slice(0, count) })))
} // biome-ignore format: short

const request = fc.constantFrom<PreviewRequest>(
  { what: 'all', force: false },
  { what: 'all', force: true },
  { what: 'failed', ends: ['failed'] },
  { what: 'failed', ends: ['failed', 'unknown'] },
)

test('a preview lists what a push does, over random states', async (t) => {
  opened = await (await createDatabase(t)).open()
  receiver = await startTestReceiver()
  t.after(() => receiver.close())
  await seedLeads(opened, [
    { href: 'https://listings.example/1' },
    { href: 'https://listings.example/2', postalCode: '10001' },
  ])
  const queries = fc.array(fc.constantFrom(1, 1, 2, 0), { minLength: usersInAll, maxLength: usersInAll })
  const history = fc.array(step, { maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(queries, history, request, async (counts, steps, asked) => {
      await reset(counts)
      for (const one of steps) await take(one)
      const [told, foretold] = [await preview(asked), await preview(asked)]
      assert.deepEqual(told, foretold, 'a preview changes nothing')
      const done = await push(asked.what === 'all' ? { ...asked, limit: undefined } : asked)
      assert.deepEqual(toFacts(told), toFacts(done))
      assert.deepEqual(toCounts(told), toCounts(done))
    }),
    { numRuns: 40 },
  )
})
