/** The subscription pushes behind `serve` (contract 5.3, 5.6), where several processes meet, or end before their time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pushChildrenMax } from '../../src/base/limits.ts'
import { makeGate } from '../support/gate.ts'
import { makeUsers } from '../support/house.ts'
import { startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { assertAnswer, createKeys, type Serve } from '../support/serve.ts'
import { buildSubscriptions } from '../support/subscriptions.ts'
import { until } from '../support/until.ts'

const { house, receiver, opened, start, stop, subscribe, sentTo, countPending, untilNothingIsLeft, metric } =
  await buildSubscriptions()

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
  assert.equal(await metric(pair[0], 'leadpush_push_processes'), pushChildrenMax)
  assert.ok((await metric(pair[0], 'leadpush_push_processes_waiting')) > 0)
  assert.ok((await metric(pair[1], 'leadpush_subscription_pushes_owed')) > 0)
  assert.equal(await metric(pair[1], 'leadpush_push_processes'), 1)
  answers.open()
  await requestsAtLeast(receiver, before + 6)
  const ended = 'leadpush_push_processes_ended_total'
  await until('all have ended', async () => (await metric(pair[0], ended)) + (await metric(pair[1], ended)) >= 6)
  receiver.answer = () => 200
  assert.deepEqual([4, 5, 6, 7, 8, 9].map(sentTo), Array(6).fill([1]))
  assert.ok(receiver.peak() <= 3, `${receiver.peak()} at once`)
  // on a machine that stalls for 30 s the other one has looked again, for users who were served by then
  assert.equal(await metric(pair[0], ended), 5)
  for (const serve of pair) await stop(serve)
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
  // a new subscriber makes it look at once
  await subscribe(serve, 20)
  await untilNothingIsLeft()
  assert.deepEqual([17, 18, 19, 20].map(sentTo), [[2], [2], [1], [1]])
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
