/** `trigger` as a process (contract 3, 6): with an import, killed, stopped, several at once; what a person sees of it. */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { abandonedShownDays, lostKeptDays } from '../../src/base/limits.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, passPauses } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { startProgram } from '../support/program.ts'
import { until } from '../support/until.ts'

const house = await buildHouse({ users: makeUsers(1) })
const opened = await house.database.open()
const platform = await startHookReceiver()
after(() => platform.close())
const env = { ...house.env, LEADPUSH_ALLOW_INSECURE_HOOKS: '1', LEADPUSH_LEASE: '1s' }
const triggerJson = ['trigger', '--json']
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  await opened.pool.query('delete from workers')
  platform.calls.length = 0
  platform.answer = () => 200
})

const hook = (path: string) => addHook(opened, 'user-0@example.com', platform.url(path))
const makeLeads = (count: number) =>
  Array.from({ length: count }, () => ({ href: hrefOf(`new-${++names}`), postalCode: '78704' }))
const trigger = (more: Record<string, string> = {}) => house.call(triggerJson, { env: { ...env, ...more } })

/** Which triggers came how often, in any order. */
function timesOf(): number[] {
  const times = new Map<string, number>()
  for (const { path, webhookId } of platform.calls) {
    const key = `${path} ${webhookId}`
    times.set(key, (times.get(key) ?? 0) + 1)
  }
  return [...times.values()]
}

function countsOf(json: Record<string, unknown>[]): Record<string, unknown> {
  const { type: _, seconds: __, ...counts } = json.at(-1) ?? {}
  return counts
}

test('leads import --trigger sends the triggers right after, with the exit code of both', async () => {
  const { id } = await hook('/a')
  const records = makeLeads(2)
  const file = writeInput('new.ndjson', toLines([...records, { href: 'nonsense' }]))
  const { code, json, stderr } = await house.call(['leads', 'import', file, '--trigger', '--json'], {
    env: { ...env, LEADPUSH_LOG_FORMAT: 'json' },
  })
  assert.equal(code, 1, stderr)
  assert.deepEqual(
    json.map(({ type }) => type),
    ['rejected', 'summary', 'trigger', 'trigger', 'summary'],
  )
  assert.deepEqual(Object.keys(json[2]), [
    'type', 'trigger', 'integration', 'hook', 'href', 'webhookId', 'status', 'attempts', 'httpStatus', 'error',
  ]) // biome-ignore format: a list
  assert.deepEqual(countsOf(json), { ...noTriggers, due: 2, delivered: 2 })
  assert.deepEqual(platform.calls.map(({ json: body }) => body.href).sort(), records.map(({ href }) => href).sort())
  const attempts = stderr
    .split('\n')
    .flatMap((line) => (line.includes('"trigger delivered"') ? [JSON.parse(line)] : []))
  assert.deepEqual(
    attempts.map(({ integration, hook, webhookId, attempt }) => [integration, hook, webhookId, attempt]).sort(),
    json
      .slice(2, 4)
      .map(({ integration, webhookId }) => [integration, id, webhookId, 1])
      .sort(),
  )
  assert.ok(!stderr.includes(platform.url('/a')), 'a hook URL is as good as a key')
  const bad = await house.call(['leads', 'import', file, '--trigger'], { env: { ...env, LEADPUSH_LEASE: 'x' } })
  assert.equal(bad.code, 2)
})

test('leads import --trigger sends the triggers of the files before one that breaks off', async () => {
  // they waited for the next run: the error of the import ended the command
  await hook('/b')
  const [record] = makeLeads(1)
  const files = [writeInput('whole.ndjson', toLines([record])), writeInput('broken.json', '[{"href":')]
  const { code, json, stderr } = await house.call(['leads', 'import', ...files, '--trigger', '--json'], { env })
  assert.equal(code, 1, stderr)
  assert.match(stderr, /broken\.json: it breaks off.*Nothing of this file went in/s)
  assert.deepEqual(countsOf(json), { ...noTriggers, due: 1, delivered: 1 })
  assert.deepEqual(
    platform.calls.map(({ json: body }) => body.href),
    [record?.href],
  )
  await house.put('leads', makeLeads(1))
  // where nothing went in, nothing is sent
  const none = await house.call(['leads', 'import', ...files.slice(1), '--trigger', '--json'], { env })
  assert.deepEqual([none.code, platform.calls.length], [1, 1])
})

