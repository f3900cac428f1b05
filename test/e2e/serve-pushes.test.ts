/** The subscription pushes behind `serve` (contract 5.3, 5.6): owed from the moment the 200 is sent, and sent once. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startPushProcess } from '../../src/server/push-process.ts'
import { makeGate } from '../support/gate.ts'
import { buildHouse, deliveriesOf, hrefOf, makeUsers } from '../support/house.ts'
import { writeInput } from '../support/import-files.ts'
import { startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { assertAnswer, createKeys, type Serve, startServe } from '../support/serve.ts'
import { until } from '../support/until.ts'

const users = [...makeUsers(23), { ...makeUsers(1, 23)[0], subscribed: false }]
const house = await buildHouse({ users, leads: [{ href: hrefOf('a'), postalCode: '78704' }] })
const keys = (await createKeys(house, users.map(({ email }) => email ?? ''))).map(({ apiKey }) => apiKey) // biome-ignore format: short
const opened = await house.database.open()
const { receiver } = house
const started: Serve[] = []
after(() => {
  for (const { program } of started) program.kill('SIGKILL')
})

async function start(env: Record<string, string> = {}): Promise<Serve> {
  const serve = await startServe(house, { LEADPUSH_ALLOW_INSECURE_HOOKS: '1', LEADPUSH_LEASE: '2s', ...env })
  started.push(serve)
  return serve
}

async function stop(serve: Serve, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  serve.program.kill(signal)
  const { code, stderr } = await serve.program.done
  if (signal !== 'SIGKILL') assert.equal(code, 0, stderr)
}

const keyOf = (at: number) => keys[at] ?? ''
async function subscribe(serve: Serve, at: number, name?: string): Promise<void> {
  assert.equal(assertAnswer(await serve.subscribe(keyOf(at), name)), 200)
}

/** The requests for one user, by their idempotency keys. */
const sentTo = (at: number) => {
  const own = receiver.requests.filter(({ headers }) => headers['x-service-api-key'] === `key-${at}`)
  return [...new Set(own.map(({ key }) => key))].map((key) => own.filter((request) => request.key === key).length)
}

async function countOwed(): Promise<number> {
  const { rows } = await opened.pool.query('select count(*) as n from users where subscription_owed_at is not null')
  return rows[0].n
}

async function countPending(): Promise<number> {
  const { rows } = await opened.pool.query("select count(*) as n from deliveries where status = 'pending'")
  return rows[0].n
}

const untilNothingIsLeft = () =>
  until('nothing is owed or under way', async () => {
    // a push that is begun between two counts is neither owed nor pending in them
    const { rows } = await opened.pool.query(`select (select count(*) from users where subscription_owed_at is not null)
      + (select count(*) from deliveries where status = 'pending') as n`)
    return rows[0].n === 0
  })

async function metric(serve: Serve, name: string): Promise<number> {
  const { text } = await serve.ask({ path: '/metrics' })
  const lines = text.split('\n').filter((line) => line.startsWith(name) && !line.startsWith(`${name}_`))
  return lines.reduce((sum, line) => sum + Number(line.split(' ')[1]), 0)
}

