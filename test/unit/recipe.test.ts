import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRecipe, encodeRecipes } from '../../src/deliveries/recipe.ts'

const toBody = (ids: readonly number[]) => ids.map((versionId) => ({ versionId }))
const encode = (ids: readonly number[]) => encodeRecipes([toBody(ids)]).bytes

test('a recipe gives back the ids that went in, also beyond 32 bits and none at all', () => {
  for (const ids of [[], [1], [128, 127], [2 ** 52, 2 ** 52 - 1, 2 ** 40, 300, 16_384, 1].sort((a, b) => b - a)]) {
    assert.deepEqual(decodeRecipe(encode(ids)), ids)
  }
})

test('300 neighbouring ids take no more than two bytes each', () => {
  const ids = Array.from({ length: 300 }, (_, at) => 5_000_000 - at * 100)
  assert.ok(encode(ids).length < 2 * ids.length)
})

test('ids that do not fall strictly are refused, since they would not come back', () => {
  assert.throws(() => encode([5, 5]), RangeError)
  assert.throws(() => encode([5, 6]), RangeError)
})

test('several recipes stand one behind the other, each with its length', () => {
  const bodies = [[300, 299], [], [2 ** 40, 1]]
  const { bytes, lengths } = encodeRecipes(bodies.map(toBody))
  const begins = lengths.map((_, index) => lengths.slice(0, index).reduce((sum, length) => sum + length, 0))
  const decoded = lengths.map((length, index) =>
    decodeRecipe(bytes.subarray(begins[index], (begins[index] ?? 0) + length)),
  )
  assert.deepEqual(decoded, bodies)
})
