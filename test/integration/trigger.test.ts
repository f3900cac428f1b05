/** A run of `trigger` against a platform on real sockets (contract 6): what goes over the wire, when again, and what ends it. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { failuresInARow, triggerJitter, triggerRetryAfterMsMax } from '../../src/base/limits.ts'
import { Sleeper } from '../../src/base/sleeper.ts'
import { findHooksInTrouble } from '../../src/inspect/status/hooks-in-trouble.ts'
import { rotateIntegration } from '../../src/integrations/integrations.ts'
import { leadFields } from '../../src/leads/lead.ts'
import { recordHookAnswers } from '../../src/triggers/record-triggers.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, passPauses, runTrigger, type TestHook } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { findClosedPort } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())
await seedUsers(opened.db, [
  { email: 'user@example.com' },
  { email: 'unsubscribed@example.com', subscribed: false, queries: [{ value: '10001', places: ['10001'] }] },
])
let names = 0

beforeEach(async () => {
  await opened.pool.query('delete from hooks')
  platform.calls.length = 0
  platform.answer = () => 200
})

const hook = (path: string, email = 'user@example.com') => addHook(opened, email, platform.url(path))
const hrefOf = (name: string | number) => `https://listings.example.com/${name}`

/** So many new leads for user@example.com, the first the oldest; returns their hrefs. */
async function addLeads(count: number, more: object = {}): Promise<string[]> {
  const hrefs = Array.from({ length: count }, () => hrefOf(++names))
  await seedLeads(opened, hrefs.map((href) => ({ href, ...more })).reverse())
  return hrefs
}

const triggersOf = async ({ id }: TestHook) =>
  (
    await opened.pool.query(
      `select attempts, last_error, extract(epoch from due_at - now())::double precision as seconds from triggers where hook_id = $1`,
      [id],
    )
  ).rows

