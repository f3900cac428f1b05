import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRecipe, encodeRecipe } from '../../src/deliveries/recipe.ts'

test('a recipe gives back the ids that went in, also beyond 32 bits and none at all', () => {
  for (const ids of [[], [1], [128, 127], [2 ** 52, 2 ** 52 - 1, 2 ** 40, 300, 16_384, 1].sort((a, b) => b - a)]) {
    assert.deepEqual(decodeRecipe(encodeRecipe(ids)), ids)
  }
})

test('300 neighbouring ids take no more than two bytes each', () => {
  const ids = Array.from({ length: 300 }, (_, at) => 5_000_000 - at * 100)
  assert.ok(encodeRecipe(ids).length < 2 * ids.length)
})

test('ids that do not fall strictly are refused, since they would not come back', () => {
  assert.throws(() => encodeRecipe([5, 5]), RangeError)
  assert.throws(() => encodeRecipe([5, 6]), RangeError)
})
