/** The receiver's health (contract 4.5, 4.12): rules by example, then every state that few users can reach. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  alikeDrawnAfter,
  alikeFirstDrawnAfter,
  alikeInARow,
  outageCheckMs,
  outageSecondMs,
  refusalSecondMs,
  refusalTryMs,
} from '../../src/base/limits.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import type { AttemptKind } from '../../src/deliveries/due.ts'
import {
  drawsOnly,
  type Event,
  type Health,
  type Rules,
  regardless,
  step,
  unproven,
} from '../../src/push/receiver/health.ts'
import { ask } from '../../src/push/receiver/permission.ts'
import { type KnownTrouble, type Sign, signOf, type Trouble, troubleRules } from '../../src/push/receiver/trouble.ts'
import { allSigns, walkHealth } from '../support/walk-health.ts'

const drawnAfter = { unproven: alikeFirstDrawnAfter, mixed: alikeDrawnAfter }
const rules: Rules = { patienceMs: 60_000, refusals: true, empty: true, inARow: alikeInARow, drawnAfter }
const empty = { is: 'empty', says: 'a page' } as const
const sign = (what: number | null | 'empty'): Sign =>
  what === 'empty' ? empty : signOf({ httpStatus: what, error: '' })

/** The health after outcomes of first attempts of drawn users, or of second ones where so marked. */
function after(
  outcomes: (number | null | 'empty' | { second: number | null | 'empty' })[],
  from: Health = unproven,
  by = rules,
) {
  let health = from
  for (const outcome of outcomes) {
    const [attempt, what] =
      typeof outcome === 'object' && outcome ? ([2, outcome.second] as const) : ([1, outcome] as const)
    health = step(health, { is: 'outcome', attempt, sign: sign(what), drawn: true }, 0, by).health
  }
  return health
}
const times = <T>(count: number, what: T): T[] => Array(count).fill(what)
const go = (health: Health, open = 0) => {
  const permission = ask(health, { open }, 0, rules)
  return permission.is === 'go' ? [permission.firsts, permission.seconds] : permission.is
}
/** What is known: nothing yet, an answer of another kind, doubt since then, a trouble, or a reason to end. */
function nameOf(health: Health): string {
  if (health.is === 'trouble') return health.trouble.is
  if (health.is === 'over') return 'over'
  return health.isMixed ? (health.alike ? 'doubted' : 'well') : 'unproven'
}
const noneToDraw = (health: Health) => step(health, { is: 'nobody to draw' }, 0, rules).health
const allMade = (health: Health) => step(noneToDraw(health), { is: 'no firsts left' }, 0, rules).health
const isDown: Trouble = { is: 'down' }
const refuses = (status: number): Trouble => ({ is: 'refuses', status })
const all = Number.POSITIVE_INFINITY

test('a 3xx or 4xx is a refusal, but for 408, 409, 425 and 429; without an answer below 500 the receiver may be down', () => {
  const kindOf = (httpStatus: number | null, gzip = false, retryAfterMs: number | null = null) =>
    signOf({ httpStatus, error: '', retryAfterMs }, gzip)
  for (const status of [300, 301, 308, 399, 400, 401, 404, 407, 410, 413, 415, 422, 424, 426, 428, 430, 499]) assert.deepEqual(kindOf(status), { is: 'refuses', status, error: '' }) // biome-ignore format: a list
  for (const status of [200, 204, 299]) assert.deepEqual(kindOf(status), { is: 'well' })
  for (const status of [408, 409, 425]) assert.deepEqual(kindOf(status), { is: 'answer' })
  assert.deepEqual([kindOf(429), kindOf(415, true), kindOf(414, true)].map(({ is }) => is), ['asks', 'nothing', 'refuses'])
  for (const status of [500, 503, 599, null])
    assert.deepEqual(kindOf(status), { is: 'down', status, asks: false, error: '' })
  assert.deepEqual(kindOf(503, false, 0), { is: 'down', status: 503, asks: true, error: '' })
  assert.deepEqual(signOf({ httpStatus: 200, error: null, emptySuccess: 'a page' }), empty)
}) // biome-ignore format: lists

