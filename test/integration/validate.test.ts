import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { sql } from 'kysely'
import { bodyBytesMax } from '../../src/base/limits.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { countBodyBytes } from '../../src/deliveries/body.ts'
import type { Finding } from '../../src/inspect/finding.ts'
import { isLocalHost, judgeReceiverUrl } from '../../src/inspect/machine/settings.ts'
import { checkDatabase } from '../../src/inspect/validate/database.ts'
import { serialiseLead } from '../../src/leads/lead.ts'
import { importUsers } from '../../src/users/import.ts'
import { createDatabase } from '../support/database.ts'
import { addHook } from '../support/hooks.ts'
import { importRecords, listing, toLines } from '../support/import-files.ts'
import { callProgram } from '../support/program.ts'
import { startTestReceiver } from '../support/receiver.ts'

const settings = { allowInsecureHooks: undefined as string | undefined }

async function open(t: TestContext) {
  const database = await createDatabase(t)
  const opened = await database.open()
  return { opened, db: opened.db, url: database.url, run: (statement: string) => opened.pool.query(statement) }
}

async function addUsers(opened: OpenDatabase, users: object[]): Promise<void> {
  const records = users.map((user) => ({ receiverApiKey: 'secret-key', ...user }))
  const stdin = Readable.from([toLines(records)], { objectMode: false })
  const { summary } = await importUsers(opened, ['-'], { stdin })
  assert.deepEqual([summary.read, summary.rejected], [users.length, 0])
}

async function check(opened: OpenDatabase, changed: Partial<typeof settings> = {}) {
  const counts = { users: 0, subscribed: 0, queries: 0, hooks: 0, leads: 0 }
  const findings: Finding[] = []
  for await (const finding of checkDatabase(opened, { ...settings, ...changed }, counts)) findings.push(finding)
  const short = ({ level, where, path }: Finding) => `${level} ${where} ${path}`.trim()
  return { counts, findings, found: findings.map(short) }
}

const austin = { type: 'text', value: 'Austin, TX', radius: 5 }
const zip = { type: 'zipcode', value: '78704', radius: 2.5 }

test('everything that the imports took in is right, and is looked at', async (t) => {
  const { opened, url } = await open(t)
  await addUsers(opened, [
    {
      email: 'A@example.com',
      queries: [austin, zip, { type: 'text', value: 'pool' }, { type: 'text', value: 'pool 78704', radius: 5 }],
    },
    { email: 'b@example.com', subscribed: false },
    { email: 'c@example.com', queries: [{ type: 'zipcode', value: 'K1A 0B1', radius: 100 }] },
  ])
  await importRecords(opened, [
    listing(1),
    listing(2, { price: 5, fullAddress: '1 Main St', description: 'ünïcode 🏡' }),
  ])
  await importRecords(opened, [listing(2, { price: 6, postalCode: '78704-1234' })])
  const { found, counts } = await check(opened)
  assert.deepEqual(found, [])
  assert.deepEqual(counts, { users: 3, subscribed: 2, queries: 5, hooks: 0, leads: 2 })
  const receiver = await startTestReceiver(() => 200)
  t.after(() => receiver.close())
  const env = { DATABASE_URL: url, LEADPUSH_RECEIVER_URL: receiver.url }
  const { code, json } = await callProgram(['validate', '--json'], { env })
  const { notes, checks, ...summary } = json.at(-1)
  assert.deepEqual([code, summary], [0, { type: 'summary', problems: 0, ...counts }])
  assert.deepEqual([json.length - 1, checks > 15], [notes, true])
  const quick = await callProgram(['validate', '--quick', '--json'], { env })
  assert.deepEqual([quick.code, quick.json.at(-1).checks, quick.json.at(-1).users], [0, checks, undefined])
  // people were told of 0 users, who were not looked at
  const told = await callProgram(['validate', '--quick'], { env })
  assert.match(told.stdout, /^checks +\d+\nnotes/m)
  assert.doesNotMatch(told.stdout, /^users/m)
  assert.equal((await callProgram(['validate', '--quick', '-'])).code, 2)
})

