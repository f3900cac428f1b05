/** Users through the program (contract 3): what subscribing sends, what unsubscribing and removing end, who is told. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { pingBodyBytesMax, pingPauseMs, pingRepeatsMax } from '../../src/base/limits.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, makeUsers, zip } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { owe } from '../support/owed.ts'
import { type StartedProgram, startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const leads = [{ href: hrefOf('a'), postalCode: '78704' }]

/** A push that is stopped while the first attempts of all its users have failed and the second ones are to come. */
async function interruptBetweenAttempts(house: House, users: number): Promise<void> {
  house.receiver.answer = () => 500
  const program = startProgram(['push', '--all', '--json'], {
    env: { ...house.env, LEADPUSH_RETRY_DELAY: '5m', LEADPUSH_OUTAGE: '0s' },
  })
  const { pool, close } = await house.database.open()
  await until('all outcomes are recorded', async () => {
    const { rows } = await pool.query('select count(*) as n from deliveries where first_status = 500')
    return rows[0].n === users
  })
  await close()
  program.kill('SIGTERM')
  const { code, stderr, json } = await program.done
  assert.equal(code, 143, stderr)
  assert.deepEqual(
    deliveriesOf(json).map(({ status, attempts }) => [status, attempts]),
    Array(users).fill(['pending', 1]),
  )
  house.receiver.answer = () => 200
}

test('subscribe sends the subscription push to a user who was not subscribed, once', async () => {
  const house = await buildHouse({ leads, users: [{ ...makeUsers(1)[0], subscribed: false }] })
  const first = await house.call('users subscribe USER-0@example.com --json')
  assert.equal(first.code, 0, first.stderr)
  assert.deepEqual(
    deliveriesOf(first.json).map(({ user, kind, status }) => [user, kind, status]),
    [['user-0@example.com', 'subscription', 'delivered']],
  )
  const again = await house.call('users subscribe user-0@example.com --json')
  assert.deepEqual([again.code, deliveriesOf(again.json)], [0, []])
  assert.equal((await house.call('users unsubscribe user-0@example.com')).code, 0)
  assert.equal((await house.call('users unsubscribe user-0@example.com')).code, 0)
  const flipped = await house.call('users subscribe user-0@example.com')
  assert.equal(flipped.code, 0)
  assert.match(flipped.stderr, /less than a minute ago/)
  assert.equal(house.receiver.requests.length, 1)
  // the weekly delivery is another one
  assert.equal((await house.call('push --all')).code, 0)
  assert.equal(house.receiver.keys().size, 2)
})

test('a subscription push that fails ends with 1; one that was interrupted is owed, until --resume or --user sends it', async () => {
  const house = await buildHouse({
    leads,
    users: makeUsers(3).map((user) => ({ ...user, subscribed: false })),
    answer: () => 422,
  })
  const failed = await house.call('users subscribe user-0@example.com --json')
  assert.deepEqual([failed.code, deliveriesOf(failed.json)[0].status], [1, 'failed'])
  const database = await house.database.open()
  await database.pool.query("update users set subscribed = true where email <> 'user-0@example.com'")
  await database.pool.query(owe("email <> 'user-0@example.com'"))
  await database.close()
  house.receiver.answer = () => 200
  const preview = await house.call('preview --user user-1@example.com --json')
  assert.equal(deliveriesOf(preview.json)[0].kind, 'subscription')
  const one = await house.call('push --user user-1@example.com --json')
  assert.equal(deliveriesOf(one.json)[0].kind, 'subscription')
  const resumed = await house.call('push --resume --json')
  assert.deepEqual(
    deliveriesOf(resumed.json).map(({ user, kind }) => `${user} ${kind}`),
    ['user-2@example.com subscription'],
  )
  assert.match(resumed.stderr, /^Database: .*\n$/)
  // with nothing to do it printed its database and seven figures, which cron mailed each hour
  const idle = await house.call('push --resume')
  assert.deepEqual([idle.code, idle.stdout, idle.stderr], [0, '', ''])
  const { json, stderr } = await house.call('push --resume --json')
  assert.deepEqual([json.map(({ type }) => type), stderr], [['summary'], ''])
})

