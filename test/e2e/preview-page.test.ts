import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { findAccessibilityProblems, findOverflow, withoutBrowser, withPage } from '../support/browser.ts'
import { buildHouse, hrefOf, zip } from '../support/house.ts'

const skip = withoutBrowser
const folder = mkdtempSync(join(tmpdir(), 'leadpush-test-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const at = (name: string) => join(folder, name)

const contact = { contactName: 'Not To Be Seen', contactPhone: '202-555-0100', contactEmail: 'owner-1@example.com' }
const hostile = {
  script: `<script>alert(1)</script><img src=x onerror=alert(2)>`,
  word: 'endless'.repeat(60),
  right: '\u202eשלום עולם\u0000'.replace('\0', ''),
  long: `${'1 Long Street, '.repeat(17)}`.slice(0, 250),
}
const lead = (name: string | number, fields: object = {}) => ({ href: hrefOf(name), postalCode: '78704', ...fields })
const hostileLeads = [
  { address: hostile.script, description: hostile.script, city: '"><b>', propertyType: hostile.script },
  { address: hostile.word, description: hostile.word, price: 1e12, ...contact },
  { address: hostile.right, description: hostile.right, contactName: contact.contactName },
  { address: hostile.long, price: 5, bedrooms: 3, bathrooms: 2.5, sqft: 1_450, yearBuilt: 1987 },
].map((fields, n) => lead(`hostile-${n}`, { postalCode: '98101', ...fields }))
const leads = [
  // near, but not in the code that the first query asks for
  lead('near', { postalCode: '78701', address: '2 Pool Street', city: 'Austin', state: 'TX', price: 90_000 }),
  ...Array.from({ length: 310 }, (_, n) => lead(n, { address: `${n} Oak Street`, price: 100_000 + n })),
  lead('far', { postalCode: '00901', address: '9 Calle Sol', city: 'San Juan', state: 'PR' }),
  lead('nowhere', { postalCode: 'SW1A 1AA', address: '10 Pool Street' }),
  ...hostileLeads,
]
const email = 'user@example.com'
const queries = [
  zip('78704'),
  zip('78704', 25),
  { type: 'text', value: 'pool', radius: 0 },
  zip('00901', 5),
  { type: 'text', value: '<script>alert(3)</script>', radius: 0 },
]

// 48 days ago: too old by now
const house = await buildHouse({ places: 'all', leads: [lead('old', { address: '3 Old Street' })] })
const opened = await house.database.open()
await opened.pool.query(`update lead_seen set seen_at = now() - interval '48 days'`)
await opened.close()
await house.put('leads', leads)
await house.put('users', [
  { email, receiverApiKey: 'secret-key', queries },
  { email: 'left@example.com', receiverApiKey: 'key', subscribed: false, queries: [zip('98101'), queries[4]] },
  { email: 'none@example.com', receiverApiKey: 'key', queries: [] },
  {
    email: 'many@example.com',
    receiverApiKey: 'key',
    queries: [zip('10001'), zip('90001'), zip('60601'), zip('33101')],
  },
])

const write = async (user: string, name: string, more = '') => {
  const path = at(name)
  const result = await house.call(`preview --user ${user} --out ${path}${more}`)
  assert.equal(result.code, 0, result.stderr)
  return { ...result, path, text: readFileSync(path, 'utf8') }
}
const textOf = (html: string) =>
  html
    .replace(/^[\s\S]*<body>/, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/\s+/g, ' ')
const listingsOf = (page: Page) => page.locator('section[aria-labelledby=listings] tbody tr:not([hidden]) th')

test('--out wants a user, and a file that can be written, before anything is done', async () => {
  const env = { DATABASE_URL: 'postgresql://127.0.0.1:1/nowhere' }
  const cases: [args: string, error: RegExp][] = [
    [`preview --out ${at('a.html')}`, /--out goes with --user only/],
    [`preview --force --out ${at('a.html')}`, /--out goes with --user only/],
    [`preview --user ${email} --out ${at('a.html')} --body`, /--out and --body exclude each other/],
    [`preview --user ${email} --out - --json`, /--out - and --json exclude each other/],
    [`preview --user ${email} --out ${at('none/a.html')}`, /its folder does not exist/],
  ]
  for (const [args, error] of cases) {
    const { code, stdout, stderr } = await house.call(args, { env })
    assert.deepEqual([code, stdout], [2, ''], args)
    assert.match(stderr, error)
  }
  assert.equal((await house.call(`preview --user nobody@example.com --out ${at('a.html')}`)).code, 2)
  assert.deepEqual(readdirSync(folder), [])
})

test('the page says what would be sent and what not, and why; nothing is sent or written but the page', async () => {
  writeFileSync(at('page.html'), 'what was there before', { mode: 0o644 })
  const { path, text, json } = await write(email, 'page.html', ' --json')
  assert.deepEqual(readdirSync(folder), ['page.html'])
  assert.equal(statSync(path).mode & 0o777, 0o600)
  const without = await house.call(`preview --user ${email} --json`)
  const lines = (all: object[]) => all.map((line) => ({ ...line, seconds: 0 }))
  assert.deepEqual(lines(json), lines(without.json))

  const said = textOf(text)
  const [{ leads: sent, bytes }] = json
  assert.equal(sent, 303)
  assert.match(said, /user@example\.com would get 303 listings in 1 request of \d+\.\d kB\. /)
  assert.ok(said.includes(`1 request of ${(bytes / 1_000).toFixed(1)} kB. `))
  // matches, sent, repeats, too old, cut off
  assert.match(said, /1 78704 310 300 0 1 10 /)
  assert.match(said, /2 78704, 25 miles 311 1 299 1 11 /)
  assert.match(said, /3 pool \(words\) 2 1 1 0 0 /)
  assert.match(said, /4 00901, 5 miles 1 1 0 0 0 /)
  assert.match(said, /sends the same as the weekly delivery of \d{4}-W\d\d, which is owed\. Nothing was sent\./)
  assert.match(said, /2 Pool Street, Austin, TX 78701 \$90,000 2 \d{4}-\d\d-\d\d none/)
  assert.ok(!text.includes('secret-key'))

  const { pool } = await house.database.open()
  const { rows } = await pool.query(
    'select (select count(*) from runs) + (select count(*) from deliveries) + (select count(*) from claims) as n',
  )
  await opened.close()
  assert.deepEqual([Number(rows[0].n), house.receiver.requests.length], [0, 0])
})

test('a user who left, one without queries, and one who was served are told as they are', async () => {
  const { text } = await write('left@example.com', 'left.html')
  const left = textOf(text)
  assert.match(left, /left@example\.com would get 4 listings in 1 request/)
  for (const has of ['name, phone, e-mail', 'name', 'none'])
    assert.match(left, new RegExp(`\\d{4}-\\d\\d-\\d\\d ${has} `))
  for (const secret of Object.values(contact)) assert.ok(!text.includes(secret), secret)
  assert.match(left, /is not subscribed to the lead push: push --all leaves them out/)
  const none = textOf((await write('none@example.com', 'none.html')).text)
  assert.match(none, /none@example\.com would get nothing: there is no query\./)
  const empty = await write('many@example.com', 'empty.html')
  assert.match(textOf(empty.text), /would get an empty request: no query matches a listing/)

  const { stdout } = await house.call(`preview --user ${email} --out -`)
  assert.match(stdout, /^<!doctype html>[\s\S]*<\/html>\n$/)

  const opened = await house.database.open()
  const claim = `insert into claims (scope, email) select 'weekly:' || to_char(now(), 'IYYY-"W"IW'), $1`
  await opened.pool.query(claim, ['many@example.com'])
  await opened.pool.query(
    `insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list,
       recipe, status, attempts, under_way)
     select 'begun', 1, id, '2026-W01', 'single', 1, 2, 1, 7, 100, '', '', 'pending', 1, false from users where email = $1`,
    ['many@example.com'],
  )
  await opened.close()
  const served = textOf((await write('many@example.com', 'empty.html')).text)
  assert.match(served, /A single delivery of 2026-W01, part 1 of 2, begun on .* with 7 listings, has an attempt left/)
  assert.match(served, /weekly delivery of \S+ was begun on .*: push --all sends no other/)
})

test('any text of a listing stays text, and fits a phone', { skip }, async () => {
  for (const colorScheme of ['dark', 'light'] as const) {
    await withPage(at('left.html'), { width: 390, height: 844, colorScheme }, async (page) => {
      assert.equal(await findOverflow(page), 0)
      assert.deepEqual(await findAccessibilityProblems(page), [])
      assert.deepEqual(await listingsOf(page).allInnerTexts(), [
        `${hostile.script}, "><b>, 98101`,
        `${hostile.word.slice(0, 99)}…`,
        `${hostile.right}, 98101`,
        `${hostile.long.slice(0, 99)}…`,
      ])
      assert.equal(await page.locator('table :is(script, img, b)').count(), 0)
      for (const link of await page.locator('table a').all()) {
        assert.match((await link.getAttribute('href')) ?? '', /^https:\/\/listings\.example/)
        assert.match((await link.getAttribute('rel')) ?? '', /noreferrer/)
      }
    })
  }
})

test('listings are searched, and queries sorted', { skip }, async () => {
  await withPage(at('page.html'), {}, async (page) => {
    const listings = listingsOf(page)
    const search = page.getByRole('searchbox', { name: /Search the listings/i })
    const said = page.locator('output')
    await search.fill('POOL street')
    assert.deepEqual([await listings.count(), await said.innerText()], [2, '2 of 303'])
    await search.fill('')
    assert.deepEqual([await listings.count(), await said.innerText()], [303, ''])

    await page.getByRole('button', { name: 'repeats' }).click()
    assert.match(await page.locator('tbody tr').first().innerText(), /25 miles/)
  })
})

test('without a script, and on paper, all of it is there', { skip }, async () => {
  await withPage(at('page.html'), { withoutScript: true, width: 800 }, async (page) => {
    assert.equal(await listingsOf(page).count(), 303)
    assert.equal(await page.locator('button, input').count(), 0)
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    assert.equal(await findOverflow(page), 0)
  })
})

test('a page has at most 500 listings, and says how many more there are', { skip }, async () => {
  const many = ['10001', '90001'].flatMap((postalCode) =>
    Array.from({ length: 300 }, (_, n) => lead(`${postalCode}-${n}`, { postalCode })),
  )
  await house.put('leads', many)
  const { path, text } = await write('many@example.com', 'many.html')
  const shown = await withPage(path, { width: 390 }, async (page) => {
    assert.equal(await findOverflow(page), 0)
    return await listingsOf(page).count()
  })
  assert.equal(shown, 500)
  assert.match(textOf(text), /These are 500 of 600\..*100 listings more/)
})
