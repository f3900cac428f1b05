/** As `test/unit/health.test.ts`, for further kinds of answers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signOf } from '../../src/push/receiver/trouble.ts'
import { walkHealth } from '../support/walk-health.ts'

const kinds = [
  [null, 401, 403],
  [409, 503, 429],
]

for (const statuses of kinds)
  test(`every state that few users can reach with the answers ${statuses.join(', ')}`, () => {
    const { states, ends } = walkHealth(statuses.map((httpStatus) => signOf({ httpStatus, error: '' })))
    assert.ok(states > 5_000 && ends > 100, `${states} states, ${ends} ends`)
  })