// 150 keys of one town were revoked: 20 of its users in a row stopped the push for all other towns.
test('after 5 alike in a row, or 8 before another answer, only drawn users go on and count, until one ends otherwise', () => {
  for (const [what, is] of [[503, 'down'], [401, 'over'], ['empty', 'over']] as const) {
    const outcome = { is: 'outcome', attempt: 1, sign: sign(what), drawn: false } as const
    const undrawn = (count: number, from: Health) =>
      times(count, outcome).reduce<Health>((health, event) => step(health, event, 0, rules).health, from)
    for (const [from, count] of [[unproven, 8], [after([200]), 5]] as const) {
      const [before, at] = [undrawn(count - 1, from), undrawn(count, from)]
      assert.deepEqual([drawsOnly(before, rules), drawsOnly(at, rules)], [false, true])
      const left = 20 - count
      // behind a page second attempts count as much as first ones, and are drawn too
      const some = (firsts: number) => [firsts, what === 'empty' && count === 5 ? firsts : 0]
      // two, then as many more as failed: mostly one of the first two ends it
      for (const [failed, open] of [[0, 2], [1, 3], [4, 6], [left - 2, 2], [left - 1, 1]] as const)
        assert.deepEqual(go(after(times(failed, what), at)), some(open), `${failed} failed`)
      assert.deepEqual(ask(after([what], at), { open: 9, drawn: 2 }, 0, rules), { is: 'go', firsts: 1, seconds: some(1)[1], drawn: true, looks: false })
      assert.deepEqual([nameOf(after(times(left - 1, what), at)), nameOf(after(times(left, what), at))], [nameOf(at), is])
      const mixed = after([200], at)
      assert.deepEqual([nameOf(mixed), drawsOnly(mixed, rules), go(mixed)], ['well', false, [all, all]])
      // whoever is left once nobody is left to be drawn
      assert.equal(nameOf(undrawn(left, noneToDraw(at))), is)
      // Two pushes and two troubles in turn: 10 were under way before the suspicion, and 12 more were drawn.
      if (count === 8) {
        assert.deepEqual([go(undrawn(2, at)), nameOf(undrawn(left - 1, at)), nameOf(undrawn(left, at))], [[4, 0], nameOf(at), is])
        continue
      }
      assert.deepEqual(go(undrawn(100, at)), some(left))
      const many = undrawn(left, at)
      assert.deepEqual([go(undrawn(left - 1, at)), go(many), go(after([what], many))], [some(2), some(left), some(left - 1)])
      // The last 40 were all under way, and timed out at one moment: at one moment they lost their second attempts too.
      assert.deepEqual([left - 1, left].map((early) => nameOf(noneToDraw(undrawn(early, at)))), [nameOf(at), is])
      assert.equal(nameOf(noneToDraw(after([200, what], many))), 'doubted')
    }
  }
}) // biome-ignore format: a table

test('several suspicions that were of some users alone make the next one need a little more', () => {
  const rounds = (count: number) => times(count, [...times(5, 401), 200]).flat()
  for (const [suspicions, needed] of [[0, 20], [3, 20], [4, 22], [11, 22], [12, 24], [1_000, 34]] as const) {
    const health = after([200, ...rounds(suspicions), ...times(needed - 1, 401)])
    assert.deepEqual([nameOf(health), nameOf(after([401], health))], ['doubted', 'over'], `${suspicions}`)
  }
}) // biome-ignore format: a table

// 20 second attempts were due, and the receiver was down: all failed within a second.
test('before the first answer below 500 second attempts alone go one by one, each after a sign of life; two alike are trouble', () => {
  const alone = allMade(unproven)
  const permission = (health: Health, open = 0) => ask(health, { open }, 0, rules)
  assert.deepEqual([permission(alone), permission(alone, 1)].map((it) => it.is === 'go' && [it.seconds, it.looks]), [[1, true], [0, true]])
  assert.equal(nameOf(after([{ second: 503 }], alone)), 'unproven')
  assert.equal(nameOf(after([{ second: 503 }, { second: null }], alone)), 'down')
  assert.equal(nameOf(step(alone, { is: 'no sign' }, 0, rules).health), 'down')
  // one user who lost both attempts shows no outage
  assert.equal(nameOf(after([{ second: 503 }], allMade(after([503])))), 'unproven')
  for (const what of [401, 429, 409, 200] as const) assert.deepEqual(go(allMade(after([{ second: what }], alone))), what === 401 ? [20, all] : [all, all], `${what}`)
  const without = { ...rules, patienceMs: 0 }
  assert.deepEqual(ask(alone, { open: 5 }, 0, without), { is: 'go', firsts: 15, seconds: all, drawn: false, looks: false })
}) // biome-ignore format: a table

