import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retryAfterMsMax } from '../../src/base/limits.ts'
import { type Answer, asksForLess, Pace } from '../../src/push/receiver/pace.ts'
import { Random } from '../chaos/random.ts'
import {
  type Ended,
  fixedWindow,
  type Limiter,
  leakyBucket,
  type Scene,
  simulate,
  slidingWindow,
  tokenBucket,
} from '../support/rate-limited-runs.ts'

const unlimited: Limiter = { takes: () => true, opensInMs: () => 0 }
const perSecond = ({ delivered, endedMs }: Ended) => (delivered * 1_000) / endedMs
const answer = (httpStatus: number, retryAfterMs: number | null): Answer => ({
  ...{ kind: 'first', httpStatus, retryAfterMs, durationMs: 10 },
})

test('a 429, and a 503 with Retry-After, ask for less; nothing else does', () => {
  for (const [httpStatus, retryAfterMs, asks] of [
    [429, null, true],
    [429, 0, true],
    [503, 0, true],
    [503, 1_000, true],
    [503, null, false],
    [500, 1_000, false],
    [200, 1_000, false],
    [null, null, false],
  ] as const)
    assert.equal(asksForLess({ httpStatus, retryAfterMs }), asks, `${httpStatus} ${retryAfterMs}`)
})

test('as long as nobody asks for less nothing waits; with a rate attempts are evenly spaced', () => {
  const free = new Pace(undefined)
  for (let n = 0; n < 1_000; n++) assert.equal(free.take(n / 100, n % 2 ? 'first' : 'second'), 0)
  assert.deepEqual([free.isSlowed, free.ratePerSecond, free.untilSecond(10)], [false, undefined, 0])
  const paced = new Pace(10)
  assert.deepEqual([paced.take(0), paced.take(40), paced.take(100), paced.take(150)], [0, 60, 0, 50])
  // a quarter of the space is made up for, so that late timers cost nothing; after a longer delay no burst follows
  assert.deepEqual([paced.take(225), paced.take(226), paced.take(326), paced.take(327)], [0, 74, 0, 99])
  assert.deepEqual([paced.take(60_000), paced.take(60_001)], [0, 99])
  const ended = simulate({ limiter: unlimited, deliveries: 3_200, latencyMs: () => 100, retryAfter: undefined })
  assert.deepEqual([ended.delivered, Math.round(ended.endedMs)], [3_200, 20_000])
})

test('nothing begins until the time asked for is over, the retry delay without one, 5 minutes at most', () => {
  for (const [askedMs, pauseMs] of [[2_000, 2_000], [null, 5_000], [300_000, 300_000], [300_001, 300_000]] as const) {
    const pace = new Pace(undefined, { random: () => 0 })
    assert.equal(pace.take(0), 0)
    assert.equal(pace.note(answer(429, askedMs), 10), true)
    assert.equal(pace.pausedMs(10), pauseMs)
    for (const kind of ['first', 'second'] as const) assert.ok(pace.take(10 + pauseMs - 1, kind) > 0)
    assert.equal(pace.take(10 + pauseMs), 0)
  }
}) // biome-ignore format: a table

test('answers to attempts that had begun before the pause count once, and keep the longest pause', () => {
  const pace = new Pace(undefined, { random: () => 0 })
  for (let n = 0; n < 16; n++) pace.take(0)
  const news = Array.from({ length: 16 }, (_, n) => pace.note(answer(429, n === 9 ? 3_000 : 1_000), 10))
  assert.deepEqual(news, [true, ...Array(15).fill(false)])
  assert.equal(pace.ratePerSecond, 8)
  assert.equal(pace.pausedMs(10), 3_000)
})

