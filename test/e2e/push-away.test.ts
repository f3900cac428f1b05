/** `push` as a process, when its database is away, or answers no more: side by side, since it is a long wait. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type BreakablePostgres, startPostgres } from '../chaos/postgres.ts'
import { createDatabase } from '../support/database.ts'
import { buildLongPush, slowly, timesMax, longPushUsers as users } from '../support/long-push.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { startWay } from '../support/way.ts'

let postgres: BreakablePostgres

before(async () => {
  postgres = await startPostgres()
})
after(() => postgres.leave())

describe('a database that is away', { concurrency: true }, () => {
  test('for more than 30 s ends the push with 3; the next run goes on where it was', async () => {
    const { receiver, push, ends } = await buildLongPush(postgres.url('postgres'), slowly)
    const program = push(['--all'])
    await requestsAtLeast(receiver, 6)
    const away = postgres.kill(33_000)
    const began = performance.now()
    const { code, stderr } = await program.done
    const seconds = (performance.now() - began) / 1_000
    const before = receiver.requests.length
    assert.equal(code, 3, stderr)
    assert.ok(seconds > 29 && seconds < 33, `it gave up after ${seconds} s`)
    // nothing is begun that was not recorded before
    assert.ok(before <= 6 + 2 * 4, `${before} requests`)
    await away
    const next = await push(['--all']).done
    assert.ok(next.code === 0 || next.code === 1, next.stderr)
    assert.equal(receiver.keys().size, users)
    assert.ok(timesMax(receiver) <= 2)
    assert.deepEqual(await ends(), { delivered: users })
  })

  test('for more than 30 s, without a word, ends the push with 3; the next run goes on where it was', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    const { receiver, push, ends } = await buildLongPush(url, slowly, way.url)
    const program = push(['--all'])
    await requestsAtLeast(receiver, 6)
    way.swallow({ all: true })
    const began = performance.now()
    const { code, stderr } = await program.done
    const seconds = (performance.now() - began) / 1_000
    assert.equal(code, 3, stderr)
    assert.match(stderr, /did not answer for 25 s|timeout/)
    assert.ok(seconds > 29 && seconds < 45, `it gave up after ${seconds} s`)
    const next = await push(['--all'], { DATABASE_URL: url }).done
    assert.ok(next.code === 0 || next.code === 1, next.stderr)
    assert.equal(receiver.keys().size, users)
    assert.ok(timesMax(receiver) <= 2)
    assert.deepEqual(await ends(), { delivered: users })
  })

  test('on every connection that there was, without a word, is found again on new ones', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    const { receiver, push, ends } = await buildLongPush(url, slowly, way.url)
    const program = push(['--all'])
    await requestsAtLeast(receiver, 6)
    way.swallow({ all: false })
    const { code, stderr } = await program.done
    assert.equal(code, 0, stderr)
    assert.match(stderr, /The database is away/)
    assert.equal(receiver.keys().size, users)
    assert.ok(timesMax(receiver) <= 2)
    assert.deepEqual(await ends(), { delivered: users })
  })
})
