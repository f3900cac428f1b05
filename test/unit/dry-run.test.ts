import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildDryRunPage } from '../../src/inspect/preview-page/build-page.ts'
import type { DryRun } from '../../src/inspect/preview-page/find-dry-run.ts'
import { type DryQuery, shareOut } from '../../src/inspect/preview-page/queries.ts'
import { buildHeadline, clip, describeCut, describeKind, findAlarms } from '../../src/inspect/preview-page/wording.ts'

const [monday, friday] = [new Date('2026-11-16T07:30:00Z'), new Date('2026-11-20T07:30:00Z')]
const times = { day: (at: Date | null) => at?.toISOString().slice(0, 10) ?? '', moment: (at: Date) => at.toISOString() }
const all = times as Parameters<typeof findAlarms>[1]

const query: DryQuery = {
  ...({ number: 1, type: 'zipcode', value: '78704', radius: 25, kind: 'place' } as const),
  ...{ centre: { latitude: 30.24, longitude: -97.77 }, matching: 10, counted: 10_000 },
  ...{ sent: 10, repeats: 0, tooLarge: 0, tooOld: 0, taken: null, cut: null },
}
const run: DryRun = {
  ...({ user: 'user@example.com', subscribed: true, kind: 'single', period: '2026-W47', madeAt: friday } as const),
  ...{ parts: [{ leads: 10, queries: 1, bytes: 9_999 }], leads: 10, bytes: 9_999, queries: [query], tooLarge: [] },
  ...{ begun: [], servedAt: null, held: null, shown: [], points: [], unplaced: 0, towns: [] },
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
  const parts = [1, 2].flatMap(() => run.parts)
  assert.match(buildHeadline({ ...run, parts, leads: 1 }), /would get 1 listing in 2 requests, 10\.0 kB together\.$/)
  assert.match(buildHeadline({ ...run, leads: 0 }), /would get an empty request/)
  assert.match(buildHeadline({ ...run, parts: [], queries: [] }), /would get nothing/)
})

test('what is owed beside, held back, begun before or too large is said', () => {
  const kindOf = (more: Partial<DryRun>) => describeKind({ ...run, ...more }, all)
  assert.match(kindOf({}), /further delivery.*the same as the weekly delivery of 2026-W47, which is owed/)
  assert.match(kindOf({ kind: 'subscription' }), /subscription push, which is owed/)
  assert.doesNotMatch(kindOf({ subscribed: false }), /weekly delivery of|--all/)
  assert.match(kindOf({ servedAt: monday }), /was begun on 2026-11-16T07:30/)
  assert.match(kindOf({ held: 'why' }), /owed, and held back/)

  assert.deepEqual(findAlarms(run, all), [])
  const begun = { kind: 'weekly', period: '2026-W46', part: 1, parts: 3, leads: 7, createdAt: monday } as const
  const tooLarge = Array.from({ length: 6 }, (_, n) => `https://listings.example/${n}`)
  const alarms = findAlarms({ ...run, held: 'few leads', begun: [begun], subscribed: false, tooLarge }, all)
  assert.match(alarms[0] ?? '', /guard holds.*few leads/)
  assert.match(alarms[1] ?? '', /^A weekly delivery of 2026-W46, part 1 of 3, begun on 2026-11-16.* with 7 listings/)
  assert.match(alarms[2] ?? '', /not subscribed/)
  assert.match(alarms[3] ?? '', /^6 listings are too large .*\/4 …$/)
})

test('what the 300 cut off is told with its dates, and how far it was counted', () => {
  const taken = { newestAt: friday, oldestAt: friday }
  const cut = { count: 5, newestAt: friday, oldestAt: monday }
  const say = (more: Partial<DryQuery>) => describeCut({ ...query, taken, ...more }, all)
  assert.equal(say({}), '')
  assert.equal(say({ cut }), '5 older, of 2026-11-16 to 2026-11-20; the newest 300 go back to 2026-11-20')
  assert.match(say({ cut: { ...cut, count: null } }), /^9,700 or more older, of 2026/)
  const unknown = { count: null, newestAt: null, oldestAt: null }
  assert.match(say({ cut: unknown, counted: 300 }), /^perhaps some older; the newest 300/)
})

test('texts are clipped between characters', () => {
  assert.equal(clip('four', 4), 'four')
  assert.equal(clip('fives', 4), 'fiv…')
  assert.equal(clip('\u{1f3e0}'.repeat(4), 4), '\u{1f3e0}'.repeat(4))
  assert.equal(clip('\u{1f3e0}'.repeat(5), 4), `${'\u{1f3e0}'.repeat(3)}…`)
})

test('the largest page there can be has less than 3 MB', () => {
  const texts = (n: number) => '<\u{1f3e0}>&"'.repeat(n)
  const contacts = { hasName: true, hasPhone: true, hasEmail: true }
  const shown = Array.from({ length: 1_000 }, (_, n) => ({
    ...{ versionId: n, query: n + 1, miles: 7.5, latitude: 30, longitude: -97, importedAt: monday, changedAt: friday },
    ...{
      href: `https://listings.example/${"'".repeat(2_000)}`,
      postalCode: texts(20),
      price: 1e12,
      sqft: 1e12,
      yearBuilt: 1e12,
    },
    ...{ bedrooms: 1e12, bathrooms: 1e12, propertyType: texts(80), fullAddress: texts(80), address: texts(80) },
    ...{ secondAddress: texts(80), city: texts(80), state: texts(80), description: texts(80), ...contacts },
  }))
  const cut = { count: 9_700, newestAt: monday, oldestAt: monday }
  const queries = shown.map((_, n) => ({
    ...{ ...query, number: n + 1, value: texts(100), cut, taken: cut },
    centre: { latitude: 26 + (n % 22), longitude: -120 + (n % 50) },
    radius: 100 - n / 100,
  }))
  const points = Array.from({ length: 40_000 }, (_, n) => ({
    ...{ latitude: 25 + (n % 240) / 10, longitude: -124 + (n % 570) / 10, count: n + 1, name: texts(20) },
  }))
  const towns = points.slice(0, 120)
  const page = buildDryRunPage({ ...run, shown, queries, points, towns, leads: 300_000 }, 'UTC')
  assert.ok(Buffer.byteLength(page) < 3_000_000, `${Buffer.byteLength(page)}`)
})