test('without LEADPUSH_RECEIVER_URL there is a problem; http: to a host elsewhere, or a query, is a note', async (t) => {
  const { url } = await open(t)
  const found = (receiverUrl: string | undefined) =>
    [...judgeReceiverUrl(receiverUrl)].map(({ level, path }) => `${level} ${path}`)
  assert.deepEqual(found(undefined), ['problem LEADPUSH_RECEIVER_URL'])
  assert.deepEqual(found('http://receiver.example.com/'), ['note LEADPUSH_RECEIVER_URL'])
  assert.deepEqual(found('http://127.0.0.1:8080/'), [])
  assert.deepEqual(found('https://receiver.example.com/leads?tenant=1'), ['note LEADPUSH_RECEIVER_URL'])
  const unset = await callProgram(['validate', '--json'], { env: { DATABASE_URL: url } })
  assert.equal(unset.code, 1)
  const problems = unset.json.filter(({ type }) => type === 'problem')
  assert.deepEqual(
    problems.map(({ where, path }) => [where, path]),
    [['settings', 'LEADPUSH_RECEIVER_URL']],
  )
  const http = await callProgram(['validate', '--json'], {
    env: { DATABASE_URL: url, LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1/?token=hidden' },
  })
  assert.deepEqual(
    http.json.filter(({ type }) => type === 'problem').map(({ code }) => code),
    ['receiver'],
  )
  assert.doesNotMatch(http.stdout + http.stderr, /hidden/)
})

test('a host is local by its address, or by a name that is resolved inside', () => {
  for (const host of ['localhost', '127.0.0.1', '127.9.9.9', '[::1]', '10.1.2.3', '172.16.0.1', '172.31.255.255', '192.168.1.1', '[fd00::1]', 'receiver', 'box.local', 'x.internal']) {
    assert.equal(isLocalHost(host), true, host)
  } // biome-ignore format: a list
  for (const host of ['receiver.example', '128.0.0.1', '172.15.255.255', '172.32.0.1', '192.169.0.1', '8.8.8.8', '[2606:4700::1]', 'local.example.com']) {
    assert.equal(isLocalHost(host), false, host)
  } // biome-ignore format: a list
})

test('a hook whose URL may not be called is a problem, one by one', async (t) => {
  const { opened } = await open(t)
  await addUsers(opened, [{ email: 'a@example.com', queries: [zip] }])
  for (const url of [
    'https://8.8.8.8/a',
    'https://8.8.8.8/b',
    'https://10.0.0.1/c',
    'http://8.8.8.8/d',
    'https://localhost/e',
  ]) {
    await addHook(opened, 'a@example.com', url)
  }
  const { findings, counts } = await check(opened)
  assert.equal(counts.hooks, 5)
  assert.deepEqual(
    findings.map(({ what }) => what.replace(/:.*/, '')),
    Array(3).fill('may not be called'),
  )
  assert.ok(findings.every(({ where, path }) => /^hook [0-9a-f-]{36} of a@example.com$/.test(where) && path === 'url'))
  assert.deepEqual(findings.map(({ what }) => /public|https/.exec(what)?.[0]).sort(), ['https', 'public', 'public'])
  const insecure = await check(opened, { allowInsecureHooks: '1' })
  assert.deepEqual(insecure.found, [])
})

// Bad settings, a schema that is behind and a database that is away ended it before it had told of the rest.
test('bad settings are told with all else, and so are a schema that is behind and a database that does not answer', async (t) => {
  const { url } = await open(t)
  const env = {
    DATABASE_URL: url,
    LEADPUSH_LIMIT_KEY: '0',
    LEADPUSH_TIMEOUT: '1',
    LEADPUSH_X: '1',
    HTTP_PROXY: 'socks5://proxy.example',
  }
  const validate = async (env: Record<string, string>) => {
    const { code, json, stderr } = await callProgram(['validate', '--json'], { env })
    assert.deepEqual([code, stderr], [1, ''])
    return json
      .filter(({ type }) => type !== 'note')
      .map(({ type, code, path, message }) => `${type} ${code ?? ''} ${path || message}`)
  }
  const bad = await validate(env)
  for (const name of ['LEADPUSH_LIMIT_KEY', 'LEADPUSH_TIMEOUT', 'LEADPUSH_X', 'HTTP_PROXY', 'LEADPUSH_RECEIVER_URL'])
    assert.equal(bad.filter((line) => line.includes(name)).length, 1, name)
  assert.ok(bad.some((line) => line === 'skipped left-out the data: settings are wrong'))
  const { url: empty } = await createDatabase(t, { empty: true })
  assert.match(
    (await validate({ DATABASE_URL: empty })).join(),
    /problem schema .*,skipped left-out \d checks? of the database: the schema/,
  )
  const away = await validate({ DATABASE_URL: 'postgresql://leadpush@127.0.0.1:1/leadpush' })
  assert.match(
    away.join(),
    /problem database The connection was refused.*,skipped left-out 9 checks of the database: the database cannot be reached/,
  )
})

test('a valid but unlikely value is a note: it does not change the exit code', async (t) => {
  const { opened, url } = await open(t)
  await addUsers(opened, [
    { email: 'words@example.com', queries: [{ type: 'text', value: 'pool', radius: 0 }, { type: 'text', value: 'barn', radius: 0.5 },
      { type: 'text', value: 'Nowheresville, TX', radius: 3 }] },
    { email: 'nowhere@example.com', queries: [{ type: 'zipcode', value: '00000', radius: 5 }, { type: 'text', value: '00000' }] },
    { email: 'none@example.com' },
  ]) // biome-ignore format: a list
  const { found, findings } = await check(opened)
  assert.deepEqual(found, [
    'note user words@example.com queries[1].radius',
    'note user words@example.com queries[2].value',
    'note user nowhere@example.com queries[0].value',
    'note user nowhere@example.com queries[1].value',
    'note user none@example.com queries',
  ])
  assert.match(findings[0]?.what ?? '', /only passed on/)
  assert.match(findings[1]?.what ?? '', /^looks like a place, but no such place is known/)
  const receiver = await startTestReceiver(() => 200)
  t.after(() => receiver.close())
  const { code, stdout } = await callProgram(['validate'], {
    env: { DATABASE_URL: url, LEADPUSH_RECEIVER_URL: receiver.url },
  })
  assert.equal(code, 0)
  assert.match(stdout, /words@example\.com {2}note [\s\S]*\nproblems\s+0/)
})

test('users that something else wrote are held to the rules, and no key is shown', async (t) => {
  const { opened, run, url } = await open(t)
  const some = { queries: [zip] }
  const names = ['upper', 'address', 'long', 'key', 'hidden']
  await addUsers(
    opened,
    names.map((name) => ({ email: `${name}@example.com`, ...some })),
  )
  await run('alter table users drop constraint users_email_check, drop constraint users_receiver_key_check')
  const set = (name: string, change: string) => run(`update users set ${change} where email = '${name}@example.com'`)
  const long = `${'a'.repeat(243)}@example.com`
  await set('upper', `email = 'Upper@example.com'`)
  await set('address', `email = 'nobody'`)
  await set('long', `email = '${long}'`)
  await set('key', `receiver_key = repeat('k', 51)`)
  await set('hidden', `receiver_key = 'sec ret'`)
  assert.equal(long.length, 255)
  assert.deepEqual(
    (await check(opened)).found.sort(),
    [
      'problem user Upper@example.com email',
      `problem user ${long} email`,
      'problem user hidden@example.com receiverApiKey',
      'problem user key@example.com receiverApiKey',
      'problem user nobody email',
    ].sort(),
  )
  const env = { DATABASE_URL: url, LEADPUSH_RECEIVER_URL: 'https://receiver.example/leads' }
  const { code, stdout, stderr } = await callProgram(['validate', '--json'], { env })
  assert.equal(code, 1)
  assert.doesNotMatch(stdout + stderr, /sec ret|kkkkk/)
})

test('queries that something else wrote are held to the rules', async (t) => {
  const { opened, run } = await open(t)
  const names = ['value', 'radius', 'type', 'empty', 'refused', 'several', 'hash', 'json', 'meaning', 'same']
  await addUsers(
    opened,
    names.map((name) => ({ email: `${name}@example.com`, queries: [zip, austin] })),
  )
  await run(`alter table queries drop constraint queries_value_check, drop constraint queries_radius_check,
    drop constraint queries_type_check, drop constraint queries_user_id_hash_key`)
  const set = (name: string, change: string) =>
    run(
      `update queries set ${change} where position = 1 and user_id = (select id from users where email = '${name}@example.com')`,
    )
  const consistent = (type: string, value: string, radius: string) =>
    `type = '${type}', value = '${value}', radius = ${radius}, hash = '${value}${radius}',
      json = '{"type":"${type}","value":"${value}","radius":${radius}}'`
  await set('value', consistent('text', 'x'.repeat(501), '0'))
  await set('radius', consistent('text', 'pool', '100.5'))
  await set('type', consistent('city', 'pool', '0'))
  await set('empty', consistent('text', '', '0'))
  await set('refused', consistent('text', 'the', '0'))
  await set('several', consistent('zipcode', '78704 10001', '0'))
  await set('hash', `hash = 'other'`)
  await set('json', `json = '{"type":"text","value":"Austin, TX","radius":6}'`)
  await set('meaning', `search_id = (select search_id from queries where position = 0 limit 1)`)
  await set(
    'same',
    `${consistent('text', '78704', '2.5')}, search_id = (select search_id from queries where position = 0 limit 1)`,
  )
  const { found, findings } = await check(opened)
  assert.match(findings[5]?.what ?? '', /^can match nothing: it holds several postal codes/)
  assert.deepEqual(found, [
    'problem user value@example.com queries[1].value',
    'problem user radius@example.com queries[1].radius',
    'problem user type@example.com queries[1].type',
    'problem user empty@example.com queries[1].value',
    'problem user refused@example.com queries[1].value',
    'problem user several@example.com queries[1].value',
    'problem user hash@example.com queries[1]',
    'problem user json@example.com queries[1]',
    'problem user meaning@example.com queries[1]',
    'problem user same@example.com queries[1]',
  ])
})

test('a query with a tab, a line end and a backslash is read as it stands', async (t) => {
  const { opened } = await open(t)
  const odd = { type: 'text', value: 'pool\tgarden\n\\N \\t', radius: 0 }
  await addUsers(opened, [
    { email: 'a@example.com', queries: [odd] },
    { email: 'b@example.com', queries: [zip, odd] },
  ])
  const { found, counts } = await check(opened)
  assert.deepEqual([found, counts.queries], [[], 3])
})

test('a fault of a query is reported for each user who has it', async (t) => {
  const { opened, run } = await open(t)
  const emails = ['a@example.com', 'b@example.com', 'c@example.com']
  await addUsers(
    opened,
    emails.map((email) => ({ email, queries: [austin, zip] })),
  )
  await run(`update queries set hash = 'other' where position = 1 and user_id > (select min(id) from users)`)
  assert.deepEqual((await check(opened)).found, [
    'problem user b@example.com queries[1]',
    'problem user c@example.com queries[1]',
  ])
})

test('more than 1,000 queries are too many for a user', async (t) => {
  const { opened, run } = await open(t)
  const queries = Array.from({ length: 1_000 }, (_, n) => ({ type: 'text', value: `word${n}` }))
  await addUsers(opened, [{ email: 'a@example.com', queries }])
  assert.deepEqual((await check(opened)).found, [])
  await run('alter table queries drop constraint queries_position_check')
  await run(`insert into queries select user_id, 1000, 'text', 'pool', 0, 'pool0', '{"type":"text","value":"pool","radius":0}', search_id
    from queries where position = 0`)
  const { found } = await check(opened)
  assert.deepEqual(found, ['problem user a@example.com queries', 'problem user a@example.com queries[1000]'])
})

test('searches of an older program are told once', async (t) => {
  const { opened, run } = await open(t)
  await addUsers(opened, [{ email: 'a@example.com', queries: [zip, austin] }])
  await run(`update searches set resolver = 0, meaning_sha256 = sha256(meaning_sha256)`)
  const { found, findings } = await check(opened)
  assert.deepEqual(found, ['problem queries'])
  assert.match(findings[0]?.toDo ?? '', /leadpush migrate/)
})

test('no user and no query is lost between two pages', async (t) => {
  const { opened, run } = await open(t)
  await addUsers(opened, [{ email: 'a@example.com', queries: [zip] }])
  await run(
    `insert into users (email, receiver_key, subscribed) select 'user' || n || '@example.com', 'k', false from generate_series(1, 2100) n`,
  )
  // 7 for each of the first page: no page of 4,100 queries ends where a user does
  await run(`insert into queries select u.id, n, 'text', 'pool', n, 'wrong' || n, q.json, q.search_id
    from users u, generate_series(0, 6) n, (select * from queries limit 1) q where u.email like 'user%'`)
  const { counts, found } = await check(opened)
  assert.deepEqual(counts, { users: 2_101, subscribed: 1, queries: 14_701, hooks: 0, leads: 0 })
  const wrong = (n: number) => found.filter((line) => line === `problem user user${n}@example.com queries[6]`).length
  for (const n of [1, 571, 572, 999, 1_000, 1_001, 2_100]) assert.equal(wrong(n), 3, String(n))
})

test('a listing that something else wrote is held to the interface', async (t) => {
  const { opened, run } = await open(t)
  const names = ['price', 'extra', 'missing', 'broken', 'href', 'place', 'city', 'lost', 'unseen', 'gone', 'other']
  await importRecords(
    opened,
    names.map((name) => listing(name)),
  )
  const jsonOf = (name: string) => serialiseLead(listing(name))
  const set = async (name: string, json: string) => {
    await opened.pool.query(
      `update lead_versions set json = $2 where id = (select version_id from leads where href_sha256 = sha256($1::bytea))`,
      [Buffer.from(listing(name).href), json],
    )
    await opened.pool.query(`update leads set json_sha256 = sha256($2::bytea) where href_sha256 = sha256($1::bytea)`, [
      Buffer.from(listing(name).href),
      Buffer.from(json),
    ])
  }
  const where = (name: string) => `href_sha256 = sha256('${listing(name).href}'::bytea)`
  await set('price', jsonOf('price').replace('"price":0', '"price":"0"'))
  await set('extra', jsonOf('extra').replace('"price":0', '"price":0,"score":1'))
  await set('missing', jsonOf('missing').replace('"price":0,', ''))
  await set('broken', '{"href":')
  await set('href', jsonOf('elsewhere'))
  await run(`update leads set postal_key = '10001' where ${where('place')}`)
  await run(`update leads set city_key = 'GA Sandy Springs' where ${where('city')}`)
  await run(`update lead_seen set gone = true where lead_id = (select id from leads where ${where('gone')})`)
  await run(`delete from lead_versions where id = (select version_id from leads where ${where('lost')})`)
  await run(`delete from lead_seen where lead_id = (select id from leads where ${where('unseen')})`)
  await run(
    `update lead_versions set json = json || ' ' where id = (select version_id from leads where ${where('other')})`,
  )
  const { found, counts } = await check(opened)
  const number = async (name: string) => {
    const { rows } = await sql<{ id: number }>`select id from leads where ${sql.raw(where(name))}`.execute(opened.db)
    return `lead number ${rows[0]?.id}`
  }
  const expected = [
    `problem lead ${listing('price').href} price`,
    `problem lead ${listing('extra').href} score`,
    `problem lead ${listing('missing').href} price`,
    `problem ${await number('broken')}`,
    `problem lead ${listing('elsewhere').href} href`,
    `problem lead ${listing('place').href} postalCode`,
    `problem lead ${listing('city').href} city`,
    `problem ${await number('lost')}`,
    `problem lead ${listing('unseen').href}`,
    `problem lead ${listing('gone').href}`,
    `problem lead ${listing('other').href}`,
  ]
  assert.deepEqual(found.sort(), expected.sort())
  assert.equal(counts.leads, names.length)
})

test('a listing is too large when no request has room for it, even beside the shortest query', async (t) => {
  const { opened } = await open(t)
  const room = bodyBytesMax - countBodyBytes(1, '{"type":"text","value":"a","radius":0}'.length, 1, 0)
  const ofBytes = (name: string, bytes: number) => {
    const empty = Buffer.byteLength(serialiseLead(listing(name, { description: '' })))
    return listing(name, { description: 'a'.repeat(bytes - empty) })
  }
  await importRecords(opened, [ofBytes('fits', room - 1), ofBytes('just', room), ofBytes('over', room + 1)])
  const { rows } = await sql<{ bytes: number }>`select bytes from lead_versions order by bytes`.execute(opened.db)
  assert.deepEqual(
    rows.map(({ bytes }) => bytes),
    [room - 1, room, room + 1],
  )
  // each of them fills a page of its own
  const { found, counts } = await check(opened)
  assert.deepEqual(found, [`problem lead ${listing('over').href}`])
  assert.equal(counts.leads, 3)
})

test('no listing is lost between two pages', async (t) => {
  const { opened, run } = await open(t)
  const names = Array.from({ length: 2_001 }, (_, n) => n)
  await importRecords(
    opened,
    names.map((name) => listing(name)),
  )
  await run(`update leads set postal_key = 'X'`)
  const { counts, found } = await check(opened)
  assert.deepEqual([counts.leads, new Set(found).size], [2_001, 2_001])
})

test('a check that is stopped looks at nothing more', async (t) => {
  const { opened } = await open(t)
  await importRecords(opened, [listing(1)])
  await addUsers(opened, [{ email: 'a@example.com' }])
  const stopped = AbortSignal.abort()
  const counts = { users: 0, subscribed: 0, queries: 0, hooks: 0, leads: 0 }
  for await (const _ of checkDatabase(opened, settings, counts, stopped)) assert.fail('nothing is wrong')
  assert.deepEqual(counts, { users: 0, subscribed: 0, queries: 0, hooks: 0, leads: 0 })
})
