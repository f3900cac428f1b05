/** The receiver's health (contract 4.5, 4.12): rules by example, then every state that few users can reach. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { outageCheckMs } from '../../src/base/limits.ts'
import {
  ask,
  type Health,
  pauseAfter,
  type Rules,
  type Sign,
  signOf,
  step,
  unproven,
  well,
} from '../../src/push/receiver/health.ts'
import { walkHealth } from '../support/walk-health.ts'

const rules: Rules = { patienceMs: 60_000, refusals: true, empty: true, inARow: 20 }
const empty = { is: 'empty', says: 'a page' } as const
const sign = (what: number | null | 'empty'): Sign =>
  what === 'empty' ? empty : signOf({ httpStatus: what, error: '' })

/** The health after outcomes of first attempts, or of second ones where so marked. */
function after(
  outcomes: (number | null | 'empty' | { second: number | null | 'empty' })[],
  from: Health = unproven,
  by = rules,
) {
  let health = from
  for (const outcome of outcomes) {
    const [attempt, what] =
      typeof outcome === 'object' && outcome ? ([2, outcome.second] as const) : ([1, outcome] as const)
    health = step(health, { is: 'outcome', attempt, sign: sign(what) }, 0, by).health
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
  if (health.is === 'trouble') return health.status === null ? 'down' : 'refuses'
  if (health.is === 'over') return 'over'
  return health.isMixed ? (health.alike ? 'doubted' : 'well') : 'unproven'
}
const allMade = (health: Health) => step(health, { is: 'no firsts left' }, 0, rules).health
const all = Number.POSITIVE_INFINITY

test('a 3xx or 4xx is a refusal, but for 408, 409, 425 and 429; without an answer below 500 the receiver may be down', () => {
  for (const status of [300, 301, 308, 399, 400, 401, 404, 407, 410, 413, 415, 422, 424, 426, 428, 430, 499]) assert.deepEqual(sign(status), { is: 'failure', status, httpStatus: status, error: '' }) // biome-ignore format: a list
  for (const status of [200, 204, 299, 408, 409, 425, 429]) assert.deepEqual(sign(status), { is: 'well' })
  for (const status of [500, 503, 599, null])
    assert.deepEqual(sign(status), { is: 'failure', status: null, httpStatus: status, error: '' })
  assert.deepEqual(signOf({ httpStatus: 200, error: null, emptySuccess: 'a page' }), empty)
})

test('20 first attempts in a row that end alike prove trouble, 19 do not, and second ones do not count', () => {
  for (const [what, is] of [[503, 'down'], [null, 'down'], [401, 'over'], [301, 'over'], ['empty', 'over']] as const) {
    const health = after(times(19, what))
    assert.deepEqual([nameOf(health), go(health), go(health, 1)], ['unproven', [1, 0], [0, 0]])
    if (what !== 'empty') assert.equal(nameOf(after([...times(19, what), { second: what }])), 'unproven')
    assert.equal(nameOf(after([what], health)), is)
  }
  assert.equal(nameOf(after([500, null, ...times(17, 503), 599])), 'down')
}) // biome-ignore format: a table

test('at any time 20 in a row do: after an answer of another kind as well, empty successes of second attempts too', () => {
  for (const what of [503, 401, 'empty'] as const) {
    const health = after([200, ...times(19, what)])
    assert.deepEqual([nameOf(health), go(health)], ['doubted', [all, what === 'empty' ? all : 0]])
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
    if (is === 'go') assert.deepEqual([health.is, (go(health) as number[])[1]], ['open', all], `${outcomes}`)
    else assert.equal(nameOf(health), is, `${outcomes}`)
  }
  assert.deepEqual([go(allMade(unproven), 7), go(allMade(after([503])), 7), go(unproven, 7)], [[13, all], [12, all], [13, 0]])
  assert.deepEqual(go(after([503], allMade(unproven))), [19, 0])
}) // biome-ignore format: a table

// Users came one by one while a push went on: each was forgotten when the next came, and an outage cost all of them both attempts.
test('first attempts that come one by one are counted as those that come together', () => {
  const one = allMade(after([503]))
  assert.deepEqual(go(one), [19, all])
  assert.equal(nameOf(allMade(after([{ second: 503 }, 500], one))), 'down')
  assert.deepEqual(go(allMade(after([401], one))), [all, all])
})

// A push that had nothing to do, and then took over what another had left, made those second attempts before the first ones.
test('a push that looks for users once more makes no second attempt before they have shown something', () => {
  const begin = (health: Health) => step(health, { is: 'row', known: null, begins: true }, 0, rules).health
  const again = begin(allMade(unproven))
  assert.deepEqual([go(again, 0), go(allMade(again), 0)], [[20, 0], [20, all]])
  assert.deepEqual(go(begin(after([200]))), [all, all])
}) // biome-ignore format: a table

test('trouble that is not looked for does not count', () => {
  const without: Rules = { ...rules, patienceMs: 0 }
  assert.equal(nameOf(after(times(100, 500), unproven, without)), 'well')
  assert.equal(after([...times(19, 401), 503, ...times(20, 401)], unproven, without).is, 'over')
  assert.equal(nameOf(after(times(100, 'empty'), unproven, { ...rules, empty: false })), 'well')
  const known = { status: null, tries: 1, nextMs: 5_000, secondMs: 0 }
  assert.deepEqual(step(unproven, { is: 'row', known, begins: true }, 0, without).health, unproven)
  // its end was not recorded: the row went on to say that a receiver refuses that answers 503
  const refused = step(unproven, { is: 'row', known: { ...known, status: 401 }, begins: true }, 0, without).health
  const end = (health: Health, httpStatus: number, by: Rules) =>
    step(health, { is: 'outcome', attempt: 1, sign: sign(httpStatus) }, 0, by)
  assert.deepEqual(end(refused, 503, without), { health: well, write: { says: 'well' } })
})

test('with --accept failures change nothing, and the first success ends a trouble that others see', () => {
  const accepting: Rules = { patienceMs: 0, refusals: false, empty: false, inARow: 20 }
  const begun = { ...well, stands: true }
  const end = (what: number | 'empty') => step(begun, { is: 'outcome', attempt: 1, sign: sign(what) }, 0, accepting)
  for (const status of [503, 401]) assert.deepEqual(end(status), { health: begun })
  for (const success of [200, 'empty'] as const)
    assert.deepEqual(end(success), { health: well, write: { says: 'well' } })
  assert.deepEqual(step(begun, { is: 'end', cutShort: false }, 0, accepting), { health: begun })
  assert.deepEqual(go(begun), [all, all])
})

test('a receiver that is down is tried after 10 s, then after twice as long each time, up to 5 minutes', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map((tries) => pauseAfter(tries) / 1_000), [10, 20, 40, 80, 160, 300, 300])
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
    step(unproven, { is: 'row', known: { status: 401, tries: 3, nextMs, secondMs }, begins }, 0, rules).health
  const next = (is: 'first' | 'second') => ({ open: 0, next: is === 'first' ? ({ is } as const) : ({ is, inMs: 0 } as const) })
  assert.deepEqual(ask(learn(0), next('first'), 0, rules), { is: 'try', kind: 'first' })
  assert.deepEqual(ask(learn(60_000), next('first'), 0, rules), { is: 'wait', ms: 1_000 })
  for (const [health, kind, untilNextMs] of [[learn(60_001), 'first', 60_001], [learn(0, true, 60_001), 'second', 60_001], [learn(5, false), 'first', 5]] as const) {
    assert.deepEqual(ask(health, next(kind), 0, rules), { is: 'end', why: { by: 'refusal', known: health.is !== 'over', status: 401, untilNextMs } })
  }
  // another status is another trouble, even after as many tries
  const other = { status: 403, tries: 3, nextMs: 5, secondMs: 0 }
  const why = { by: 'refusal', known: false, status: 403, untilNextMs: 5 }
  assert.deepEqual(step(learn(0), { is: 'row', known: other, begins: false }, 0, rules).health, { is: 'over', why })
  const tried = step(learn(0), { is: 'granted', kind: 'first' }, 0, rules).health
  for (const [what, is] of [[401, 'refuses'], [null, 'refuses'], [200, 'well'], [429, 'well'], [403, 'unproven'], [503, 'unproven'], ['empty', 'unproven']] as const) {
    assert.equal(nameOf(after([what], tried)), is, `${what}`)
  }
  assert.equal(ask(after([401], tried), next('first'), 0, rules).is, 'end')
}) // biome-ignore format: a table

