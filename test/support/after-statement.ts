/** Work between two statements of a program, at a moment that a test chooses: what another process does, or a connection that breaks. */
import { Kysely } from 'kysely'
import { markTrouble } from '../../src/db/away.ts'
import { Dialect } from '../../src/db/dialect.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { givePatience } from '../../src/db/patience.ts'
import type { Tables } from '../../src/db/tables.ts'

/** The server carried the statement out, and its answer was lost with the connection. */
export const answerLost = () => markTrouble(new Error('Connection terminated unexpectedly'))

/**
 * The same database: after each statement with the text `asked`, for as long as there are `steps`, the next of these runs before the
 * program has the answer. A step that throws takes the answer's place.
 */
export function afterStatement(
  opened: OpenDatabase,
  asked: string,
  ...steps: (() => Promise<unknown>)[]
): OpenDatabase {
  const { patience } = opened
  const connect = async () => {
    const client = await opened.pool.connect()
    const query = async (text: string, values: unknown[]) => {
      const result = await client.query(text, values)
      if (text.includes(asked)) await steps.shift()?.()
      return result
    }
    return { query, release: () => client.release() }
  }
  const pool = { connect, end: async () => {} }
  const db = new Kysely<Tables>({ dialect: new Dialect({ pool: pool as never }, patience) })
  givePatience(db, patience)
  return { ...opened, db }
}
