/** The staging table of a users import: a row for each record of the file, good ones as JSON, bad ones with their problem. */
import type { Connection } from '../db/transaction.ts'

export const stagedColumns = 'n, line, email, record, raw, problem, folded'

/** Makes `staged_users`. `folded` is how many queries of the record were the same as an earlier one of it. */
export async function createStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_users (
      n integer not null, line bigint not null, email text, record text, raw bytea, problem text, folded integer not null
    ) on commit drop`)
}