test('a try that was not made is given back', () => {
  for (const status of [null, 401]) {
    const known = { status, tries: 4, nextMs: 0, secondMs: 0 }
    const { health } = step(unproven, { is: 'row', known, begins: true }, 0, rules)
    const granted = step(health, { is: 'granted', kind: 'second' }, 0, rules).health
    const back = step(granted, { is: 'not made' }, 0, rules)
    assert.deepEqual(back.write, { says: 'not made', status, tries: 5, kind: 'second' })
    assert.deepEqual(ask(back.health, { open: 0, next: { is: 'second', inMs: 0 } }, 1_000, rules), { is: 'try', kind: 'second' })
    assert.equal(step(back.health, { is: 'not made' }, 0, rules).write, undefined)
  }
}) // biome-ignore format: a table

test('an answer that ends a trouble but looks like another: two second ones alike prove that, one by one', () => {
  const known = { status: 401, tries: 0, nextMs: 0, secondMs: 0 }
  const refused = step(unproven, { is: 'row', known, begins: true }, 0, rules).health
  const tried = step(refused, { is: 'granted', kind: 'second' }, 0, rules).health
  const stands = after([{ second: 503 }], tried)
  assert.deepEqual(go(stands), [19, 0])
  const alone = allMade(stands)
  assert.deepEqual([go(alone), go(alone, 1)], [[19, 1], [18, 0]])
  const sign503 = { is: 'outcome', attempt: 2, sign: sign(503) } as const
  assert.deepEqual(step(alone, sign503, 0, rules).write, { says: 'trouble', status: null, inARow: 2, error: '' })
  // everybody would have lost the second attempt to a receiver that answers 401 and 503 in turn
  assert.deepEqual(go(after([{ second: 401 }], alone)), [19, 1])
  const end = (cutShort: boolean) => step(alone, { is: 'end', cutShort }, 0, rules).write
  assert.deepEqual([end(false), end(true)], [{ says: 'well' }, undefined])
}) // biome-ignore format: a table

test('every state that few users can reach, with everything that receiver, database and other processes may do', () => {
  const { states, ends } = walkHealth()
  assert.ok(states > 5_000 && ends > 100, `${states} states, ${ends} ends`)
})
