/** Integrations through the program (contract 3): keys are shown once, revoking and removing tell the platforms. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after, test } from 'node:test'
import { sendHookRemovals } from '../../src/integrations/hook-http.ts'
import { registerHook } from '../../src/integrations/hooks.ts'
import { findIntegrationByKey } from '../../src/integrations/integrations.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { buildHouse, makeUsers } from '../support/house.ts'
import { cleanEnvironment } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'
import { findClosedPort } from '../support/sockets.ts'
import { startWay } from '../support/way.ts'

const house = await buildHouse({ users: makeUsers(3) })
const opened = await house.database.open()
const platform = await startHookReceiver()
after(() => platform.close())
const insecure = { env: { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' } }

async function register(apiKey: string, ...urls: string[]): Promise<void> {
  const integration = await findIntegrationByKey(opened.db, apiKey)
  assert.ok(integration)
  for (const url of urls) await registerHook(opened.db, integration, url)
}

test('a key and a signing secret are shown once, in both forms; a key that is given is read from standard input', async () => {
  const made = await house.call('integrations create --user USER-0@example.com --json')
  assert.equal(made.code, 0, made.stderr)
  const [{ id, user, apiKey, signingSecret, ...rest }] = made.json
  assert.deepEqual([typeof id, user, rest], ['number', 'user-0@example.com', {}])
  assert.match(apiKey, /^[!-~]{16,200}$/)
  assert.match(signingSecret, /^whsec_[A-Za-z0-9+/]{32,}=*$/)
  const shown = await house.call('integrations create --user user-0@example.com --api-key -', {
    input: 'key-from-elsewhere\n',
  })
  assert.equal(shown.code, 0, shown.stderr)
  assert.match(shown.stdout, /API key +key-from-elsewhere\nsigning secret +whsec_/)
  await register(apiKey, 'https://hooks.example.com/a', 'https://hooks.example.com/b')

  const { stdout, json } = await house.call('integrations list --json')
  assert.deepEqual(
    json.map(({ type, user, hooks }) => [type, user, hooks.length]),
    [
      ['integration', 'user-0@example.com', 2],
      ['integration', 'user-0@example.com', 0],
    ],
  )
  assert.deepEqual(Object.keys(json[0]), ['type', 'id', 'user', 'createdAt', 'hooks'])
  assert.deepEqual(Object.keys(json[0].hooks[0]), [
    'id', 'url', 'triggers', 'createdAt', 'lastStatus', 'lastAt', 'dropped', 'abandoned', 'offSince',
  ]) // biome-ignore format: a list
  const pretty = await house.call('integrations list')
  assert.match(pretty.stdout, /hooks\.example\.com\/a +new_lead +none yet/)
  for (const secret of [apiKey, signingSecret, 'key-from-elsewhere']) {
    assert.ok(!stdout.includes(secret) && !pretty.stdout.includes(secret))
  }
})

test('a user, an integration or a key that is wrong exits with 2, and shows no key', async () => {
  const create = (key: string) =>
    house.call(['integrations', 'create', '--user', 'user-1@example.com', '--api-key', key])
  for (const [key, pattern] of [
    ['k'.repeat(15), /16 to 200/],
    ['k'.repeat(201), /16 to 200/],
    ['with a space in it', /16 to 200/],
    ['key-from-elsewhere', /exists already/],
  ] as const) {
    const { code, stdout, stderr } = await create(key)
    assert.deepEqual([code, stdout], [2, ''], key)
    assert.match(stderr, pattern)
    assert.ok(!stderr.includes(key))
  }
  for (const key of ['k'.repeat(16), 'k'.repeat(200)]) assert.equal((await create(key)).code, 0)
  assert.equal((await house.call('integrations create --user nobody@example.com')).code, 2)
  assert.equal((await house.call('integrations create')).code, 2)
  for (const id of ['999', 'x', '-1', '1;', '']) {
    const { code, stderr } = await house.call(['integrations', 'revoke', '--', id])
    assert.equal(code, 2, id)
    assert.match(stderr, /There is no integration/)
  }
})

test('revoking tells each hook’s platform with one DELETE, and what came of it', async () => {
  const {
    json: [made],
  } = await house.call('integrations create --user user-1@example.com --json')
  const closed = `http://127.0.0.1:${await findClosedPort()}/gone`
  await register(made.apiKey, platform.url('/a?x=1'), platform.url('/b'), closed)
  platform.answer = ({ path }) => (path === '/b' ? 404 : 204)
  const { code, json, stderr } = await house.call(`integrations revoke ${made.id} --json`, insecure)
  assert.equal(code, 0, stderr)
  assert.deepEqual(platform.calls.map(({ method, path }) => `${method} ${path}`).sort(), ['DELETE /a?x=1', 'DELETE /b'])
  assert.match(String(platform.calls[0]?.headers['user-agent']), /^leadpush\//)
  const [{ revoked, user, hooks }] = json
  assert.deepEqual([revoked, user], [true, 'user-1@example.com'])
  const told = Object.fromEntries(hooks.map((hook: { url: string }) => [hook.url, hook]))
  assert.equal(told[platform.url('/a?x=1')].error, null)
  assert.deepEqual([told[platform.url('/b')].httpStatus, told[platform.url('/b')].error], [404, 'HTTP 404'])
  assert.match(told[closed].error, /refused/)
  assert.equal(await findIntegrationByKey(opened.db, made.apiKey), undefined)
})

test('a platform that does not answer is told of as one that was not told', async () => {
  platform.answer = () => 'hang'
  const hook = { id: '1', url: platform.url('/slow') }
  const [told] = await sendHookRemovals({ allowInsecure: true }, [hook], 100)
  assert.match(told?.error ?? '', /in time/)
})

test('removing a user revokes the integrations and tells their platforms, but calls no URL that may not be registered', async () => {
  platform.calls.length = 0
  platform.answer = () => 200
  const {
    json: [first],
  } = await house.call('integrations create --user user-2@example.com --json')
  const {
    json: [second],
  } = await house.call('integrations create --user user-2@example.com --json')
  await register(first.apiKey, platform.url('/a'), platform.url('/b'))
  await register(second.apiKey, platform.url('/c'))
  const { code, stdout } = await house.call('users remove user-2@example.com')
  assert.equal(code, 0)
  assert.equal(stdout.match(/must begin with https:/g)?.length, 3, stdout)
  assert.equal(platform.calls.length, 0)
  const { json } = await house.call('integrations list --json')
  assert.ok(json.every(({ user }) => user !== 'user-2@example.com'))
  const hooks = await opened.pool.query('select count(*) as n from hooks where url like $1', [`${platform.url('')}%`])
  assert.equal(Number(hooks.rows[0].n), 0)

  await house.put('users', makeUsers(1, 2))
  const {
    json: [third],
  } = await house.call('integrations create --user user-2@example.com --json')
  await register(third.apiKey, platform.url('/a'), platform.url('/b'))
  // platforms are told also if the database's answer to the commit is lost
  const way = await startWay(house.database.url)
  way.loseAnswer('commit')
  const removed = await house.call('users remove user-2@example.com --json', {
    env: { ...insecure.env, DATABASE_URL: way.url },
  })
  assert.deepEqual([removed.code, way.toLose()], [0, 0], removed.stderr)
  assert.deepEqual(
    removed.json[0].hooks.map(({ error }: { error: string | null }) => error),
    [null, null],
  )
  assert.deepEqual(
    platform.calls.map(({ method }) => method),
    ['DELETE', 'DELETE'],
  )
})

test('rotate gives a new key and secret; the old key counts until the overlap is over, and ends with a second rotation', async () => {
  const {
    json: [first],
  } = await house.call('integrations create --user user-1@example.com --json')
  const idOf = async (apiKey: string) => (await findIntegrationByKey(opened.db, apiKey))?.id
  const rotated = await house.call(`integrations rotate ${first.id} --json`)
  assert.equal(rotated.code, 0, rotated.stderr)
  const [second, ...more] = rotated.json
  assert.deepEqual([Object.keys(second), more], [['id', 'user', 'apiKey', 'signingSecret'], []])
  assert.deepEqual([second.id, second.user], [first.id, first.user])
  assert.ok(second.apiKey !== first.apiKey && second.signingSecret !== first.signingSecret)
  assert.deepEqual([await idOf(first.apiKey), await idOf(second.apiKey)], [first.id, first.id])
  const { rows } = await opened.pool.query(
    `select extract(epoch from previous_until - now())::integer as seconds from integrations where id = $1`,
    [first.id],
  )
  assert.ok(rows[0].seconds > 86_400 - 60 && rows[0].seconds <= 86_400, `${rows[0].seconds} s`)
  const taking = ['integrations', 'create', '--user', 'user-0@example.com', '--api-key', first.apiKey]
  assert.match((await house.call(taking)).stderr, /exists already/)

  const again = await house.call(['integrations', 'rotate', String(first.id), '--overlap', '1h'])
  const third = /API key +(\S+)/.exec(again.stdout)?.[1] ?? ''
  assert.match(again.stdout, /The old key works until 20[\d-]+T[\d:]+Z/)
  assert.deepEqual(await Promise.all([first.apiKey, second.apiKey, third].map(idOf)), [undefined, first.id, first.id])
  await opened.pool.query('update integrations set previous_until = now() where id = $1', [first.id])
  assert.deepEqual(await Promise.all([second.apiKey, third].map(idOf)), [undefined, first.id])

  const atOnce = await house.call(['integrations', 'rotate', String(first.id), '--overlap', '0s'])
  assert.match(atOnce.stdout, /The old key and the old signing secret have ended/)
  assert.equal(await idOf(third), undefined)
})

test('a rotation of no integration, or with an overlap that is none, exits with 2 and changes nothing', async () => {
  const {
    json: [made],
  } = await house.call('integrations create --user user-1@example.com --json')
  for (const id of ['999', 'x', '']) {
    const { code, stderr } = await house.call(['integrations', 'rotate', '--', id])
    assert.equal(code, 2)
    assert.match(stderr, /There is no integration/)
  }
  for (const overlap of ['366d', '24', '', '-1h']) {
    const { code, stdout, stderr } = await house.call([
      'integrations',
      'rotate',
      String(made.id),
      `--overlap=${overlap}`,
    ])
    assert.deepEqual([code, stdout], [2, ''], overlap)
    assert.match(stderr, /--overlap: holds .*from 0s to 365d/)
  }
  assert.equal((await findIntegrationByKey(opened.db, made.apiKey))?.id, made.id)
  assert.equal((await house.call(['integrations', 'rotate', String(made.id), '--overlap=365d'])).code, 0)
})

test('a key where an id belongs is not shown', async () => {
  // the message about the unknown id had the key in it
  for (const [key, ...args] of [
    ['lpk_0123456789ab', 'integrations', 'revoke', 'lpk_0123456789ab'],
    ['lpk_0123456789ab', 'integrations', 'rotate', 'lpk_0123456789ab'],
    ['1234567890123456', 'integrations', 'revoke', '1234567890123456'],
    ['lpk_0123456789ab', 'trigger', '--again', '--hook', 'lpk_0123456789ab'],
  ] as const) {
    const { code, stdout, stderr } = await house.call(args)
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr, /There is no (integration with this id: an id is a number|hook "lpk_…" \(16 characters\): an id is a UUID, or its first 8 characters or more)\./)
    assert.ok(!stderr.includes(key), stderr)
  }
}) // biome-ignore format: a list

test('a key that cannot be shown is told, with what to do', { skip: !existsSync('/dev/full') }, async () => {
  // the exit code was 0 where the reader had gone, and nothing told that the new key was lost
  const {
    json: [{ id }],
  } = await house.call('integrations create --user user-1@example.com --json')
  for (const command of ['create --user user-1@example.com', `rotate ${id}`]) {
    // a reader that has gone by then
    for (const output of ['> /dev/full', '>&3']) {
      const line = `exec 3> >(true); wait $!; '${process.execPath}' '${findProgram()}' integrations ${command} ${output}`
      const { status, stderr } = spawnSync('bash', ['-c', line], { env: cleanEnvironment(house.env), encoding: 'utf8' })
      assert.equal(status, 1, `${line}: ${stderr}`)
      assert.match(stderr, /^error: Standard output cannot be written .* could not be shown: `leadpush integrations rotate \d+` makes new ones/)
    }
  }
}) // biome-ignore format: a list

test('a rotation is made once, also if the answer of the database is lost', async () => {
  const {
    json: [made],
  } = await house.call('integrations create --user user-1@example.com --json')
  const way = await startWay(house.database.url)
  way.loseAnswer('rotated as')
  const { code, json, stderr } = await house.call(`integrations rotate ${made.id} --json`, {
    env: { DATABASE_URL: way.url },
  })
  assert.deepEqual([code, way.toLose()], [0, 0], stderr)
  for (const key of [made.apiKey, json[0].apiKey]) {
    assert.equal((await findIntegrationByKey(opened.db, key))?.id, made.id)
  }
})
