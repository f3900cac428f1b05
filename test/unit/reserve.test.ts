/** The users who go last, and are drawn first. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Reserve, reserveRank } from '../../src/push/whom/reserve.ts'

const pushOf = (userId: number, scope: string | null = 'weekly:2026-W10') => ({ userId, scope })
type Push = ReturnType<typeof pushOf>
const idsOf = (pushes: readonly Push[]) => pushes.map(({ userId }) => userId)
const byRank = (ids: readonly number[]) => ids.toSorted((a, b) => reserveRank(a) - reserveRank(b))
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at)

/** Has taken the first 16, which keep their order. */
function begun(): Reserve<Push> {
  const reserve = new Reserve<Push>()
  for (const id of range(-16, 0)) assert.deepEqual(reserve.offer(pushOf(id)), [pushOf(id)])
  return reserve
}

test('behind the first 16 half of the users go last, but 64 at most, and each part of the users has its share of them', () => {
  for (const count of [1, 2, 10, 100, 128, 1_000, 20_000]) {
    const reserve = begun()
    const now = range(1, count + 1).flatMap((id) => reserve.offer(pushOf(id)))
    const kept = idsOf(reserve.take())
    const most = Math.min(64, count / 2 + 2)
    assert.ok(kept.length <= most && kept.length >= most - 4, `${kept.length} of ${count}`)
    assert.deepEqual(
      [...idsOf(now), ...kept].toSorted((a, b) => a - b),
      range(1, count + 1),
      'each goes once',
    )
    const ofFirstHalf = kept.filter((id) => id <= count / 2).length
    assert.ok(Math.abs(ofFirstHalf - kept.length / 2) <= 3, `${ofFirstHalf} of the first half of ${count}`)
    assert.deepEqual(kept, byRank(kept), 'in no order of theirs')
  }
})

test('they are those of the lowest ranks, whatever was offered, put back or drawn meanwhile', () => {
  const reserve = begun()
  const all = range(1, 501)
  for (const id of all.toReversed()) reserve.offer(pushOf(id))
  assert.equal(reserve.below, reserveRank(byRank(all)[64] as number))
  reserve.keepOnly(({ userId }) => userId % 2 === 0)
  assert.deepEqual(reserve.offer(pushOf(byRank(all)[64] as number)).length, 1, 'who did not fit goes now')
  const even = byRank(all).slice(0, 64).filter((id) => id % 2 === 0) // biome-ignore format: a chain
  const [first, ...others] = reserve.take()
  assert.deepEqual(idsOf([first as Push, ...others]), even)
  assert.deepEqual(reserve.offer(first as Push), [])
  assert.deepEqual([reserve.take(), reserve.take()], [[first], []])
})

test('users who were asked for, or are owed a subscription push, go at once', () => {
  const reserve = begun()
  for (const id of range(1, 200)) assert.equal(reserve.offer(pushOf(id, null)).length, 1)
})
