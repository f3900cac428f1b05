/** Keeps users who were forgotten out of imports. They are known by marks, as erased listings are. */

import { type Connection, kyselyOn } from '../db/transaction.ts'
import { markInSql, padKey } from '../leads/erasures.ts'
import { findKey } from '../leads/marks.ts'

/** Deletes the staged records of forgotten users, good and bad ones, and returns their number. */
export async function dropForgotten(connection: Connection): Promise<number> {
  const { rows } = await connection.query<{ any: boolean }>(
    `select exists (select from erasures where kind = 'user') as any`,
  )
  if (!rows[0]?.any) return 0
  const { rowCount } = await connection.query(
    `delete from staged_users s using erasures e
     where e.kind = 'user' and e.mark = ${markInSql("convert_to('user:' || s.email, 'UTF8')")}`,
    padKey(await findKey(kyselyOn(connection))),
  )
  return rowCount ?? 0
}