test('a run that is killed loses nothing; triggers under way come again with the same id', async () => {
  for (let n = 0; n < 4; n++) await hook(`/k${n}`)
  await house.put('leads', makeLeads(12))
  platform.answer = (_, nth) => (nth <= 10 ? 200 : 'hang')
  const killed = startProgram(triggerJson, { env: { ...env, LEADPUSH_LEASE: '1h' } })
  // two at once to each of four hooks hang
  await platform.atLeast(18)
  const left = async () => (await opened.pool.query('select from triggers')).rowCount
  await until('what was answered is recorded', async () => (await left()) === 38)
  killed.kill('SIGKILL')
  await killed.done
  platform.answer = () => 200
  // its lease runs yet, so a run leaves the triggers to it
  const early = await trigger()
  assert.deepEqual([early.code, countsOf(early.json)], [0, noTriggers])
  assert.match(early.stderr, /Another run has been sending triggers since/)
  await opened.pool.query(`update workers set lease_until = now() - interval '1 second'`)
  const { code, json, stderr } = await trigger()
  assert.equal(code, 0, stderr)
  const times = timesOf()
  assert.equal(times.length, 48)
  assert.deepEqual([times.filter((count) => count === 2).length, Math.max(...times)], [8, 2])
  assert.equal(json.at(-1).delivered, 38)
  assert.deepEqual(countsOf((await trigger()).json), noTriggers)
})

test('if runs overlap, one sends: every hook gets every lead once', async () => {
  for (let n = 0; n < 6; n++) await hook(`/s${n}`)
  await house.put('leads', makeLeads(8))
  platform.answer = () => ({ status: 200, delayMs: 20 })
  // nobody dies, and a short lease may end while the machine is busy with other things
  const runs = await Promise.all([0, 1, 2].map(() => trigger({ LEADPUSH_LEASE: '60s' })))
  assert.deepEqual(
    runs.map(({ code }) => code),
    [0, 0, 0],
  )
  assert.deepEqual(timesOf(), Array(48).fill(1))
  for (let n = 0; n < 6; n++) assert.ok(platform.peak(`/s${n}`) <= 2)
  const sum = (what: string) => runs.reduce((total, { json }) => total + json.at(-1)[what], 0)
  assert.deepEqual([sum('due'), sum('delivered')], [48, 48])
})

test('a run that cannot begin ends with its error', async () => {
  // the run's timer stayed, and with it the process, for ten minutes
  const options = encodeURIComponent('-c statement_timeout=100')
  const blocker = await opened.pool.connect()
  try {
    await blocker.query('begin')
    await blocker.query('lock table workers')
    const started = startProgram(triggerJson, {
      env: { ...env, DATABASE_URL: `${house.database.url}?options=${options}` },
    })
    const { code, stderr } = await started.done
    assert.equal(code, 3, stderr)
    assert.match(stderr, /statement timeout/)
  } finally {
    await blocker.query('rollback')
    blocker.release()
  }
})

test('SIGTERM finishes what is under way and gives the rest back, which the next run need not wait for', async () => {
  await hook('/t')
  await house.put('leads', makeLeads(10))
  const isHeard = makeGate()
  platform.answer = (_, nth) => (nth < 3 ? 200 : isHeard.opened.then(() => 200))
  const stopped = startProgram(triggerJson, { env: { ...env, LEADPUSH_LEASE: '1h' } })
  await platform.atLeast(3)
  stopped.kill('SIGTERM')
  await stopped.waitFor(/SIGTERM: finishing the attempts under way/)
  isHeard.open()
  const { code, json, stderr } = await stopped.done
  assert.equal(code, 143, stderr)
  const { due, delivered } = json.at(-1)
  assert.deepEqual([due, delivered, delivered < 10], [10, platform.calls.length, true])
  const { rows } = await opened.pool.query(`select (select count(*) from workers)::integer as workers,
    (select count(*) from triggers where worker_id is not null)::integer as taken`)
  assert.deepEqual(rows, [{ workers: 0, taken: 0 }])
  platform.answer = () => 200
  assert.deepEqual(countsOf((await trigger()).json), { ...noTriggers, due: 10 - delivered, delivered: 10 - delivered })
  assert.deepEqual(timesOf(), Array(10).fill(1))
})

