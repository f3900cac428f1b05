/** The metrics that pushes and `serve` give, and the alerts in `examples/prometheus` on them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { PushMetrics } from '../../src/cli/push/metrics.ts'
import { TriggerMetrics } from '../../src/cli/trigger/metrics.ts'
import type { DeliveryLine, SummaryLine, TriggerLine, TriggerSummaryLine } from '../../src/index.ts'
import { createMetrics } from '../../src/server/metrics.ts'
import type { TriggerFigures } from '../../src/server/trigger-figures.ts'
import { askPromtool, type Family, readExposition } from '../support/exposition.ts'

const delivery = (status: DeliveryLine['status']): DeliveryLine => ({
  type: 'delivery', user: 'user@example.com', kind: 'weekly', idempotencyKey: 'key', period: '2026-W47', part: 1, parts: 1,
  queries: 1, leads: 3, bytes: 500, status, attempts: 1, httpStatus: null, error: null,
}) // biome-ignore format: short

const summary: SummaryLine = {
  type: 'summary', period: '2026-W47', users: 9, deliveries: 3, delivered: 2, failed: 1, unknown: 0, skipped: 0, already: 4,
  elsewhere: 5, owed: 6, leads: 9, bytes: 1_500, seconds: 1,
} // biome-ignore format: short

/** A push that sent three deliveries, one of which failed. */
function runPush(before = ''): PushMetrics {
  const metrics = new PushMetrics('all', before, 1_000_000)
  metrics.total(7)
  for (const status of ['delivered', 'delivered', 'failed'] as const) metrics.line(delivery(status))
  for (const [httpStatus, durationMs] of [
    [200, 50],
    [200, 51],
    [null, 30_000],
    [503, 600_001],
  ] as const) {
    metrics.attempt({ httpStatus, durationMs })
  }
  return metrics
}

const endOf = (cameToEnd: boolean) => ({ summary, ok: false, stopped: false, held: false, cameToEnd })
const sampleOf = (families: Map<string, Family>, name: string, labels = '') =>
  families.get(name)?.samples.get(`command="all"${labels}`)

const triggerFigures: TriggerFigures = {
  due: 1, oldestDueSeconds: 2.5, failing: 3, abandoned: 4, dropped: 5, hooksDue: 6, hooksFailing: 7, hooksOff: 8,
  hooksAbandoned: 9, hooksDropped: 10,
} // biome-ignore format: short

function createServeMetrics(
  owed: number | undefined,
  triggers = async () => triggerFigures as TriggerFigures | undefined,
  isWritable = true,
) {
  return createMetrics({
    pushesUnderWay: () => 1,
    pushesWaiting: () => 2,
    pushesOwed: async () => owed,
    isWritable: async () => isWritable,
    triggers,
  })
}

test('a push that goes on gives its figures so far, and keeps what is known of the one before', () => {
  const first = runPush()
  first.end = endOf(true)
  const again = runPush(first.render(2_000_000, 0))
  again.line({ type: 'skip', reason: 'too few' }, { by: 'user', leads: 1, before: 50 })
  const all = readExposition(again.render(3_000_000, undefined))
  const of = (name: string, labels?: string) => sampleOf(all, `leadpush_push_${name}`, labels)
  assert.deepEqual([of('running'), of('update_timestamp_seconds'), of('duration_seconds')], [1, 3_000, 2_000])
  assert.deepEqual([of('success'), of('exit_code'), of('held'), of('users'), of('skipped_users')], [1, 0, 1, 7, 0])
  for (const name of ['end', 'completion', 'success']) assert.equal(of(`last_${name}_timestamp_seconds`), 2_000)
  assert.deepEqual([of('owed_users'), of('elsewhere'), of('already_served_users')], [undefined, undefined, undefined])
  const deliveries = ['delivered', 'failed', 'unknown', 'pending'].map((it) => of('deliveries', `,status="${it}"`))
  assert.deepEqual([deliveries, of('leads'), of('body_bytes')], [[2, 1, 0, 0], 9, 1_500])
  assert.deepEqual(
    ['200', '503', 'none'].map((it) => of('attempts', `,http_status="${it}"`)),
    [2, 1, 1],
  )
  const buckets = [...(all.get('leadpush_push_attempt_duration_seconds')?.samples.values() ?? [])]
  assert.deepEqual(buckets, [1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 630.102, 4])
})

