/** Finds the listings of an import with an unknown postal code: no query around a place can match them. */
import type { Connection } from '../db/transaction.ts'
import type { DeliveredLead } from './lead.ts'
import { showValue } from './read-value.ts'

export const inNoTable = 'is in no table, so only a query for this very code finds the listing'

/** How many of the merged records have such a code, and the first of them: `matched_leads` knows, `staged_leads` has its code. */
export async function findUnplaced(
  connection: Connection,
): Promise<{ unplaced: number; first?: { line: number; message: string; value: string } }> {
  const { rows } = await connection.query<{ unplaced: number; n: number | null }>(
    'select count(*) as unplaced, min(n) as n from matched_leads where not placed',
  )
  const { unplaced = 0, n } = rows[0] ?? {}
  if (unplaced === 0) return { unplaced }
  const found = await connection.query<{ line: number; json: string }>(
    'select line, json from staged_leads where n = $1 limit 1',
    [n],
  )
  const { line, json } = found.rows[0] as { line: number; json: string }
  const value = showValue((JSON.parse(json) as DeliveredLead).postalCode, 'postalCode')
  return { unplaced, first: { line, message: `${inNoTable}: ${value}`, value } }
}
