import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ending } from '../../src/cli/ending.ts'

/** A command that is ended; which codes it has exited with. */
function build(msMax?: number): { ending: Ending; codes: number[] } {
  const codes: number[] = []
  return { ending: new Ending({ exit: (code) => void codes.push(code) }, msMax), codes }
}

test('a command exits once its databases are closed, even if that fails', async () => {
  const { ending, codes } = build()
  let close = () => {}
  ending.before(() => new Promise((resolve) => (close = resolve)))
  ending.before(() => Promise.reject(new Error('it was closed before')))
  const ended = ending.begin(143)
  await new Promise(setImmediate)
  assert.deepEqual([codes, ending.isUnderWay], [[], true])
  close()
  await ended
  assert.deepEqual(codes, [143])
})

test('a database that does not close does not hold up the end', async () => {
  const { ending, codes } = build(20)
  ending.before(() => new Promise(() => {}))
  await ending.begin(130)
  assert.deepEqual(codes, [130])
})

test('a database that was closed before is not closed again', async () => {
  const { ending, codes } = build()
  let times = 0
  const forget = ending.before(async () => void times++)
  forget()
  await ending.begin(0)
  assert.deepEqual([times, codes], [0, [0]])
})
