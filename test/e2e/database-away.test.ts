/** Commands that start while the database is away (contract 2, `LEADPUSH_DATABASE_AWAY`), and several hosts in `DATABASE_URL`. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { describe, test } from 'node:test'
import { createDatabase } from '../support/database.ts'
import { buildLongPush, longPushUsers, slowly, timesMax } from '../support/long-push.ts'
import { callProgram, startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { listen } from '../support/sockets.ts'
import { startWay } from '../support/way.ts'

const addressOf = (url: string) => new URL(url).host
const readOnly = `options=${encodeURIComponent('-c default_transaction_read_only=on')}`

// more of them at once would be too many processes for the 5 s that a connection may take
describe('side by side', { concurrency: 3 }, () => {
  test('a push that starts while the database is away says at once on what it waits, and serves everybody', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    const { receiver, push } = await buildLongPush(url, () => 200, way.url)
    way.refuse()
    const program = push(['--all'])
    const address = addressOf(way.url).replaceAll('.', '\\.')
    await program.waitFor(
      new RegExp(
        `^warning: The database at ${address} is away \\(.+\\): waiting for it, for 2 minutes at most\\.`,
        'm',
      ),
    )
    way.mend()
    const { code, stderr } = await program.done
    assert.equal(code, 0, stderr)
    assert.match(stderr, /The database answers again: going on\./)
    assert.equal(receiver.keys().size, longPushUsers)
  })

  test('a push goes on when an address that refused connections in the middle of it takes them again', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    const { receiver, push } = await buildLongPush(url, slowly, way.url)
    const program = push(['--all'])
    await requestsAtLeast(receiver, 6)
    way.refuse()
    await program.waitFor(/The database at .* is away/)
    way.mend()
    const { code, stderr } = await program.done
    assert.equal(code, 0, stderr)
    assert.deepEqual([receiver.keys().size, timesMax(receiver)], [longPushUsers, 1])
  })

  test('the other commands that change something wait too, and end with 3 after LEADPUSH_DATABASE_AWAY', async () => {
    const way = await startWay((await createDatabase()).url)
    way.refuse()
    const env = { DATABASE_URL: way.url, LEADPUSH_DATABASE_AWAY: '1s' }
    const input = '{"href":"https://example.com/1","postalCode":"78701"}\n'
    await Promise.all(
      [
        ['trigger'],
        ['migrate'],
        ['prune', '--older-than', '90d'],
        ['leads', 'forget', '--href', 'https://example.com/1'],
        ['leads', 'import', '-'],
        ['users', 'import', '-'],
      ].map(async (args) => {
        const { code, stderr } = await callProgram(args, { env, input })
        assert.equal(code, 3, `${args}: ${stderr}`)
        assert.match(stderr, /^warning: The database at 127\.0\.0\.1:\d+ is away .*for 1 s at most\.\nerror: /)
      }),
    )
  })

  test('a connection that breaks at the start, while the schema is looked at, is made anew', async () => {
    // the server was waited for, and then what it answered next was not
    const { url, open } = await createDatabase()
    await open()
    const way = await startWay(url)
    const env = { DATABASE_URL: way.url }
    const input = '{"href":"https://example.com/1","postalCode":"78701"}\n'
    for (const args of [
      ['leads', 'import', '-'],
      ['leads', 'forget', '--href', 'https://example.com/1'],
    ]) {
      way.loseAnswer('from "schema_migrations"')
      const { code, stderr } = await callProgram(args, { env, input })
      assert.deepEqual([code, way.toLose()], [0, 0], stderr)
      assert.match(stderr, /is away[\s\S]*The database answers again: going on\./)
    }
  })

  test('with LEADPUSH_DATABASE_AWAY=0s, and in commands that only look, nothing is waited for', async () => {
    const way = await startWay((await createDatabase()).url)
    way.refuse()
    for (const [args, away] of [
      [['trigger'], '0s'],
      [['status'], '1h'],
      [['users', 'list'], '1h'],
    ] as const) {
      const { code, stderr } = await callProgram(args, { env: { DATABASE_URL: way.url, LEADPUSH_DATABASE_AWAY: away } })
      assert.equal(code, 3, stderr)
      assert.match(stderr, /^error: The database cannot be used/)
    }
  })

  test('a database without an answer to a connection is asked again, and found when it is back', async () => {
    const { url } = await createDatabase()
    const way = await startWay(url)
    way.swallow({ all: true })
    const program = startProgram(['trigger'], { env: { DATABASE_URL: way.url } })
    await program.waitFor(/is away \(it did not answer for 5 s\): waiting/)
    way.mend()
    const { code, stderr } = await program.done
    assert.equal(code, 0, stderr)
  })

  // It kept its terminal for three seconds, and said nothing.
  test('a command that waits for its database at the start ends at once when it is stopped', async () => {
    const [refusing, silent] = await Promise.all([1, 2].map(async () => startWay((await createDatabase()).url)))
    refusing?.refuse()
    silent?.swallow({ all: true })
    const commands = [
      [['push', '--all'], 'SIGINT', 130],
      [['trigger'], 'SIGTERM', 143],
      [['users', 'import', '-'], 'SIGINT', 130],
      [['migrate'], 'SIGTERM', 143],
    ] as const
    for (const [way, some] of [
      [refusing, commands],
      [silent, commands.slice(0, 2)],
    ] as const) {
      const env = { DATABASE_URL: way?.url, LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1/' }
      await Promise.all(
        some.map(async ([args, signal, expected]) => {
          const program = startProgram(args, { env })
          await program.waitFor(/is away/)
          program.kill(signal)
          const { code, stderr } = await program.done
          assert.equal(code, expected, stderr)
          assert.match(
            stderr,
            new RegExp(`^warning: .*\n${signal}: ended while it waited for the database; nothing was begun.\n$`),
          )
        }),
      )
    }
  })

  test('serve and receiver end with 0 also where they are stopped before they listen', async (t) => {
    // they ended as other commands do, with 143, and what watches over them took that for a failure
    const sockets = net.createServer()
    const silent = await listen(sockets)
    t.after(() => silent.close())
    const env = {
      DATABASE_URL: `postgresql://127.0.0.1:${silent.port}/a`,
      LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1/',
    }
    for (const [command, signal] of [
      ['serve', 'SIGTERM'],
      ['receiver', 'SIGINT'],
    ] as const) {
      const asked = once(sockets, 'connection')
      const program = startProgram([command, '--port', '0'], { env })
      await asked
      program.kill(signal)
      const { code, stdout, stderr } = await program.done
      assert.deepEqual([code, stdout], [0, ''], `${command}: ${stderr}`)
    }
  })

  test('a server that only reads is named at once by commands that write, and looked at by the others', async () => {
    const env = { DATABASE_URL: `${(await createDatabase()).url}?${readOnly}`, LEADPUSH_DATABASE_AWAY: '1s' }
    for (const args of [['trigger'], ['migrate']]) {
      const { code, stderr } = await callProgram(args, { env })
      assert.equal(code, 3, stderr)
      assert.match(stderr, /^warning: The database at .* is away \(it is read-only\)[\s\S]*must lead to the primary/)
    }
    const removing = await callProgram(['users', 'remove', 'nobody@example.com'], { env })
    assert.equal(removing.code, 3, removing.stderr)
    assert.match(removing.stderr, /^error: The database cannot be used: it is read-only/)
    assert.equal((await callProgram(['status'], { env })).code, 0)
    const { code, stdout } = await callProgram(['validate'], { env })
    assert.equal(code, 1)
    assert.match(stdout, /writing {2}problem {2}default_transaction_read_only is on/)
  })

  test('of several hosts the first is taken that can be written to, and a push goes on at the next when that one goes', async () => {
    const { url } = await createDatabase()
    const [away, first, second] = [await startWay(url), await startWay(url), await startWay(url)]
    away.refuse()
    const listed = [away, first, second].map((way) => addressOf(way.url)).join(',')
    const several = first.url.replace(addressOf(first.url), listed)
    const { receiver, push } = await buildLongPush(url, () => ({ status: 200, delayMs: 50 }), several)
    const program = push(['--all'], { LEADPUSH_CONCURRENCY: '2' })
    await program.waitFor(/^Database: .* at 127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+$/m)
    first.refuse()
    const { code, stderr } = await program.done
    assert.equal(code, 0, stderr)
    assert.equal(receiver.keys().size, longPushUsers)
    second.refuse()
    const { code: lost, stderr: said } = await callProgram(['status'], { env: { DATABASE_URL: several } })
    assert.equal(lost, 3)
    assert.equal(said.match(/127\.0\.0\.1:\d+: /g)?.length, 3, said)
  })
})
