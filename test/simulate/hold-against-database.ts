/** Holds the model of the ledger against PostgreSQL. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { sql } from 'kysely'
import { createDatabase } from '../support/database.ts'
import { compareLedgers, describeDifference, receiverUrls } from './ledger-comparison.ts'
import { DatabaseSide, ModelSide } from './ledger-sides.ts'

const callsPerSequence = 40

/** Plays the sequences of so many seeds, from the given one on. */
export async function holdAgainstDatabase(t: TestContext, firstSeed: number, sequences: number): Promise<void> {
  const database = await createDatabase(t)
  const first = await database.open()
  await sql.raw(await DatabaseSide.prepare(first.db)).execute(first.db)
  // a search path is that of later connections
  await first.close()
  const { db } = await database.open()
  const side = new DatabaseSide(db, receiverUrls)
  for (let seed = firstSeed; seed < firstSeed + sequences; seed++) {
    const found = await compareLedgers(side, () => new ModelSide(), seed, callsPerSequence)
    assert.ok(found === undefined, found && describeDifference(seed, found))
  }
}