test('failures exit with 0 until one is abandoned; status counts and shows the hooks in trouble, and why', async () => {
  const failing = await hook('/failing')
  await hook('/well')
  await house.put('leads', makeLeads(2))
  platform.answer = ({ path }) => (path === '/failing' ? 418 : 200)
  const first = await house.call('trigger', { env })
  assert.equal(first.code, 0)
  assert.match(first.stdout, /failed {2}hook .*, attempt 1: HTTP 418/)
  assert.match(first.stdout, /due +4 triggers\ndelivered +2\nfailed +2, to be tried again/)
  assert.equal((await house.call('status --json')).json[0].hooksInTrouble, 1)
  assert.match(
    (await house.call('status')).stdout,
    /Hooks in trouble[\s\S]*\/failing\n {2}hook [\da-f]{8}: 2 failing; last attempt .*: HTTP 418/,
  )
  await opened.pool.query('update triggers set attempts = 8')
  await passPauses(opened)
  const last = await trigger()
  assert.equal(last.code, 1)
  assert.deepEqual(countsOf(last.json), { ...noTriggers, due: 2, abandoned: 1, ended: 1 })
  const {
    json: [status],
  } = await house.call('status --json')
  assert.equal(status.hooksInTrouble, 1)
  assert.match(
    (await house.call('status')).stdout,
    /\/failing\n {2}hook [\da-f]{8}: 2 abandoned, switched off .*; .*HTTP 418/,
  )
  const { json: listed } = await house.call('integrations list --json')
  const hooks = listed.flatMap((integration) => integration.hooks)
  assert.equal(hooks.find(({ id }) => id === failing.id).lastStatus, 418)
  assert.ok(hooks.every(({ lastAt }) => Math.abs(Date.parse(lastAt) - Date.now()) < 60_000))
})

test('--again sends what was abandoned, with the hook named or not; wrong options and unknown hooks exit with 2', async () => {
  const lost = await hook('/lost')
  await house.put('leads', makeLeads(1))
  platform.answer = () => 500
  await trigger()
  await opened.pool.query('update triggers set attempts = 8')
  await passPauses(opened)
  const off = await trigger()
  assert.equal(off.code, 1)
  assert.match(off.stderr, /is switched off: three days of attempts failed/)
  const { json: listed } = await house.call('integrations list --json')
  const [shown] = listed.flatMap(({ hooks }) => hooks)
  assert.deepEqual([shown.dropped, shown.abandoned], [0, 1])
  assert.ok(Math.abs(Date.parse(shown.offSince) - Date.now()) < 60_000)
  const { stdout: asText } = await house.call('integrations list')
  assert.match(asText, /switched off/)
  const [shownId = ''] = new RegExp(`${lost.id.slice(0, 8)}`).exec(asText) ?? []
  assert.match((await house.call('status')).stdout, /1 abandoned, switched off/)
  for (const [options, message] of [
    [['--hook', lost.id], /--hook goes with --again only/],
    [['--since', '2d'], /--since goes with --again only/],
    [
      ['--again', '--since', `${lostKeptDays + 1}d`],
      new RegExp(`--since: holds "${lostKeptDays + 1}d"; allowed: .* to ${lostKeptDays}d`),
    ],
    [['--again', '--since', 'soon'], /--since: holds "soon"/],
    [['--again', '--hook', 'x'], /There is no hook "x"/],
    // the one given was not named, and nothing but --json showed the right one
    [
      ['--again', '--hook', `${lost.id.slice(0, 8)}-no-such-hook`],
      new RegExp(`There is no hook "${lost.id.slice(0, 4)}…" \\(21 characters\\)`),
    ],
  ] as const) {
    const { code, stderr } = await house.call(['trigger', ...options], { env })
    assert.equal(code, 2, options.join(' '))
    assert.match(stderr, message)
  }
  platform.answer = () => 200
  await opened.pool.query('update hooks set paused_until = null')
  assert.deepEqual(countsOf((await trigger()).json), noTriggers)
  const again = await house.call([...triggerJson, '--again', '--hook', shownId.toUpperCase(), '--since', '2d'], { env })
  assert.deepEqual([again.code, countsOf(again.json)], [0, { ...noTriggers, due: 1, delivered: 1 }], again.stderr)
  assert.equal(new Set(platform.calls.map(({ webhookId }) => webhookId)).size, 1)
  assert.equal((await house.call('integrations list --json')).json.flatMap(({ hooks }) => hooks)[0].offSince, null)
  // which stays in trouble for some days
  assert.match(
    (await house.call('status')).stdout,
    /\/lost\n {2}hook [\da-f]{8}: 1 abandoned; last attempt [^:]*:[^a-z]*: it was delivered, an earlier one was not: HTTP 500\n/,
  )
  for (const [ago, isShown] of [
    [`${abandonedShownDays} days -1 minute`, true],
    [`${abandonedShownDays} days`, false],
  ] as const) {
    await opened.pool.query('update hooks set abandoned_at = now() - $1::interval', [ago])
    assert.equal(/\/lost\n/.test((await house.call('status')).stdout), isShown, ago)
  }
})
