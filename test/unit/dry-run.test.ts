import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildDryRunPage, clip } from '../../src/inspect/preview-page/build-page.ts'
import type { DryRun } from '../../src/inspect/preview-page/find-dry-run.ts'
import { type DryQuery, shareOut } from '../../src/inspect/preview-page/queries.ts'
import { buildHeadline, describeKind, findAlarms } from '../../src/inspect/preview-page/wording.ts'

const [monday, friday] = [new Date('2026-11-16T07:30:00Z'), new Date('2026-11-20T07:30:00Z')]
const time = (at: Date) => at.toISOString()

const query: DryQuery = {
  ...({ type: 'zipcode', value: '78704', radius: 25, kind: 'place' } as const),
  ...{ matching: 10, hasMore: false, sent: 10, repeats: 0, tooLarge: 0, tooOld: 0 },
}
const run: DryRun = {
  ...({ user: 'user@example.com', subscribed: true, kind: 'single', period: '2026-W47', madeAt: friday } as const),
  ...{ parts: 1, leads: 10, bytes: 9_999, queries: [query], tooLarge: [] },
  ...{ begun: [], servedAt: null, held: null, shown: [] },
}

test('the first query that has a listing brings it; what no request has is too large', () => {
  const delivery = (versionIds: number[]) => ({ contents: versionIds.map((versionId) => ({ versionId })) })
  const { broughtBy, shares } = shareOut({
    queries: [[9, 8, 7], [9, 7, 6, 5], []].map((versionIds) => ({ versionIds })),
    deliveries: [delivery([9, 8]), delivery([6])].map((one) => ({ ...one })),
  })
  assert.deepEqual([...broughtBy], [[9, 0], [8, 0], [6, 1]]) // biome-ignore format: pairs
  assert.deepEqual(shares, [
    { sent: 2, repeats: 0, tooLarge: 1 },
    { sent: 1, repeats: 2, tooLarge: 1 },
    { sent: 0, repeats: 0, tooLarge: 0 },
  ])
})

test('the headline answers what would be sent', () => {
  assert.equal(buildHeadline(run), 'user@example.com would get 10 listings in 1 request of 10.0 kB.')
  assert.match(buildHeadline({ ...run, parts: 2, leads: 1 }), /would get 1 listing in 2 requests, 10\.0 kB together\.$/)
  assert.match(buildHeadline({ ...run, leads: 0 }), /would get an empty request/)
  assert.match(buildHeadline({ ...run, parts: 0, queries: [] }), /would get nothing/)
})

test('it says what else is owed, held back, begun before or too large', () => {
  const kindOf = (more: Partial<DryRun>) => describeKind({ ...run, ...more }, time)
  assert.match(kindOf({}), /further delivery.*the same as the weekly delivery of 2026-W47, which is owed/)
  assert.match(kindOf({ kind: 'subscription' }), /subscription push, which is owed/)
  assert.doesNotMatch(kindOf({ subscribed: false }), /weekly delivery of|--all/)
  assert.match(kindOf({ servedAt: monday }), /was begun on 2026-11-16T07:30/)
  assert.match(kindOf({ held: 'why' }), /owed, and held back/)

  assert.deepEqual(findAlarms(run, time), [])
  const begun = { kind: 'weekly', period: '2026-W46', part: 1, parts: 3, leads: 7, createdAt: monday } as const
  const tooLarge = Array.from({ length: 6 }, (_, n) => `https://listings.example/${n}`)
  const alarms = findAlarms({ ...run, held: 'few leads', begun: [begun], subscribed: false, tooLarge }, time)
  assert.match(alarms[0] ?? '', /guard holds.*few leads/)
  assert.match(alarms[1] ?? '', /^A weekly delivery of 2026-W46, part 1 of 3, begun on 2026-11-16.* with 7 listings/)
  assert.match(alarms[2] ?? '', /not subscribed/)
  assert.match(alarms[3] ?? '', /^6 listings are too large .*\/4 …$/)
})

test('a count that was not finished says so', () => {
  const rowOf = (more: Partial<DryQuery>) => {
    const page = buildDryRunPage({ ...run, queries: [{ ...query, ...more }], leads: 0 }, 'UTC')
    return [...page.matchAll(/<td class="number"[^>]*>([^<]*)/g)].map(([, text]) => text)
  }
  assert.deepEqual(rowOf({ matching: 300, tooOld: 2 }), ['300', '10', '0', '2', '0'])
  assert.deepEqual(rowOf({ matching: 301 }), ['301', '10', '0', '0', '1'])
  const open = { hasMore: true, tooOld: null }
  assert.deepEqual(rowOf({ matching: 300, ...open }), ['300 or more', '10', '0', 'not counted', 'not counted'])
  assert.deepEqual(rowOf({ matching: 10_000, ...open }), ['10,000 or more', '10', '0', 'not counted', '9,700 or more'])
})

test('texts are clipped between characters', () => {
  const [house, most] = ['\u{1f3e0}', 100]
  for (const character of ['a', house]) {
    assert.equal(clip(character.repeat(most)), character.repeat(most))
    assert.equal(clip(character.repeat(most + 1)), `${character.repeat(most - 1)}…`)
  }
})

test('the largest page there can be has less than 3 MB', () => {
  const texts = (n: number) => '<\u{1f3e0}>&"'.repeat(n)
  const contacts = { hasName: true, hasPhone: true, hasEmail: true }
  const shown = Array.from({ length: 500 }, (_, n) => ({
    ...{ versionId: n, query: n + 1, importedAt: monday, postalCode: texts(20), fullAddress: texts(80) },
    ...{ href: `https://listings.example/${"'".repeat(n % 2 ? 475 : 2_000)}`, price: 1e12, sqft: 1e12, bedrooms: 1e12 },
    ...{
      bathrooms: 1e12,
      address: texts(80),
      secondAddress: texts(80),
      city: texts(80),
      state: texts(80),
      ...contacts,
    },
  }))
  const queries = Array.from({ length: 1_000 }, () => ({
    ...query,
    value: texts(100),
    matching: 10_000,
    hasMore: true,
  }))
  const page = buildDryRunPage({ ...run, shown, queries, leads: 300_000 }, 'UTC')
  assert.ok(Buffer.byteLength(page) < 3_000_000, `${Buffer.byteLength(page)}`)
  // a link of more than 500 characters is left out
  assert.equal(page.match(/<a /g)?.length, 250)
})