test('the first hook of a subscribed user sends one push, nothing else does; what is owed outlives the hook', async () => {
  // `serve` gave its processes the log's format twice: they ended with 2, and the owed push was never sent
  const format = { LEADPUSH_LOG_FORMAT_FILE: writeInput('format', 'json\n') }
  const serve = await start(format)
  await subscribe(serve, 0, 'a')
  await subscribe(serve, 0, 'a')
  await subscribe(serve, 0, 'b')
  await subscribe(serve, 23)
  await requestsAtLeast(receiver, 1)
  const [request] = receiver.requests
  assert.equal(request?.json.fsbos[0]?.href, hrefOf('a'))
  // within a minute no further one is owed, however the hooks are flipped
  for (let times = 0; times < 3; times++) {
    assert.equal((await serve.ask({ method: 'PUT', path: 'unsubscribe', key: keyOf(0) })).status, 200)
    await subscribe(serve, 0, 'c')
  }
  const answers = makeGate()
  receiver.answer = () => answers.opened.then(() => 200)
  for (const at of [1, 2, 3]) await subscribe(serve, at)
  // the third waits in line
  assert.equal((await serve.ask({ method: 'PUT', path: 'unsubscribe', key: keyOf(3) })).status, 200)
  answers.open()
  await until('three more are sent', () => [1, 2, 3].every((at) => sentTo(at).length > 0))
  await until('all are told', () => serve.log().filter(({ userId }) => userId !== undefined).length === 4)
  receiver.answer = () => 200
  assert.deepEqual([0, 1, 2, 3, 23].map(sentTo), [[1], [1], [1], [1], []])
  assert.deepEqual(
    serve.log().filter(({ userId }) => userId).map(({ exitCode, msg }) => [exitCode, /^The subscription push of user \d+ ended: delivered\.$/.test(msg)]),
    Array(4).fill([0, true]),
  ) // biome-ignore format: short
  const attempts = serve.log().filter(({ msg }) => msg === 'attempt succeeded')
  assert.equal(attempts.length, 4)
  for (const { run, delivery, attempt } of attempts) assert.deepEqual([run > 0, attempt], [true, `${delivery}#1`])
  assert.doesNotMatch(serve.program.stderr(), /@example\.com|key-\d/)
  await stop(serve)
})

// It was told that a delivery was on its way, and the metric with the alert on pushes that wait counted it for good.
test('the push of a user without queries waits for some, is told so, and counts for none that nobody sends', async () => {
  const user = { email: 'later@example.com', receiverApiKey: 'key-later' }
  await house.put('users', [user])
  const [{ apiKey = '' } = {}] = await createKeys(house, [user.email])
  const serve = await start()
  const answer = await serve.subscribe(apiKey)
  assert.equal(assertAnswer(answer), 200)
  assert.match(answer.json.msg, /^The hook is registered\. The user has no queries yet: /)
  assert.equal(await metric(serve, 'leadpush_subscription_pushes_owed'), 0)
  const before = receiver.requests.length
  await house.put('users', [{ email: user.email, queries: [{ type: 'zipcode', value: '78704', radius: 0 }] }])
  assert.equal(await metric(serve, 'leadpush_subscription_pushes_owed'), 1)
  await stop(serve)
  // as `serve` does when it looks again, at its start at the latest
  const again = await start()
  await requestsAtLeast(receiver, before + 1)
  assert.equal(receiver.requests.at(-1)?.headers['x-service-api-key'], 'key-later')
  await stop(again)
})

test('two processes at once, the rest waits in line; two sidecars do not start two for one user', async () => {
  const pair = [await start(), await start()] as [Serve, Serve]
  const before = receiver.requests.length
  const answers = makeGate()
  receiver.answer = () => answers.opened.then(() => 200)
  await subscribe(pair[1], 9)
  // a `serve` takes over what it finds owed at its first look
  await until('it has looked', async () => (await metric(pair[1], 'leadpush_push_processes')) === 1)
  await Promise.all([4, 5, 6, 7, 8].map((at) => subscribe(pair[0], at)))
  await requestsAtLeast(receiver, before + 3)
  assert.equal(await metric(pair[0], 'leadpush_push_processes'), 2)
  assert.ok((await metric(pair[0], 'leadpush_push_processes_waiting')) > 0)
  assert.ok((await metric(pair[1], 'leadpush_subscription_pushes_owed')) > 0)
  answers.open()
  await requestsAtLeast(receiver, before + 6)
  const ended = 'leadpush_push_processes_ended_total'
  await until('all have ended', async () => (await metric(pair[0], ended)) + (await metric(pair[1], ended)) >= 6)
  receiver.answer = () => 200
  assert.deepEqual([4, 5, 6, 7, 8, 9].map(sentTo), Array(6).fill([1]))
  assert.ok(receiver.peak() <= 3, `${receiver.peak()} at once`)
  assert.deepEqual([await metric(pair[0], ended), await metric(pair[1], ended)], [5, 1])
  for (const serve of pair) await stop(serve)
})

