import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { newTemporaryName, removeLeftovers } from '../../src/db/embedded/cluster.ts'

test('the files of a living process stay, however long it takes; those of killed ones are removed', async (t) => {
  // a restore of more than an hour lost its folder to the next command
  const home = mkdtempSync(join(tmpdir(), 'leadpush-leftovers-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const own = newTemporaryName()
  const names = ['data', own, `.new-${2 ** 22 + 7}-12-abc`, `.new-${process.pid}-1-abc`, '.new-x']
  for (const name of names) {
    mkdirSync(join(home, name))
    utimesSync(join(home, name), new Date(0), new Date(0))
  }
  await removeLeftovers(home)
  assert.deepEqual(readdirSync(home).sort(), ['data', own, '.new-x'].sort())
})
