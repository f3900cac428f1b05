/** The trigger `price_change` (contract 6.1, 6.3): when it is due, and what a hook gets. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerHook } from '../../src/integrations/hooks.ts'
import { findRunStart } from '../../src/triggers/trigger-store.ts'
import { forgetListings } from '../../src/upkeep/forget/forget.ts'
import { prune } from '../../src/upkeep/prune/prune.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, lookAtAll, noTriggers, passPauses, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const receiver = await startHookReceiver()
after(() => receiver.close())
const day = 86_400_000

const findUserId = async (email: string): Promise<number> =>
  (await opened.pool.query('select id from users where email = $1', [email])).rows[0].id

let used = 10_000
/** A user with one query for a postal code of their own. */
async function addPlace() {
  const postalCode = String(++used)
  const email = `user-${postalCode}@example.com`
  await seedUsers(opened.db, [{ email, subscribed: false, queries: [{ value: postalCode, places: [postalCode] }] }])
  let hooks = 0
  return {
    postalCode,
    email,
    hook: (triggers?: ('new_lead' | 'price_change')[]) => {
      const path = `/${postalCode}-${++hooks}`
      return addHook(opened, email, receiver.url(path), triggers).then(async (hook) => ({
        ...hook,
        path,
        userId: await findUserId(email),
      }))
    },
    /** Imports listings, each with its price. */
    put: (prices: Record<string, number | undefined>, more: object = {}) =>
      seedLeads(
        opened,
        Object.entries(prices).map(([name, price]) => ({
          href: hrefOf(postalCode, name),
          postalCode,
          ...(price !== undefined && { price }),
          ...more,
        })),
      ),
  }
}

const hrefOf = (postalCode: string, name: string) => `https://listings.example.com/${postalCode}/${name}`
/** What a hook got, the oldest first: kind, listing, prices. */
const gotAt = (path: string) =>
  receiver.of(path).map(({ json: { trigger, href, previousPrice, price } }) => {
    const what = `${trigger} ${href.split('/').at(-1)}`
    return trigger === 'price_change' ? `${what} ${previousPrice} ${price}` : what
  })

test('a price that is another than when the hook was registered, or last looked at, is sent once to hooks that asked for it', async () => {
  const place = await addPlace()
  await place.put({ a: 300_000, b: 200_000 })
  const both = await place.hook(['new_lead', 'price_change'])
  const prices = await place.hook(['price_change'])
  const leads = await place.hook()
  await place.put({ a: 290_000, b: 200_000, c: 100_000 })
  const { counts, lines } = await runTrigger(opened)
  assert.deepEqual(counts, { ...noTriggers, due: 4, delivered: 4 })
  assert.deepEqual(gotAt(both.path).sort(), ['new_lead c', 'price_change a 300000 290000'])
  assert.deepEqual(gotAt(prices.path), ['price_change a 300000 290000'])
  assert.deepEqual(gotAt(leads.path), ['new_lead c'])
  assert.deepEqual(lines.map(({ trigger }) => trigger).sort(), ['new_lead', 'new_lead', 'price_change', 'price_change'])

  await place.put({ a: 290_000, c: 110_000 })
  assert.equal((await runTrigger(opened)).counts.delivered, 2)
  assert.deepEqual(gotAt(prices.path).slice(1), ['price_change c 100000 110000'])
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
})

test('several changes between looks are one; changed and back is nothing; each hook knows what it saw', async () => {
  const place = await addPlace()
  await place.put({ a: 100, b: 100 })
  const early = await place.hook(['price_change'])
  await place.put({ a: 110, b: 110 })
  const later = await place.hook(['price_change'])
  await place.put({ a: 120, b: 100 })
  await place.put({ a: 130 })
  await runTrigger(opened)
  assert.deepEqual(gotAt(early.path), ['price_change a 100 130'])
  assert.deepEqual(gotAt(later.path).sort(), ['price_change a 110 130', 'price_change b 110 100'])
})

test('a price that was or is unknown makes nothing due, and a new listing is no change, even where it changes before the look', async () => {
  const place = await addPlace()
  await place.put({ known: undefined, left: 100 })
  const hook = await place.hook(['price_change'])
  await place.put({ known: 100, left: undefined, fresh: 100 })
  await place.put({ known: 120, fresh: 110 })
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  await place.put({ known: 130, left: 90, fresh: 120 })
  await runTrigger(opened)
  assert.deepEqual(gotAt(hook.path).sort(), [
    'price_change fresh 110 120',
    'price_change known 120 130',
    'price_change left 100 90',
  ])
})

