/** As `test/integration/ledger-model.test.ts`, for so many sequences that rare ones are among them. */
import { test } from 'node:test'
import { holdAgainstDatabase } from '../simulate/hold-against-database.ts'

test('the ledger and its model answer 1,000 random sequences of calls alike', (t) =>
  holdAgainstDatabase(t, 1_000, 1_000))
