/** The fixed limits of `base/limits.ts`: tests name each of them, and here are those that no other test tries on both sides. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import * as limits from '../../src/base/limits.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import { readAnswer } from '../../src/deliveries/answer.ts'
import { readValue } from '../../src/leads/read-value.ts'
import { listingWords } from '../../src/matching/words.ts'
import { Totals } from '../../src/upkeep/forget/totals.ts'

test('every fixed limit is named by a test', () => {
  const folder = join(packageRoot, 'test')
  // what the simulation promises, and the checks of pages, are tests, too
  const isTest = (file: string) =>
    /\.test\.ts$|^(simulate|pages.checks).*\.ts$/.test(file) && !file.includes('node_modules')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(isTest)
  const text = files.map((file) => readFileSync(join(folder, file), 'utf8')).join('\n')
  assert.deepEqual(
    Object.keys(limits).filter((name) => !new RegExp(`\\b${name}\\b`).test(text)),
    [],
  )
})

const words = (description: string) =>
  listingWords({ address: null, secondAddress: null, city: null, state: null, propertyType: null, description })

/** What is taken of something so large; `undefined`: nothing. */
const takes: Record<string, { max: number; take(size: number): number | undefined }> = {
  'the characters of a description': { max: limits.searchedDescriptionCharsMax, take: (size) => (words(`${' '.repeat(size - 1)}x`) === 'x' ? size : size - 1) },
  'the bytes of an answer in plain words': {
    max: limits.answerTextBytesMax,
    take: (size) => {
      const body = Buffer.from(`${' '.repeat(size - 1)}x`)
      const told = readAnswer({ status: 500, body, contentType: 'text/xml', contentEncoding: undefined }, [])
      return told === 'x' ? size : size - 1
    },
  },
  'the number of a lead': {
    max: limits.leadNumberMax,
    take: (number) => {
      const read = readValue(number, 'price', new Set())
      return typeof read === 'number' ? read : number - 1
    },
  },
  'the versions that an erasure keeps in mind': {
    max: limits.versionsCountedMax,
    take: (size) => {
      const totals = new Totals()
      totals.add({ versionIds: Array.from({ length: size }, (_, id) => id) })
      assert.deepEqual([totals.versions, totals.isComplete], [size, size <= limits.versionsCountedMax])
      return totals.versionIds.size
    },
  },
} // biome-ignore format: a table

for (const [what, { max, take }] of Object.entries(takes)) {
  test(`${what} are taken up to ${max}, and no further`, () => {
    assert.deepEqual([max - 1, max, max + 1].map(take), [max - 1, max, max])
  })
}

test('limits that count on each other agree', () => {
  // of attempts so far apart a second has no more, nor have the pauses of all that are under way room in a run
  assert.ok(limits.hostTurnSpacingMs * limits.triggersPerHostSecondMax > 1_000)
  assert.ok(limits.triggerTimeoutMs * 2 < limits.triggerRunMsMax)
  // a command that waits for a lock says so before the caller gives it up
  assert.ok(limits.lockWaitMsMax < limits.databaseAnswerMsMax)
  // pauses between the tries of a ping leave them time
  assert.ok(limits.pingPauseMs * 2 ** (limits.pingRepeatsMax + 1) < limits.pingTimeoutMs)
  // two attempts and the pause before the second one, each as long as it may be set
  assert.ok(2 * 10 * 60_000 <= limits.eraseWaitMsMax)
  // what is deleted or erased in one transaction locks others for a moment
  assert.ok(limits.pruneRowsMax <= 5_000 && limits.listingsPerErasureMax <= 5_000)
  assert.ok(limits.indexRebuildMsMax < 3_600_000)
  // what is compared with is still there
  assert.ok(limits.importDays >= limits.comparedDays && limits.frozenRunDays > 4 * 7)
})