test('a signal goes to the processes once: what is under way is finished and recorded, also after serve has gone; the rest stays owed', async () => {
  const serve = await start()
  const before = receiver.requests.length
  const [first, second] = [makeGate(), makeGate()]
  receiver.answer = async ({ headers }) => {
    await (headers['x-service-api-key'] === 'key-10' ? first : second).opened
    return 200
  }
  for (const at of [10, 11, 12]) await subscribe(serve, at)
  await requestsAtLeast(receiver, before + 2)
  // as a terminal does, to all of its group
  process.kill(-serve.program.pid, 'SIGINT')
  const heard = () => serve.log().filter(({ msg }) => msg.startsWith('SIGINT: finishing')).length
  await until('both processes have the signal', () => heard() === 2)
  first.open()
  assert.equal((await serve.program.done).code, 0)
  assert.deepEqual(serve.log().filter(({ userId }) => userId).map(({ exitCode }) => exitCode), [130]) // biome-ignore format: short
  assert.deepEqual([receiver.requests.length, await countPending(), await countOwed()], [before + 2, 1, 1])
  second.open()
  receiver.answer = () => 200
  const next = await start()
  await requestsAtLeast(receiver, before + 3)
  await untilNothingIsLeft()
  assert.deepEqual([10, 11, 12].map(sentTo), [[1], [1], [1]])
  await stop(next)
})

test('a sidecar that is killed leaves its processes to themselves; what they had not begun the next start sends', async () => {
  const serve = await start()
  const answers = makeGate()
  receiver.answer = () => answers.opened.then(() => 200)
  const before = receiver.requests.length
  for (const at of [13, 14, 15, 16]) await subscribe(serve, at)
  await requestsAtLeast(receiver, before + 1)
  await stop(serve, 'SIGKILL')
  const next = await start()
  answers.open()
  await requestsAtLeast(receiver, before + 4)
  await untilNothingIsLeft()
  assert.deepEqual([13, 14, 15, 16].map(sentTo), Array(4).fill([1]))
  await stop(next)
})

test('a push that was interrupted under way gets its second attempt from the next start, once the lease is over', async () => {
  receiver.answer = () => 'hang'
  const before = receiver.requests.length
  const interrupted = startProgram(['users', 'subscribe', 'user-23@example.com'], {
    env: { ...house.env, LEADPUSH_LEASE: '2s' },
  })
  await requestsAtLeast(receiver, before + 1)
  interrupted.kill('SIGKILL')
  await interrupted.done
  receiver.answer = () => 200
  const serve = await start()
  await requestsAtLeast(receiver, before + 2)
  await until('it is recorded', async () => (await countPending()) === 0)
  assert.deepEqual(sentTo(23), [2])
  await stop(serve)
})

test('a long pause before a second attempt holds up no other user', async () => {
  const serve = await start({ LEADPUSH_RETRY_DELAY: '5m' })
  const before = receiver.requests.length
  receiver.answer = ({ headers }) => (headers['x-service-api-key'] === 'key-19' ? 200 : 503)
  for (const at of [17, 18, 19]) await subscribe(serve, at)
  await requestsAtLeast(receiver, before + 3)
  assert.deepEqual([17, 18, 19].map(sentTo), [[1], [1], [1]])
  receiver.answer = () => 200
  await until('their processes have left them', async () => (await metric(serve, 'leadpush_push_processes')) === 0)
  await opened.pool.query("update deliveries set due_at = now() where status = 'pending'")
  // whoever subscribes has it look at once
  await subscribe(serve, 20)
  await untilNothingIsLeft()
  assert.deepEqual([17, 18, 19, 20].map(sentTo), [[2], [2], [1], [1]])
  await stop(serve)
})

