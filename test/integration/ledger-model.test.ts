/** The ledger's statements do on PostgreSQL what its model does in memory, for any calls in any order. */
import { test } from 'node:test'
import { holdAgainstDatabase } from '../simulate/hold-against-database.ts'

// more of them: `test/slow/ledger-model.test.ts`
test('the ledger and its model answer 100 random sequences of calls alike', (t) => holdAgainstDatabase(t, 1, 100))
