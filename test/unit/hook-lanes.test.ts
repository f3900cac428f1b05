import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HookLanes, type Lane } from '../../src/triggers/hook-lanes.ts'

const hookOf = (id: string, isUnproven = false) => ({
  id,
  url: `https://hooks.example.com/${id}`,
  integrationId: 1,
  isUnproven,
  lookedImportId: 1,
})

function lanesOf(ids: readonly string[], isUnproven = false): HookLanes {
  const lanes = new HookLanes()
  lanes.add(ids.map((id) => hookOf(id, isUnproven)))
  return lanes
}

const many = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `${from + n}`)
const laneOf = (lanes: HookLanes, id: string) => lanes.get(id) as Lane
const readyIds = (lanes: HookLanes, nowMs: number) => lanes.findReady(nowMs).map(({ id }) => id)

test('a hook gets one at a time until it has answered, then two, and never the next within 100 ms', () => {
  const lanes = lanesOf(['a'])
  const lane = laneOf(lanes, 'a')
  lanes.begin(lane, 0)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lane.hasAnswered = true
  assert.deepEqual([readyIds(lanes, 99), readyIds(lanes, 100)], [[], ['a']])
  assert.equal(lanes.untilNextMs(40), 60)
  lanes.begin(lane, 100)
  assert.deepEqual(readyIds(lanes, 1_000), [])
  lane.underWay = 1
  assert.deepEqual([readyIds(lanes, 199), readyIds(lanes, 200)], [[], ['a']])
  assert.equal(lanes.untilNextMs(200), Number.POSITIVE_INFINITY)
})

test('at most 64 triggers are under way, and the hook that waited longest is next', () => {
  const lanes = lanesOf(many(70))
  const ready = lanes.findReady(0)
  assert.deepEqual([ready.length, lanes.room], [64, 64])
  const ends = ready.map((lane) => lanes.begin(lane, 0))
  assert.deepEqual([readyIds(lanes, 0), lanes.room, lanes.isIdle], [[], 0, false])
  ends[5]?.()
  assert.deepEqual([readyIds(lanes, 0), lanes.room], [['64'], 1])
  for (const [at, end] of ends.entries()) if (at !== 5) end()
  for (const lane of lanes.all()) lane.underWay = 0
  assert.ok(lanes.isIdle)
  assert.deepEqual(readyIds(lanes, 100).slice(0, 7), ['64', '65', '66', '67', '68', '69', '0'])
})

test('hooks that may hang get at most 48 of the 64 together', () => {
  const lanes = lanesOf(many(60), true)
  const ready = lanes.findReady(0)
  assert.equal(ready.length, 48)
  const ends = ready.map((lane) => lanes.begin(lane, 0))
  assert.deepEqual(readyIds(lanes, 0), [])
  lanes.add(many(20, 100).map((id) => hookOf(id)))
  assert.deepEqual(readyIds(lanes, 0), many(16, 100))
  // one that answers makes room for the next
  laneOf(lanes, '0').isUnproven = false
  ends[0]?.()
  assert.ok(readyIds(lanes, 0).includes('48'))
})

test('a hook with nothing due is let go once nothing is under way to it', () => {
  const lanes = lanesOf(['a', 'b'])
  const lane = laneOf(lanes, 'a')
  lanes.begin(lane, 0)
  lane.isEmpty = true
  assert.deepEqual(lanes.findDone(), [])
  lane.underWay--
  assert.deepEqual(lanes.findDone(), [lane])
  lanes.letGo([lane])
  assert.deepEqual([lanes.size, readyIds(lanes, 1_000)], [1, ['b']])
})

test('lost hooks get nothing more; one with a trigger under way is taken again only once that has ended', () => {
  const lanes = lanesOf(['a', 'b'])
  const lane = laneOf(lanes, 'a')
  lanes.begin(lane, 0)
  lanes.lose()
  lanes.add([hookOf('a'), hookOf('b')])
  assert.deepEqual(readyIds(lanes, 1_000), ['b'])
  lane.underWay--
  lanes.letGo(lanes.findDone())
  lanes.add([hookOf('a')])
  assert.deepEqual(readyIds(lanes, 1_000), ['b', 'a'])
})

test('a process has so many hooks at once at most, and so many that may hang', () => {
  const lanes = lanesOf(many(255), true)
  assert.ok(lanes.hasRoomForUnproven)
  lanes.add([hookOf('255', true)])
  assert.ok(!lanes.hasRoomForUnproven)
  lanes.add(many(255, 1_000).map((id) => hookOf(id)))
  assert.ok(!lanes.isFull)
  lanes.add([hookOf('last')])
  assert.ok(lanes.isFull)
})