test('after a pause the pace is at most half of what it was, and rises again', () => {
  let refuses = true
  const once: Limiter = {
    takes: (nowMs) => {
      const isTaken = nowMs < 2_000 || !refuses
      if (!isTaken) refuses = false
      return isTaken
    },
    opensInMs: () => 0,
  }
  const { arrivals } = simulate({ limiter: once, deliveries: 3_200, latencyMs: () => 100, retryAfter: 2_000 })
  const between = (fromMs: number, toMs: number) => arrivals.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).length
  const refusedMs = arrivals.find(({ taken }) => !taken)?.atMs as number
  // what had begun before the answer still arrives
  assert.equal(between(refusedMs + 101, refusedMs + 2_050), 0)
  const [before, after, later] = [1_000, refusedMs + 2_050, refusedMs + 10_000].map((at) => between(at, at + 1_000))
  assert.equal(before, 160)
  assert.ok(Number(after) <= 80 && Number(after) >= 60, `${after} a second after the pause`)
  assert.ok(Number(later) >= 130, `${later} a second later`)
})

test('the state of one process holds for another: its pause at once, its rate if none was found', () => {
  const one = new Pace(undefined, { random: () => 0 })
  one.learn({ pausedMs: 2_000, allowedRate: null }, 0)
  assert.deepEqual([one.take(0), one.isSlowed, one.take(2_000)], [2_000, false, 0])
  const other = new Pace(undefined, { random: () => 0 })
  other.learn({ pausedMs: 0, allowedRate: 19 }, 0)
  assert.deepEqual([other.ratePerSecond, other.allowedRate(0)], [9.5, 19])
  assert.deepEqual(other.known(0), { pausedMs: 0, allowedRate: 19 })
  assert.deepEqual(new Pace(undefined).known(0), { pausedMs: 0, allowedRate: null })
})

// Each look at the row moved the begin a little later, up to the longest: those that a pause had spread went on together.
test('a pause that is learnt again each second keeps the moments apart at which processes go on', () => {
  const processes = [0, 0.5].map((first) => {
    let random = first
    const pace = new Pace(undefined, { random: () => random })
    pace.take(0)
    pace.note(answer(429, 60_000), 0)
    random = 0.99
    return pace
  })
  for (let s = 1; s < 60; s++) for (const pace of processes) pace.learn({ pausedMs: 60_020 - s * 1_000, allowedRate: null }, s * 1_000) // biome-ignore format: short
  const [one = 0, other = 0] = processes.map((pace) => pace.untilNext(60_000))
  assert.ok(one <= 20 && other >= 900 && other <= 1_020, `${one}, ${other}`)
})

test('20 a second with bursts of 20 and Retry-After 1: 300 users get theirs at 14 a second or more', () => {
  for (const latencyMs of [5, 10, 20, 50, 100, 150, 200]) {
    for (let seed = 0; seed < 10; seed++) {
      const random = new Random('twenty', latencyMs, seed)
      const next = () => random.next()
      const ended = simulate({
        ...{ limiter: tokenBucket(20, 20), deliveries: 300, retryAfter: 1_000, random: next },
        latencyMs: () => latencyMs * (0.8 + 0.4 * next()),
      })
      const told = `latency ${latencyMs}: ${ended.delivered} delivered, ${perSecond(ended).toFixed(1)} a second`
      assert.ok(ended.delivered >= 297 && ended.endedMs <= 22_000 && perSecond(ended) >= 14, told)
      const found = ended.paces[0]?.allowedRate(ended.endedMs)
      assert.ok(found !== undefined && found > 14 && found <= 20.5, `found ${found}`)
    }
  }
})

test('500 a second is reached to nine tenths, 2 a second are kept to', () => {
  const common = { retryAfter: 1_000, concurrency: 128, latencyMs: () => 40, random: () => 0.5 }
  const fast = simulate({ ...common, limiter: tokenBucket(500, 500), deliveries: 20_000 })
  assert.ok(fast.delivered >= 19_980 && perSecond(fast) >= 450, `${perSecond(fast).toFixed(0)} a second`)
  const slow = simulate({ ...common, limiter: tokenBucket(2, 2), deliveries: 300, concurrency: 16 })
  assert.ok(slow.delivered >= 299 && perSecond(slow) >= 1.5, `${perSecond(slow).toFixed(1)} a second`)
})

