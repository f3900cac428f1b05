import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blockStart, blocksBetween } from '../../src/matching/blocks.ts'
import { mergeNewest, readIds } from '../../src/matching/newest.ts'

const ids = (...values: number[]) => Float64Array.from(values)

test('merging keeps the largest ids of all lists, falling', () => {
  assert.deepEqual(mergeNewest([ids(9, 4, 1), ids(8, 7, 2), ids()], 4), ids(9, 8, 7, 4))
})

test('merging is what sorting everything gives, below, at and above the limit', () => {
  for (const count of [0, 1, 299, 300, 301, 5_000]) {
    const all = Array.from({ length: count }, (_, at) => (at * 7_919) % 10_007)
    const lists = Array.from({ length: 13 }, (_, list) => all.filter((_, at) => at % 13 === list).sort((a, b) => b - a))
    const expected = [...all].sort((a, b) => b - a).slice(0, 300)
    assert.deepEqual(
      [
        ...mergeNewest(
          lists.map((list) => ids(...list)),
          300,
        ),
      ],
      expected,
      String(count),
    )
  }
})

test('ids are read from a text', () => {
  assert.deepEqual(readIds('9007199254740991,12,3'), ids(9_007_199_254_740_991, 12, 3))
  assert.deepEqual(readIds(null), ids())
})

test('blocks cover a stretch of ids exactly, each id once', () => {
  const shifts = [12, 15, 18, 21, 24]
  const smallest = 2 ** 12
  for (const [from, to] of [
    [0, 1],
    [0, 8],
    [1, 7],
    [3, 70],
    [7, 4_097],
    [511, 513],
    [0, 40_000],
    [8_191, 40_003],
  ] as const) {
    const covered = blocksBetween(from * smallest, to * smallest).flatMap((block) => {
      const size = 2 ** ((shifts[block % 8] ?? 0) - 12)
      return Array.from({ length: size }, (_, at) => Math.floor(block / 8) * size + at)
    })
    assert.deepEqual(
      covered.sort((a, b) => a - b),
      Array.from({ length: to - from }, (_, at) => from + at),
    )
  }
  assert.equal(blockStart(4_095), 0)
  assert.equal(blockStart(4_096), 4_096)
})
