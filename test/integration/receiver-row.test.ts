/** What processes share about a receiver through its row (contract 4.12, 4.17), on a real database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Compression } from '../../src/push/compression.ts'
import { createDatabase } from '../support/database.ts'

const outcome = { ok: true, maybeArrived: false, error: null, durationMs: 1, retryAfterMs: null }
const accepts = { ...outcome, httpStatus: 200, acceptsGzip: true }
const refuses = { ...outcome, httpStatus: 415, acceptsGzip: false }

// A process that had not heard of the 415 removed it from the row: all went on compressing.
test('an Accept-Encoding counts for nothing for a day after a 415, whichever process got that', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const begin = async () => {
    const compression = new Compression(db, 'https://receiver.example/', 'auto')
    await compression.begin()
    return compression
  }
  const late = await begin()
  await (await begin()).note(accepts)
  await (await begin()).note(refuses)
  await late.note(accepts)
  assert.equal((await begin()).isOn, false)
  await db
    .updateTable('receivers')
    .set({ refused_gzip_at: new Date(Date.now() - 25 * 3_600_000) })
    .execute()
  await (await begin()).note(accepts)
  assert.equal((await begin()).isOn, true)
})
