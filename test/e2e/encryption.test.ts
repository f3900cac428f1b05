/** Secrets at rest as an operator meets them: `LEADPUSH_SECRET_KEY`, `migrate`, `settings rekey`, and commands with a wrong key. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import type { OpenDatabase } from '../../src/db/open.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, type House, hrefOf, makeUsers, zip } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { startProgram, testHome } from '../support/program.ts'
import { until } from '../support/until.ts'

const makeKey = () => randomBytes(32).toString('base64')
const [first, second, wrong] = [makeKey(), makeKey(), makeKey()]
const withKey = (key: string) => ({ env: { LEADPUSH_SECRET_KEY: key, LEADPUSH_ALLOW_INSECURE_HOOKS: '1' } })
const platform = await startHookReceiver()
after(() => platform.close())

let files = 0
function keyFile(key: string): string {
  const file = join(testHome(), `key-${++files}`)
  writeFileSync(file, `${key}\n`, { mode: 0o600 })
  return file
}

/** Every row of every table, and of these views, as a dump has it. */
async function dump({ pool }: OpenDatabase, views: string[] = []): Promise<string> {
  const { rows } = await pool.query<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'postal_codes'`,
  )
  const texts = await Promise.all(
    [...rows.map(({ name }) => name), ...views].map((name) =>
      pool.query(`select string_agg(t::text, ' ') as all from ${name} t`),
    ),
  )
  return texts.map((text) => text.rows[0].all).join('\n')
}

const formsOf = async ({ pool }: OpenDatabase) =>
  (
    await pool.query(`select count(*) filter (where starts_with(receiver_key, 'sealed:'))::integer as sealed,
      count(distinct split_part(receiver_key, ':', 2)) filter (where length(receiver_key) > 50)::integer as keys,
      count(*)::integer as all from users`)
  ).rows[0]

/** The receiver key of each request. */
const keysSent = (house: House) => house.receiver.requests.map(({ headers }) => headers['x-service-api-key']).sort()

/** A hook whose user is owed no subscription push for it. */
async function addQuietHook(opened: OpenDatabase, email: string, path: string) {
  const hook = await addHook(opened, email, platform.url(path))
  await opened.pool.query('update subscription_pushes set owed_at = null')
  return hook
}

async function build(users: object[] = makeUsers(3)) {
  const house = await buildHouse({
    leads: [{ href: hrefOf('a'), postalCode: '78704' }],
    users,
    database: await createDatabase(),
  })
  return { house, opened: await house.database.open() }
}

test('migrate encrypts what is there; imports, pushes, triggers, rotations and checks go on', async () => {
  const { house, opened } = await build()
  const hook = await addQuietHook(opened, 'user-0@example.com', '/a')
  const migrated = await house.call('migrate --json', withKey(first))
  assert.deepEqual(migrated.json, [{ type: 'migrate', applied: [], receiverKeys: 3, signingSecrets: 1, damaged: 0 }])
  assert.deepEqual((await house.call('migrate --json', withKey(first))).json[0].receiverKeys, 0)

  const same = makeUsers(4)
  const file = writeInput('users.ndjson', toLines([...same.slice(1), { ...same[0], receiverApiKey: 'another-key' }]))
  const imported = await house.call(['users', 'import', file, '--json'], withKey(first))
  const { inserted, updated, unchanged } = imported.json.at(-1)
  assert.deepEqual([inserted, updated, unchanged], [1, 1, 2])
  const csv =
    'email,receiverApiKey,type,value\nuser-1@example.com,key-1,zipcode,78704\nuser-1@example.com,key-1,zipcode,78701\n'
  const lines = await house.call(['users', 'import', writeInput('users.csv', csv), '--json'], withKey(first))
  assert.deepEqual([lines.json.at(-1).updated, lines.json.at(-1).rejected], [1, 0])
  const shared = toLines([{ email: 'twin@example.com', receiverApiKey: 'key-2', queries: [zip('78704')] }])
  const twin = await house.call(['users', 'import', writeInput('twin.ndjson', shared)], withKey(first))
  assert.match(twin.stderr, /2 users share a receiver key .* twin@example\.com and user-2@example\.com/)

  const rotated = await house.call(`integrations rotate ${hook.integrationId} --json`, withKey(first))
  const [{ signingSecret, apiKey }] = rotated.json
  const made = await house.call('integrations create --user user-1@example.com --json', withKey(first))
  // the planner keeps values of columns too
  await opened.pool.query('analyze users, integrations')
  const text = await dump(opened, ['pg_stats'])
  const secrets = [
    'another-key',
    'key-1',
    'key-2',
    'key-3',
    hook.signingSecret,
    signingSecret,
    made.json[0].signingSecret,
  ]
  for (const secret of [...secrets, apiKey, first])
    assert.ok(!text.includes(secret), 'a plain secret is in the database')

  assert.equal((await house.call('push --all --json', withKey(first))).code, 0)
  assert.deepEqual(keysSent(house), ['another-key', 'key-1', 'key-2', 'key-2', 'key-3'])
  const leads = writeInput('new.ndjson', toLines([{ href: hrefOf('new'), postalCode: '78704' }]))
  assert.equal((await house.call(['leads', 'import', leads, '--trigger'], withKey(first))).code, 0)
  const [call] = platform.of('/a')
  for (const secret of [hook.signingSecret, signingSecret]) {
    new Webhook(secret).verify(call?.body ?? '', call?.headers as Record<string, string>)
  }
  assert.equal((await house.call('validate --json', withKey(first))).json.at(-1).problems, 0)
  await opened.close()
})

test('a wrong key, or none, is exit code 2 for commands that need one, and nothing else', async () => {
  const { house, opened } = await build()
  const hook = await addQuietHook(opened, 'user-0@example.com', '/wrong')
  await house.call('migrate', withKey(first))
  const before = await dump(opened)
  const users = writeInput('more.ndjson', toLines(makeUsers(1, 9)))
  const leads = writeInput('leads.ndjson', toLines([{ href: hrefOf('more'), postalCode: '78704' }]))
  for (const command of [
    ['push', '--all'],
    ['push', '--resume'],
    ['users', 'import', users],
    ['users', 'subscribe', 'user-0@example.com'],
    ['leads', 'import', leads, '--trigger'],
    ['integrations', 'create', '--user', 'user-0@example.com'],
    ['integrations', 'rotate', String(hook.integrationId)],
    ['trigger'],
    ['serve', '--port', '0'],
    ['probe', '--user', 'user-0@example.com', '--yes'],
    ['receiver', '--keys', 'users', '--port', '0'],
    ['migrate'],
    ['settings', 'rekey', '--none'],
  ]) {
    const other = await house.call(command, withKey(wrong))
    assert.deepEqual([other.code, other.stdout], [2, ''], command.join(' '))
    // the log of `serve` is JSON
    assert.match(other.stderr, /error.*LEADPUSH_SECRET_KEY: holds another key than the one/)
    assert.ok(!other.stderr.includes(wrong) && !other.stderr.includes(first))
    const none = await house.call(command)
    assert.deepEqual([none.code, none.stdout], [2, ''], command.join(' '))
    assert.match(none.stderr, /error.*LEADPUSH_SECRET_KEY: is not set/)
  }
  assert.equal(await dump(opened), before)
  for (const command of [
    'status',
    'users list',
    'preview',
    'integrations list',
    'users unsubscribe user-2@example.com',
  ]) {
    assert.equal((await house.call(command)).code, 0, command)
    assert.equal((await house.call(command, withKey(wrong))).code, 0, command)
  }
  assert.equal((await house.call(['leads', 'import', leads])).code, 0)
  assert.equal(house.receiver.requests.length, 0)
  const short = await house.call('push --all', withKey(randomBytes(31).toString('base64')))
  assert.match(
    short.stderr,
    /LEADPUSH_SECRET_KEY: holds a value that is not allowed \(and not shown\); allowed: 32 bytes in base64/,
  )
  await opened.close()
})

test('the first import with a key begins encryption, and the settings show only that it is set', async () => {
  const { house, opened } = await build([])
  const file = keyFile(first)
  const env = { LEADPUSH_SECRET_KEY_FILE: file }
  const users = writeInput('users.ndjson', toLines(makeUsers(2)))
  assert.equal((await house.call(['users', 'import', users], { env })).code, 0)
  assert.deepEqual(await formsOf(opened), { sealed: 2, keys: 1, all: 2 })
  const shown = await house.call('settings', { env })
  assert.match(
    shown.stdout,
    new RegExp(`LEADPUSH_SECRET_KEY +set, not shown +environment, LEADPUSH_SECRET_KEY_FILE: ${file}`),
  )
  assert.equal((await house.call('push --all', { env })).code, 0)
  assert.deepEqual(keysSent(house), ['key-0', 'key-1'])
  await opened.close()
})

test('a rekey that is killed in the middle leaves all readable with the new key, and can be continued', async () => {
  const { house, opened } = await build(makeUsers(2_100))
  await house.call('migrate', withKey(first))
  const blocker = await opened.pool.connect()
  await blocker.query('begin')
  await blocker.query(`select from users where email = 'user-2099@example.com' for update`)
  const rekey = ['settings', 'rekey', '--new-key-file', keyFile(second), '--json']
  const killed = startProgram(rekey, { env: { ...house.env, LEADPUSH_SECRET_KEY: first } })
  await until('two pages are encrypted anew', async () => (await formsOf(opened)).keys === 2)
  killed.kill('SIGKILL')
  await killed.done
  await blocker.query('rollback')
  blocker.release()

  assert.match((await house.call('trigger', withKey(first))).stderr, /LEADPUSH_SECRET_KEY: holds another key/)
  assert.equal((await house.call('push --all --limit 5', withKey(second))).code, 0)
  assert.equal((await house.call('push --user user-2099@example.com', withKey(second))).code, 0)
  assert.equal(keysSent(house).filter((key) => /^key-\d+$/.test(String(key))).length, 6)
  assert.ok(keysSent(house).includes('key-2099'))

  const again = await house.call(rekey, withKey(first))
  assert.equal(again.code, 0, again.stderr)
  assert.ok(again.json[0].receiverKeys > 0 && again.json[0].receiverKeys < 2_100)
  assert.deepEqual(await formsOf(opened), { sealed: 2_100, keys: 1, all: 2_100 })
  assert.equal((await opened.pool.query('select from data_keys')).rowCount, 1)

  const back = await house.call('settings rekey --none --json', withKey(second))
  assert.deepEqual(back.json, [{ type: 'rekey', receiverKeys: 2_100, signingSecrets: 0, damaged: 0 }])
  assert.deepEqual(await formsOf(opened), { sealed: 0, keys: 0, all: 2_100 })
  assert.equal((await house.call('push --user user-0@example.com')).code, 0)
  await opened.close()
})

test('a push that began before the key was changed sends no garbage, costs nobody an attempt, and leaves its users free', async () => {
  // it ended with its lease: the next push took its users for those of another process, and all seemed well
  const { house, opened } = await build(makeUsers(40))
  await house.call('migrate', withKey(first))
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  house.receiver.answer = async () => {
    await held
    return 200
  }
  const env = { ...house.env, LEADPUSH_SECRET_KEY: first, LEADPUSH_CONCURRENCY: '2', LEADPUSH_LEASE: '1h' }
  const push = startProgram(['push', '--all'], { env })
  await until('a delivery is under way', () => house.receiver.requests.length > 0)
  const { code } = await house.call(['settings', 'rekey', '--new-key-file', '-'], { ...withKey(first), input: second })
  assert.equal(code, 0)
  release()
  const ended = await push.done
  assert.equal(ended.code, 2, ended.stderr)
  assert.match(ended.stderr, /LEADPUSH_SECRET_KEY: holds another key/)
  house.receiver.answer = () => 200
  const next = await house.call('push --all --json', withKey(second))
  assert.deepEqual([next.code, next.json.at(-1).elsewhere], [0, 0])
  const sent = keysSent(house)
  assert.deepEqual(sent, [...new Set(sent)], 'somebody got two')
  assert.equal(sent.length, 40)
  assert.equal(
    (await opened.pool.query(`select from deliveries where attempts > 1 or status <> 'delivered'`)).rowCount,
    0,
  )
  await opened.close()
})

test('a damaged value stops that user and that hook alone, and is told', async () => {
  const { house, opened } = await build()
  const [bad, good] = [
    await addQuietHook(opened, 'user-0@example.com', '/bad'),
    await addQuietHook(opened, 'user-1@example.com', '/good'),
  ]
  await house.call('migrate', withKey(first))
  // as one who may write to the database would have the leads of user-0 go into the account of user-1
  await opened.pool.query(`update users set receiver_key = (select receiver_key from users where email = 'user-1@example.com')
    where email = 'user-0@example.com'`)
  await opened.pool.query(
    'update integrations set signing_secret = overlay(signing_secret placing $1 from 40) where id = $2',
    ['AAAAAAAA', bad.integrationId],
  )
  const push = await house.call('push --all --json', withKey(first))
  assert.equal(push.code, 1)
  const [failed] = push.json.filter(({ status }) => status === 'failed')
  assert.equal(failed.user, 'user-0@example.com')
  assert.match(failed.error, /the stored receiver key cannot be decrypted/)
  assert.deepEqual(keysSent(house), ['key-1', 'key-2'])
  const leads = writeInput('damaged.ndjson', toLines([{ href: hrefOf('damaged'), postalCode: '78704' }]))
  const sent = await house.call(['leads', 'import', leads, '--trigger', '--json'], withKey(first))
  const outcomes = sent.json.filter(({ type }) => type === 'trigger').map(({ hook, status }) => [hook, status])
  assert.deepEqual(outcomes.sort(), [[bad.id, 'failed'], [good.id, 'delivered']].sort()) // biome-ignore format: a list
  const checked = await house.call('validate --json', withKey(first))
  const problems = checked.json.filter(({ type, path }) => type === 'problem' && path !== 'url')
  assert.deepEqual(problems.map(({ path }) => path), ['receiverApiKey', 'signingSecret']) // biome-ignore format: a list
  const rekeyed = await house.call(['settings', 'rekey', '--new-key-file', keyFile(second)], withKey(first))
  assert.equal(rekeyed.code, 1)
  assert.match(rekeyed.stdout, /2 secrets cannot be decrypted and stayed/)
  await opened.close()
})

test('while a damaged value stays encrypted the key is to be kept; one that counts no more is dropped', async () => {
  // it was told that nothing is encrypted and the key is to be unset, and then every command ended with 2
  const { house, opened } = await build()
  const { integrationId } = await addQuietHook(opened, 'user-0@example.com', '/kept')
  await house.call('migrate', withKey(first))
  await opened.pool.query(`update integrations set signing_secret = overlay(signing_secret placing 'AAAAAAAA' from 40)`)
  const rekey = () => house.call('settings rekey --none', withKey(first))
  const findSecrets = async () =>
    (await house.call('validate --json', withKey(first))).json
      .filter(({ path }) => path === 'signingSecret')
      .map(({ type, where }) => [type, where])
  const where = `integration ${integrationId} of user-0@example.com`
  const kept = await rekey()
  assert.equal(kept.code, 1)
  assert.match(kept.stdout, /1 secret cannot be decrypted and stayed.*\nKeep LEADPUSH_SECRET_KEY until/)
  assert.doesNotMatch(kept.stdout, /Nothing is encrypted|unset/)
  assert.deepEqual(await findSecrets(), [['problem', where]])

  await house.call(`integrations rotate ${integrationId}`, withKey(first))
  assert.deepEqual(await findSecrets(), [['note', where]])
  assert.equal((await rekey()).code, 1)
  await opened.pool.query('update integrations set previous_until = now()')
  assert.deepEqual(await findSecrets(), [])
  const done = await rekey()
  assert.deepEqual([done.code, done.stderr], [0, ''])
  assert.match(done.stdout, /Nothing is encrypted any more: unset LEADPUSH_SECRET_KEY/)
  const { rows } = await opened.pool.query('select previous_signing_secret, previous_until from integrations')
  assert.deepEqual(rows, [{ previous_signing_secret: null, previous_until: null }])
  assert.equal((await house.call('push --all')).code, 0)
  await opened.close()
})

test('validate tells the damaged signing secret of an integration without a hook, and of one with several once', async () => {
  // only secrets of integrations with hooks were looked at, and told for each hook
  const { house, opened } = await build()
  const { integrationId } = await addQuietHook(opened, 'user-0@example.com', '/one')
  const bare = (await house.call('integrations create --user user-1@example.com --json')).json[0].id
  await opened.pool.query(
    `insert into hooks (integration_id, url, url_sha256, looked_import_id)
     select integration_id, url || '2', sha256(url_sha256), looked_import_id from hooks`,
  )
  await house.call('migrate', withKey(first))
  await opened.pool.query(`update integrations set signing_secret = overlay(signing_secret placing 'AAAAAAAA' from 40)`)
  const checked = await house.call('validate --json', withKey(first))
  const problems = checked.json.filter(({ path }) => path === 'signingSecret').map(({ type, where }) => [type, where])
  assert.deepEqual(problems, [
    ['problem', `integration ${integrationId} of user-0@example.com`],
    ['problem', `integration ${bare} of user-1@example.com`],
  ])
  await opened.close()
})

test('rekey refuses what is no key, and both or none of its options', async () => {
  const { house, opened } = await build([])
  for (const [args, said] of [
    [['--new-key-file', keyFile('short')], /--new-key-file: holds a value that is not allowed \(and not shown\)/],
    [['--new-key-file', join(testHome(), 'nowhere')], /--new-key-file: ".*nowhere" cannot be read/],
    [['--new-key-file', keyFile(first), '--none'], /--new-key-file and --none exclude each other/],
    [[], /What shall the secrets be encrypted with\?/],
  ] as const) {
    const { code, stderr } = await house.call(['settings', 'rekey', ...args], withKey(first))
    assert.equal(code, 2)
    assert.match(stderr, said)
  }
  await opened.close()
})
