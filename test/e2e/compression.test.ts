/** Compressed deliveries of the real program (contract 4.17). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDatabase } from '../support/database.ts'
import { buildLongPush, longPushUsers as users } from '../support/long-push.ts'
import { type ReceivedRequest, requestsAtLeast, type TestReceiver } from '../support/receiver.ts'

const build = async (answer: TestReceiver['answer']) => buildLongPush((await createDatabase()).url, answer)
const isGzip = ({ headers }: ReceivedRequest) => headers['content-encoding'] === 'gzip'
const accepting = { status: 200, headers: { 'Accept-Encoding': 'br;q=0.1, gzip' } }
const again = ['--all', '--force', '--yes']

/** Waits for the end of a push that goes well. */
async function succeed(push: Promise<{ code: number | null; stderr: string }>): Promise<void> {
  const { code, stderr } = await push
  assert.equal(code, 0, stderr)
}

test('auto: compressed after the first Accept-Encoding, also in the next run, until a 415; the second attempt goes out plain', async () => {
  const { receiver, call, opened } = await build(() => 200)
  const runOnce = async (args: string[], answer: TestReceiver['answer'], env = {}) => {
    receiver.requests.length = 0
    receiver.answer = answer
    await succeed(call(args, env))
    for (const { headers, body } of receiver.requests) assert.equal(headers['content-length'], String(body.length))
    return [...receiver.requests]
  }

  const first = await runOnce(['--all'], (_, nth) => (nth < 10 ? 200 : accepting))
  assert.deepEqual(first.slice(0, 10).filter(isGzip), [])
  // those that were recorded before the answer came have their encoding already
  assert.ok(first.slice(20).every(isGzip))
  const { rows } = await opened.pool.query('select sum(bytes)::integer as bytes from deliveries')
  assert.equal(rows[0].bytes, first.reduce((sum, { plain }) => sum + plain.length, 0)) // biome-ignore format: a row

  assert.equal((await runOnce(again, () => 200)).filter(isGzip).length, users)
  assert.deepEqual((await runOnce(again, () => 200, { LEADPUSH_COMPRESS: 'off' })).filter(isGzip), [])

  await runOnce(again, (request) => (isGzip(request) ? 415 : accepting))
  const attempts = receiver.keys()
  assert.equal(attempts.size, users)
  let refused = 0
  for (const [one, two] of attempts.values()) {
    if (one === undefined || !isGzip(one)) continue
    refused++
    assert.ok(two && !isGzip(two) && two.plain.equals(one.plain))
  }
  assert.ok(refused >= 1 && refused <= 12, `${refused} were refused`)
  // what its answers say counts for nothing for a day
  assert.deepEqual((await runOnce(again, () => accepting)).filter(isGzip), [])
  await opened.pool.query(`update receivers set refused_gzip_at = now() - interval '25 hours'`)
  assert.ok((await runOnce(again, () => accepting)).slice(20).every(isGzip))

  const always = await runOnce(again, () => 200, { LEADPUSH_COMPRESS: 'gzip' })
  assert.deepEqual([always.length, always.filter(isGzip).length], [users, users])
})

test('a second attempt after a kill keeps the encoding of the first, even if the setting has changed', async () => {
  const { opened, receiver, push, call, ends } = await build((_, nth) => (nth <= 4 ? 'hang' : 200))
  const killed = push(['--all'], { LEADPUSH_COMPRESS: 'gzip' })
  await requestsAtLeast(receiver, 4)
  killed.kill('SIGKILL')
  await killed.done
  const firsts = receiver.requests.slice(0, 4)
  assert.ok(firsts.every(isGzip))
  await opened.pool.query('update workers set lease_until = now()')
  for (const args of ['--resume', '--all']) await succeed(call([args], { LEADPUSH_COMPRESS: 'off' }))
  assert.deepEqual(await ends(), { delivered: users })
  for (const { key, plain } of firsts) {
    const [, second] = receiver.keys().get(key) ?? []
    assert.ok(second && isGzip(second) && second.plain.equals(plain))
  }
  const fresh = [...receiver.keys().values()].filter(([one]) => one && !isGzip(one))
  assert.ok(fresh.length >= users - 12)
  assert.ok(fresh.every((requests) => requests.length === 1))
})