// A receiver that only answered 429 kept a push running for weeks, and each user lost both attempts.
test('a receiver that asks for less is given up once it took nothing for the whole patience', () => {
  const at = (health: Health, what: number, now: number) =>
    step(health, { is: 'outcome', attempt: 1, sign: sign(what) }, now, rules)
  const asked = at(unproven, 429, 1_000).health
  assert.equal(at(asked, 429, 60_999).health.is, 'open')
  const gaveUp = { health: { is: 'over', why: { by: 'asking', known: false } }, write: { says: 'trouble', trouble: { is: 'asks' }, inARow: 0, error: null } }
  assert.deepEqual([at(asked, 429, 61_000), step(asked, { is: 'time' }, 61_000, rules)], [gaveUp, gaveUp])
  // only a success shows that it takes any
  assert.equal(at(at(asked, 409, 30_000).health, 429, 61_000).health.is, 'over')
  assert.equal(at(at(asked, 200, 30_000).health, 429, 61_000).health.is, 'open')
  assert.equal(step(asked, { is: 'time' }, 1e9, { ...rules, patienceMs: 0 }).health.is, 'open')
}) // biome-ignore format: a table

test('20 first attempts in a row that end alike prove trouble, 19 do not, and second ones do not count', () => {
  for (const [what, is] of [[503, 'down'], [null, 'down'], [401, 'over'], [301, 'over'], ['empty', 'over']] as const) {
    const health = after(times(19, what))
    assert.deepEqual([nameOf(health), go(health)], ['unproven', [1, 0]])
    if (what !== 'empty') assert.equal(nameOf(after([...times(19, what), { second: what }])), 'unproven')
    assert.equal(nameOf(after([what], health)), is)
  }
  assert.equal(nameOf(after([500, null, ...times(17, 503), 599])), 'down')
}) // biome-ignore format: a table

test('at any time 20 in a row do: after an answer of another kind as well, empty successes of second attempts too', () => {
  for (const what of [503, 401, 'empty'] as const) {
    const health = after([200, ...times(19, what)])
    assert.deepEqual([nameOf(health), go(health)], ['doubted', [1, what === 'empty' ? 1 : 0]])
    assert.notEqual(after([what], health).is, 'open')
    assert.equal(nameOf(after([200], health)), 'well')
    // a user who comes later is counted with those before
    assert.deepEqual([go(allMade(health)), after([what], allMade(health)).is], [[all, all], after([what], health).is])
  }
  assert.equal(after([200, ...times(20, { second: 'empty' as const })]).is, 'over')
  assert.equal(nameOf(after([200, ...times(20, { second: 503 })])), 'well')
})

test('one that ends otherwise begins the count anew; of second attempts only an answer does', () => {
  for (const [alike, other, is] of [
    [500, 200, 'well'], [500, 422, 'doubted'], [500, { second: 404 }, 'well'], [500, { second: 429 }, 'well'], [null, { second: 200 }, 'well'],
    [401, 403, 'doubted'], [401, 200, 'well'], [401, 429, 'well'], [401, 500, 'doubted'], [401, null, 'doubted'], [401, { second: 200 }, 'well'],
    [401, { second: null }, 'unproven'], ['empty', 503, 'doubted'], ['empty', 200, 'well'],
  ] as const) {
    const health = after([...times(19, alike), other])
    assert.equal(nameOf(health), is, `${alike} ${JSON.stringify(other)}`)
    if (is !== 'unproven') assert.equal(nameOf(after(times(19, alike), health)), 'doubted')
  }
}) // biome-ignore format: a table

test('if no first attempt is left, all of at least two prove trouble; until then second ones wait', () => {
  for (const [outcomes, is] of [
    [[], 'go'], [[500], 'go'], [[500, null], 'down'], [[404], 'go'], [[404, 404], 'over'], [[404, 403], 'go'], [[200, 404, 404], 'go'],
    [[500, 503, 409], 'go'], [['empty'], 'go'], [['empty', 'empty'], 'over'], [['empty', 200], 'go'],
  ] as const) {
    const health = allMade(after([...outcomes]))
    // one by one until two have ended differently
    if (is === 'go') assert.deepEqual([health.is, (go(health) as number[])[1]], ['open', outcomes.length > 1 ? all : 1], `${outcomes}`)
    else assert.equal(nameOf(health), is, `${outcomes}`)
  }
  assert.deepEqual([go(allMade(unproven), 7), go(allMade(after([503]))), go(unproven, 3)], [[13, 0], [19, 1], [5, 0]])
  assert.deepEqual(go(after([503], allMade(unproven))), [19, 0])
}) // biome-ignore format: a table