test('a price of 0 that a record has is known; the 0 of a listing without a price is not', async () => {
  // every 0 counted as unknown, and a price that fell to 0 or rose from it made nothing due
  const place = await addPlace()
  await place.put({ falls: 100, rises: 0, unknown: undefined, found: undefined })
  await place.put({ found: 0 })
  const hook = await place.hook(['price_change'])
  await place.put({ falls: 0, rises: 100, unknown: 100, found: 100 })
  await runTrigger(opened)
  assert.deepEqual(gotAt(hook.path).sort(), ['price_change falls 100 0', 'price_change found 0 100', 'price_change rises 0 100']) // biome-ignore format: a list
  await place.put({ falls: 90 })
  await runTrigger(opened)
  assert.deepEqual(gotAt(hook.path).slice(3), ['price_change falls 0 90'])
})

test('a listing that matches no query, was not seen for too long or is gone from its sources is not due', async () => {
  const [place, elsewhere] = [await addPlace(), await addPlace()]
  await place.put({ old: 100, gone: 100 })
  await elsewhere.put({ a: 100 })
  const hook = await place.hook(['price_change'])
  await place.put({ old: 110, gone: 110 })
  await elsewhere.put({ a: 110 })
  const update =
    'update lead_seen set seen_at = $2, gone = $3 where lead_id = (select id from leads where href_sha256 = sha256($1))'
  await opened.pool.query(update, [hrefOf(place.postalCode, 'old'), new Date(Date.now() - 31 * day), false])
  await opened.pool.query(update, [hrefOf(place.postalCode, 'gone'), new Date(), true])
  await runTrigger(opened)
  assert.deepEqual(gotAt(hook.path), [])
})

test('the body is flat, with an id and a webhook-id for each change that are those of no other trigger', async () => {
  const place = await addPlace()
  const hook = await place.hook(['new_lead', 'price_change'])
  const other = await place.hook(['price_change'])
  for (const price of [100, 110, 100, 110]) {
    await place.put({ a: price }, { city: 'Austin' })
    await runTrigger(opened)
  }
  const calls = receiver.of(hook.path)
  assert.deepEqual(gotAt(hook.path), [
    'new_lead a',
    'price_change a 100 110',
    'price_change a 110 100',
    'price_change a 100 110',
  ])
  assert.equal(new Set(calls.map(({ json }) => json.id)).size, 4)
  assert.equal(new Set([...calls, ...receiver.of(other.path)].map(({ webhookId }) => webhookId)).size, 7)
  assert.deepEqual(
    receiver.of(other.path).map(({ json }) => json.id),
    calls.slice(1).map(({ json }) => json.id),
  )
  const [lead, change] = calls.map(({ json }) => json)
  assert.deepEqual(Object.keys(change), [
    ...Object.keys(lead).slice(0, 3),
    'previousPrice',
    ...Object.keys(lead).slice(3),
  ])
  assert.equal(change.city, 'Austin')
  assert.equal(change.fullAddress, null)
  assert.ok(change.occurredAt > lead.occurredAt)
})

test('a change that is tried again keeps its id, body and webhook-id, though the price changes and versions are pruned meanwhile', async () => {
  const place = await addPlace()
  await place.put({ a: 100 })
  const hook = await place.hook(['price_change'])
  receiver.answer = ({ path }) => (path === hook.path && receiver.of(hook.path).length === 1 ? 500 : 200)
  await place.put({ a: 110 })
  assert.equal((await runTrigger(opened)).counts.failed, 1)
  await place.put({ a: 120 })
  await opened.pool.query(
    `update lead_versions set superseded_at = now() - interval '100 days' where superseded_at is not null`,
  )
  const stop = new AbortController().signal
  assert.ok((await prune(opened.db, { olderThanMs: 90 * day, maxLeadAgeMs: 30 * day, stop })).versions > 0)
  await passPauses(opened)
  assert.equal((await runTrigger(opened)).counts.delivered, 2)
  const [first, second] = receiver.of(hook.path)
  assert.equal(second?.body, first?.body)
  assert.equal(second?.webhookId, first?.webhookId)
  assert.deepEqual(gotAt(hook.path), ['price_change a 100 110', 'price_change a 100 110', 'price_change a 110 120'])
})

test('a prune takes no change that a hook was not looked at for, and every old one after that', async () => {
  const place = await addPlace()
  await place.put({ a: 100 })
  await runTrigger(opened)
  const hook = await place.hook(['price_change'])
  await place.put({ a: 110 })
  await opened.pool.query(`update imports set started_at = started_at - interval '100 days'`)
  const stop = new AbortController().signal
  const options = { olderThanMs: 90 * day, maxLeadAgeMs: 30 * day, stop }
  await prune(opened.db, options)
  await runTrigger(opened)
  assert.deepEqual(gotAt(hook.path), ['price_change a 100 110'])
  assert.ok((await prune(opened.db, options)).events > 0)
  const { rows } = await opened.pool.query('select from lead_events')
  assert.equal(rows.length, 0)
})