test('a push that ended says how; one that broke off keeps when the last good one was', () => {
  const good = runPush()
  good.end = endOf(true)
  const goodText = good.render(2_000_000, 0)
  for (const [exitCode, end, success, completion] of [
    [0, endOf(true), 3_000, 3_000], [1, endOf(true), 2_000, 3_000], [1, endOf(false), 2_000, 2_000],
    [3, undefined, 2_000, 2_000], [143, endOf(false), 2_000, 2_000],
  ] as const) {
    const next = runPush(goodText)
    next.end = end
    const all = readExposition(next.render(3_000_000, exitCode))
    const of = (name: string) => sampleOf(all, `leadpush_push_${name}`)
    assert.deepEqual([of('running'), of('success'), of('exit_code')], [0, exitCode === 0 ? 1 : 0, exitCode])
    assert.deepEqual([of('last_success_timestamp_seconds'), of('last_completion_timestamp_seconds')], [success, completion])
    assert.equal(of('last_end_timestamp_seconds'), 3_000)
    assert.deepEqual([of('users'), of('owed_users')], end ? [9, 6] : [7, undefined])
  } // biome-ignore format: a list
  for (const strange of [
    '',
    'nonsense\n',
    goodText.replaceAll('"all"', '"resume"'),
    goodText.replaceAll(' 2000', ' x'),
  ]) {
    const all = readExposition(runPush(strange).render(3_000_000, 3))
    assert.equal(sampleOf(all, 'leadpush_push_last_success_timestamp_seconds'), undefined)
  }
})

test('serve says whether the database answers and takes writes, and counts what it refused', async () => {
  for (const [owed, isWritable, up] of [[4, true, 1], [4, false, 0], [undefined, true, 0]] as const) {
    const metrics = createServeMetrics(owed, undefined, isWritable)
    metrics.noteLimited('key')
    const all = readExposition(await metrics.render())
    assert.equal(all.get('leadpush_database_up')?.samples.get(''), up)
    assert.equal(all.get('leadpush_subscription_pushes_owed')?.samples.get(''), owed)
    const limited = all.get('leadpush_http_requests_limited_total')?.samples
    assert.deepEqual([...(limited ?? [])], [['limit="address"', 0], ['limit="key"', 1]])
  } // biome-ignore format: a list
})

test('serve tells how triggers stand, and asks the database seldom; nothing where that cannot tell', async () => {
  let asked = 0
  const metrics = createServeMetrics(0, async () => {
    asked++
    return triggerFigures
  })
  await metrics.render()
  const all = readExposition(await metrics.render())
  const of = (name: string) => all.get(`leadpush_${name}`)?.samples.get('')
  const triggers = ['due', 'oldest_due_seconds', 'failing', 'abandoned', 'dropped'].map((it) => of(`triggers_${it}`))
  const hooks = ['due', 'failing', 'off', 'with_abandoned', 'with_dropped'].map((it) => of(`hooks_${it}`))
  assert.deepEqual([...triggers, ...hooks, asked], [1, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 1])
  const away = readExposition(await createServeMetrics(undefined, async () => undefined).render())
  assert.equal(away.has('leadpush_hooks_off'), false)
})

const triggerLine = (status: TriggerLine['status'], httpStatus: number | null): TriggerLine => ({
  type: 'trigger', trigger: 'new_lead', integration: 1, hook: 'a', href: 'https://listings.example.com/1', webhookId: 'msg_a', status, attempts: 1,
  httpStatus, error: null,
}) // biome-ignore format: short

/** A run of `trigger` with one trigger of each kind, and two delivered ones. */
function runTriggers(before = ''): TriggerMetrics {
  const metrics = new TriggerMetrics('trigger', before, 1_000_000)
  metrics.line(triggerLine('delivered', 200), 40)
  metrics.line(triggerLine('delivered', 204), 60)
  metrics.line(triggerLine('failed', null), 10_000)
  metrics.line(triggerLine('abandoned', 500), 10)
  metrics.line(triggerLine('removed', 410), 10)
  metrics.hooksOff++
  return metrics
}
const triggerSummary: TriggerSummaryLine = {
  type: 'summary', due: 9, delivered: 2, failed: 1, abandoned: 1, removed: 1, ended: 0, dropped: 7, waiting: 4, left: 0, seconds: 1,
} // biome-ignore format: short

