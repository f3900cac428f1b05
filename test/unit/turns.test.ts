import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Turns } from '../../src/server/turns.ts'

test('the work of one key waits for the one before it, even if that fails; another key waits for nobody', async () => {
  const turns = new Turns<string>()
  const begun: string[] = []
  const gates = new Map<string, { resolve(text: string): void; reject(error: Error): void }>()
  const begin = (key: string, name: string) => {
    const gate = new Promise<string>((resolve, reject) => gates.set(name, { resolve, reject }))
    return turns.take(key, () => {
      begun.push(name)
      return gate
    })
  }
  const [first, second, third, other] = [begin('a', '1'), begin('a', '2'), begin('a', '3'), begin('b', 'other')]
  gates.get('other')?.resolve('done')
  assert.equal(await other, 'done')
  assert.deepEqual(begun, ['1', 'other'])
  gates.get('1')?.reject(new Error('failed'))
  await assert.rejects(first, /failed/)
  gates.get('2')?.resolve('done')
  assert.equal(await second, 'done')
  gates.get('3')?.resolve('done')
  assert.equal(await third, 'done')
  assert.deepEqual(begun, ['1', 'other', '2', '3'])
})
