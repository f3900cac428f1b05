import assert from 'node:assert/strict'
import { test } from 'node:test'
import { failuresInARow } from '../../src/base/limits.ts'
import { HookLanes, type Lane } from '../../src/triggers/hook-lanes.ts'
import type { TriggerOutcome } from '../../src/triggers/trigger-attempt.ts'

const hookOf = (id: string, isUnproven = false, url = `https://${id}.example.com/`) => ({
  id,
  url,
  integrationId: 1,
  isUnproven,
  failures: 0,
})

function lanesOf(ids: readonly string[], isUnproven = false): HookLanes {
  const lanes = new HookLanes()
  lanes.add(ids.map((id) => hookOf(id, isUnproven)))
  return lanes
}

let triggers = 0

/** A trigger is sent to the hook; returns what ends it. */
function send(lanes: HookLanes, lane: Lane, nowMs = 0): () => void {
  const end = lanes.begin(lane, `${++triggers}`)
  lanes.endWait(lane, nowMs)
  return end
}

const failed: TriggerOutcome = { ok: false, gone: false, httpStatus: 500, error: 'HTTP 500', retryAfterMs: null, timedOut: false, durationMs: 1 } // biome-ignore format: one
const delivered: TriggerOutcome = { ...failed, ok: true, httpStatus: 200, error: null }
const many = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `${from + n}`)
const laneOf = (lanes: HookLanes, id: string) => lanes.get(id) as Lane
const readyIds = (lanes: HookLanes, nowMs: number) => lanes.findReady(nowMs).map(({ id }) => id)

test('a hook gets one at a time until it has taken one, then two, and never the next within 100 ms', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  send(lanes, lane)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  assert.equal(lanes.note(lane, delivered), null)
  assert.deepEqual([readyIds(lanes, 99), readyIds(lanes, 100)], [[], ['a']])
  assert.equal(lanes.untilNextMs(40), 60)
  send(lanes, lane, 100)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lane.inHand = new Set(['one'])
  assert.deepEqual([readyIds(lanes, 199), readyIds(lanes, 200)], [[], ['a']])
  assert.equal(lanes.untilNextMs(200), Number.POSITIVE_INFINITY)
})

test('at most 64 triggers are under way, and the hook that waited longest is next', () => {
  const lanes = lanesOf(many(70))
  const ready = lanes.findReady(0)
  assert.deepEqual([ready.length, lanes.room], [64, 64])
  const ends = ready.map((lane) => send(lanes, lane))
  assert.deepEqual([readyIds(lanes, 0), lanes.room], [[], 0])
  ends[5]?.()
  assert.deepEqual([readyIds(lanes, 0), lanes.room], [['64'], 1])
  for (const [at, end] of ends.entries()) if (at !== 5) end()
  for (const id of lanes.knownIds) laneOf(lanes, id).inHand.clear()
  assert.equal(lanes.room, 64)
  assert.deepEqual(readyIds(lanes, 100).slice(0, 7), ['64', '65', '66', '67', '68', '69', '0'])
})

test('hooks that may hang get at most 48 of the 64 together', () => {
  const lanes = lanesOf(many(60), true)
  const ready = lanes.findReady(0)
  assert.equal(ready.length, 48)
  const ends = ready.map((lane) => send(lanes, lane))
  assert.deepEqual(readyIds(lanes, 0), [])
  lanes.add(many(20, 100).map((id) => hookOf(id)))
  assert.deepEqual(readyIds(lanes, 0), many(16, 100))
  // one that answers makes room for the next
  laneOf(lanes, '0').isUnproven = false
  ends[0]?.()
  assert.ok(readyIds(lanes, 0).includes('48'))
})

test('a hook with nothing due is let go once nothing is under way to it and its pace is over', () => {
  const lanes = lanesOf(['a', 'b'])
  const lane = laneOf(lanes, 'a')
  send(lanes, lane)
  lanes.happen(lane, 'emptied')
  const afterLetting = (nowMs: number) => {
    lanes.letGoDone(nowMs)
    return ['a', 'b'].filter((id) => lanes.get(id))
  }
  assert.deepEqual(afterLetting(1_000), ['a', 'b'])
  lane.inHand.clear()
  assert.deepEqual(afterLetting(99), ['a', 'b'])
  assert.deepEqual(afterLetting(100), ['b'])
  assert.deepEqual(readyIds(lanes, 1_000), ['b'])
})