async function look() {
  const { lastImportId: upTo } = await findRunStart(opened.db)
  const { found, dropped } = await lookAtAll(opened, { upTo, maxLeadAgeMs: 30 * day })
  return { found, dropped }
}

test('the 300 newest changes of a run are due to a hook beside 300 new leads; --again sends each dropped one once', async () => {
  const place = await addPlace()
  const prices = (from: number, to: number, price: number) =>
    Object.fromEntries(Array.from({ length: to - from }, (_, n) => [`n${from + n}`, price]))
  await place.put(prices(0, 302, 100))
  const hook = await place.hook(['new_lead', 'price_change'])
  await place.put(prices(0, 302, 110))
  await place.put(prices(302, 603, 100))
  assert.deepEqual(await look(), { found: 600, dropped: 3 })
  // the same listings are dropped again, with another change
  await place.put(prices(0, 302, 120))
  assert.deepEqual(await look(), { found: 300, dropped: 2 })
  const { rowCount } = await opened.pool.query('delete from triggers where hook_id = $1', [hook.id])
  assert.equal(rowCount, 900)
  const again = { hookId: hook.id, sinceMs: undefined }
  assert.deepEqual((await runTrigger(opened, { again })).counts, { ...noTriggers, due: 5, delivered: 5 })
  assert.deepEqual(gotAt(hook.path).sort(), [
    'new_lead n602', 'price_change n300 100 110', 'price_change n300 110 120', 'price_change n301 100 110', 'price_change n301 110 120',
  ]) // biome-ignore format: a list
  assert.deepEqual((await runTrigger(opened, { again })).counts, noTriggers)
  assert.equal(new Set(receiver.of(hook.path).map(({ webhookId }) => webhookId)).size, 5)
})

test('triggers that a switched-off hook misses are kept for --again, both kinds', async () => {
  const place = await addPlace()
  await place.put({ a: 100 })
  const hook = await place.hook(['new_lead', 'price_change'])
  await opened.pool.query('update hooks set off_since = now() where id = $1', [hook.id])
  await place.put({ a: 110, b: 100 })
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  const { rows } = await opened.pool.query('select abandoned::integer from hooks where id = $1', [hook.id])
  assert.deepEqual(rows, [{ abandoned: 2 }])
  await runTrigger(opened, { again: { hookId: hook.id, sinceMs: undefined } })
  assert.deepEqual(gotAt(hook.path).sort(), ['new_lead b', 'price_change a 100 110'])
})

test('triggers of a kind that a hook no longer has end; a new kind counts from the last look', async () => {
  const place = await addPlace()
  await place.put({ a: 100 })
  const hook = await place.hook(['new_lead', 'price_change'])
  const ask = (triggers: ('new_lead' | 'price_change')[]) =>
    registerHook(opened.db, { id: hook.integrationId, userId: hook.userId }, receiver.url(hook.path), triggers)
  receiver.answer = () => 500
  await place.put({ a: 110, b: 100 })
  assert.equal((await look()).found, 2)
  await ask(['new_lead'])
  const { rows } = await opened.pool.query('select kind from triggers where hook_id = $1', [hook.id])
  assert.deepEqual(rows, [{ kind: 'new_lead' }])
  receiver.answer = () => 200
  await runTrigger(opened)
  await place.put({ a: 120 })
  await runTrigger(opened)
  await place.put({ a: 130 })
  await ask(['price_change'])
  await place.put({ a: 140, c: 100 })
  await runTrigger(opened)
  assert.deepEqual(gotAt(hook.path), ['new_lead b', 'price_change a 120 140'])
})

test('an erased listing sends no change, whether it was looked at or not', async () => {
  const place = await addPlace()
  await place.put({ looked: 100, not: 100 })
  const hook = await place.hook(['price_change'])
  receiver.answer = () => 500
  await place.put({ looked: 110 })
  await runTrigger(opened)
  await place.put({ not: 110 })
  for (const name of ['looked', 'not']) {
    await forgetListings(opened, { href: hrefOf(place.postalCode, name) }, { stop: new AbortController().signal })
  }
  receiver.answer = () => 200
  await passPauses(opened)
  assert.deepEqual((await runTrigger(opened)).counts, noTriggers)
  assert.deepEqual(gotAt(hook.path), ['price_change looked 100 110'])
})