// Users came one by one while a push went on: each was forgotten when the next came, and an outage cost all of them both attempts.
test('first attempts that come one by one are counted as those that come together', () => {
  const one = allMade(after([503]))
  assert.deepEqual(go(one), [19, 1])
  assert.equal(nameOf(allMade(after([500], one))), 'down')
  assert.deepEqual(go(allMade(after([401], one))), [all, all])
})

// After five 403 it learnt that the receiver asked another push for less: then it made twenty more.
test('first attempts that ended alike before others told of a trouble count on, if nothing else came meanwhile', () => {
  const known = { trouble: { is: 'asks' }, tries: 0, nextMs: 0, secondMs: 0 } as const
  const learn = (from: Health) => step(from, { is: 'row', known, begins: false }, 0, rules).health
  const learnt = learn(after(times(5, 403)))
  assert.deepEqual(go(after([403], learnt))[0], 2)
  assert.deepEqual([nameOf(after(times(14, 403), learnt)), nameOf(after(times(15, 403), learnt))], ['unproven', 'over'])
  for (const from of [after([429, 403], learnt), after([401], learnt), after([403], learn(after([200, 403])))])
    assert.deepEqual(go(from), [7, 0])
})

// A push that had nothing to do, and then took over what another had left, made those second attempts before the first ones.
test('a push that looks for users once more makes no second attempt before they have shown something', () => {
  const begin = (health: Health) => step(health, { is: 'row', known: null, begins: true }, 0, rules).health
  const again = begin(allMade(unproven))
  assert.deepEqual([go(again, 0), go(allMade(again), 0)], [[8, 0], [20, 1]])
  assert.deepEqual(go(begin(after([200]))), [all, all])
}) // biome-ignore format: a table

test('trouble that is not looked for does not count', () => {
  const without: Rules = { ...rules, patienceMs: 0 }
  assert.equal(nameOf(after(times(100, 500), unproven, without)), 'well')
  assert.equal(after([...times(19, 401), 503, ...times(20, 401)], unproven, without).is, 'over')
  assert.equal(nameOf(after(times(100, 'empty'), unproven, { ...rules, empty: false })), 'well')
  const known = { trouble: isDown, tries: 1, nextMs: 5_000, secondMs: 0 }
  const end = (health: Health, httpStatus: number) =>
    step(health, { is: 'outcome', attempt: 1, sign: sign(httpStatus) }, 0, without)
  // an outage that a push had recorded was never cleared by pushes that do not look for outages
  const stands = step(unproven, { is: 'row', known, begins: true }, 0, without).health
  assert.deepEqual([end(stands, 503).write, end(end(stands, 503).health, 200).write], [undefined, { says: 'well' }])
  // its end was not recorded: the row went on to say that a receiver refuses that answers 503
  const refused = step(unproven, { is: 'row', known: { ...known, trouble: refuses(401) }, begins: true }, 0, without).health
  assert.deepEqual([nameOf(end(refused, 503).health), end(refused, 503).write], ['well', { says: 'well' }])
}) // biome-ignore format: long lines

// Given for the guard, it took away the protection from an outage: 400 users lost both attempts to a receiver that answered 500.
test('with --accept a push begins as if nothing were known, waits for an outage of its own, and its first success ends what others see', () => {
  const accepting: Rules = { ...rules, refusals: false, empty: false }
  const begun = regardless({ trouble: refuses(401), tries: 3, nextMs: 1e6, secondMs: 1e6 })
  const end = (what: number | 'empty') => step(begun, { is: 'outcome', attempt: 1, sign: sign(what) }, 0, accepting)
  assert.deepEqual([go(begun), end(401).write, nameOf(end(401).health)], [[8, 0], undefined, 'well'])
  for (const success of [200, 'empty'] as const) assert.deepEqual([end(success).write, nameOf(end(success).health)], [{ says: 'well' }, 'well'])
  assert.equal(nameOf(after(times(20, 503), begun, accepting)), 'down')
  assert.equal(nameOf(after(times(100, 401), begun, accepting)), 'well')
  assert.deepEqual(go(after([401], begun, accepting)), [all, all])
}) // biome-ignore format: long lines

