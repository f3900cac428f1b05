/** Many users at once, and one to look at (contract 3): several e-mails, standard input, CSV, `users show`. */
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { addHook } from '../support/hooks.ts'
import { buildHouse, deliveriesOf, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { startProgram, testHome } from '../support/program.ts'
import { until } from '../support/until.ts'

const leads = [{ href: hrefOf('a'), postalCode: '78704' }]
const unsubscribed = (count: number) => makeUsers(count).map((user) => ({ ...user, subscribed: false }))

test('subscribe takes several users, sends their pushes in one run, and goes on after one that is unknown', async () => {
  const house = await buildHouse({ leads, users: [...unsubscribed(3), ...makeUsers(1, 3)] })
  const given = 'user-0@example.com nobody@example.com USER-1@example.com user-0@example.com user-3@example.com'
  const { code, json, stderr } = await house.call(`users subscribe ${given} --json`)
  assert.equal(code, 1, stderr)
  assert.deepEqual(
    json.filter(({ type }) => type === 'user' || type === 'unknown').map(({ email, was }) => [email, was]),
    [
      ['user-0@example.com', false],
      ['nobody@example.com', undefined],
      ['user-1@example.com', false],
      ['user-0@example.com', true],
      ['user-3@example.com', true],
    ],
  )
  assert.deepEqual(
    deliveriesOf(json)
      .map(({ user, kind, status }) => `${user} ${kind} ${status}`)
      .sort(),
    ['user-0@example.com subscription delivered', 'user-1@example.com subscription delivered'],
  )
  // it once counted one user, however many its lines named
  assert.deepEqual(
    json.filter(({ type }) => type === 'summary').map(({ users }) => users),
    [2],
  )
  assert.deepEqual(json.at(-1), { type: 'users', subscribed: 2, already: 2, unknown: 1 })
  assert.equal(house.receiver.requests.length, 2)
  const rest = await house.call('users subscribe - --json', { input: '\n user-2@example.com \r\n\n' })
  assert.deepEqual([rest.code, rest.json.at(-1).subscribed, house.receiver.requests.length], [0, 1, 3])
  // these runs were called `push --user`
  const { stdout } = await house.call('status')
  assert.equal(stdout.match(/ {3}subscription pushes {3}/g)?.length, 2, stdout)
})

// `users subscribe -` ended the push, and subscribed 200 more
test('after a stop nobody further of a list is begun, and the summary says how many were done', async () => {
  const house = await buildHouse({ leads, users: unsubscribed(2) })
  const stopAfterOne = (command: string) => {
    const signals = new EventEmitter()
    const input = Readable.from(
      (function* () {
        yield 'user-0@example.com\n'
        signals.emit('SIGTERM')
        yield 'user-1@example.com\n'
      })(),
      { objectMode: false, highWaterMark: 1 },
    )
    return house.call(`users ${command} - --json`, { input, signals })
  }
  const subscribed = await stopAfterOne('subscribe')
  assert.deepEqual(
    [subscribed.code, subscribed.json.at(-1)],
    [143, { type: 'users', subscribed: 1, already: 0, unknown: 0 }],
  )
  // what is due stays owed
  assert.deepEqual([house.receiver.requests.length, (await house.call('status --json')).json[0].owed], [0, 1])
  const removed = await stopAfterOne('remove')
  assert.deepEqual([removed.code, removed.json.at(-1)], [143, { type: 'users', removed: 1, unknown: 0 }])
})

test('an e-mail with a NUL is nobody, and the rest of the list is done', async () => {
  // it was a fault of leadpush itself, which ended the list
  const house = await buildHouse({ users: makeUsers(2) })
  const input = 'user-0@example.com\nuser\0@example.com\nuser-1@example.com\n'
  for (const command of ['unsubscribe', 'remove --dry-run', 'remove']) {
    const { code, json, stderr } = await house.call(`users ${command} - --json`, { input })
    assert.equal(code, 1, stderr)
    assert.deepEqual(
      json.filter(({ type }) => type === 'unknown').map(({ email }) => email),
      ['user\0@example.com'],
    )
    assert.equal(json.filter(({ type }) => type === 'user').length, 2)
  }
})

test('a push of several that fails makes the exit code 1, and the others have theirs', async () => {
  const house = await buildHouse({
    leads,
    users: unsubscribed(3),
    answer: ({ headers }) => (headers['x-service-api-key'] === 'key-1' ? 422 : 200),
  })
  const emails = unsubscribed(3).map(({ email }) => email)
  const { code, json } = await house.call(['users', 'subscribe', ...emails, '--json'])
  assert.equal(code, 1)
  assert.deepEqual(
    deliveriesOf(json)
      .map(({ status }) => status)
      .sort(),
    ['delivered', 'delivered', 'failed'],
  )
})

test('unsubscribe and remove take standard input, one e-mail a line; --dry-run removes nobody', async () => {
  const house = await buildHouse({ leads, users: makeUsers(5) })
  const opened = await house.database.open()
  await addHook(opened, 'user-3@example.com', 'http://127.0.0.1:1/hook')
  await opened.close()
  const input = 'USER-0@example.com\nnobody@example.com\n\nuser-1@example.com'
  const some = await house.call('users unsubscribe - --json', { input })
  assert.deepEqual([some.code, some.json.at(-1)], [1, { type: 'users', unsubscribed: 2, already: 0, unknown: 1 }])
  const again = await house.call('users unsubscribe user-0@example.com user-2@example.com')
  assert.deepEqual([again.code, again.stderr], [0, ''])
  assert.match(again.stdout, /user-0@example\.com is unsubscribed already\.\nuser-2@example\.com is unsubscribed\./)

  const dry = await house.call('users remove - user-3@example.com --dry-run --json', { input })
  assert.equal(dry.code, 1)
  const { email, removed, queries, integrations, hooks } = dry.json.at(-2)
  assert.deepEqual([email, removed, queries, integrations, hooks], ['user-3@example.com', false, 1, 1, 1])
  const text = await house.call('users remove user-3@example.com --dry-run')
  assert.match(
    text.stdout,
    /Nothing was removed.*\n\nuser-3@example\.com: the user, 1 query, an owed subscription push, 1 integration with 1 hook\./,
  )
  assert.equal((await house.call('users list --json')).json.length, 5)

  const gone = await house.call('users remove - --json', { input })
  assert.deepEqual([gone.code, gone.json.at(-1)], [1, { type: 'users', removed: 2, unknown: 1 }])
  assert.equal((await house.call('users list --json')).json.length, 3)
})

test('a list that comes through a pipe is done line by line, and a stop ends it while no line comes', async () => {
  const house = await buildHouse({ users: makeUsers(3) })
  const { pool, close } = await house.database.open()
  const subscribed = async () => (await pool.query('select from users where subscribed')).rowCount
  const input = 'user-0@example.com\nuser-1@exam'
  const program = startProgram(['users', 'unsubscribe', '-', '--json'], { env: house.env, input, keepsInput: true })
  await until('the first is done', async () => (await subscribed()) === 2)
  program.child.stdin?.write('ple.com\n')
  await until('the second is done', async () => (await subscribed()) === 1)
  program.kill('SIGTERM')
  const { code, json, stderr } = await program.done
  await close()
  assert.deepEqual([code, json.at(-1)], [143, { type: 'users', unsubscribed: 2, already: 0, unknown: 0 }], stderr)
})

test('with one e-mail a user who does not exist is exit code 2, from standard input 1', async () => {
  const house = await buildHouse()
  for (const command of ['subscribe', 'unsubscribe', 'remove', 'remove --dry-run', 'show']) {
    const { code, stdout, stderr } = await house.call(`users ${command} nobody@example.com`)
    // --dry-run began to tell what would go
    assert.deepEqual([command, code, stdout], [command, 2, ''])
    assert.match(stderr, /There is no user "nobody@example\.com"/)
  }
  const { code } = await house.call('users unsubscribe -', { input: 'nobody@example.com\n' })
  assert.equal(code, 1)
  assert.equal((await house.call('users unsubscribe - -', { input: '' })).code, 2)
  const long = await house.call('users unsubscribe - --json', { input: 'x'.repeat(100_000) })
  assert.deepEqual([long.code, long.json.at(-1).unknown], [1, 1])
})

test('show has queries, subscription, what is owed, deliveries and integrations of a user, and never the key', async () => {
  const secret = 'secret-receiver-key'
  const house = await buildHouse({ leads, users: [{ ...makeUsers(1)[0], receiverApiKey: secret }] })
  const opened = await house.database.open()
  await addHook(opened, 'user-0@example.com', 'https://hooks.example/1')
  const show = async () => (await house.call('users show USER-0@example.com --json')).json
  const [before] = await show()
  assert.deepEqual(
    [before.email, before.subscribed, before.owed, before.servedAt],
    ['user-0@example.com', true, 'subscription', null],
  )
  assert.deepEqual(before.queries, [{ type: 'zipcode', value: '78704', radius: 0 }])
  assert.deepEqual(
    before.integrations.map(({ hooks }: { hooks: { url: string }[] }) => hooks[0]?.url),
    ['https://hooks.example/1'],
  )
  assert.equal((await house.call('push --all')).code, 0)
  assert.equal((await house.call('push --user user-0@example.com')).code, 0)
  // 19 more like it
  await opened.pool.query(`insert into deliveries
    select (jsonb_populate_record(d, jsonb_build_object('idempotency_key', d.idempotency_key || n))).*
    from deliveries d, generate_series(1, 19) n where kind = 'single'`)
  await opened.close()
  const [after, ...more] = await show()
  assert.deepEqual([more, after.owed, after.deliveries.length, after.moreDeliveries], [[], null, 20, true])
  assert.ok(
    after.deliveries.every(
      ({ status, recipe }: { status: string; recipe: unknown }) => status === 'delivered' && recipe === undefined,
    ),
  )
  const text = (await house.call('users show user-0@example.com')).stdout
  assert.match(text, /Last deliveries\n.*delivered {2}single.*\n {2}.*HTTP 200\n/)
  assert.match(text, /\n1 query\n {2}zipcode "78704"\n/)
  assert.equal((await house.call('status --user user-0@example.com')).stdout, text, 'it is one view')
  assert.match(text, /1 integration\n.*\n {4}https:\/\/hooks\.example\/1 {2}no trigger yet/)
  assert.doesNotMatch(text + JSON.stringify(after), /secret/)
})

test('rejected lines of CSV are kept under their header, mended and imported; --complete ends what is owed', async () => {
  const house = await buildHouse({ leads, users: makeUsers(2) })
  const header = 'email,receiverApiKey,subscribed,type,value,radius'
  const bad = ['new@example.com,key-1,yes,zipcode,78704,far', 'new@example.com,,,text,pool,']
  const file = writeInput('crm.csv', [header, bad[0], 'user-1@example.com,,,,,', bad[1], ''].join('\n'))
  const rejects = join(testHome(), 'rejected-users.csv')
  const first = await house.call(`users import ${file} --complete --json --rejects ${rejects}`)
  assert.deepEqual([first.code, first.json.at(-1).rejected, first.json.at(-1).unsubscribed], [1, 1, 1])
  assert.equal(readFileSync(rejects, 'utf8'), `${[header, ...bad].join('\n')}\n`)
  assert.doesNotMatch(first.stdout + first.stderr, /key-1/)
  const mended = writeInput('mended.csv', readFileSync(rejects, 'utf8').replace('far', '5 mi'))
  const second = await house.call(`users import ${mended}`)
  assert.equal(second.code, 0)
  assert.match(second.stderr, /2 users share a receiver key.*: new@example\.com and user-1@example\.com\./)
  assert.doesNotMatch(second.stdout + second.stderr, /key-1/)
  const few = await house.call(
    `users import ${writeInput('few.csv', `${header}\nuser-0@example.com,,,,,\n`)} --complete`,
  )
  assert.equal(few.code, 1)
  assert.match(few.stderr, /Of 2 subscribed users the file has 0, fewer than half: nothing was changed\.\n.*--accept/)
  assert.equal((await house.call(`users import ${file} --accept`)).code, 2)
})

test('if several files together have too few users, none of them is blamed', async () => {
  // the last sentence was "Nothing of this file went in.", about the first
  const house = await buildHouse({ leads, users: makeUsers(6) })
  const files = makeUsers(2).map((user, at) => writeInput(`few-${at}.ndjson`, toLines([user])))
  const { code, stderr } = await house.call(['users', 'import', ...files, '--complete'])
  assert.equal(code, 1)
  assert.match(stderr, /Of 6 subscribed users the files have 2, fewer than half: nothing was changed\.\n/)
  assert.doesNotMatch(stderr, /this file|few-/)
  const cut = writeInput('cut.ndjson', '{"email"')
  const broken = await house.call(['users', 'import', ...files, cut])
  assert.match(broken.stderr, /cut\.ndjson: it breaks off[\s\S]*Nothing of this file went in\.\n/)
})
