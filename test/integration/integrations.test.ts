/** Integrations and their hooks in the database (contract 5.3, 5.4): keys, limits under concurrency, what is owed, what ends. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { openDatabase } from '../../src/db/open.ts'
import { registerHook, removeHooks } from '../../src/integrations/hooks.ts'
import {
  createIntegration,
  type FoundIntegration,
  findIntegrationByKey,
  findIntegrations,
  type ListedIntegration,
  revokeIntegration,
} from '../../src/integrations/integrations.ts'
import { findUser, listUsers, recordSubscription, recordUnsubscription } from '../../src/users/users.ts'
import { createDatabase } from '../support/database.ts'
import { seedUsers } from '../support/seed.ts'
import { startWay } from '../support/way.ts'

const database = await createDatabase()
const opened = await database.open({ connectionsMax: 16 })
let users = 0

async function connect(subscribed = true, email = `user-${++users}@example.com`): Promise<FoundIntegration> {
  if (!(await opened.db.selectFrom('users').select('id').where('email', '=', email).executeTakeFirst())) {
    await seedUsers(opened.db, [{ email, subscribed }])
  }
  const { apiKey } = await createIntegration(opened.db, { email })
  return (await findIntegrationByKey(opened.db, apiKey)) as FoundIntegration
}

async function listed(id: number): Promise<ListedIntegration | undefined> {
  for await (const integration of findIntegrations(opened.db)) if (integration.id === id) return integration
  return undefined
}

const urlOf = (n: number | string) => `https://hooks.example.com/${n}`
const isOwed = async (email: string) => (await findUser(opened.db, email)).owed

test('a key is random or given, found by its hash alone, and kept nowhere else', async () => {
  await seedUsers(opened.db, [{ email: 'keys@example.com' }])
  const made = await createIntegration(opened.db, { email: 'KEYS@example.com' })
  assert.equal(made.user, 'keys@example.com')
  assert.match(made.apiKey, /^lpk_[\w-]{43}$/)
  assert.match(made.signingSecret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  const given = '!a key~taken-over'.replace(' ', '"')
  const taken = await createIntegration(opened.db, { email: 'keys@example.com', apiKey: given })
  assert.equal(taken.apiKey, given)
  assert.notEqual(taken.signingSecret, made.signingSecret)
  assert.equal((await findIntegrationByKey(opened.db, made.apiKey))?.id, made.id)
  assert.deepEqual(await findIntegrationByKey(opened.db, given), { id: taken.id, userId: 1, email: 'keys@example.com' })
  for (const wrong of ['', `${made.apiKey}x`, made.apiKey.toUpperCase(), given.slice(0, -1)]) {
    assert.equal(await findIntegrationByKey(opened.db, wrong), undefined)
  }
  const { rows } = await opened.pool.query('select to_jsonb(i)::text as row from integrations i')
  assert.ok(rows.every(({ row }) => !row.includes(given) && !row.includes(made.apiKey)))
  const digest = createHash('sha256').update(given).digest('hex')
  assert.ok(rows.some(({ row }) => row.includes(digest)))
  const plan = await opened.pool.query(`explain select from integrations where api_key_sha256 = sha256('x')`)
  assert.match(JSON.stringify(plan.rows), /integrations_api_key_sha256_key/)
})

test('keys of the wrong form or of somebody else, and users who do not exist, are refused', async () => {
  const { apiKey } = await createIntegration(opened.db, { email: 'keys@example.com', apiKey: 'x'.repeat(200) })
  await createIntegration(opened.db, { email: 'keys@example.com', apiKey: 'y'.repeat(16) })
  const bad = [
    'y'.repeat(15),
    'x'.repeat(201),
    '',
    'has a space in it',
    'schlüssel-aus-übersee',
    'tab\tin-the-middle-of',
    'line-in-the-end\n',
  ]
  for (const key of bad) {
    await assert.rejects(createIntegration(opened.db, { email: 'keys@example.com', apiKey: key }), (error: Error) => {
      assert.match(error.message, /16 to 200 visible ASCII/)
      return key === '' || !error.message.includes(key)
    })
  }
  await assert.rejects(createIntegration(opened.db, { email: 'keys@example.com', apiKey }), (error: Error) => {
    assert.doesNotMatch(error.message, /xxx/)
    return /exists already/.test(error.message)
  })
  await assert.rejects(createIntegration(opened.db, { email: 'nobody@example.com' }), /There is no user/)
})

test('the same URL again is the same hook, another URL another hook', async () => {
  const integration = await connect()
  const first = await registerHook(opened.db, integration, urlOf('a'))
  assert.ok(typeof first === 'object' && first.isNew && first.owed)
  assert.deepEqual(await registerHook(opened.db, integration, urlOf('a')), {
    hookId: first.hookId,
    isNew: false,
    wasOff: false,
    owed: false,
  })
  // another spelling of a URL counted as another hook, and every lead came twice
  assert.deepEqual(await registerHook(opened.db, integration, 'HTTPS://Hooks.example.com.:443/%61#again'), {
    hookId: first.hookId,
    isNew: false,
    wasOff: false,
    owed: false,
  })
  const second = await registerHook(opened.db, integration, urlOf('A'))
  assert.ok(typeof second === 'object' && second.isNew && !second.owed && second.hookId !== first.hookId)
  const other = await registerHook(opened.db, await connect(), urlOf('a'))
  assert.ok(typeof other === 'object' && other.isNew && other.hookId !== first.hookId)
  const hooks = (await listed(integration.id))?.hooks ?? []
  assert.deepEqual(
    hooks.map(({ id, url, lastStatus, lastAt }) => [id, url, lastStatus, lastAt]),
    [
      [first.hookId, urlOf('a'), null, null],
      [second.hookId, urlOf('A'), null, null],
    ],
  )
})

test('an integration has at most 100 hooks, however many register at once', async () => {
  const integration = await connect()
  const register = (n: number) => registerHook(opened.db, integration, urlOf(n))
  const first = await register(0)
  assert.ok(typeof first === 'object' && first.owed)
  await opened.pool.query(
    `insert into hooks (integration_id, url, url_sha256, triggers, looked_import_id)
    select integration_id, url || n, sha256((url || n)::bytea), triggers, looked_import_id from hooks, generate_series(1, 94) as n where integration_id = $1`,
    [integration.id],
  )
  const many = await Promise.all(Array.from({ length: 10 }, (_, n) => register(100 + (n % 8))))
  assert.equal(many.filter((result) => result !== 'too many' && result !== 'revoked' && result.isNew).length, 5)
  assert.equal(many.filter((result) => typeof result === 'object' && result.owed).length, 0)
  const hooks = (await listed(integration.id))?.hooks ?? []
  assert.equal(hooks.length, 100)
  assert.equal(await register(1_000), 'too many')
  const again = await registerHook(opened.db, integration, hooks[0]?.url ?? '')
  assert.deepEqual(again, { hookId: hooks[0]?.id, isNew: false, wasOff: false, owed: false })
  assert.equal((await removeHooks(opened.db, integration.id, { url: hooks[0]?.url ?? '' })).length, 1)
  assert.equal(typeof (await register(1_000)), 'object')
  assert.equal(await register(1_001), 'too many')
})

test('the first hook owes a subscribed user a push, once, and not within a minute of the last one', async () => {
  const integration = await connect()
  const { email, userId } = integration
  const register = async (url: string) => {
    const registered = await registerHook(opened.db, integration, urlOf(url))
    return typeof registered === 'object' && registered.owed
  }
  assert.equal(await register('a'), true)
  assert.equal(await isOwed(email), true)
  assert.equal(await register('b'), false)
  const begin = (ago: string) =>
    opened.pool.query(
      'update subscription_pushes set owed_at = null, begun_at = now() - $2::interval where user_id = $1',
      [userId, ago],
    )
  await begin('50 seconds')
  await removeHooks(opened.db, integration.id, 'all')
  assert.equal(await register('a'), false)
  assert.equal(await isOwed(email), false)
  // users subscribe has the same rule
  await recordUnsubscription(opened.db, userId)
  assert.deepEqual(await recordSubscription(opened.db, userId), { was: false, owed: false, tooSoon: true })
  await begin('61 seconds')
  assert.equal(await register('b'), false)
  await removeHooks(opened.db, integration.id, 'all')
  assert.equal(await register('b'), true)
  // an owed push keeps its time
  const since = await opened.pool.query('select owed_at from subscription_pushes where user_id = $1', [userId])
  await removeHooks(opened.db, integration.id, 'all')
  assert.equal(await register('b'), true)
  const still = await opened.pool.query('select owed_at from subscription_pushes where user_id = $1', [userId])
  assert.deepEqual(still.rows, since.rows)
})

test('the first hook of a second integration owes one too, a user who is not subscribed none', async () => {
  const first = await connect()
  await registerHook(opened.db, first, urlOf('a'))
  await opened.pool.query('update subscription_pushes set owed_at = null where user_id = $1', [first.userId])
  const second = await connect(true, first.email)
  const registered = await registerHook(opened.db, second, urlOf('a'))
  assert.ok(typeof registered === 'object' && registered.owed)
  const unsubscribed = await connect(false)
  const none = await registerHook(opened.db, unsubscribed, urlOf('a'))
  assert.ok(typeof none === 'object' && none.isNew && !none.owed)
  assert.equal(await isOwed(unsubscribed.email), false)
})

test('hooks are removed by id, by URL or all, and only those of the integration', async () => {
  const [mine, theirs] = [await connect(), await connect()]
  const ids: string[] = []
  for (const name of ['a', 'b', 'c', 'd']) {
    const registered = await registerHook(opened.db, mine, urlOf(name))
    ids.push(typeof registered === 'object' ? registered.hookId : '')
    await registerHook(opened.db, theirs, urlOf(name))
  }
  const remove = (which: Parameters<typeof removeHooks>[2]) => removeHooks(opened.db, mine.id, which)
  const foreign = (await listed(theirs.id))?.hooks[0]?.id ?? ''
  for (const id of [foreign, '', '1', 'null', "'; drop table hooks; --", ids[0]?.slice(1) ?? '', '\0']) {
    assert.deepEqual(await remove({ id }).catch(() => 'refused'), [], JSON.stringify(id))
  }
  assert.deepEqual(await remove({ url: urlOf('z') }), [])
  assert.deepEqual(await remove({ id: ids[0]?.toUpperCase() ?? '' }), [{ id: ids[0], url: urlOf('a') }])
  assert.deepEqual(await remove({ url: 'https://hooks.example.com:443/%62' }), [{ id: ids[1], url: urlOf('b') }])
  assert.equal((await remove('all')).length, 2)
  assert.deepEqual(await remove('all'), [])
  assert.equal((await listed(theirs.id))?.hooks.length, 4)
})

test('a revoked integration ends with its hooks, also while hooks are being registered', async () => {
  const integration = await connect()
  await registerHook(opened.db, integration, urlOf('a'))
  const results = await Promise.all([
    ...Array.from({ length: 10 }, (_, n) => registerHook(opened.db, integration, urlOf(n))),
    revokeIntegration(opened.db, integration.id),
    ...Array.from({ length: 10 }, (_, n) => registerHook(opened.db, integration, urlOf(100 + n))),
  ])
  const revoked = results[10] as Awaited<ReturnType<typeof revokeIntegration>>
  const registered = results.filter((result) => typeof result === 'object' && 'isNew' in result && result.isNew).length
  assert.equal(revoked?.hooks.length, registered + 1)
  assert.equal(revoked?.user, integration.email)
  assert.equal(await listed(integration.id), undefined)
  assert.equal(await registerHook(opened.db, integration, urlOf('b')), 'revoked')
  assert.equal(await revokeIntegration(opened.db, integration.id), undefined)
})

// A broken connection ended these commands at once with exit code 3, some of them half done.
test('a lost answer of the database ends nothing, and nothing is done twice', async () => {
  const way = await startWay(database.url)
  const through = async <T>(asked: string, work: (db: typeof opened.db) => Promise<T>): Promise<T> => {
    way.loseAnswer(asked)
    const { db, close } = await openDatabase({ databaseUrl: way.url, home: '' })
    try {
      return await work(db)
    } finally {
      await close()
      assert.equal(way.toLose(), 0, asked)
    }
  }
  const email = 'broken@example.com'
  await seedUsers(opened.db, [{ email, subscribed: false }])
  const listUser = async (db: typeof opened.db) => {
    for await (const page of listUsers(db)) for (const user of page) if (user.email === email) return user.subscribed
    return undefined
  }
  assert.equal(await through('from users u', listUser), false)
  const { user } = await through('from users u', (db) => findUser(db, email))
  const subscribed = await through('update users', (db) => recordSubscription(db, user.id))
  assert.deepEqual(subscribed, { was: false, owed: true, tooSoon: false })
  await through('update users', (db) => recordUnsubscription(db, user.id))
  assert.equal(await listUser(opened.db), false)

  const made = await through('insert into integrations', (db) => createIntegration(db, { email }))
  assert.equal((await findIntegrationByKey(opened.db, made.apiKey))?.id, made.id)
  const hook = await registerHook(opened.db, { id: made.id, userId: user.id }, urlOf('a'))
  for (const asked of ['from "integrations"', 'from "hooks"']) {
    const found = await through(asked, async (db) => {
      for await (const { id, hooks } of findIntegrations(db)) if (id === made.id) return hooks
      return undefined
    })
    assert.deepEqual(
      found?.map(({ id }) => id),
      [typeof hook === 'object' && hook.hookId],
    )
  }
  const revoked = await through('commit', (db) => revokeIntegration(db, made.id))
  assert.deepEqual([revoked?.user, revoked?.hooks.length], [email, 1])
  assert.equal(await listed(made.id), undefined)
})