test('while a receiver refuses, one attempt an hour may be made; a second one a day, or an hour if it is down', () => {
  const { down, asks, refuses } = troubleRules
  assert.deepEqual([refuses.pauseMs(0), refuses.pauseMs(1), refuses.pauseMsMax], [0, 3_600_000, refusalTryMs])
  assert.deepEqual(
    [down.secondPauseMs, asks.secondPauseMs, refuses.secondPauseMs],
    [3_600_000, outageSecondMs, refusalSecondMs],
  )
})

// With nothing to send, `--accept` or `LEADPUSH_OUTAGE=0s` ended the alarm of a receiver that nobody had tried.
test('a push ends a trouble that others see by an answer alone, not as it has nothing to send', () => {
  const write = (from: Health) => step(from, { is: 'end', cutShort: false }, 0, rules).write
  const known = { trouble: isDown, tries: 3, nextMs: 5_000, secondMs: 0 }
  const begun = regardless(known)
  const without: Rules = { ...rules, patienceMs: 0 }
  const unheeding = step(unproven, { is: 'row', known, begins: true }, 0, without).health
  for (const from of [begun, unheeding, allMade(begun), after([503], begun), after([{ second: 503 }], allMade(begun))])
    assert.equal(write(from), undefined)
  // one that looks like another trouble ends it with the push, one that shows nothing else at once
  assert.deepEqual(write(after([401], begun)), { says: 'well' })
  const plain = step(begun, { is: 'outcome', attempt: 1, sign: { is: 'nothing' } }, 0, rules)
  assert.deepEqual([plain.write, write(plain.health)], [{ says: 'well' }, undefined])
})

// All second attempts were lost to an outage that began as others had a success: each one took the count back, until all were begun.
test('of an outage the attempts count again that a success of another run has taken back, once nobody is left to be drawn', () => {
  const hear = (from: Health) => step(from, { is: 'others well', at: 1 }, 9, rules).health
  for (const [what, name] of [[503, 'down'], [401, 'doubted'], ['empty', 'doubted']] as const) {
    const heard = hear(after([200, ...times(19, what)]))
    assert.equal(nameOf(noneToDraw(after([what], heard))), name)
  }
}) // biome-ignore format: short

// Three pushes met users who time out: one had seen the end of that, went on trying them 20 and 40 s apart, and gave up on good ones.
test('once others have seen the end of an outage, patience begins anew, and ten tries come within 10 s', () => {
  const read = (from: Health, known: KnownTrouble | null, now: number) => step(from, { is: 'row', known, begins: false }, now, rules).health
  const next = { open: 0, next: { is: 'first' } } as const
  const nextTry = (from: Health) => from.is === 'trouble' ? from.nextAt : from.is
  const waits = read(unproven, { trouble: isDown, tries: 3, nextMs: 80_000, secondMs: outageSecondMs }, 0)
  const ended = read(waits, null, 50_000)
  const fail = (from: Health, now: number, kind: AttemptKind = 'first') => after([503], step(from, { is: 'granted', kind }, now, rules).health)
  const pauses: number[] = []
  for (let [health, now] = [ended, 50_000]; pauses.length < 11; now = nextTry(health) as number) {
    health = fail(health, now)
    pauses.push(Math.round(nextTry(health) as number - now))
  }
  assert.deepEqual([nextTry(waits), nextTry(ended), ...pauses], [80_000, 50_000, 20, 39, 78, 156, 313, 625, 1_250, 2_500, 5_000, 10_000, 20_000])
  assert.deepEqual([109_999, 110_000].map((at) => ask({ ...fail(ended, 50_000), nextAt: 200_000 } as Health, next, at, rules).is), ['wait', 'end'])
  // a second attempt, which is lost where the outage goes on, may be tried once more
  const second = { open: 0, next: { is: 'second' } } as const
  assert.deepEqual([ask(ended, second, 50_000, rules).is, ask(fail(ended, 50_000, 'second'), second, 109_999, rules).is], ['try', 'wait'])
  // told of once more, it has the time of the row, and not its own of before
  assert.deepEqual([-10, 0, 1].map((tries) => nextTry(read(ended, { trouble: isDown, tries, nextMs: 10_000, secondMs: 0 }, 50_001))), [60_001, 60_001, 60_001])
}) // biome-ignore format: a table

