/** Secrets at rest while their key comes, changes and goes beside processes that read and write them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import type { OpenDatabase } from '../../src/db/open.ts'
import { kyselyOn, withTransaction } from '../../src/db/transaction.ts'
import { createIntegration, rotateIntegration } from '../../src/integrations/integrations.ts'
import { receiverKeyOf } from '../../src/secrets/cipher.ts'
import { countStored, sealStored } from '../../src/secrets/seal-stored.ts'
import { changeSecretKey, openVault, plainVault, type Vault } from '../../src/secrets/vault.ts'
import { importUsers } from '../../src/users/import.ts'
import { findReceiverKey, isReceiverKey } from '../../src/users/users.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, runTrigger } from '../support/hooks.ts'
import { toLines } from '../support/import-files.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const [first, second] = [randomBytes(32), randomBytes(32)]
const email = 'user@example.com'

async function open(t: TestContext) {
  const opened = await (await createDatabase(t)).open()
  await seedUsers(opened.db, [{ email, receiverKey: 'the-key' }])
  return opened
}

function put(opened: OpenDatabase, vault: Vault | undefined, receiverApiKey: string) {
  const stdin = Readable.from([toLines([{ email, receiverApiKey }])], { objectMode: false })
  return importUsers(opened, ['-'], { stdin, vault })
}

const isUsage = (words: RegExp) => (error: Error & { code?: string }) =>
  error.code === 'usage' && words.test(error.message)
const begin = (opened: OpenDatabase, secretKey = first) => openVault(opened.db, { secretKey }, { begins: true })

test('processes that begin encryption at once agree on one key', async (t) => {
  const opened = await open(t)
  const vaults = await Promise.all(Array.from({ length: 6 }, () => begin(opened)))
  assert.equal(new Set(vaults.map(({ currentId }) => currentId)).size, 1)
  assert.equal((await opened.pool.query('select from data_keys')).rowCount, 1)
})

test('a process that only reads begins nothing, and reads values that are encrypted later', async (t) => {
  const opened = await open(t)
  const early = await openVault(opened.db, { secretKey: first })
  assert.equal(early.currentId, undefined)
  assert.equal(await findReceiverKey(opened.db, early, email), 'the-key')
  assert.deepEqual(await sealStored(opened, await begin(opened)), { receiverKeys: 1, signingSecrets: 0, damaged: 0 })
  assert.equal(await findReceiverKey(opened.db, early, email), 'the-key')
  await assert.rejects(findReceiverKey(opened.db, plainVault, email), isUsage(/is not set/))
  await assert.rejects(openVault(opened.db, { secretKey: second }), isUsage(/holds another key/))
  assert.deepEqual(await countStored(opened.db), { plain: 0, sealed: 1 })
  const now = await openVault(opened.db, { secretKey: first })
  assert.deepEqual(
    [await isReceiverKey(opened.db, now, 'the-key'), await isReceiverKey(opened.db, now, 'the-kez')],
    [true, false],
  )
})

test('a process that read the key before it was changed writes nothing', async (t) => {
  const opened = await open(t)
  const vault = await begin(opened)
  const { id } = await createIntegration(opened.db, { email, vault })
  await changeSecretKey(opened.db, first, second)
  const changed = isUsage(/was changed meanwhile/)
  await assert.rejects(put(opened, vault, 'another'), changed)
  await assert.rejects(createIntegration(opened.db, { email, vault }), changed)
  await assert.rejects(rotateIntegration(opened.db, id, 0, vault), changed)
  await assert.rejects(sealStored(opened, vault), changed)
  await assert.rejects(put(opened, undefined, 'another'), isUsage(/is not set/))
  await assert.rejects(createIntegration(opened.db, { email }), isUsage(/is not set/))
  const { rows } = await opened.pool.query('select receiver_key from users')
  assert.deepEqual(rows, [{ receiver_key: 'the-key' }])
  // with the new key all that the old one had sealed can be read, before it is encrypted anew and after
  const anew = await openVault(opened.db, { secretKey: second })
  assert.ok(anew.isChanging)
  assert.deepEqual(await sealStored(opened, anew), { receiverKeys: 1, signingSecrets: 1, damaged: 0 })
  assert.equal((await openVault(opened.db, { secretKey: second })).isChanging, false)
  assert.equal((await put(opened, anew, 'the-key')).summary.unchanged, 1)
})

test('a change of the key waits for an import under way, whose users are encrypted anew', async (t) => {
  const opened = await open(t)
  const vault = await begin(opened)
  let changing: Promise<void> = Promise.resolve()
  let isChanged = false
  await withTransaction(opened, async (connection) => {
    const transaction = kyselyOn(connection)
    await vault.hold(transaction)
    changing = changeSecretKey(opened.db, first, second).then(() => {
      isChanged = true
    })
    await until('it waits', async () => {
      const { rowCount } = await opened.pool.query(`select from pg_locks where locktype = 'advisory' and not granted`)
      return rowCount === 1
    })
    assert.equal(isChanged, false)
    const receiver_key = vault.seal('a-new-key', receiverKeyOf(email))
    await transaction.updateTable('users').set({ receiver_key }).where('email', '=', email).execute()
  })
  await changing
  const anew = await openVault(opened.db, { secretKey: second })
  assert.equal((await sealStored(opened, anew)).receiverKeys, 1)
  assert.equal(await findReceiverKey(opened.db, anew, email), 'a-new-key')
  assert.equal((await opened.pool.query('select from data_keys')).rowCount, 1)
})

test('the next process continues decrypting for good, and then a new key can be set', async (t) => {
  const opened = await open(t)
  await sealStored(opened, await begin(opened))
  await changeSecretKey(opened.db, first, undefined)
  // an import meanwhile stores keys as they are
  const vault = await begin(opened)
  assert.equal(vault.currentId, undefined)
  await put(opened, vault, 'another')
  assert.deepEqual(await sealStored(opened, vault), { receiverKeys: 0, signingSecrets: 0, damaged: 0 })
  assert.equal((await opened.pool.query('select from data_keys')).rowCount, 0)
  assert.equal(await findReceiverKey(opened.db, plainVault, email), 'another')
  assert.equal((await sealStored(opened, await begin(opened, second))).receiverKeys, 1)
})

test('a rotation mends a damaged signing secret at once', async (t) => {
  // the damaged one, which still counted beside the new one, stopped the hook until the overlap was over
  const opened = await open(t)
  const platform = await startHookReceiver()
  t.after(() => platform.close())
  const { integrationId } = await addHook(opened, email, platform.url('/a'))
  const vault = await begin(opened)
  await sealStored(opened, vault)
  const damage = `update integrations set signing_secret = overlay(signing_secret placing 'AAAAAAAA' from 40)`
  await opened.pool.query(damage)
  const rotated = await rotateIntegration(opened.db, integrationId, 3_600_000, vault)
  await seedLeads(opened, [{ href: 'https://listings.example/a' }])
  assert.equal((await runTrigger(opened, { vault })).counts.delivered, 1)
  const [call] = platform.calls
  assert.match(String(call?.headers['webhook-signature']), /^v1,\S+$/)
  const { signingSecret } = rotated?.integration ?? assert.fail()
  new Webhook(signingSecret).verify(call?.body ?? '', call?.headers as Record<string, string>)
  // with none that can be decrypted nothing is sent
  await opened.pool.query(damage)
  await seedLeads(opened, [{ href: 'https://listings.example/b' }])
  assert.equal((await runTrigger(opened, { vault })).counts.failed, 1)
  assert.equal(platform.calls.length, 1)
})

test('a trigger run without the key sends nothing and gives up nothing', async (t) => {
  const opened = await open(t)
  const platform = await startHookReceiver()
  t.after(() => platform.close())
  await addHook(opened, email, platform.url('/a'))
  await seedLeads(opened, [{ href: 'https://listings.example/a' }])
  const vault = await begin(opened)
  await sealStored(opened, vault)
  await assert.rejects(runTrigger(opened, { settings: { leaseMs: 1_000 } }), isUsage(/is not set/))
  assert.equal(platform.calls.length, 0)
  const { counts } = await runTrigger(opened, { vault })
  assert.deepEqual([counts.delivered, counts.failed, platform.calls.length], [1, 0, 1])
})
