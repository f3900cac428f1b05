/** A probe against receivers that are right, and against ones that are wrong in one thing each: it must name that, and no more. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { bodyBytesMax } from '../../src/base/limits.ts'
import { type CheckLine, type ProbeOptions, planned, runProbe } from '../../src/receiver-kit/probe/run-probe.ts'
import { startReceiver } from '../../src/receiver-kit/receiver/receiver.ts'
import { createDatabase } from '../support/database.ts'
import { type Faults, startProbedReceiver } from '../support/probed-receiver.ts'
import { findClosedPort } from '../support/sockets.ts'

async function probe(receiverUrl: string, options: Partial<ProbeOptions> = {}) {
  const lines: CheckLine[] = []
  const summary = await runProbe({
    receiverUrl,
    dataSource: 'leadpush',
    // half of it is a warning, and a loaded machine takes its time with 5 MB
    timeoutMs: 60_000,
    ratePerSecond: undefined,
    proxies: {},
    receiverKey: undefined,
    onCheck: (line) => void lines.push(line),
    ...options,
  })
  const named = (grade: CheckLine['grade']) => lines.filter((line) => line.grade === grade).map(({ check }) => check)
  const found = { fail: named('fail'), warn: named('warn'), hidden: named('not visible') }
  return { lines, summary, found, line: (name: string) => lines.find(({ check }) => check === name) }
}

async function start(t: TestContext, faults: Faults = {}) {
  const receiver = await startProbedReceiver(faults)
  t.after(() => receiver.close())
  return receiver
}

test('the reference receiver is all green, and so is any other that is right', async (t) => {
  const database = await createDatabase(t)
  const reference = await startReceiver({ db: await database.open(), host: '127.0.0.1', port: 0 })
  t.after(() => reference.close())
  const receiver = await start(t)
  for (const { url } of [reference, receiver]) {
    const { lines, summary, found } = await probe(url)
    assert.deepEqual(found, { fail: [], warn: [], hidden: [] })
    const { grade, checks, passed, requests } = summary
    assert.deepEqual([grade, checks, passed], ['pass', lines.length, lines.length])
    assert.ok(checks >= 15 && requests <= planned.requests, `${checks} checks, ${requests} requests`)
    assert.ok(lines.every(({ clause, sent, received }) => /^4\.\d+$/.test(clause) && sent !== '' && received !== ''))
  }
  // every listing says that it is made up, and stands under an href of the probe
  for (const body of receiver.bodies) {
    for (const [, href] of body.matchAll(/"href":"(.*?)"/g))
      assert.match(href ?? '', /^https:\/\/example\.com\/leadpush-probe\//)
    for (const [, text] of body.matchAll(/"description":"(.*?)"/g)) assert.match(text ?? '', /made.up/)
    assert.doesNotMatch(body.replaceAll('512-555-01', ''), /\d{3}-\d{4}"/)
  }
})

const seen = ['kept-when-answered', 'same-key-one-effect', 'null-keeps']

for (const [name, faults, expected] of [
  ['erases values on null', { erasesOnNull: true }, { fail: ['null-keeps'] }],
  ['ignores the idempotency key', { ignoresKey: true }, { fail: ['same-key-one-effect', 'same-key-other-body'] }],
  ['says that all is well with another body', { ignoresOtherBody: true }, { warn: ['same-key-other-body'] }],
  ['refuses a second attempt', { refusesRepeats: true }, { fail: ['same-key-same-body'], hidden: ['same-key-one-effect'] }],
  ['answers before it reads', { answersBeforeReading: true }, { fail: ['wrong-key', 'not-json', 'body-8-mb'], any: true }],
  ['answers before it keeps', { keepsNothing: true }, { fail: ['kept-when-answered'], any: true }],
  ['follows no limit', { followsNoLimit: true }, { fail: ['body-8-mb'] }],
  ['has a limit of 1 MB', { bodyBytesMax: 1_000_000 }, { fail: ['body-5-mb'] }],
  ['has a limit one byte too low', { bodyBytesMax: bodyBytesMax - 1 }, { fail: ['body-5-mb'] }],
  ['takes any user key', { takesAnyUserKey: true }, { fail: ['wrong-key'] }],
  ['takes anything', { takesAnything: true }, {
    fail: ['wrong-key', 'not-json', 'body-8-mb'],
    warn: ['same-key-other-body', 'missing-idempotency-key', 'missing-href'], hidden: seen,
  }],
  ['refuses null', { refusesNull: true }, { fail: ['null-keeps', 'bare-lead'] }],
  ['refuses a delivery without leads', { refusesEmpty: true }, { fail: ['no-leads'] }],
  ['cannot take several at once', { failsAtOnce: true }, { fail: ['several-at-once'] }],
  ['closes every connection', { closesConnections: true }, {}],
  ['tells no counts', { tellsNoCounts: true }, { hidden: seen }],
  ['counts what came as changed', { tellsAllAsChanged: true }, { hidden: ['same-key-one-effect', 'null-keeps'] }],
] as const satisfies [string, Faults, { fail?: readonly string[]; warn?: readonly string[]; hidden?: readonly string[]; any?: true }][]) {
  test(`a receiver that ${name} is told just that`, async (t) => {
    const { url } = await start(t, faults)
    const { found, lines, summary } = await probe(url)
    const { fail = [], warn = [], hidden = [], any = false } = expected as { fail?: readonly string[]; warn?: readonly string[]; hidden?: readonly string[]; any?: true }
    if (any) for (const one of fail) assert.ok(found.fail.includes(one), JSON.stringify(found))
    else assert.deepEqual(found, { fail, warn, hidden })
    assert.equal(summary.grade, fail.length > 0 ? 'fail' : warn.length > 0 ? 'warn' : 'pass')
    for (const { grade, advice } of lines) assert.ok(grade === 'pass' || grade === 'not visible' || advice)
  })
} // biome-ignore format: a table

test('if an ordinary delivery is not taken, nothing else is tried, and it says why', async (t) => {
  const options = { receiverKey: 'receiver-key-1' }
  const known = await start(t, { knownKey: 'receiver-key-1' })
  assert.deepEqual((await probe(known.url, options)).found, { fail: [], warn: [], hidden: [] })
  const made = await probe(known.url)
  assert.equal(made.summary.requests, 1)
  assert.deepEqual(made.found.fail, ['example'])
  assert.match(made.line('example')?.advice ?? '', /made-up key was refused: name a user of yours with --user EMAIL/)
  assert.match(made.line('body-5-mb')?.received ?? '', /^not tried: an ordinary delivery was not taken/)
  const wrong = await probe(known.url, { receiverKey: 'receiver-key-2' })
  assert.doesNotMatch(JSON.stringify(wrong.lines), /--user|receiver-key-2/)
  const elsewhere = await probe((await start(t, { redirects: true })).url)
  assert.match(elsewhere.line('example')?.received ?? '', /^HTTP 308 \(a redirect, which is not followed\)/)
  const nobody = await probe(`http://127.0.0.1:${await findClosedPort()}`)
  assert.match(nobody.line('example')?.received ?? '', /nothing listens there/)
  assert.match(nobody.line('example')?.advice ?? '', /LEADPUSH_RECEIVER_URL/)
  assert.deepEqual([nobody.summary.failed, nobody.summary.notVisible], [1, nobody.lines.length - 1])
})

test('a receiver that hangs is given up soon, one that asks to slow down is told how', async (t) => {
  const hanging = await start(t, { hangs: true })
  const { found, summary } = await probe(hanging.url, { timeoutMs: 200 })
  assert.deepEqual(found.fail, ['example', 'in-time'])
  assert.ok(summary.requests <= 3)
  const throttling = await probe((await start(t, { throttles: true })).url)
  assert.ok(throttling.found.warn.length > 5)
  assert.match(throttling.line(throttling.found.warn[0] ?? '')?.advice ?? '', /set LEADPUSH_RATE/)
})