test('a receiver that is down is tried after 10 s, then after twice as long each time, up to 5 minutes', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map((tries) => troubleRules.down.pauseMs(tries) / 1_000), [10, 20, 40, 80, 160, 300, 300])
  const down = after(times(20, 503))
  const next = { open: 0, next: { is: 'first' } } as const
  assert.deepEqual([9_999, 10_000].map((at) => ask(down, next, at, rules)), [{ is: 'wait', ms: 1 }, { is: 'try', kind: 'first' }])
  const unseen = step(down, { is: 'no sign' }, 10_000, rules).health
  assert.deepEqual([outageCheckMs - 1, outageCheckMs].map((ms) => ask(unseen, next, 10_000 + ms, rules).is), ['wait', 'try'])
  const tried = step(down, { is: 'granted', kind: 'first' }, 10_000, rules).health
  const failed = step(tried, { is: 'outcome', attempt: 1, sign: sign(503) }, 11_000, rules).health
  assert.deepEqual([29_999, 30_000].map((at) => ask(failed, next, at, rules).is), ['wait', 'try'])
  // an attempt that is due is made before it gives up
  assert.deepEqual([60_000, 60_001].map((at) => ask(failed, next, at, rules).is), ['try', 'try'])
  const again = step(failed, { is: 'granted', kind: 'first' }, 30_000, rules).health
  const over = step(again, { is: 'outcome', attempt: 1, sign: sign(null) }, 31_000, rules).health
  assert.deepEqual(ask(over, next, 60_000, rules), { is: 'end', why: { by: 'outage', known: false } })
}) // biome-ignore format: a table

test('a refusal: the push that comes next tries once, another that begins meanwhile is held at once', () => {
  const learn = (nextMs: number, begins = true, secondMs = 0) =>
    step(unproven, { is: 'row', known: { trouble: refuses(401), tries: 3, nextMs, secondMs }, begins }, 0, rules).health
  const next = (is: 'first' | 'second') => ({ open: 0, next: is === 'first' ? ({ is } as const) : ({ is, inMs: 0 } as const) })
  assert.deepEqual(ask(learn(0), next('first'), 0, rules), { is: 'try', kind: 'first' })
  assert.deepEqual(ask(learn(60_000), next('first'), 0, rules), { is: 'wait', ms: 1_000 })
  for (const [health, kind] of [[learn(60_001), 'first'], [learn(0, true, 60_001), 'second']] as const) {
    assert.deepEqual(ask(health, next(kind), 0, rules), { is: 'end', why: { by: 'refusal', known: true, status: 401, untilNextMs: 60_001 } })
  }
  // another process has made the try
  const taken = { trouble: refuses(401), tries: 4, nextMs: refusalTryMs, secondMs: 0 }
  assert.equal(ask(step(learn(0), { is: 'row', known: taken, begins: false }, 0, rules).health, next('first'), 0, rules).is, 'end')
  // another status is another trouble, even after as many tries
  const other = { trouble: refuses(403), tries: 3, nextMs: 5, secondMs: 0 }
  assert.deepEqual(go(step(learn(0), { is: 'row', known: other, begins: false }, 0, rules).health), [2, 0])
  const tried = step(learn(0), { is: 'granted', kind: 'first' }, 0, rules).health
  for (const [what, is] of [[401, 'refuses'], [null, 'refuses'], [200, 'well'], [429, 'well'], [403, 'unproven'], [503, 'unproven'], ['empty', 'unproven']] as const) {
    assert.equal(nameOf(after([what], tried)), is, `${what}`)
  }
  assert.equal(ask(after([401], tried), next('first'), 0, rules).is, 'end')
}) // biome-ignore format: a table

