/** The subscription pushes behind `serve` (contract 5.3, 5.6): owed from the moment the 200 is sent, and sent once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPushProcess } from '../../src/server/push-process.ts'
import { makeGate } from '../support/gate.ts'
import { deliveriesOf, hrefOf } from '../support/house.ts'
import { writeInput } from '../support/import-files.ts'
import { owe } from '../support/owed.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { assertAnswer, createKeys } from '../support/serve.ts'
import { buildSubscriptions } from '../support/subscriptions.ts'
import { until } from '../support/until.ts'

const {
  house,
  receiver,
  opened,
  start,
  stop,
  keyOf,
  subscribe,
  sentTo,
  countOwed,
  countPending,
  untilNothingIsLeft,
  metric,
} = await buildSubscriptions()

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

test('a signal goes to the processes once: attempts under way are finished and recorded, even after serve has gone; the rest stays owed', async () => {
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
    const limits = { processMs: 1_500, stopMs: 2_000 }
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
  await opened.pool.query(owe('id in (select id from users order by id limit 5)'))
  const serve = await start()
  const ended = () => serve.log().flatMap(({ msg }) => (msg.startsWith('The subscription push') ? [msg] : []))
  await until('they are told', () => ended().length > 0)
  assert.deepEqual(ended(), ['The subscription pushes of a long line ended: 5 delivered.'])
  assert.deepEqual([receiver.requests.length, await countOwed()], [before + 5, 0])
  await stop(serve)
})

test('a process of serve sends nothing if nothing is owed', async () => {
  const before = receiver.requests.length
  const { code, json } = await house.call('push --user user-0@example.com --owed --json')
  assert.deepEqual([code, deliveriesOf(json), receiver.requests.length], [0, [], before])
  assert.equal((await house.call('push --all --owed')).code, 2)
  assert.doesNotMatch((await house.call('push --help')).stdout, /--owed/)
})
