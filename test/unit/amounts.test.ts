import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytes, plural } from '../../src/base/amounts.ts'

test('sizes are in the unit that makes them 1 or more, and below 1,000', () => {
  // 390 GB was 390000 MB
  const cases = [
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.0 kB'],
    [999_949, '999.9 kB'],
    [999_950, '1.0 MB'],
    [5_000_000, '5.0 MB'],
    [1e9, '1.0 GB'],
    [390e9, '390.0 GB'],
    [4e15, '4000.0 TB'],
  ] as const
  for (const [size, text] of cases) assert.equal(bytes(size), text)
})

test('a noun follows its number', () => {
  // `2 standbies` were attached
  const cases = [
    [0, 'user', '0 users'],
    [1, 'query', '1 query'],
    [2, 'query', '2 queries'],
    [2, 'day', '2 days'],
    [2, 'standby', '2 standbys'],
    [1_234, 'delivery', '1,234 deliveries'],
  ] as const
  for (const [count, noun, text] of cases) assert.equal(plural(count, noun), text)
})
