import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gather } from '../../src/cli/gather.ts'

test('lines that come at once are written at once, in their order, and none is written twice', async () => {
  const written: string[] = []
  const lines = gather((text) => written.push(text))
  for (const line of ['a\n', 'b\n', 'c\n']) lines.add(line)
  assert.deepEqual(written, [])
  await new Promise(setImmediate)
  assert.deepEqual(written, ['a\nb\nc\n'])
  lines.add('d\n')
  lines.flush()
  lines.flush()
  await new Promise(setImmediate)
  assert.deepEqual(written, ['a\nb\nc\n', 'd\n'])
})
