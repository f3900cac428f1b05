import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HookLanes, type Lane } from '../../src/triggers/hook-lanes.ts'

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
  lanes.send(lane, nowMs)
  return end
}

const many = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `${from + n}`)
const laneOf = (lanes: HookLanes, id: string) => lanes.get(id) as Lane
const readyIds = (lanes: HookLanes, nowMs: number) => lanes.findReady(nowMs).map(({ id }) => id)

test('a hook gets one at a time until it has answered, then two, and never the next within 100 ms', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  send(lanes, lane)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lane.hasAnswered = true
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
  assert.deepEqual([readyIds(lanes, 0), lanes.room, lanes.isIdle], [[], 0, false])
  ends[5]?.()
  assert.deepEqual([readyIds(lanes, 0), lanes.room], [['64'], 1])
  for (const [at, end] of ends.entries()) if (at !== 5) end()
  for (const id of lanes.knownIds) laneOf(lanes, id).inHand.clear()
  assert.ok(lanes.isIdle)
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

test('512 hooks have a lane at most, and the others that were found get one in turn', () => {
  const lanes = lanesOf(many(511))
  assert.ok(lanes.hasHooksRoom)
  lanes.add(many(3, 511).map((id) => hookOf(id)))
  assert.deepEqual([lanes.hasHooksRoom, lanes.knownIds.length, lanes.get('512')], [false, 514, undefined])
  for (const id of ['7', '8']) lanes.happen(laneOf(lanes, id), 'emptied')
  lanes.letGoDone(0)
  assert.deepEqual([lanes.hasHooksRoom, lanes.get('512')?.state, lanes.get('513')?.state], [false, 'due', 'due'])
})

test('at most 8 hooks of one host, with any port, wait for their turn, and no more than 64 are taken', () => {
  const lanes = new HookLanes()
  const urlOf = (id: string) => `https://Busy.example.com${id === '0' ? '.' : ''}:${8_000 + Number(id)}/`
  lanes.add(many(63).map((id) => hookOf(id, false, urlOf(id))))
  assert.deepEqual(lanes.fullHosts, [])
  lanes.add([...['63', '64'].map((id) => hookOf(id, false, urlOf(id))), hookOf('other')])
  assert.deepEqual([lanes.fullHosts, lanes.get('64')], [['busy.example.com'], undefined])
  assert.deepEqual(readyIds(lanes, 0), [...many(8), 'other'])
  const ends = many(3).map((id) => lanes.begin(laneOf(lanes, id), 'one'))
  assert.deepEqual(readyIds(lanes, 0), ['3', '4', '5', '6', '7', 'other'])
  // given back instead of sent
  ends[0]?.()
  lanes.send(laneOf(lanes, '1'), 0)
  assert.deepEqual(readyIds(lanes, 0), ['3', '4', '5', '6', '7', '8', '9', 'other'])
  // the next of the host gets the lane of one that is done
  lanes.happen(laneOf(lanes, '20'), 'emptied')
  lanes.letGoDone(0)
  assert.deepEqual([lanes.get('20'), lanes.get('64')?.state], [undefined, 'due'])
})

test('a hook whose trigger waits for its turn gets no second one, and its pace begins when that is sent', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  lane.hasAnswered = true
  lanes.begin(lane, 'one')
  assert.deepEqual(readyIds(lanes, 5_000), [])
  lanes.send(lane, 5_000)
  assert.deepEqual([readyIds(lanes, 5_099), readyIds(lanes, 5_100)], [[], ['a']])
})

test('a hook that failed gets one at a time until it takes one; one with a pause, or that is off, gets none', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  lane.hasAnswered = true
  lane.failures = 1
  send(lanes, lane)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lane.failures = 0
  assert.deepEqual(readyIds(lanes, 1_000), ['a'])
  lane.inHand.clear()
  lanes.happen(lane, 'stalled')
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lanes.letGoDone(1_000)
  assert.ok(lanes.isEmpty)
})