test('a trigger is a signed POST of one flat object with every field, to each hook once', async () => {
  const [first, second] = [await hook('/first?token=a%20b'), await hook('/second')]
  const third = await hook('/third', 'unsubscribed@example.com')
  await seedLeads(opened, [
    { href: hrefOf('known'), price: 350_000, fullAddress: '1 Straße, Austin', description: 'Späti 🏠', bathrooms: 2.5 },
    { href: hrefOf('bare') },
  ])
  await seedLeads(opened, [{ href: hrefOf('theirs'), postalCode: '10001' }])
  const { counts, lines } = await runTrigger(opened)
  assert.deepEqual(counts, { ...noTriggers, due: 5, delivered: 5 })
  assert.deepEqual(platform.calls.map(({ method, path }) => `${method} ${path}`).sort(), [
    'POST /first?token=a%20b',
    'POST /first?token=a%20b',
    'POST /second',
    'POST /second',
    'POST /third',
  ])
  const ids = new Set<string>()
  for (const [{ signingSecret }, path] of [
    [first, '/first?token=a%20b'],
    [second, '/second'],
    [third, '/third'],
  ] as const) {
    for (const { body, json, headers, webhookId } of platform.of(path)) {
      assert.deepEqual(Object.keys(json), ['id', 'trigger', 'occurredAt', ...leadFields.map(({ name }) => name)])
      assert.equal(json.trigger, 'new_lead')
      assert.ok(Math.abs(Date.parse(json.occurredAt) - Date.now()) < 60_000 && json.occurredAt.endsWith('Z'))
      assert.deepEqual(new Webhook(signingSecret).verify(body, headers as Record<string, string>), json)
      assert.throws(() => new Webhook(signingSecret).verify(`${body} `, headers as Record<string, string>))
      assert.match(String(headers['content-type']), /^application\/json$/)
      assert.equal(Number(headers['content-length']), Buffer.byteLength(body))
      assert.match(String(headers['user-agent']), /^leadpush\//)
      ids.add(webhookId)
      assert.ok(lines.some((line) => line.webhookId === webhookId && line.href === json.href && line.attempts === 1))
    }
  }
  assert.equal(ids.size, 5)
  const [bare, known] = platform.of('/second').map(({ json }) => json)
  assert.deepEqual(
    [known.price, known.fullAddress, known.description, known.bathrooms],
    [350_000, '1 Straße, Austin', 'Späti 🏠', 2.5],
  )
  assert.deepEqual([bare.price, bare.fullAddress, bare.description, bare.schemaVersion], [0, null, null, 'v0.1.0'])
  assert.equal(platform.of('/first?token=a%20b').find(({ json }) => json.href === known.href)?.json.id, known.id)
  assert.notEqual(known.id, bare.id)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('while a rotation overlaps, triggers bear the signatures of both secrets', async () => {
  const { id, integrationId, signingSecret: old } = await hook('/rotated')
  const isSignedWith = (secret: string) => {
    const { body, headers } = platform.calls.at(-1) ?? assert.fail('no trigger came')
    try {
      return new Webhook(secret).verify(body, headers as Record<string, string>) !== undefined
    } catch {
      return false
    }
  }
  const rotated = await rotateIntegration(opened.db, integrationId, 3_600_000)
  const { signingSecret } = rotated?.integration ?? assert.fail()
  await addLeads(1)
  assert.equal((await runTrigger(opened)).lines[0]?.hook, id)
  assert.match(String(platform.calls[0]?.headers['webhook-signature']), /^v1,\S+ v1,\S+$/)
  assert.deepEqual([isSignedWith(signingSecret), isSignedWith(old)], [true, true])
  await opened.pool.query('update integrations set previous_until = now() where id = $1', [integrationId])
  await addLeads(1)
  await runTrigger(opened)
  assert.match(String(platform.calls[1]?.headers['webhook-signature']), /^v1,\S+$/)
  assert.deepEqual([isSignedWith(signingSecret), isSignedWith(old)], [true, false])
})

test('a failed trigger is tried again after 1 m, 5 m, 30 m, 2 h, 8 h, 16 h, 24 h, 24 h with the same id and body, then given up', async () => {
  const failing = await hook('/failing')
  const [href] = await addLeads(1)
  platform.answer = () => 500
  for (const [attempt, minutes] of [1, 5, 30, 120, 480, 960, 1_440, 1_440].entries()) {
    const { counts, lines } = await runTrigger(opened)
    assert.deepEqual(counts, { ...noTriggers, due: 1, failed: 1 })
    assert.deepEqual(lines, [
      { type: 'trigger', trigger: 'new_lead', integration: failing.integrationId, hook: failing.id, href, webhookId: platform.calls[0]?.webhookId,
        status: 'failed', attempts: attempt + 1, httpStatus: 500, error: 'HTTP 500' },
    ]) // biome-ignore format: a list
    const [trigger] = await triggersOf(failing)
    assert.ok(trigger.seconds > minutes * 60 - 20 && trigger.seconds <= minutes * 66, `${trigger.seconds} s`)
    assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
    // a change of the lead meanwhile does not change what is sent
    await seedLeads(opened, [{ href: href ?? '', price: attempt + 1 }])
    await passPauses(opened)
  }
  const last = await runTrigger(opened)
  assert.deepEqual(last.counts, { ...noTriggers, due: 1, abandoned: 1 })
  assert.deepEqual(
    last.lines.map(({ status, attempts }) => [status, attempts]),
    [['abandoned', 9]],
  )
  assert.deepEqual([new Set(platform.calls.map(({ webhookId }) => webhookId)).size, platform.calls.length], [1, 9])
  assert.equal(new Set(platform.calls.map(({ body }) => body)).size, 1)
  await passPauses(opened)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('a trigger that is delivered at a later attempt is done', async () => {
  await hook('/late')
  await addLeads(1)
  platform.answer = (_, nth) => (nth < 3 ? 'drop' : 201)
  for (const status of ['failed', 'failed', 'delivered'] as const) {
    assert.deepEqual(
      (await runTrigger(opened)).lines.map((line) => line.status),
      [status],
    )
    await passPauses(opened)
  }
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  assert.equal(platform.calls.length, 3)
})

test('a longer Retry-After is honoured, a shorter one is not', async () => {
  const asking = await hook('/asking')
  await addLeads(1)
  for (const [after, min, max] of [
    ['30', 40, 60 * (1 + triggerJitter)],
    ['7200', 7_100, 7_200],
    [new Date(Date.now() + 9 * 3_600_000).toUTCString(), 32_000, 32_400],
    ['nonsense', 7_000, 7_920],
    ['99999999', triggerRetryAfterMsMax / 1_000 - 800, triggerRetryAfterMsMax / 1_000],
  ] as const) {
    platform.answer = () => ({ status: 503, headers: { 'retry-after': after } })
    await runTrigger(opened)
    const [{ seconds }] = await triggersOf(asking)
    assert.ok(seconds > min && seconds <= max, `${after}: ${seconds} s`)
    await passPauses(opened)
  }
})

const pausesOf = async () =>
  (
    await opened.pool.query(
      `select id, extract(epoch from paused_until - now())::double precision as seconds from hooks where paused_until > now()`,
    )
  ).rows as { id: string; seconds: number }[]

test(`a pause that a hook asks for, or gets for ${failuresInARow} failures in a row, holds for all its leads and for no other hook`, async () => {
  // the pause was once only the trigger's: the hook got the next lead half a second later
  const asking = await hook('/asking')
  const failing = await hook('/failing')
  await hook('/well')
  await addLeads(7)
  platform.answer = ({ path }) =>
    path === '/asking' ? { status: 429, headers: { 'retry-after': '7200' } } : path === '/failing' ? 500 : 200
  assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 21, delivered: 7, failed: 6, waiting: 8 })
  for (const { id, seconds } of await pausesOf()) {
    const asked = id === asking.id ? 7_200 : 60
    assert.ok(seconds > asked - 40 && seconds <= asked, `${seconds} s`)
  }
  assert.deepEqual((await pausesOf()).map(({ id }) => id).sort(), [asking.id, failing.id].sort())
  await addLeads(1)
  // in another run too
  assert.equal((await runTrigger(opened)).counts.delivered, 1)
  assert.deepEqual([platform.of('/asking').length, platform.of('/failing').length], [1, failuresInARow])
  // after its pause it gets one, and a pause again where that fails too
  await opened.pool.query(`update hooks set paused_until = now() - interval '1 second' where id = $1`, [failing.id])
  assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 3, failed: 1, waiting: 2 })
  platform.answer = () => 200
  await passPauses(opened)
  assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 16, delivered: 16 })
  assert.deepEqual((await opened.pool.query('select failures from hooks where failures > 0')).rows, [])
})

