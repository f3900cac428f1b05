/** A long import of users: pushes, `serve` and users whom it does not change do not wait for it, and a kill leaves nothing of it. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { importUsers } from '../../src/users/import.ts'
import { buildHouse, deliveriesOf, makeUsers, zip } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { owe, owed } from '../support/owed.ts'
import { startProgram } from '../support/program.ts'
import { assertAnswer, createKeys, startServe } from '../support/serve.ts'

// The import locked every user of its file until it committed. Pushes waited, took the database for absent and ended with 3, while
// their statements were still carried out later; platforms that subscribed got a 503. Later a push left whom the import changed owed.
test('while an import of all users waits for one of them, pushes go on, also of who is owed one and changes, and subscribing works', async () => {
  const users = makeUsers(1_010)
  const [changed, same] = users.map(({ email }) => email) as [string, string]
  const last = users.at(-1)?.email
  const house = await buildHouse({ users })
  const opened = await house.database.open()
  const [key] = await createKeys(house, [same])

  await opened.pool.query(owe('email = $1'), [changed])
  const holder = await opened.pool.connect()
  await holder.query('begin')
  await holder.query('select from users where email = $1 for update', [last])
  const records = users.map((user) =>
    user.email === changed || user.email === last ? { ...user, receiverApiKey: 'new-key' } : user,
  )
  const importing = importUsers(opened, [writeInput('all-users.ndjson', toLines(records))])
  try {
    const isWaiting = async () =>
      (
        await opened.pool.query(
          "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
      ).rowCount
    for (const endAt = Date.now() + 30_000; !(await isWaiting()); await sleep(20))
      assert.ok(Date.now() < endAt, 'it waits')

    const serve = await startServe(house, { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' })
    after(() => serve.program.kill('SIGKILL'))
    assert.equal(assertAnswer(await serve.subscribe(key?.apiKey ?? '')), 200)
    // else it takes what the pushes below are to send
    serve.program.kill('SIGKILL')
    await serve.program.done
    const pushed = await house.run('push --all --json')
    assert.equal(pushed.code, 0, pushed.stderr)
    const weekly = deliveriesOf(pushed.json).filter(({ kind, status }) => kind === 'weekly' && status === 'delivered')
    assert.equal(weekly.length, users.length)
    await opened.pool.query(owe('email = $1'), [changed])
    const single = await house.run(`push --user ${changed} --json`)
    assert.equal(single.code, 0, single.stderr)
    assert.deepEqual(
      deliveriesOf(single.json).map(({ kind }) => kind),
      ['subscription'],
    )
    assert.equal((await opened.pool.query(`select ${owed} and email = $1`, [changed])).rowCount, 0)
    assert.ok(await isWaiting())
  } finally {
    // the import ends, even after a failure
    await holder.query('commit')
    holder.release()
  }
  assert.equal((await importing).summary.updated, 2)
  const { rows } = await opened.pool.query("select email from users where receiver_key = 'new-key' order by id")
  assert.deepEqual(rows, [{ email: changed }, { email: last }])
})

test('an import that is killed while it writes leaves all users as they were, and the next one brings them in', async () => {
  const [known, fresh] = [makeUsers(1), makeUsers(2_999, 1)]
  const house = await buildHouse({ users: known })
  const { pool } = await house.database.open()
  const state = async () => {
    const { rows } = await pool.query('select u.*, q.* from users u join queries q on q.user_id = u.id order by u.id')
    return rows
  }
  const until = async (condition: string) => {
    for (const endAt = Date.now() + 30_000; ; await sleep(20)) {
      const { rows } = await pool.query(`select ${condition} as holds`)
      if (rows[0].holds) return
      assert.ok(Date.now() < endAt, condition)
    }
  }
  const before = await state()
  assert.equal(before.length, 1)
  const file = writeInput('killed.ndjson', toLines([{ ...known[0], queries: [zip('10001')] }, ...fresh]))
  const holder = await pool.connect()
  await holder.query('begin')
  await holder.query('select from users for update')
  const importing = startProgram(['users', 'import', file], { env: house.env })
  try {
    // the new users are in by then, and the known one is about to change
    await until(`exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
    importing.kill('SIGKILL')
    await importing.done
  } finally {
    await holder.query('commit')
    holder.release()
  }
  await until(
    `not exists (select from pg_stat_activity where datname = current_database() and backend_xid is not null)`,
  )
  assert.deepEqual(await state(), before)
  const again = await house.run(['users', 'import', file, '--json'])
  assert.equal(again.code, 0, again.stderr)
  assert.deepEqual([again.json.at(-1).inserted, again.json.at(-1).updated], [fresh.length, 1])
  assert.equal((await state()).length, 3_000)
})
