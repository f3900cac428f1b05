/** The limits of an erasure (contract 4.19): how much one transaction erases, and how long it waits for what is under way. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eraseWaitMsMax, listingsPerErasureMax } from '../../src/base/limits.ts'
import { databaseLeases, Worker } from '../../src/db/leases.ts'
import { locks } from '../../src/db/locks.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { recordAnswers } from '../../src/deliveries/answers.ts'
import { findErasureCount } from '../../src/deliveries/erasure-count.ts'
import { encodeRecipes } from '../../src/deliveries/recipe.ts'
import { Planner } from '../../src/push/database/planner.ts'
import { type ForgetPhase, forgetListings } from '../../src/upkeep/forget/forget.ts'
import { createDatabase } from '../support/database.ts'
import { addHook } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { until } from '../support/until.ts'

const open = async (t: TestContext) => await (await createDatabase(t)).open()
const hrefOf = (name: string | number) => `https://listings.example/${name}`
const stop = new AbortController().signal

/** Puts listings that have nothing but an `href` into the tables: so small that thousands lie in the stretch that one look reads. */
async function putListings({ pool }: OpenDatabase, name: string, count: number): Promise<void> {
  await pool.query(
    `with import as (insert into imports (file, base_version_id) select 'all', last_value from lead_version_ids returning id),
     listing as (
       insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
       select sha256(convert_to($1 || n, 'UTF8')), '78704', nextval('lead_version_ids'), sha256(''), import.id, ''
       from import, generate_series(1, $2) as n returning id, version_id
     ),
     seen as (insert into lead_seen (lead_id, seen_at) select id, now() from listing)
     insert into lead_versions (id, lead_id, json) select version_id, id,
       '{"href":"' || $1 || row_number() over () || '","postalCode":"","contactName":null,"contactPhone":null,"contactEmail":null}' from listing`,
    [hrefOf(name), count],
  )
}

test(`one transaction erases ${listingsPerErasureMax} listings, and another one the rest`, async (t) => {
  const opened = await open(t)
  // the first look reads few
  await putListings(opened, 'other-', 3_500)
  for (const [count, transactions] of [
    [listingsPerErasureMax, 1],
    [listingsPerErasureMax + 1, 2],
  ] as const) {
    await putListings(opened, `${count}-`, count)
    const phases: ForgetPhase[] = []
    async function* lines() {
      for (let n = 1; n <= count; n++) yield hrefOf(`${count}-${n}`)
    }
    const options = { stop, onPhase: (phase: ForgetPhase) => void phases.push(phase) }
    const { listings } = await forgetListings(opened, { lines, once: true }, options)
    assert.deepEqual([listings, phases.filter((phase) => phase === 'erasing').length], [count, transactions])
  }
})

test('an erasure waits 20 minutes for what another process has in hand, then tells how much that is', async (t) => {
  const opened = await open(t)
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  await seedLeads(opened, [{ href: hrefOf('sent') }])
  const worker = await Worker.start(databaseLeases(opened.db), 3_600_000)
  t.after(() => worker.stop().catch(() => {}))
  const hook = await addHook(opened, 'user@example.com', 'https://hooks.example.com/1')
  await opened.pool.query(
    `insert into triggers (hook_id, version_id, kind, lead_id, occurred_at, due_at, worker_id)
     select $1, version_id, 'new_lead', id, now(), now(), $2 from leads`,
    [hook.id, worker.id],
  )
  let passedMs = 0
  const { now } = performance
  t.mock.method(performance, 'now', () => now.call(performance) + passedMs)
  let waits = 0
  const { underWay } = await forgetListings(
    opened,
    { href: hrefOf('sent') },
    {
      stop,
      onPhase(phase) {
        if (phase !== 'waiting for attempts') return
        waits++
        // a minute before the end, and just after it
        passedMs = waits === 1 ? eraseWaitMsMax - 60_000 : eraseWaitMsMax + 1
      },
    },
  )
  assert.deepEqual([underWay, waits], [1, 2])
})