// One 500 paused the whole hook for a minute: a hook that refused one listing in three got few of the others.
test('a failure without a pause delays its own trigger alone: a hook that refuses one in three gets all others in one run', async () => {
  await hook('/picky')
  const hrefs = await addLeads(9)
  platform.answer = ({ json }) => (hrefs.indexOf(json.href) % 3 === 0 ? 422 : 200)
  const { counts } = await runTrigger(opened)
  assert.deepEqual(counts, { ...noTriggers, due: 9, delivered: 6, failed: 3 })
  assert.deepEqual(await pausesOf(), [])
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('410 removes the hook with all its triggers; 404, a redirect and other trouble do not', async () => {
  const gone = await hook('/gone')
  const others = await Promise.all(['/404', '/moved', '/401'].map((path) => hook(path)))
  const closed = await addHook(opened, 'user@example.com', `http://127.0.0.1:${await findClosedPort()}/`)
  await addLeads(5)
  platform.answer = ({ path }) =>
    path === '/gone'
      ? 410
      : path === '/moved'
        ? { status: 307, headers: { location: platform.url('/elsewhere') } }
        : Number(path.slice(1))
  const { counts, lines } = await runTrigger(opened)
  assert.equal(counts.due, 25)
  assert.deepEqual([counts.failed, counts.waiting], [20, 0])
  assert.ok(counts.removed >= 1 && counts.removed <= 2)
  assert.equal(counts.removed + counts.ended, 5)
  assert.equal(platform.of('/gone').length, counts.removed)
  assert.equal(platform.of('/elsewhere').length, 0)
  const why = (id: string) => lines.find((line) => line.hook === id)?.error ?? ''
  assert.match(why(gone.id), /HTTP 410: the platform has ended the hook/)
  assert.match(why(others[1]?.id ?? ''), /HTTP 307: a redirect/)
  assert.match(why(closed.id), /refused/)
  const { rows } = await opened.pool.query('select id from hooks')
  assert.deepEqual(rows.map(({ id }) => id).sort(), [...others, closed].map(({ id }) => id).sort())
  assert.deepEqual(await triggersOf(gone), [])
})

test('without the setting for development no private address is called, whenever the hook was registered', async () => {
  const inside = await hook('/inside')
  await addLeads(1)
  const none = { allowInsecureHooks: undefined as unknown as string }
  const plain = await runTrigger(opened, { settings: none })
  assert.deepEqual(
    plain.lines.map(({ status, error }) => [status, error]),
    [['failed', 'The hook URL must begin with https://.']],
  )
  await opened.pool.query('update hooks set url = $2 where id = $1', [
    inside.id,
    platform.url('/inside').replace('http:', 'https:'),
  ])
  await passPauses(opened)
  const { lines } = await runTrigger(opened, { settings: none })
  assert.match(lines[0]?.error ?? '', /not public/)
  assert.equal(platform.calls.length, 0)
})

test('a hook whose host is no longer among the allowed ones is not called', async () => {
  await hook('/other')
  await addLeads(1)
  const { lines } = await runTrigger(opened, { settings: { hookHosts: ['hooks.example.com'] } })
  assert.match(lines[0]?.error ?? '', /has a host that is not allowed here/)
  assert.equal(platform.calls.length, 0)
  await passPauses(opened)
  assert.equal((await runTrigger(opened, { settings: { hookHosts: ['127.0.0.1'] } })).counts.delivered, 1)
})

test('a trigger whose lead is gone ends; one whose version is gone is sent with the lead as it is', async () => {
  const one = await hook('/one')
  const [erased, kept] = await addLeads(2)
  platform.answer = () => 500
  assert.equal((await runTrigger(opened)).counts.failed, 2)
  await seedLeads(opened, [{ href: kept ?? '', price: 77 }])
  const idOf = `select id from leads where href_sha256 = sha256(convert_to($1, 'UTF8'))`
  await opened.pool.query(`delete from lead_versions where superseded_at is not null and lead_id = (${idOf})`, [kept])
  await opened.pool.query(`delete from leads where id = (${idOf})`, [erased])
  await passPauses(opened)
  platform.calls.length = 0
  platform.answer = () => 200
  const { counts, lines } = await runTrigger(opened)
  assert.deepEqual(counts, { ...noTriggers, due: 2, delivered: 1, ended: 1 })
  assert.deepEqual(
    lines.map(({ href }) => href),
    [kept],
  )
  assert.deepEqual(
    platform.calls.map(({ json }) => [json.href, json.price]),
    [[kept, 77]],
  )
  assert.deepEqual(await triggersOf(one), [])
})

test('a run whose time is up leaves the rest to the next, and tells so', async () => {
  await hook('/rest')
  await addLeads(20)
  // the time for recording what came of the last attempts, and for these
  const endMs = 2_000 + 30_000
  const run = async (leftMs: number) => {
    let isUp: Promise<unknown> | undefined
    platform.answer = async (_, nth) => {
      // the run's own timer ends before this one
      isUp ??= sleep(leftMs + 50)
      if (nth > 2) await isUp
      return 200
    }
    return await runTrigger(opened, { runMsMax: leftMs + endMs, timeoutMs: 30_000 })
  }
  // on a busy machine the time may be up before anything was sent
  let first = await run(500)
  for (let leftMs = 1_000; first.counts.delivered === 0; leftMs *= 2) first = await run(leftMs)
  platform.answer = () => 200
  assert.equal(first.counts.due, 20)
  assert.ok(first.counts.delivered > 0 && first.counts.delivered < 20, `${first.counts.delivered}`)
  assert.match(first.notes.join(), /the next one goes on/)
  const second = await runTrigger(opened)
  assert.deepEqual(second.counts, {
    ...noTriggers,
    due: 20 - first.counts.delivered,
    delivered: 20 - first.counts.delivered,
  })
  assert.equal(new Set(platform.calls.map(({ webhookId }) => webhookId)).size, platform.calls.length)
})

test('a hook gets one trigger at a time until it has answered, with any statistics', async () => {
  // with statistics of tables that were nearly empty one statement took several triggers of a hook, past every limit
  const hooks = await Promise.all(Array.from({ length: 10 }, (_, n) => hook(`/first-${n}`)))
  await opened.pool.query('vacuum (analyze) hooks, triggers')
  await addLeads(3)
  platform.answer = () => ({ status: 500, delayMs: 200 })
  const { counts } = await runTrigger(opened)
  assert.deepEqual(counts, { ...noTriggers, due: 30, failed: 30 })
  assert.deepEqual(
    hooks.map((_, n) => platform.peak(`/first-${n}`)),
    hooks.map(() => 1),
  )
})

test('a hook gets at most 10 a second and 2 at once', async () => {
  await hook('/busy')
  await addLeads(10)
  const two = makeGate()
  platform.answer = async (_, nth) => {
    if (nth === 3) two.open()
    // a third one would come meanwhile
    if (nth === 2 || nth === 3) await two.opened.then(() => sleep(300))
    return 200
  }
  assert.equal((await runTrigger(opened)).counts.delivered, 10)
  const slow = platform.of('/busy')
  assert.equal(platform.peak('/busy'), 2)
  await addLeads(12)
  platform.calls.length = 0
  platform.answer = () => 200
  const began = performance.now()
  assert.equal((await runTrigger(opened)).counts.delivered, 12)
  const ms = (platform.of('/busy').at(-1)?.atMs ?? 0) - began
  assert.ok(ms >= 1_100, `12 triggers in ${ms} ms`)
  // the oldest first
  const order = slow.map(({ json }) => Number(json.href.split('/').at(-1)))
  assert.ok(
    order.every((name, at) => at < 3 || name > (order[at - 3] ?? 0)),
    order.join(),
  )
})

test('the words with which a hook refused are shown with its trouble, and deleted with the hook', async () => {
  platform.answer = () => ({
    status: 422,
    headers: { 'content-type': 'text/plain' },
    body: 'no such path: /refuses-12ab, joe@example.com',
  })
  await hook('/refuses-12ab')
  await addLeads(1)
  const answers = async (keep: 'on' | 'off') =>
    (await findHooksInTrouble(opened.db, 9, keep)).map(({ error, answer }) => [error, answer])
  await runTrigger(opened, { settings: { keepAnswers: 'off' } })
  assert.deepEqual(await answers('on'), [['HTTP 422', null]])
  await passPauses(opened)
  await runTrigger(opened)
  assert.deepEqual(await answers('on'), [['HTTP 422', 'no such path: /…, …']])
  assert.deepEqual(await answers('off'), [['HTTP 422', null]])
  await opened.pool.query('delete from hooks')
  assert.deepEqual((await opened.pool.query('select answer from hook_answers')).rows, [])
})

test('a hook that hangs is given its time once in a run, however much is due for it', async () => {
  await hook('/hangs')
  await addLeads(3)
  platform.answer = () => 'hang'
  const { counts, lines } = await runTrigger(opened, { timeoutMs: 500 })
  assert.deepEqual(counts, { ...noTriggers, due: 3, failed: 1, waiting: 2 })
  assert.match(lines[0]?.error ?? '', /did not come in time \(0\.5 s\)/)
})

test('any number of hooks that hang delay no other hook', { timeout: 400_000 }, async () => {
  await Promise.all(Array.from({ length: 3 }, (_, n) => hook(`/well-${n}`)))
  await addLeads(1)
  assert.equal((await runTrigger(opened)).counts.delivered, 3)
  await Promise.all(Array.from({ length: 66 }, (_, n) => hook(`/hang-${n}`)))
  await addLeads(2)
  platform.calls.length = 0
  platform.answer = ({ path }) => (path.startsWith('/hang') ? 'hang' : 200)
  // none of them has had its time before the platform goes, however slow the machine is
  const running = runTrigger(opened, { timeoutMs: 300_000 })
  const callsOf = (kind: string) => platform.calls.filter(({ path }) => path.startsWith(kind)).length
  await until('as many hang as may', () => callsOf('/well') === 6 && callsOf('/hang') >= 48)
  await until('the well hooks are done', async () => {
    const { rows } = await opened.pool.query(
      `select from triggers t join hooks h on h.id = t.hook_id where h.url like '%/well-%'`,
    )
    return rows.length === 0
  })
  await platform.close()
  const { counts } = await running
  assert.equal(callsOf('/hang'), 48)
  assert.deepEqual(counts, { ...noTriggers, due: 138, delivered: 6, failed: 132 })
})

// An unsubscribe that committed while a refusal of its hook was recorded ended the whole run: hook_answers has a foreign key.
test('a hook may be removed while its words are recorded', async () => {
  const [left, kept] = [await hook('/left'), await hook('/kept')]
  const [href = ''] = await addLeads(1)
  const { rows } = await opened.pool.query('select id from leads where href_sha256 = $1', [
    hash('sha256', href, 'buffer'),
  ])
  const client = await opened.pool.connect()
  try {
    await client.query('begin')
    await client.query('delete from hooks where id = $1', [left.id])
    const refused = { versionId: 1, kind: 'new_lead', leadId: rows[0].id, answer: 'no', ok: false, abandoned: false, gone: false, failures: 1, pauseMs: null, httpStatus: 500, error: 'HTTP 500', retryAfterMs: null, timedOut: false, durationMs: 1 } as const // biome-ignore format: a row
    const recording = recordHookAnswers(opened.db, [left, kept].map(({ id }) => ({ ...refused, hookId: id }))) // biome-ignore format: short
    await until('recording waits for the unsubscribe', async () => {
      const waits =
        await opened.pool.query(`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%hook_answers%'
        and datname = current_database()`)
      return waits.rows.length > 0
    })
    await client.query('commit')
    await recording
  } finally {
    client.release()
  }
  assert.deepEqual((await opened.pool.query('select hook_id from hook_answers')).rows, [{ hook_id: kept.id }])
})

/** Sleeps until it is woken, for any time. */
class Waker extends Sleeper {
  override sleep(): Promise<void> {
    return super.sleep(Number.POSITIVE_INFINITY)
  }
}

// The loop looked whether all was found before it looked for hooks, and slept for a quarter of a second, twice a run.
test('a run for which nothing is due waits for no time to pass', async (t) => {
  const sleep = t.mock.method(Waker.prototype, 'sleep')
  await hook('/idle')
  for (let run = 0; run < 3; run++) {
    assert.deepEqual((await runTrigger(opened, { sleeper: new Waker() })).counts, noTriggers)
  }
  // for the look to end
  assert.ok(sleep.mock.callCount() <= 3, `${sleep.mock.callCount()} sleeps`)
})
