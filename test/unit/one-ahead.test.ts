import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oneAhead } from '../../src/base/one-ahead.ts'

/** Yields 1, 2, … to `last`, and notes what is asked for and that it was ended. */
async function* numbers(last: number, noted: string[], failAt?: number): AsyncGenerator<number> {
  try {
    for (let number = 1; number <= last; number++) {
      noted.push(`asked for ${number}`)
      await new Promise(setImmediate)
      if (number === failAt) throw new Error('no more')
      yield number
    }
  } finally {
    noted.push('ended')
  }
}

test('everything comes in order, and the next one is asked for while the one before is used', async () => {
  const noted: string[] = []
  for await (const number of oneAhead(numbers(3, noted))) {
    await new Promise(setImmediate)
    noted.push(`used ${number}`)
  }
  assert.deepEqual(noted, ['asked for 1', 'asked for 2', 'used 1', 'asked for 3', 'used 2', 'ended', 'used 3'])
})

test('a reader who stops asking ends the source, which was asked for one more', async () => {
  const noted: string[] = []
  for await (const number of oneAhead(numbers(9, noted))) if (number === 2) break
  assert.deepEqual(noted, ['asked for 1', 'asked for 2', 'asked for 3', 'ended'])
})

test('trouble comes in its place, behind what was yielded before it; nobody who has stopped is told of it', async () => {
  const got: number[] = []
  const all = async () => {
    for await (const number of oneAhead(numbers(3, [], 3))) got.push(number)
  }
  await assert.rejects(all(), /no more/)
  assert.deepEqual(got, [1, 2])
  for await (const number of oneAhead(numbers(3, [], 2))) if (number === 1) break
})