test('a delivery that was interrupted between its attempts is resumed with the same key and body, even for a user who unsubscribed meanwhile', async () => {
  const house = await buildHouse({ leads, users: makeUsers(3) })
  await interruptBetweenAttempts(house, 3)
  assert.equal((await house.call('users unsubscribe user-1@example.com')).code, 0)
  assert.equal((await house.call('users remove user-2@example.com')).code, 0)
  await house.put('leads', [{ href: hrefOf('later'), postalCode: '78704' }])
  await house.put('users', [{ email: 'user-0@example.com', receiverApiKey: 'changed', queries: [zip('99950')] }])

  const preview = await house.call('preview --json')
  const planned = deliveriesOf(preview.json)
  assert.deepEqual(planned.map(({ user, attempts, status }) => [user, attempts, status]).sort(), [
    ['user-0@example.com', 1, 'planned'],
    ['user-1@example.com', 1, 'planned'],
  ])
  const keys = new Set(planned.map(({ idempotencyKey }) => idempotencyKey))
  const bodies = (await house.call('preview --body')).stdout.trimEnd().split('\n')

  const { code, json, stderr } = await house.call('push --resume --json')
  assert.equal(code, 0, stderr)
  assert.deepEqual(
    deliveriesOf(json)
      .map(({ user, status, attempts }) => [user, status, attempts])
      .sort(),
    [
      ['user-0@example.com', 'delivered', 2],
      ['user-1@example.com', 'delivered', 2],
    ],
  )
  const second = house.receiver.requests.slice(3)
  assert.deepEqual(new Set(second.map(({ key }) => key)), keys)
  assert.deepEqual(second.map(({ body }) => body.toString()).sort(), bodies.sort())
  for (const { key, body, headers } of second) {
    const [first] = house.receiver.keys().get(key) ?? []
    assert.ok(first?.body.equals(body))
    if (first?.headers['x-service-api-key'] === 'key-0') assert.equal(headers['x-service-api-key'], 'changed')
  }
  assert.ok([...house.receiver.keys().values()].every(({ length }) => length <= 2))
})

test('remove ends what is owed, and an attempt under way is finished and recorded', async () => {
  const gate = makeGate()
  const house = await buildHouse({ leads, users: makeUsers(2), answer: () => gate.opened.then(() => 200) })
  const program = startProgram(['push', '--all', '--json'], { env: house.env })
  await requestsAtLeast(house.receiver, 2)
  assert.equal((await house.call('users remove user-0@example.com')).code, 0)
  assert.equal((await house.call('users unsubscribe user-1@example.com')).code, 0)
  gate.open()
  const { code, json, stderr } = await program.done
  assert.equal(code, 0, stderr)
  assert.deepEqual(
    deliveriesOf(json).map(({ status }) => status),
    ['delivered', 'delivered'],
  )
  assert.equal(house.receiver.requests.length, 2)
  const { json: listed } = await house.call('users list --json')
  assert.deepEqual(
    listed.map(({ email, subscribed }) => [email, subscribed]),
    [['user-1@example.com', false]],
  )
})