/** Deliveries of the listing `sent`, which failed; `begin` makes those with the given keys, each with the receiver's words. */
async function sendListing(opened: OpenDatabase) {
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  await seedLeads(opened, [{ href: hrefOf('sent') }, { href: hrefOf('other') }])
  const { rows } = await opened.pool.query('select id from lead_versions order by json desc')
  const recipes = rows.map(({ id }) => encodeRecipes([[{ versionId: id }]]).bytes)
  return async (key: string, status: 'pending' | 'failed', isOther = false) => {
    await opened.pool.query(
      `insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
         status, attempts, under_way)
       select $1, 1, id, '2026-W47', 'single', 1, 1, 1, 1, 100, '', $2, $3, 1, false from users`,
      [key, recipes[isOther ? 1 : 0], status],
    )
    await recordAnswers(opened.db, [{ idempotencyKey: key, attempt: 1, answer: `of ${key}` }])
  }
}

const answersIn = async ({ pool }: OpenDatabase) =>
  (await pool.query('select answer from answers order by 1')).rows.map(({ answer }) => answer)

const isAnyWaiting = async ({ pool }: OpenDatabase, kind: string) =>
  (await pool.query('select from pg_locks where not granted and locktype = $1', [kind])).rows.length > 0

test('an erasure reads the answers of the ledger while pushes begin deliveries', async (t) => {
  // it read them behind the lock that each push needs: with 300,000 of them no push began anything for 42 s
  const opened = await open(t)
  const begin = await sendListing(opened)
  await begin('failed', 'failed')
  const other = await opened.pool.connect()
  await other.query('begin; lock table answers in access exclusive mode')
  const forgetting = forgetListings(opened, { href: hrefOf('sent') }, { stop })
  await until('the erasure reads the answers', () => isAnyWaiting(opened, 'relation'))
  await findErasureCount(opened.db)
  await other.query('commit')
  other.release()
  await forgetting
  assert.deepEqual(await answersIn(opened), [])
})

test('an erasure takes the answers that came while it read them', async (t) => {
  const opened = await open(t)
  const begin = await sendListing(opened)
  await begin('waits', 'pending')
  await begin('other', 'failed', true)
  const push = await opened.pool.connect()
  await push.query(`begin; select pg_advisory_xact_lock_shared(${locks.erasure})`)
  const forgetting = forgetListings(opened, { href: hrefOf('sent') }, { stop })
  await until('the erasure has read the answers', () => isAnyWaiting(opened, 'advisory'))
  await begin('failed', 'failed')
  await push.query('commit')
  push.release()
  await forgetting
  assert.deepEqual(await answersIn(opened), ['of other'])
})

test('a push waits a short time for an erasure, tells that it does, and waits again', async (t) => {
  // it waited without an end and without a word
  const opened = await open(t)
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  const [user] = (await opened.pool.query('select id, email from users')).rows
  const erasure = await opened.pool.connect()
  await erasure.query(`begin; select pg_advisory_xact_lock(${locks.erasure})`)
  let told = 0
  const onErasure = () => {
    if (told++ > 0) erasure.query('commit').then(() => erasure.release())
  }
  const planner = new Planner(opened.db, { seenSince: new Date(), sameHouse: 'each' }, () => '', onErasure)
  const plans = []
  for await (const plan of planner.plan([user])) plans.push(plan)
  assert.deepEqual([plans.length, told], [1, 2])
})

for (const isolation of ['read committed', 'repeatable read', 'serializable']) {
  test(`an erasure ends a delivery that was begun while it waited, where transactions are ${isolation} by default`, async (t) => {
    // it went by what it had seen at its beginning: the delivery stayed, and the next push sent the listing
    const database = await createDatabase(t)
    const name = new URL(database.url).pathname.slice(1)
    const before = await database.open()
    await before.pool.query(`alter database ${name} set default_transaction_isolation = '${isolation}'`)
    await before.close()
    const opened = await database.open()
    const begin = await sendListing(opened)
    const push = await opened.pool.connect()
    await push.query(`begin; select pg_advisory_xact_lock_shared(${locks.erasure})`)
    const forgetting = forgetListings(opened, { href: hrefOf('sent') }, { stop })
    await until('the erasure waits for the push', () => isAnyWaiting(opened, 'advisory'))
    await begin('begun', 'pending')
    await push.query('commit')
    push.release()
    await forgetting
    const { rows } = await opened.pool.query('select status, end_reason from deliveries')
    assert.deepEqual(rows, [{ status: 'failed', end_reason: 'a listing was erased' }])
  })
}