test('a hook with nothing due that is found again while a trigger is under way goes on in its lane', () => {
  const lanes = lanesOf(['a', 'b'])
  const lane = laneOf(lanes, 'a')
  send(lanes, lane)
  lanes.happen(lane, 'emptied')
  assert.deepEqual(lanes.knownIds, ['b'])
  lanes.add([hookOf('a')])
  assert.deepEqual(
    [lanes.knownIds.sort(), laneOf(lanes, 'a').inHand.size, laneOf(lanes, 'a').state],
    [['a', 'b'], 1, 'due'],
  )
})

test('at most 8 hooks of one host, with any port, wait for their turn, and with 64 known ones it may have more', () => {
  const lanes = new HookLanes()
  const urlOf = (id: string) => `https://Busy.example.com${id === '0' ? '.' : ''}:${8_000 + Number(id)}/`
  lanes.add(many(63).map((id) => hookOf(id, false, urlOf(id))))
  lanes.add([hookOf('other')])
  assert.equal(lanes.hasFullHost, false)
  lanes.add([hookOf('63', false, urlOf('63'))])
  assert.deepEqual([lanes.hasFullHost, lanes.size], [true, 65])
  assert.deepEqual(readyIds(lanes, 0), [...many(8), 'other'])
  for (const id of many(3)) lanes.begin(laneOf(lanes, id), 'one')
  assert.deepEqual(readyIds(lanes, 0), ['3', '4', '5', '6', '7', 'other'])
  // not sent after all
  lanes.endWait(laneOf(lanes, '0'), 0)
  lanes.endWait(laneOf(lanes, '1'), 0)
  assert.deepEqual(readyIds(lanes, 0), ['3', '4', '5', '6', '7', '8', '9', 'other'])
  lanes.happen(laneOf(lanes, '20'), 'emptied')
  lanes.letGoDone(0)
  assert.deepEqual([lanes.hasFullHost, lanes.size], [false, 64])
})

test('a hook whose trigger waits for its turn gets no second one, and its pace begins when that is sent', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  lanes.note(lane, delivered)
  lanes.begin(lane, 'one')
  assert.deepEqual(readyIds(lanes, 5_000), [])
  lanes.endWait(lane, 5_000)
  assert.deepEqual([readyIds(lanes, 5_099), readyIds(lanes, 5_100)], [[], ['a']])
})

test('a hook that failed gets one at a time until it takes one', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  lanes.note(lane, delivered)
  lanes.note(lane, failed)
  send(lanes, lane)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lanes.note(lane, delivered)
  assert.deepEqual(readyIds(lanes, 1_000), ['a'])
})

test('nothing is sent in a pause, to a hook that is off or one that its platform ended, however many outcomes come and whatever is found', () => {
  for (const outcome of [
    { ...failed, retryAfterMs: 5_000 },
    { ...failed, httpStatus: 410, gone: true },
  ]) {
    const lanes = lanesOf(['a'])
    const lane = laneOf(lanes, 'a')
    lanes.note(lane, outcome)
    lanes.note(lane, delivered)
    lanes.add([hookOf('a')])
    assert.deepEqual([readyIds(lanes, 1_000), lanes.knownIds], [[], ['a']])
    lanes.letGoDone(1_000)
    assert.equal(lanes.size, 0)
  }
})

test(`a hook gets a pause that it asks for, and a minute for a timeout or from the ${failuresInARow}th failure in a row on`, () => {
  const pauses = (...outcomes: Partial<TriggerOutcome>[]) => {
    const lanes = lanesOf(['a'])
    return outcomes.map((outcome) => lanes.note(laneOf(lanes, 'a'), { ...failed, ...outcome })).at(-1)
  }
  const four = many(failuresInARow - 1).map(() => failed)
  assert.deepEqual([pauses(failed), pauses(...four), pauses(...four, failed), pauses(...four, failed, failed)], [null, null, 60_000, 60_000]) // biome-ignore format: one
  assert.deepEqual([pauses(...four, delivered), pauses(...four, delivered, failed)], [null, null])
  assert.equal(pauses({ httpStatus: null, timedOut: true }), 60_000)
  // a shorter one counts for its own alone
  assert.deepEqual([pauses({ retryAfterMs: 5_000 }), pauses(...four, { retryAfterMs: 5_000 })], [5_000, 60_000])
  assert.equal(pauses(...four, { retryAfterMs: 7_200_000 }), 7_200_000)
})