test('a process that fails is tried again, a while later', async () => {
  const serve = await start()
  const before = receiver.requests.length
  await opened.pool.query('alter table runs rename to runs_away')
  for (const at of [21, 22]) await subscribe(serve, at)
  const failures = () => serve.log().filter(({ exitCode }) => exitCode === 1)
  await until('both have failed, and one again', () => failures().length >= 3)
  assert.match(
    failures()[0].msg,
    /^The subscription push of user \d+ ended: nothing was sent\. Its process ended with 1\.$/,
  )
  const [first, , third] = failures()
  const again = third.userId === first.userId ? first : failures()[1]
  assert.ok(Date.parse(third.time) - Date.parse(again.time) >= 2_990, `${again.time} ${third.time}`)
  await opened.pool.query('alter table runs_away rename to runs')
  await requestsAtLeast(receiver, before + 2)
  await untilNothingIsLeft()
  assert.deepEqual([21, 22].map(sentTo), [[1], [1]])
  await stop(serve)
})

// What the runtime of a process said, or why none could be started, stood in the log of JSON lines as it was.
test('lines of a process that are no JSON, such as those of its runtime, are warnings in the log', async () => {
  const user = { ...makeUsers(1)[0], email: 'runtime@example.com', receiverApiKey: 'key-runtime' }
  await house.put('users', [user])
  const [{ apiKey = '' } = {}] = await createKeys(house, [user.email])
  const said = `process.argv.includes('--owed') && process.stderr.write('(node:1) Warning: old\\n{"torn\\n')`
  const serve = await start({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(said)}` })
  assert.equal(assertAnswer(await serve.subscribe(apiKey)), 200)
  await serve.program.waitFor(/ended: delivered/)
  const warnings = serve.log().filter(({ level }) => level === 'warn')
  assert.deepEqual(warnings.map(({ msg }) => msg).slice(-2), ['(node:1) Warning: old', '{"torn'])
  await stop(serve)
})

// The last line of a process that was killed while it wrote ended `serve`, with all that it had under way.
test('a torn last line of a process tells nothing, and ends nothing', async () => {
  const torn = `process.stdout.write('{"type":"delivery","status":"delivered","att', () => process.kill(process.pid, 'SIGKILL'))`
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(`${torn};await new Promise(() => setInterval(() => {}, 1e9))`)}`
  const child = startPushProcess('user-0@example.com', { ...house.env, NODE_OPTIONS }, () => {})
  assert.deepEqual(await child.ended, { exitCode: null, outcome: undefined, isFruitless: true })
})

test('a process that takes too long is told to stop, and killed where it does not', async () => {
  const hangs = 'await new Promise(() => setInterval(() => {}, 1e9))'
  const deaf = "process.on('SIGTERM', () => console.error('heard')); console.error('deaf')"
  const run = (script: string) => {
    const lines: string[] = []
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(script)}`
    const limits = { processMs: 1_500, stopMs: 500 }
    const child = startPushProcess(
      'user-0@example.com',
      { ...house.env, NODE_OPTIONS },
      (line) => lines.push(line),
      limits,
    )
    return child.ended.then(({ exitCode }) => ({ exitCode, lines }))
  }
  const [stopped, killed] = await Promise.all([run(hangs), run(`${deaf};${hangs}`)])
  assert.deepEqual([stopped.exitCode, killed.exitCode], [null, null])
  // on a machine that is slow it is stopped before it says so
  if (killed.lines.includes('deaf')) assert.deepEqual(killed.lines, ['deaf', 'heard'])
})

test('more than 4 in line have one process for all', async () => {
  const before = receiver.requests.length
  await opened.pool.query(
    'update users set subscription_owed_at = clock_timestamp() where id in (select id from users order by id limit 5)',
  )
  const serve = await start()
  const ended = () => serve.log().flatMap(({ msg }) => (msg.startsWith('The subscription push') ? [msg] : []))
  await until('they are told', () => ended().length > 0)
  assert.deepEqual(ended(), ['The subscription pushes of a long line ended: 5 delivered.'])
  assert.deepEqual([receiver.requests.length, await countOwed()], [before + 5, 0])
  await stop(serve)
})

test('what serve starts sends nothing where nothing is owed', async () => {
  const before = receiver.requests.length
  const { code, json } = await house.call('push --user user-0@example.com --owed --json')
  assert.deepEqual([code, deliveriesOf(json), receiver.requests.length], [0, [], before])
  assert.equal((await house.call('push --all --owed')).code, 2)
  assert.doesNotMatch((await house.call('push --help')).stdout, /--owed/)
})