test('--resume serves the users whom a stopped --force left, nobody twice', async () => {
  const house = await buildHouse({ leads, users: makeUsers(30) })
  assert.equal((await house.call('push --all')).code, 0)
  const gate = makeGate()
  house.receiver.answer = async (_, nth) => {
    if (nth >= 34) await gate.opened
    return 200
  }
  const program = startProgram(['push', '--all', '--force', '--concurrency', '2'], { env: house.env })
  await requestsAtLeast(house.receiver, 34)
  program.kill('SIGINT')
  await program.waitFor(/SIGINT: finishing/)
  gate.open()
  assert.equal((await program.done).code, 130)
  assert.ok(house.receiver.requests.length < 60)
  house.receiver.answer = () => 200
  const planned = await house.call('preview --json')
  assert.equal(planned.json.at(-1).deliveries, 60 - house.receiver.requests.length)
  const { code, json } = await house.call('push --resume --json')
  assert.equal(code, 0)
  assert.ok(deliveriesOf(json).every(({ kind }) => kind === 'forced'))
  const served = house.receiver.requests.slice(30).map(({ headers }) => headers['x-service-api-key'])
  assert.deepEqual([served.length, new Set(served).size], [30, 30])
  assert.equal((await house.call('push --resume --json')).json.at(-1).deliveries, 0)
})

test('the dead man’s switch hears of the start and the end of push --all, and of nothing else', async () => {
  const house = await buildHouse({ leads, users: makeUsers(1) })
  const pings: string[] = []
  const times: number[] = []
  const { createServer } = await import('node:http')
  const { listen } = await import('../support/sockets.ts')
  let status = 200
  let broken = 0
  let stopped: StartedProgram | undefined
  const server = await listen(
    createServer((request, response) => {
      pings.push(`${request.method} ${request.url}`)
      times.push(performance.now())
      if (broken-- > 0) return void request.socket.destroy()
      stopped?.kill('SIGTERM')
      response.writeHead(status).end()
    }),
  )
  try {
    const url = `http://127.0.0.1:${server.port}/ping/uuid`
    const push = async (args: string, env: Record<string, string> = {}) => {
      pings.length = 0
      return await house.call(args, { env: { LEADPUSH_PING_URL: url, ...env } })
    }
    assert.equal((await push('push --all')).code, 0)
    assert.deepEqual(pings, ['GET /ping/uuid/start', 'GET /ping/uuid'])
    assert.equal((await push('push --all', { LEADPUSH_PING_URL: `${url}/?rid=a/b` })).code, 0)
    assert.deepEqual(pings, ['GET /ping/uuid/start?rid=a/b', 'GET /ping/uuid/?rid=a/b'])
    await Promise.all(
      // one with `--limit` is no whole push, and once pinged as a success
      ['push --resume', 'push --failed', 'push --user user-0@example.com', 'preview', 'push --all --limit 1'].map(
        (args) => push(args),
      ),
    )
    assert.deepEqual(pings, [])
    assert.equal((await push('push --all', { DATABASE_URL: `${house.env.DATABASE_URL}_gone` })).code, 3)
    assert.deepEqual(pings, ['GET /ping/uuid/start', 'GET /ping/uuid/fail'])
    // of a setting that was spoilt the monitor heard nothing
    for (const spoilt of [{ LEADPUSH_RATE: 'fast' }, { LEADPUSH_RECIEVER: 'x' }, { HTTPS_PROXY: ':' }]) {
      assert.equal((await push('push --all', spoilt)).code, 2)
      assert.deepEqual(pings, ['GET /ping/uuid/fail'])
    }
    house.receiver.answer = () => 400
    assert.equal((await push('push --all --force')).code, 1)
    assert.deepEqual(pings, ['GET /ping/uuid/start', 'GET /ping/uuid/fail'])
    // the monitor got no second ping when a signal came before the push had begun
    pings.length = 0
    stopped = startProgram(['push', '--all'], { env: { ...house.env, LEADPUSH_PING_URL: url } })
    assert.equal((await stopped.done).code, 143)
    assert.deepEqual(pings, ['GET /ping/uuid/start', 'GET /ping/uuid/fail'])
    stopped = undefined
    // one connection that broke was an alarm
    broken = pingRepeatsMax
    times.length = 0
    const again = await push('push --all')
    // the pause doubles; a timer may be a moment early
    for (let nth = 1; nth <= pingRepeatsMax; nth++)
      assert.ok((times[nth] ?? 0) - (times[nth - 1] ?? 0) >= pingPauseMs * 2 ** (nth - 1) - 2, `${times}`)
    assert.deepEqual(pings, [...Array(pingRepeatsMax + 1).fill('GET /ping/uuid/start'), 'GET /ping/uuid'])
    assert.doesNotMatch(again.stderr, /LEADPUSH_PING_URL/)
    broken = pingRepeatsMax + 1
    assert.match((await push('push --all')).stderr, /LEADPUSH_PING_URL: the ping \(start\) did not arrive/)
    assert.deepEqual(pings, [...Array(pingRepeatsMax + 1).fill('GET /ping/uuid/start'), 'GET /ping/uuid'])
    status = 500
    const troubled = await push('push --all')
    assert.equal(troubled.code, 0)
    assert.match(troubled.stderr, /LEADPUSH_PING_URL.*HTTP 500/)
    assert.deepEqual(pings, ['GET /ping/uuid/start', 'GET /ping/uuid'])
    const away = await push('push --all --json', { LEADPUSH_PING_URL: 'http://127.0.0.1:1/hidden' })
    assert.equal(away.code, 0)
    assert.doesNotMatch(away.stderr, /hidden/)
  } finally {
    await server.close()
  }
})

