/**
 * Contacts in values that could not be read, such as a list in `contactPhone`. The listing comes in without these values, so an erased
 * contact must be looked for in them.
 */
import type { Connection } from '../db/transaction.ts'
import { dropOrRedact, findHitsAmong } from './erasures.ts'

const recordsPerFetch = 100

/**
 * Deletes the staged records that have an erased contact there, and returns their number; redacts those whose listings are kept. The
 * import must hold its lock.
 */
export async function dropErasedUnread(connection: Connection): Promise<number> {
  const hit = { erased: [] as number[], redacted: [] as number[] }
  await connection.query(
    `declare unread_contacts no scroll cursor for select n, unread_contacts as contacts from staged_leads where unread_contacts is not null`,
  )
  for (;;) {
    const { rows } = await connection.query<{ n: number; contacts: string }>(
      `fetch ${recordsPerFetch} from unread_contacts`,
    )
    if (rows.length === 0) break
    const found = await findHitsAmong(
      connection,
      rows.map(({ contacts }) => ({ raw: Buffer.from(contacts) })),
    )
    for (const [at, { redacts }] of found) hit[redacts ? 'redacted' : 'erased'].push((rows[at] as { n: number }).n)
  }
  await connection.query('close unread_contacts')
  const where = 's.n = any ($1::integer[])'
  let dropped = 0
  if (hit.erased.length > 0) dropped += await dropOrRedact(connection, false, { where, values: [hit.erased] })
  if (hit.redacted.length > 0) dropped += await dropOrRedact(connection, true, { where, values: [hit.redacted] })
  return dropped
}
