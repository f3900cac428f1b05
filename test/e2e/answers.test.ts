/** What the receiver said, through the program: kept, shown, erased (contract 4.16); `deliveries show`, `preview --diff`, empty successes (4.5). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addHook } from '../support/hooks.ts'
import { buildHouse, deliveriesOf, hrefOf, makeUsers, zip } from '../support/house.ts'
import type { Answer } from '../support/receiver.ts'

const json = { 'content-type': 'application/json' }
const leads = ['a', 'b'].map((name) => ({ href: hrefOf(name), postalCode: '78704', price: 100_000 }))

test('the receiver’s words are shown with the error, kept by attempt, and deleted with user, listing and setting', async () => {
  const answers: Record<string, Answer[]> = {
    'key-0': [
      {
        status: 422,
        headers: json,
        body: '{"title":"Bad lead","errors":[{"detail":"key-0 of joe@example.com: price"}]}',
      },
      { status: 500, headers: { 'content-type': 'text/html' }, body: '<title>Oh no</title>' },
    ],
    'key-1': [{ status: 400, headers: json, body: '{"message":"first"}' }, 200],
    'key-2': [{ status: 400, headers: { ...json, 'content-encoding': 'gzip' }, body: '{"message":"no"}' }, 'drop'],
    'key-3': [200],
  }
  const seen = new Map<string, number>()
  const { call, receiver, database, env } = await buildHouse({
    leads,
    users: makeUsers(4),
    answer: ({ headers }) => {
      const key = String(headers['x-service-api-key'])
      const nth = seen.get(key) ?? 0
      seen.set(key, nth + 1)
      return answers[key]?.[nth] ?? 599
    },
  })
  const pushed = await call('push --all')
  assert.equal(pushed.code, 1, pushed.stderr)
  assert.match(pushed.stdout, /HTTP 500: the receiver is in trouble[\s\S]*It said: Oh no/)
  assert.doesNotMatch(pushed.stdout + pushed.stderr, /joe@|key-\d/)

  const logOf = async (user: number, changes = {}) => {
    const { json } = await call(`status --user user-${user}@example.com --json`, { env: changes })
    return json[0].attemptLog.map(({ httpStatus, answer }: { httpStatus: number; answer: string }) => [
      httpStatus,
      answer,
    ])
  }
  assert.deepEqual(await logOf(0), [[422, 'Bad lead; … of …: price'], [500, 'Oh no']]) // biome-ignore format: short
  assert.deepEqual(await logOf(1), [[400, 'first'], [200, null]]) // biome-ignore format: short
  assert.deepEqual(await logOf(2), [[400, null], [null, null]]) // biome-ignore format: short
  const off = { LEADPUSH_KEEP_ANSWERS: 'off' }
  assert.deepEqual(await logOf(0, off), [[422, null], [500, null]]) // biome-ignore format: short
  assert.match((await call('status --user user-0@example.com')).stdout, /It said: Bad lead; … of …: price/)
  const status = await call('status')
  assert.match(status.stdout, /It said: Oh no/)
  assert.doesNotMatch((await call('status', { env: off })).stdout, /It said/)
  const page = await call('report --out -')
  assert.match(page.stdout, /It said: Oh no/, page.stderr)
  assert.doesNotMatch((await call('report --out -', { env: off })).stdout, /It said/)

  const [{ idempotencyKey: key }] = (await call('status --user user-0@example.com --json')).json
  const shown = await call(['deliveries', 'show', key])
  assert.match(shown.stdout, /user-0@example\.com[\s\S]*failed[\s\S]*It said: Bad lead[\s\S]*It said: Oh no/)
  const line = await call(['deliveries', 'show', key, '--json'])
  assert.deepEqual(
    [line.json[0].status, line.json[0].attemptLog.length, 'recipe' in line.json[0]],
    ['failed', 2, false],
  )
  const body = await call(['deliveries', 'show', key, '--body'])
  assert.equal(body.stdout, receiver.keys().get(key)?.[0]?.body.toString())
  assert.deepEqual(
    [(await call('deliveries show none')).code, (await call(['deliveries', 'show', 'ä\u0001'])).code],
    [2, 2],
  )
  assert.equal((await call(['deliveries', 'show', key, '--body', '--json'])).code, 2)

  const { db, close } = await database.open()
  const kept = async () =>
    (await db.selectFrom('answers').innerJoin('deliveries as d', 'd.idempotency_key', 'answers.idempotency_key')
      .innerJoin('users as u', 'u.id', 'd.user_id').select('u.email').distinct().orderBy('u.email').execute()
    ).map(({ email }) => email) // biome-ignore format: a query
  assert.deepEqual(await kept(), ['user-0@example.com', 'user-1@example.com'])
  assert.equal((await call('users remove user-1@example.com')).code, 0)
  assert.equal((await db.selectFrom('answers').select('answer').execute()).length, 2)
  await call(['leads', 'forget', '--href', hrefOf('a')])
  assert.deepEqual(await db.selectFrom('answers').select('answer').execute(), [])
  const gone = await call(['deliveries', 'show', key, '--body'])
  assert.deepEqual([gone.code, gone.stdout], [1, ''])
  assert.match(gone.stderr, /erased/)
  assert.equal((await call(['deliveries', 'show', key])).code, 0)

  seen.clear()
  const quiet = await call('push --failed --json', { env: { ...off, ...env } })
  assert.equal(deliveriesOf(quiet.json)[0].status, 'failed')
  assert.deepEqual(await db.selectFrom('answers').select('answer').execute(), [])
  seen.clear()
  await call('push --user user-0@example.com')
  assert.equal((await db.selectFrom('answers').select('answer').execute()).length, 2)
  await db
    .updateTable('deliveries')
    .set({ created_at: new Date(0), period: '2020-W01' })
    .execute()
  assert.equal((await call('prune --older-than 30d')).code, 0)
  assert.deepEqual(await db.selectFrom('answers').select('answer').execute(), [])
  await close()
})

test('a hook’s words stand in status, and are deleted with the listing that they were about', async () => {
  const { call, database } = await buildHouse({ leads, users: makeUsers(1) })
  const opened = await database.open()
  const { id } = await addHook(opened, 'user-0@example.com', 'https://hooks.example/abc')
  await opened.pool.query(
    `update hooks set last_at = now() - interval '1 second', last_status = 422, last_error = 'HTTP 422', abandoned_at = now(), abandoned = 1`,
  )
  const lead = 'select $1, id, $2 from leads order by id limit 1'
  await opened.pool.query(`insert into hook_answers (hook_id, lead_id, answer) ${lead}`, [id, 'no such zap'])
  assert.match((await call('status')).stdout, /HTTP 422\s+It said: no such zap/)
  for (const name of ['a', 'b']) assert.equal((await call(['leads', 'forget', '--href', hrefOf(name)])).code, 0)
  assert.deepEqual((await opened.pool.query('select answer from hook_answers')).rows, [])
  await opened.close()
})

test('a 2xx that is a page, or says that it is none, is delivered with a warning', async () => {
  const answers: Record<string, Answer> = {
    'key-0': { status: 200, headers: { 'content-type': 'text/html' }, body: '<title>Log in</title>' },
    'key-1': { status: 200, headers: json, body: '{"success":false}' },
    'key-2': { status: 200, headers: json, body: '{"ok":true}' },
  }
  const { call } = await buildHouse({
    leads,
    users: makeUsers(3),
    answer: ({ headers }) => answers[String(headers['x-service-api-key'])] ?? 599,
  })
  const { code, json: lines } = await call('push --all --json')
  assert.deepEqual([code, lines.at(-1).delivered], [0, 3])
  const warnings = lines.filter(({ type }) => type === 'warning')
  assert.deepEqual(warnings.map(({ user, href }) => [user, href]).sort(), [
    ['user-0@example.com', null],
    ['user-1@example.com', null],
  ])
})

test('preview --diff tells what is new, changed and gone against the last weekly delivery that arrived', async () => {
  const { call, put } = await buildHouse({
    leads: ['same', 'cheaper', 'back', 'goes', 'erased'].map((name) => ({ ...leads[0], href: hrefOf(name) })),
    users: [{ email: 'a@example.com', receiverApiKey: 'key-a', queries: [zip('78704')] }],
  })
  const diff = (...options: string[]) => call(['preview', '--user', 'A@example.com', '--diff', ...options])
  const first = await diff('--json')
  assert.deepEqual(first.json.at(-1), { type: 'diff', user: 'a@example.com', period: first.json.at(-1).period, against: null, new: 5, changed: 0, gone: 0, unchanged: 0 }) // biome-ignore format: a line
  assert.equal((await call('push --all')).code, 0)
  await put('leads', [
    { href: hrefOf('cheaper'), price: 90_000, sqft: 900 },
    { href: hrefOf('back'), price: 90_000 },
    { href: hrefOf('goes'), postalCode: '10001' },
    { href: hrefOf('new'), postalCode: '78704' },
  ])
  await put('leads', [{ href: hrefOf('back'), price: 100_000 }])
  await call(['leads', 'forget', '--href', hrefOf('erased')])
  // what is not weekly is not what it is compared with
  assert.equal((await call('push --user a@example.com')).code, 0)
  const { code, json: lines } = await diff('--json')
  assert.equal(code, 0)
  const { against, period, ...summary } = lines.at(-1)
  assert.deepEqual(lines.slice(0, -1), [
    { type: 'new', href: hrefOf('new') },
    { type: 'changed', href: hrefOf('cheaper'), fields: ['price', 'sqft'] },
    { type: 'gone', href: hrefOf('goes') },
    { type: 'gone', href: null },
  ])
  assert.deepEqual(summary, { type: 'diff', user: 'a@example.com', new: 1, changed: 1, gone: 2, unchanged: 2 })
  assert.deepEqual([against.period, against.idempotencyKeys.length], [period, 1])
  assert.match(
    (await diff()).stdout,
    /new {6}\S+new[\s\S]*changed\s+\S+cheaper\s+price, sqft[\s\S]*1 new, 1 changed, 2 gone, 2 listings unchanged/,
  )
  for (const options of [['--diff'], ['--diff', '--user', 'a@example.com', '--body']])
    assert.equal((await call(['preview', ...options])).code, 2)
})