test('with LEADPUSH_PING_BODY the dead man’s switch is told what came of the push, and no user by name', async () => {
  const house = await buildHouse({ leads, users: makeUsers(3) })
  const pings: { line: string; type: string | undefined; body: string }[] = []
  const { createServer } = await import('node:http')
  const { listen } = await import('../support/sockets.ts')
  const server = await listen(
    createServer((request, response) => {
      let body = ''
      request.on('data', (chunk) => {
        body += chunk
      })
      request.on('end', () => {
        pings.push({ line: `${request.method} ${request.url}`, type: request.headers['content-type'], body })
        response.writeHead(200).end()
      })
    }),
  )
  try {
    const push = async (args: string, changes: Record<string, string> = {}) => {
      pings.length = 0
      const env = { LEADPUSH_PING_URL: `http://127.0.0.1:${server.port}/uuid`, LEADPUSH_PING_BODY: 'on', ...changes }
      const { code, json, stderr } = await house.call(args, { env })
      const [start, end, ...rest] = pings
      // once called JSON, which an empty body is not
      assert.deepEqual([start?.line, start?.type, start?.body, rest], ['POST /uuid/start', undefined, '', []], stderr)
      assert.equal(end?.type, 'application/json')
      assert.ok(Buffer.byteLength(end.body) <= pingBodyBytesMax)
      assert.doesNotMatch(end.body, /@|key-\d/)
      return { code, summary: json.at(-1), line: end.line, told: JSON.parse(end.body) }
    }
    house.receiver.answer = ({ headers }) => (headers['x-service-api-key'] === 'key-0' ? 200 : 401)
    const failed = await push('push --all --json')
    assert.deepEqual([failed.code, failed.line], [1, 'POST /uuid/fail'])
    const { causes, ...told } = failed.told
    assert.deepEqual(told, { ...failed.summary, exitCode: 1, skips: [] })
    assert.deepEqual([causes.length, causes[0].deliveries], [1, 2])
    assert.match(causes[0].cause, /^HTTP 401: the receiver does not take/)
    assert.match(causes[0].remedy, /users import/)
    // while the receiver was down it was told that nothing failed, and of no cause
    await house.put('users', makeUsers(2, 10))
    house.receiver.answer = () => 503
    const down = await push('push --all --json', { LEADPUSH_OUTAGE: '100ms' })
    assert.deepEqual([down.told.failed, down.told.pending, down.told.causes[0].deliveries], [0, 2, 2])
    assert.match(down.told.causes[0].cause, /^HTTP 503/)
    assert.deepEqual(down.told.advice[1].run, ['push', '--resume'])
    house.receiver.answer = () => 200
    assert.equal((await house.call('push --resume')).code, 0)
    const well = await push('push --all --json')
    assert.deepEqual([well.code, well.line], [0, 'POST /uuid'])
    assert.deepEqual(well.told, { ...well.summary, exitCode: 0, causes: [], skips: [] })
    // longer texts than any that the program makes, of more causes than are shown
    const { Ping } = await import('../../src/cli/push/ping.ts')
    const { createLog } = await import('../../src/cli/log.ts')
    const pingUrl = `http://127.0.0.1:${server.port}/uuid`
    const ping = new Ping(await createLog({ stderr: process.stderr, onExit: () => () => {} }, 'pretty'), {
      pingUrl,
      pingBody: 'on',
      proxies: {},
    })
    for (let at = 0; at < 200; at++) {
      const reason = `${String.fromCodePoint(0x1f600 + (at % 9)).repeat(400)} ${at} user-1@example.com`
      ping.line({ type: 'skip', user: 'user-1@example.com', reason: `user-1@example.com ${at} ${reason}` })
    }
    await ping.end(1)
    const long = pings.at(-1)?.body ?? ''
    assert.ok(
      Buffer.byteLength(long) <= pingBodyBytesMax && Buffer.byteLength(long) > 5_000,
      `${Buffer.byteLength(long)}`,
    )
    assert.doesNotMatch(long, /@/)
    assert.deepEqual(JSON.parse(long).skips[0].reason, 'other reasons')
    const away = await push('push --all --json', { DATABASE_URL: `${house.env.DATABASE_URL}_gone` })
    assert.deepEqual([away.code, away.line, away.told.type], [3, 'POST /uuid/fail', 'error'])
    assert.equal(away.told.message, 'The database cannot be used.')
    // the message was sent unchanged, with all names in it
    await ping.endBroken(new LeadpushError('usage', 'There is no user of Jane Roe at 512 555 0101.'))
    assert.doesNotMatch(pings.at(-1)?.body ?? '', /Jane|555/)
  } finally {
    await server.close()
  }
})

