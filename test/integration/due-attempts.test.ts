/** When a push looks for its next attempt, on a real database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { databaseLeases, withWorker } from '../../src/db/leases.ts'
import { DueAttempts } from '../../src/push/attempts/due-attempts.ts'
import { databaseLedger } from '../../src/push/database/database-ledger.ts'
import { RunRecords } from '../../src/push/run/run-records.ts'
import { createDatabase } from '../support/database.ts'

// The second attempt waited for the next failure, or for the end of all first ones.
test('an attempt that becomes due while it is asked which is next is not forgotten', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  await withWorker(databaseLeases(db), 60_000, async (worker) => {
    const scope = { takeover: 'own', owedOnly: false } as const
    const receiver = { usesGzip: false }
    const ledger = databaseLedger(db)
    const records = new RunRecords(ledger.runs, worker, 0)
    const due = new DueAttempts({ ledger, clock: systemClock, worker, scope, records, receiver })
    const asking = due.noteNext(undefined, 1)
    due.note('second', 5_000)
    await asking
    assert.ok(due.untilNext() <= 5_000)
    await due.noteNext(undefined, 1)
    assert.equal(due.untilNext(), Number.POSITIVE_INFINITY)
  })
})
