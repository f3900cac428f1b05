/** The ledger of a run on PostgreSQL. */
import { databaseLeases } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import type { Ledger } from '../ledger.ts'
import { Planner } from './planner.ts'
import { databaseReceiver } from './receivers.ts'
import { attemptStatements, bind, runStatements, userStatements } from './statements.ts'

export const databaseLedger = (db: Database): Ledger => ({
  ...databaseLeases(db),
  runs: bind(db, runStatements),
  users: bind(db, userStatements),
  attempts: bind(db, attemptStatements),
  receiver: (...of) => databaseReceiver(db, ...of),
  planner: (...of) => new Planner(db, ...of),
})