test('one refusal at the beginning is no limit for ever', () => {
  // the pace went up 3 % in 5 s at a time: 20,000 users would have taken most of a day
  let nth = 0
  const ended = simulate({
    limiter: { takes: () => ++nth !== 3, opensInMs: () => 0 },
    ...{ deliveries: 20_000, retryAfter: 1_000, latencyMs: () => 20, random: () => 0.5 },
  })
  assert.equal(ended.delivered, 20_000)
  assert.ok(ended.endedMs <= 240_000, `${ended.endedMs}`)
})

function drawScene(random: Random): { scene: Scene; limit: number; isPlain: boolean; name: string } {
  const next = () => random.next()
  const kind = random.one(['token', 'leaky', 'fixed-1', 'sliding-1', 'fixed-60', 'sliding-60'] as const)
  const [shape, seconds] = kind.split('-')
  const drawn = 0.5 * 2_000 ** next()
  const count = Math.max(5, Math.round(drawn * Number(seconds)))
  const limit = seconds ? count / Number(seconds) : drawn
  const burst = Math.max(5, Math.ceil(limit * (0.2 + 2 * next())))
  const windowMs = Number(seconds) * 1_000
  const limiters = {
    token: () => tokenBucket(limit, burst),
    leaky: () => leakyBucket(limit, burst),
    fixed: () => fixedWindow(count, windowMs, next() * windowMs),
    sliding: () => slidingWindow(count, windowMs),
  }
  const retryAfter = random.one([0, 1_000, 60_000, undefined, true] as const)
  const latencyMs = 5 * 40 ** next()
  const deliveries = Math.round(300 + Math.min(20 * limit, 3_000) * next())
  const processes = random.one([1, 1, 2, 3])
  const scene: Scene = {
    ...{ limiter: limiters[shape as keyof typeof limiters](), deliveries, retryAfter, processes, random: next },
    latencyMs: () => latencyMs * (0.8 + 0.4 * next()),
  }
  const isPlain = seconds !== '60' && retryAfter !== undefined && retryAfter !== 60_000
  const name = `${kind} ${limit.toFixed(2)}/s:${burst}, Retry-After ${retryAfter}, ${latencyMs.toFixed(0)} ms, ${processes} processes`
  return { scene, isPlain, name, limit: Math.min(limit, (processes * 16_000) / latencyMs) }
}

test('receivers of all kinds, from 0.5 to 1,000 a second: at least 99 % are delivered, at half the limit or more', () => {
  let [deliveries, lost] = [0, 0]
  const shares: number[] = []
  for (let seed = 0; seed < 1_500; seed++) {
    const { scene, limit, isPlain, name } = drawScene(new Random('pace', seed))
    const ended = simulate(scene)
    deliveries += scene.deliveries
    lost += ended.lost
    assert.equal(ended.delivered + ended.lost, scene.deliveries, name)
    // processes that do not know of each other's second attempts may refuse each other a few more
    const lostMax = (scene.processes === 1 ? 0.01 : 0.03) * scene.deliveries
    assert.ok(ended.lost <= lostMax, `${seed}: ${name}: ${ended.lost} of ${scene.deliveries} lost`)
    if (scene.processes !== 1 || !isPlain) continue
    // three pauses and the retry delay are no throughput
    const idealMs = (scene.deliveries * 1_000) / limit + 8_000
    shares.push(idealMs / ended.endedMs)
    assert.ok(idealMs / ended.endedMs >= 0.5, `${seed}: ${name}: ${(idealMs / ended.endedMs).toFixed(2)} of the limit`)
  }
  const median = shares.sort((a, b) => a - b)[shares.length >> 1] as number
  assert.ok(median >= 0.9, `the median is ${median.toFixed(2)} of the limit`)
  assert.ok(lost <= deliveries * 0.001, `${lost} of ${deliveries} lost`)
})

test('a pause that is learnt from others holds for 5 minutes at most', () => {
  const pace = new Pace(undefined)
  pace.learn({ pausedMs: retryAfterMsMax + 60_000, allowedRate: null }, 1_000)
  assert.deepEqual([pace.pausedMs(1_000), pace.pausedMs(1_000 + retryAfterMsMax)], [retryAfterMsMax, 0])
})
