/** What a run knows of its confirmed statements (contract 4.7), on the model of the ledger. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { Worker } from '../../src/db/leases.ts'
import { RunRecords } from '../../src/push/run/run-records.ts'
import { LedgerModel } from '../simulate/ledger-model.ts'
import { modelLedger } from '../simulate/model-ledger.ts'

test('a statement that another server answered, or did not count, puts the server in doubt until it is asked', async (t) => {
  const model = new LedgerModel(() => 0)
  const ledger = modelLedger(model, { call: async (_what, statement) => statement(), rideOut: (work) => work(false) })
  const worker = await Worker.start(ledger, 60_000, systemClock)
  t.after(() => worker.stop())
  const run = { command: 'all', resumable: true, timeZone: 'UTC', maxLeadAgeMs: 1, workerIds: worker.ids } as const
  const records = new RunRecords(ledger.runs, worker, (await ledger.runs.start(run)).id)
  const { server } = worker
  const isDoubted = async (statement: number | null, from: string) => {
    records.note(statement, { runId: 1, server: from })
    const known = worker.server
    await worker.renew()
    return [known, worker.server]
  }
  assert.deepEqual(await isDoubted(0, server), [server, server])
  assert.deepEqual(await isDoubted(null, server), ['', server])
  assert.deepEqual(await isDoubted(0, 'another'), ['', server])
  // a statement that was made for no server says nothing
  assert.deepEqual(await isDoubted(null, ''), [server, server])
  assert.equal(await records.areThere(), true)
  records.note(1, records.run)
  assert.equal(await records.areThere(), false)
})