// One of three pushes had nobody but users whom the receiver refuses: the others ended as they heard of it, and left whom it takes.
test('a push that hears of a refusal only draws users, as after attempts of its own, and the first that is taken ends it for all', () => {
  const known = { trouble: refuses(401), tries: 0, nextMs: 0, secondMs: 0 }
  const learn = (from: Health, row: typeof known | null = known, begins = false) =>
    step(from, { is: 'row', known: row, begins }, 0, rules).health
  for (const from of [unproven, after([401]), after([200]), noneToDraw(after([200, ...times(5, 401)]))]) {
    const heard = learn(from)
    const left = nameOf(from) === 'unproven' ? 12 : 15
    assert.deepEqual([go(heard), drawsOnly(heard, rules)], [[2, 0], true])
    assert.deepEqual([after(times(left - 1, 401), heard).is, after(times(left, 401), heard).is], ['open', 'over'])
    for (const what of [200, 409, { second: 200 }] as const) {
      const [attempt, answer] = typeof what === 'object' ? ([2, what.second] as const) : ([1, what] as const)
      // one that was under way shows it as well
      const { health, write } = step(heard, { is: 'outcome', attempt, sign: sign(answer), drawn: false }, 0, rules)
      assert.deepEqual([nameOf(health), go(health), write], ['well', [all, all], { says: 'well' }])
    }
    // others have seen it end
    assert.deepEqual(go(learn(heard, null)), go(nameOf(from) === 'unproven' ? unproven : after([200])))
    // whoever is owed after all
    assert.deepEqual(go(learn(noneToDraw(heard), known, true)), [2, 0])
    // where nobody is left, it ends unless it has seen another answer; then second attempts go one by one
    const alone = allMade(heard)
    const seconds = [0, 1].map((open) => ask(alone, { open }, 0, rules)).map((it) => (it.is === 'go' ? it.seconds : it.is))
    assert.deepEqual(seconds, nameOf(from) === 'unproven' ? ['end', 'end'] : [1, 0])
    assert.equal(after([{ second: 401 }], alone).is, 'over')
  }
  // its own count on: it would make more than 20 before another answer
  assert.deepEqual(go(learn(after(times(17, 401)))), [3, 0])
  assert.deepEqual([go(learn(after([503, 503]))), after(times(18, 503), learn(after([503, 503]))).is], [[6, 0], 'trouble'])
  // nobody was left to draw, and one was under way that was not drawn: it made 21
  assert.deepEqual(go(learn(noneToDraw(after(times(10, 401)))), 1), [9, 0])
  // but for one that stood alone: second attempts after it showed nothing of another refusal
  assert.equal(after([{ second: 403 }], learn(allMade(after([403])))).is, 'open')
}) // biome-ignore format: a table

// Of three pushes one met nobody but users whom the receiver refuses, and was held: the others had just served theirs, and had ended.
// Down for ten minutes, and then 429 for ten more: the push waited for both.
test('a receiver that asks for less after an outage has taken nothing since that began', () => {
  const down = step(after(times(20, 503)), { is: 'granted', kind: 'first' }, 10_000, rules).health
  const asks = step(down, { is: 'outcome', attempt: 1, sign: sign(429) }, 59_000, rules).health
  const at = (now: number) => step(asks, { is: 'time' }, now, rules).health.is
  assert.deepEqual([down.is, at(59_999), at(60_000)], ['trouble', 'open', 'over'])
})

test('a success of another run since attempts began to end alike shows trouble of some users: as many more are drawn', () => {
  const known = { trouble: refuses(401), tries: 0, nextMs: 0, secondMs: 0 }
  const hear = (from: Health, at: number, now = 9) => step(from, { is: 'others well', at }, now, rules).health
  for (const what of [503, 401, 'empty'] as const)
    for (const [from, left] of [[unproven, 12], [after([200]), 15]] as const) {
      const nearly = after(times(19, what), from)
      for (const health of [nearly, noneToDraw(nearly)]) {
        // what came before they did shows nothing
        assert.equal(hear(health, 0), health)
        const heard = hear(health, 1)
        assert.deepEqual([nameOf(heard), go(heard), drawsOnly(heard, rules)], [nameOf(from) === 'unproven' ? 'unproven' : 'doubted', [2, what === 'empty' && left === 15 ? 2 : 0], true])
        assert.deepEqual([after(times(left - 1, what), heard).is, after(times(left, what), heard).is !== 'open'], ['open', true])
        // nor does the same success once more
        assert.equal(hear(heard, 9), heard)
        assert.deepEqual(go(after([200], heard)), [all, all])
      }
      if (left === 12) continue
      // early ones count no more
      const early = times(100, { is: 'outcome', attempt: 1, sign: sign(what) } as const).reduce<Health>((health, event) => step(health, event, 0, rules).health, from)
      assert.equal(noneToDraw(hear(early, 1)).is, 'open')
    }
  const few = after([401, 401])
  assert.deepEqual([go(hear(few, 1)), go(few)], [[6, 0], [6, 0]])
  assert.deepEqual([unproven, after([200])].map((health) => hear(health, 1) === health), [true, true])
  // Two who always time out stopped the pushes of all: beside that success two lost second attempts show nothing of the receiver.
  const lost = { second: null } as const
  const [one, before] = [after([lost], allMade(unproven)), after([200])]
  assert.deepEqual([after([lost], one), hear(one, 0), hear(one, 1)].map((health) => nameOf(after([lost], health))), ['down', 'down', 'unproven'])
  assert.equal(hear(before, 1), before)
  // what others have told of a refusal, too
  const told = step(after([200]), { is: 'row', known, begins: false }, 5, rules).health
  // nor does what came before, if others told of a trouble in between
  const asks = { trouble: { is: 'asks' }, tries: 0, nextMs: 0, secondMs: 0 } as const
  const at7 = (health: Health, event: Event) => step(health, event, 7, rules).health
  const is403 = { is: 'outcome', attempt: 1, sign: sign(403) } as const
  const back = at7(at7(at7(unproven, is403), { is: 'row', known: asks, begins: false }), is403)
  assert.deepEqual([nameOf(back), hear(back, 7) === back, hear(back, 8) === back], ['unproven', true, false])
  assert.deepEqual([hear(told, 5) === told, go(after(times(14, 401), hear(after(times(14, 401), told), 6)))], [true, [1, 0]])
}) // biome-ignore format: a table