test('a run of triggers gives what came of them, and keeps how the last one ended', () => {
  const first = runTriggers()
  first.end = { summary: triggerSummary, stopped: false }
  const text = first.render(2_000_000, 0)
  const of = (of: string, name: string, labels = '') =>
    readExposition(of).get(`leadpush_trigger_${name}`)?.samples.get(`command="trigger"${labels}`)
  const counts = ['delivered', 'failed', 'abandoned', 'removed'].map((it) => of(text, 'triggers', `,status="${it}"`))
  assert.deepEqual(counts, [2, 1, 1, 1])
  const others = ['due', 'dropped', 'waiting', 'hooks_switched_off', 'running'].map((it) => of(text, it))
  assert.deepEqual(others, [9, 7, 4, 1, 0])
  assert.equal(of(text, 'attempts', ',http_status="none"'), 1)
  const going = runTriggers(text).render(3_000_000, undefined)
  assert.deepEqual([of(going, 'running'), of(going, 'due'), of(going, 'exit_code')], [1, undefined, 0])
  const stopped = runTriggers(going)
  stopped.end = { summary: triggerSummary, stopped: true }
  const end = stopped.render(4_000_000, 143)
  const last = ['end', 'completion', 'success'].map((it) => of(end, `last_${it}_timestamp_seconds`))
  assert.deepEqual([...last, of(end, 'exit_code')], [4_000, 2_000, 2_000, 143])
  // the figures of a push are another matter
  assert.equal(
    of(runTriggers(text.replaceAll('_trigger_', '_push_')).render(3_000_000, undefined), 'exit_code'),
    undefined,
  )
})

test('names follow the conventions, and alerts name what there is', async (t) => {
  const ended = runPush()
  ended.end = endOf(true)
  const serve = createServeMetrics(0)
  serve.noteRequest({ method: 'GET', route: '/api/extern/zapier/test', status: 200, durationMs: 1 })
  const sent = runTriggers()
  sent.end = { summary: triggerSummary, stopped: false }
  const texts = [
    ended.render(2_000_000, 0),
    sent.render(2_000_000, 0),
    (await serve.render()).replaceAll(/^.*(process|nodejs)_.*\n/gm, ''),
  ]
  const names = new Set(['up'])
  for (const text of texts) {
    for (const [name, { type, samples }] of readExposition(text)) {
      assert.match(name, /^leadpush_/)
      assert.equal(type === 'counter', name.endsWith('_total'), name)
      if (samples.size === 0) continue
      if (type !== 'histogram') names.add(name)
      else for (const ending of ['_bucket', '_sum', '_count']) names.add(name + ending)
    }
    assert.equal(askPromtool(['check', 'metrics'], text) ?? '', '')
  }
  const rules = join(packageRoot, 'examples/prometheus/leadpush.rules.yml')
  const text = readFileSync(rules, 'utf8')
  const alerts = text.split('- alert: ').slice(1)
  for (const alert of alerts) {
    for (const part of ['severity', 'summary', 'description', 'remedy'])
      assert.match(alert, new RegExp(`^ +${part}: \\S`, 'm'))
    const expression = /expr:([\s\S]*?)\n {8}(?:for|labels):/.exec(alert)?.[1] ?? ''
    const used = [...expression.matchAll(/\b(?:leadpush_\w+|up)\b/g)].map(([name]) => name)
    assert.ok(used.length > 0)
    for (const name of used) assert.ok(names.has(name), `${name} of ${alert.split('\n')[0]} is written by nothing`)
  }
  const settings = new Set(text.match(/LEADPUSH_[A-Z_]+/g))
  const config = readFileSync(join(packageRoot, 'src/base/config.ts'), 'utf8')
  for (const name of settings) assert.ok(config.includes(`'${name}'`), name)
  const said = askPromtool(['test', 'rules', join(packageRoot, 'test/support/prometheus/leadpush.rules.test.yml')])
  if (said === undefined) t.diagnostic('there is no promtool here: the alerts were not tried')
  else assert.match(said, /SUCCESS/)
  for (const alert of alerts) {
    const name = alert.split('\n')[0] ?? ''
    const tried = readFileSync(join(packageRoot, 'test/support/prometheus/leadpush.rules.test.yml'), 'utf8')
    assert.ok(tried.includes(`alertname="${name}"`), `${name} is not tried`)
  }
})