test('a machine of another time zone is told so, and sends nothing weekly', async () => {
  const house = await buildHouse({ leads, users: makeUsers(1) })
  assert.doesNotMatch((await house.call('push --all')).stderr, /time zone/)
  const env = { LEADPUSH_TIME_ZONE: 'Pacific/Kiritimati' }
  const held = await house.call('push --all --json', { env })
  assert.deepEqual([held.code, held.json[0].type, held.json[0].user, held.json.length], [1, 'skip', undefined, 2])
  assert.match(held.json[0].reason, /^held: .* Pacific\/Kiritimati, and the last run used UTC: .* use --accept$/)
  const alarms = await house.call('status --check --quiet', { env })
  assert.match(
    alarms.stdout,
    /\. Give all machines one LEADPUSH_TIME_ZONE, then run `leadpush push --all` \(or, .*--accept`\)/,
  )
  const other = await house.call('push --user user-0@example.com', { env })
  assert.deepEqual([other.code, house.receiver.requests.length], [0, 2])
  assert.match(other.stderr, /time zone UTC, this one Pacific\/Kiritimati/)
})

test('users import --dry-run says so, tells what would go in, and neither writes nor ends anything', async () => {
  const house = await buildHouse({ leads, users: makeUsers(2) })
  const file = writeInput(
    'fewer-users.ndjson',
    toLines([makeUsers(1)[0], { email: 'odd@example.com', subscribed: 'maybe' }]),
  )
  const before = (await house.call('users list --json')).json
  const dry = await house.call(`users import ${file} --complete --dry-run --json`)
  assert.equal(dry.code, 1)
  assert.deepEqual(
    dry.json.map(({ type, rejected, unsubscribed, dryRun }) => [type, rejected, unsubscribed, dryRun]),
    [
      ['rejected', undefined, undefined, undefined],
      ['summary', 1, 1, true],
    ],
  )
  const text = await house.call(`users import ${file} --dry-run`)
  assert.match(text.stdout, /^Dry run: nothing is written\. /)
  assert.deepEqual((await house.call('users list --json')).json, before)
})
