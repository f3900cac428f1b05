/** The metrics that pushes and `serve` give, and the alerts in `examples/prometheus` on them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { RunFigures } from '../../src/cli/metrics-file.ts'
import type { SummaryLine, TriggerSummaryLine } from '../../src/index.ts'
import { createMetrics } from '../../src/server/metrics.ts'
import type { TriggerFigures } from '../../src/server/trigger-figures.ts'
import { askPromtool, readExposition } from '../support/exposition.ts'

const summary: SummaryLine = {
  type: 'summary', period: '2026-W47', users: 9, deliveries: 3, delivered: 2, failed: 1, unknown: 0, skipped: 0, already: 4,
  elsewhere: 5, owed: 6, leads: 9, bytes: 1_500, seconds: 1, allowedPerSecond: 2.5,
} // biome-ignore format: short

/** A push with four attempts. */
function runPush(before = ''): RunFigures {
  const figures = new RunFigures('leadpush_push', 'all', before)
  for (const durationMs of [50, 51, 30_000, 600_001]) figures.attempt({ durationMs })
  return figures
}

/** Reads figures of pushes. */
function readPush(text: string) {
  const all = readExposition(text)
  return (name: string) => all.get(`leadpush_push_${name}`)?.samples.get('command="all"')
}

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

test('every number of the summary is a figure with the name of its field, and attempts are a histogram', () => {
  const push = runPush()
  push.end({ ...summary, held: true }, true)
  const text = push.render(2_000_000, 1)
  const of = readPush(text)
  const named = ['users', 'deliveries', 'failed', 'already', 'owed', 'allowed_per_second', 'held', 'period', 'type']
  assert.deepEqual(named.map(of), [9, 3, 1, 4, 6, 2.5, 1, undefined, undefined])
  const buckets = [...(readExposition(text).get('leadpush_push_attempt_duration_seconds')?.samples.values() ?? [])]
  assert.deepEqual(buckets, [1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 630.102, 4])
})

test('a run that goes on keeps how the last one ended; one that broke off keeps when the last one came to its end', () => {
  const first = runPush()
  first.end(summary, true)
  const goodText = first.render(2_000_000, 0)
  const going = readPush(runPush(goodText).render(3_000_000, undefined))
  assert.deepEqual([going('running'), going('update_timestamp_seconds'), going('owed')], [1, 3_000, undefined])
  const last = ['exit_code', 'last_end_timestamp_seconds', 'last_completion_timestamp_seconds']
  assert.deepEqual(last.map(going), [0, 2_000, 2_000])
  for (const [exitCode, cameToEnd, completion] of [
    [0, true, 3_000], [1, true, 3_000], [1, false, 2_000], [3, undefined, 2_000], [143, false, 2_000],
  ] as const) {
    const next = runPush(goodText)
    if (cameToEnd !== undefined) next.end(summary, cameToEnd)
    const of = readPush(next.render(3_000_000, exitCode))
    assert.deepEqual([of('running'), ...last.map(of)], [0, exitCode, 3_000, completion])
    assert.equal(of('users'), cameToEnd === undefined ? undefined : 9)
  } // biome-ignore format: a list
  for (const strange of [
    '',
    'nonsense\n',
    goodText.replaceAll('"all"', '"resume"'),
    goodText.replaceAll('_push_', '_trigger_'),
    goodText.replaceAll(' 2000', ' x'),
  ]) {
    assert.equal(readPush(runPush(strange).render(3_000_000, 3))('last_completion_timestamp_seconds'), undefined)
  }
})

test('serve says whether the database answers and takes writes, and counts what it refused, and how its processes ended', async () => {
  for (const [owed, isWritable, up] of [[4, true, 1], [4, false, 0], [undefined, true, 0]] as const) {
    const metrics = createServeMetrics(owed, undefined, isWritable)
    metrics.noteLimited('key')
    for (const exitCode of [0, 1, 0, null]) metrics.notePushEnded(exitCode)
    const all = readExposition(await metrics.render())
    assert.equal(all.get('leadpush_database_up')?.samples.get(''), up)
    assert.equal(all.get('leadpush_subscription_pushes_owed')?.samples.get(''), owed)
    const limited = all.get('leadpush_http_requests_limited_total')?.samples
    assert.deepEqual([...(limited ?? [])], [['limit="address"', 0], ['limit="key"', 1]])
    const ended = all.get('leadpush_push_processes_ended_total')?.samples
    assert.deepEqual([...(ended ?? [])], [['exit_code="0"', 2], ['exit_code="1"', 1], ['exit_code="signal"', 1]])
  } // biome-ignore format: a list
})

test('serve tells how triggers stand, and asks the database once at a time; nothing where that cannot tell', async () => {
  let asked = 0
  const metrics = createServeMetrics(0, async () => {
    asked++
    return triggerFigures
  })
  const [text] = await Promise.all([metrics.render(), metrics.render()])
  const all = readExposition(text)
  const of = (name: string) => all.get(`leadpush_${name}`)?.samples.get('')
  const triggers = ['due', 'oldest_due_seconds', 'failing', 'abandoned', 'dropped'].map((it) => of(`triggers_${it}`))
  const hooks = ['due', 'failing', 'off', 'with_abandoned', 'with_dropped'].map((it) => of(`hooks_${it}`))
  assert.deepEqual([...triggers, ...hooks, asked], [1, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 1])
  const away = readExposition(await createServeMetrics(undefined, async () => undefined).render())
  assert.equal(away.has('leadpush_hooks_off'), false)
})

const triggerSummary: TriggerSummaryLine = {
  type: 'summary', due: 9, delivered: 2, failed: 1, abandoned: 1, removed: 1, ended: 0, dropped: 7, waiting: 4, left: 0, seconds: 1,
} // biome-ignore format: short

test('names follow the conventions, and alerts name what there is', async (t) => {
  const ended = runPush()
  ended.end({ ...summary, held: false }, true)
  const serve = createServeMetrics(0)
  serve.noteRequest({ method: 'GET', route: '/api/extern/zapier/test', status: 200, durationMs: 1 })
  const sent = new RunFigures('leadpush_trigger', 'trigger', '')
  sent.end(triggerSummary, true)
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
