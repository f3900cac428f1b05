/** The figures of triggers, with the real program: `trigger --metrics-file`, `serve`, and what people see of a hook's counts. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { findTriggerFigures } from '../../src/server/trigger-figures.ts'
import { readExposition } from '../support/exposition.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, passPauses, passTime } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { testHome } from '../support/program.ts'

const house = await buildHouse({ users: makeUsers(1) })
const opened = await house.database.open()
const platform = await startHookReceiver()
after(() => platform.close())
const env = { ...house.env, LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
const file = join(testHome(), 'trigger.prom')
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  platform.calls.length = 0
  platform.answer = () => 200
})

const hook = (path: string) => addHook(opened, 'user-0@example.com', platform.url(path))
const addLeads = (count: number) =>
  house.put(
    'leads',
    Array.from({ length: count }, () => ({ href: hrefOf(`new-${++names}`), postalCode: '78704' })),
  )
const trigger = (...options: string[]) => house.call(['trigger', '--metrics-file', file, ...options], { env })

function read(command = 'trigger') {
  const families = readExposition(readFileSync(file, 'utf8'))
  return (name: string) => families.get(`leadpush_trigger_${name}`)?.samples.get(`command="${command}"`)
}

test('a run writes what came of its triggers, also one that gives up, switches off or does nothing', async () => {
  await hook('/well')
  await hook('/failing')
  await addLeads(2)
  platform.answer = ({ path }) => (path === '/failing' ? 500 : 200)
  assert.equal((await trigger()).code, 0)
  const first = read()
  const counts = ['delivered', 'failed', 'abandoned', 'removed', 'due', 'waiting', 'exit_code'].map((it) => first(it))
  assert.deepEqual(counts, [2, 2, 0, 0, 4, 0, 0])
  await opened.pool.query('update triggers set attempts = 8 where attempts > 0')
  await passPauses(opened)
  assert.equal((await trigger()).code, 1)
  const last = read()
  assert.deepEqual([last('abandoned'), last('exit_code')], [1, 1])
  assert.equal(last('last_completion_timestamp_seconds'), last('last_end_timestamp_seconds'))
  assert.equal((await trigger('--since', 'soon', '--again')).code, 2)
  assert.equal(read('again')('exit_code'), 2)
  // what does not begin to run writes nothing
  assert.equal((await trigger('--since', '1d')).code, 2)
  assert.equal(read('again')('exit_code'), 2)
})

test('triggers that are due, failing, abandoned and dropped, and hooks that are off, are counted for registered hooks', async () => {
  const hooks = await Promise.all(['/due', '/paused', '/failing', '/off', '/dropped'].map(hook))
  const change = (n: number, changes: string) =>
    opened.pool.query(`update hooks set ${changes} where id = $1`, [hooks[n]?.id])
  const due = (n: number, count: number, changes = '0, null') =>
    opened.pool.query(
      `insert into triggers (hook_id, version_id, kind, lead_id, occurred_at, due_at, attempts, failing_since)
      select $1, n, 'new_lead', n, now(), now() + $3::interval, ${changes} from generate_series(1, $2) n`,
      [hooks[n]?.id, count, changes.startsWith('0') ? '0' : '5 minutes'],
    )
  const none = { due: 0, oldestDueSeconds: 0, failing: 0, abandoned: 0, dropped: 0 }
  const noHooks = { hooksDue: 0, hooksFailing: 0, hooksOff: 0, hooksAbandoned: 0, hooksDropped: 0 }
  assert.deepEqual(await findTriggerFigures(opened.db), { ...none, ...noHooks })
  await due(0, 3)
  await due(1, 5)
  await due(2, 2, '1, now()')
  await change(1, `paused_until = now() + interval '1 hour'`)
  await change(2, 'failing_since = now()')
  await change(3, 'off_since = now(), failing_since = now(), abandoned = 7, abandoned_at = now()')
  await change(4, 'dropped = 9, dropped_at = now()')
  const { oldestDueSeconds, ...figures } = await findTriggerFigures(opened.db)
  assert.ok(oldestDueSeconds > 0)
  assert.deepEqual(figures, {
    due: 3, failing: 2, abandoned: 7, dropped: 9,
    hooksDue: 1, hooksFailing: 2, hooksOff: 1, hooksAbandoned: 1, hooksDropped: 1,
  }) // biome-ignore format: short

  // the same for people
  // a blank stood where the time would be
  assert.match((await house.call('status')).stdout, /\/dropped\n {2}hook \w+: 9 dropped; last attempt: none yet\n/)
  assert.match((await house.call('status')).stdout, /\/off\n {2}hook \w+: 7 abandoned, switched off /)
  const listed = (await house.call('integrations list')).stdout
  assert.match(listed, /\/off .*switched off +7 abandoned/)
  assert.match(listed, /\/dropped .*9 dropped/)
  const page = join(testHome(), 'report.html')
  assert.equal((await house.call(['report', '--out', page])).code, 0)
  const text = readFileSync(page, 'utf8')
  for (const head of ['dropped', 'off since']) assert.match(text, new RegExp(`<th[^>]*>${head}</th>`))
  // under "why" it said "none yet" of a hook without an attempt
  assert.doesNotMatch(text, /none yet/)

  // a day and a second later
  await passTime(opened, 86_401_000)
  const later = await findTriggerFigures(opened.db)
  assert.ok(later.oldestDueSeconds > 86_400)
  // the pause is over; what failed has become due
  assert.deepEqual([later.due, later.hooksDue, later.hooksAbandoned, later.hooksDropped], [10, 3, 0, 0])
  assert.deepEqual([later.abandoned, later.dropped, later.hooksOff], [7, 9, 1])
  const { stdout } = await house.call('status --check --quiet')
  assert.match(
    stdout,
    /1 hook has failed for more than a day, 1 of them is switched off|2 hooks have failed for more than a day, 1 of them is/,
  )
})

// A hook that had asked for a pause of days was told as due for days at its end: the alert said that no run took its triggers.
test('how long triggers have been due does not count the pause of their hook', async () => {
  await hook('/pausing')
  await addLeads(2)
  platform.answer = () => ({ status: 503, headers: { 'Retry-After': '7200' } })
  assert.equal((await trigger()).code, 0)
  await passTime(opened, 7_500_000)
  const { hooksDue, oldestDueSeconds } = await findTriggerFigures(opened.db)
  assert.equal(hooksDue, 1)
  assert.ok(oldestDueSeconds > 299 && oldestDueSeconds < 600, String(oldestDueSeconds))
})