test('a try that is taken back is there for the next', () => {
  for (const trouble of [isDown, { is: 'asks' } as const, refuses(401)]) {
    const known = { trouble, tries: 4, nextMs: 0, secondMs: 0 }
    const { health } = step(unproven, { is: 'row', known, begins: true }, 0, rules)
    const granted = step(health, { is: 'granted', kind: 'second' }, 0, rules).health
    const back = step(granted, { is: 'taken back' }, 0, rules)
    assert.deepEqual(back.write, { says: 'taken back', trouble, tries: 5, kind: 'second' })
    assert.deepEqual(ask(back.health, { open: 0, next: { is: 'second', inMs: 0 } }, 1_000, rules), { is: 'try', kind: 'second' })
    assert.equal(step(back.health, { is: 'taken back' }, 0, rules).write, undefined)
  }
}) // biome-ignore format: a table

test('an answer that ends a trouble but looks like another: two second ones alike prove that, one by one', () => {
  const known = { trouble: refuses(401), tries: 0, nextMs: 0, secondMs: 0 }
  const refused = step(unproven, { is: 'row', known, begins: true }, 0, rules).health
  const tried = step(refused, { is: 'granted', kind: 'second' }, 0, rules).health
  const stands = after([{ second: 503 }], tried)
  assert.deepEqual(go(stands), [7, 0])
  const alone = allMade(stands)
  assert.deepEqual([go(alone), go(alone, 1)], [[19, 1], [18, 0]])
  const sign503 = { is: 'outcome', attempt: 2, sign: sign(503) } as const
  assert.deepEqual(step(alone, sign503, 0, rules).write, { says: 'trouble', trouble: isDown, inARow: 2, error: '' })
  // everybody would have lost the second attempt to a receiver that answers 401 and 503 in turn
  assert.deepEqual(go(after([{ second: 401 }], alone)), [7, 1])
  const end = (cutShort: boolean) => step(alone, { is: 'end', cutShort }, 0, rules).write
  assert.deepEqual([end(false), end(true)], [{ says: 'well' }, undefined])
}) // biome-ignore format: a table

test('every state that few users can reach, with everything that receiver, database and other processes may do', () => {
  const found = new Set<string>()
  // a few kinds at a time: all at once are 600,000 states; more of them: `test/slow/health.test.ts`
  for (const some of [[200, 503, 401].map(sign), allSigns.slice(-3)]) {
    const { states, ends, moves } = walkHealth(some)
    assert.ok(states > 5_000 && ends > 100, `${states} states, ${ends} ends`)
    for (const move of moves) found.add(move)
  }
  const page = readFileSync(join(packageRoot, 'ARCHITECTURE.md'), 'utf8')
  const drawn = page.match(/(?<=^ +)[a-z]+ --> [a-z]+(?=: )/gm) ?? []
  assert.deepEqual(drawn.toSorted(), [...found].sort(), 'ARCHITECTURE.md draws these moves, and no others')
})
