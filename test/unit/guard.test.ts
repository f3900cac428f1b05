import assert from 'node:assert/strict'
import { test } from 'node:test'
import { weekFall } from '../../src/base/limits.ts'
import type { ImportVolume } from '../../src/deliveries/runs.ts'
import { type Hold, toReason } from '../../src/push/hold.ts'
import { judgeUser, judgeWeek } from '../../src/push/whom/guard.ts'

const feed = (listings: number, filledFields: number | null = listings * 10): ImportVolume => ({
  listings,
  filledFields,
})
const reasonOf = (hold: Hold | undefined) => hold && toReason(hold)
const judge = (now: ImportVolume, ...before: ImportVolume[]) =>
  reasonOf(judgeWeek({ importVolume: now, before, isAccepted: false, sources: [] }))

test('a user who had 50 leads or more and gets 95 % fewer is held; with one lead more, or 49 before, they are not', () => {
  const held = (leads: number, before: number | undefined) => judgeUser(leads, before) !== undefined
  assert.deepEqual([held(0, 49), held(0, 50), held(0, 51)], [false, true, true])
  // 95 % of 60 are 57
  assert.deepEqual([held(2, 60), held(3, 60), held(4, 60)], [true, true, false])
  assert.deepEqual([held(2, 50), held(3, 50)], [true, false])
  assert.deepEqual([held(20, 412), held(21, 412)], [true, false])
  assert.deepEqual([held(0, undefined)], [false])
  assert.equal(
    reasonOf(judgeUser(2, 412)),
    'held: 2 leads instead of 412 in the last weekly delivery with the same queries',
  )
  assert.equal(
    reasonOf(judgeUser(1, 50)),
    'held: 1 lead instead of 50 in the last weekly delivery with the same queries',
  )
})

test('a week whose listings fell by half or more is held, from a median of 1,000 on', () => {
  assert.equal(judge(feed(1_000 / weekFall + 1), feed(1_000)), undefined)
  assert.equal(
    judge(feed(1_000 / weekFall), feed(1_000)),
    'held: 500 listings imported since the last weekly run instead of 1000 in the week before',
  )
  // a shop of 300 listings once had no guard
  for (const listings of [100, 101, 300, 1_001]) assert.match(judge(feed(0), feed(listings)) ?? '', /^held: 0 listings/)
  assert.equal(judge(feed(0), feed(99)), undefined)
  assert.equal(judge(feed(500)), undefined, 'a first week has nothing to be compared with')
})

test('a week whose filled fields fell by half or more is held; weeks that did not count them do not matter', () => {
  assert.equal(judge(feed(1_000, 5_001), feed(1_000, 10_000)), undefined)
  assert.equal(
    judge(feed(1_000, 5_000), feed(1_000, 10_000), feed(1_000, null)),
    'held: 5000 filled fields in the 1000 listings imported since the last weekly run instead of 10000 in the median of 2 weeks before',
  )
  assert.equal(judge(feed(99, 0), feed(99, 10_000)), undefined)
  assert.equal(judge(feed(1_000, null), feed(1_000, 10_000)), undefined)
  assert.equal(judge(feed(1_000, 0), feed(1_000, null)), undefined)
  assert.equal(judge(feed(1_000, 0), feed(1_000, 0)), undefined, 'what never filled a field has not turned hollow')
})

test('the median of two or four weeks lies between the two in the middle; one odd week does not move that of three', () => {
  assert.match(judge(feed(1_000), feed(1_000), feed(3_000)) ?? '', /instead of 2000 in the median of 2 weeks before/)
  assert.equal(judge(feed(1_001), feed(1_000), feed(3_000)), undefined)
  assert.equal(judge(feed(501), feed(1_000), feed(900), feed(90_000)), undefined)
  assert.match(judge(feed(500), feed(1_000), feed(900), feed(90_000)) ?? '', /^held/)
  assert.equal(judge(feed(751), feed(1), feed(2_000), feed(1_000), feed(9_000)), undefined)
  assert.match(judge(feed(750), feed(1), feed(2_000), feed(1_000), feed(9_000)) ?? '', /instead of 1500 .*4 weeks/)
  // the message once told of 1969.5 listings, which nobody can import
  assert.match(judge(feed(500), feed(1_969), feed(1_970)) ?? '', /instead of 1970 in the median/)
})

test('each source is compared with its own weeks; one without earlier weeks is not', () => {
  const volume = (listings: number) => ({ ...feed(listings), sourceId: 1, name: 'mls' })
  const judgeSource = (listings: number, ...before: ImportVolume[]) =>
    reasonOf(
      judgeWeek({
        importVolume: feed(9_000),
        before: [feed(9_000)],
        isAccepted: false,
        sources: [{ volume: volume(listings), before }],
      }),
    )
  assert.equal(judgeSource(501, feed(1_000)), undefined)
  assert.equal(
    judgeSource(500, feed(1_000)),
    'held: 500 listings of the source mls imported since the last weekly run instead of 1000 in the week before',
  )
  assert.equal(judgeSource(0, feed(99)), undefined)
  assert.equal(judgeSource(0), undefined)
})

test('a hold by refusals says when the next push may try, rounded up to minutes, over an hour to hours', () => {
  const wait = (untilNextMs: number) =>
    /(?:that begins in (.+) or later|the next push) begins/.exec(toReason({ by: 'refusal', known: true, status: 401, untilNextMs }))?.[1]
  assert.deepEqual(
    [0, 1, 60_000, 60_001, 3_600_000, 3_600_001, 79_200_001].map(wait),
    [undefined, '1 minute', '1 minute', '2 minutes', '1 hour', '2 hours', '23 hours'],
  )
}) // biome-ignore format: a pattern
