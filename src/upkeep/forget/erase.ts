/**
 * Erases a batch of listings in one transaction: their rows, all kept versions, their triggers, and the pending deliveries
 * that hold them. From its commit on no process begins anything with them.
 */
import { sql } from 'kysely'
import { isLive } from '../../db/leases.ts'
import { locks } from '../../db/locks.ts'
import type { Database, OpenDatabase } from '../../db/open.ts'
import { type Connection, kyselyOn, withTransaction } from '../../db/transaction.ts'
import { eraseAnswersWith } from '../../deliveries/answers.ts'
import { endDeliveries, findPendingWith } from '../../deliveries/erased-deliveries.ts'
import { raiseErasureCount } from '../../deliveries/erasure-count.ts'
import { makeAnew } from '../../deliveries/made-anew.ts'
import { contactFieldsOf } from '../../leads/contacts.ts'
import type { Erasure } from '../../leads/erasures.ts'
import { holdsContact } from './find-listings.ts'

/** What a batch erased; ids and counts. */
export interface Erased {
  leadIds: number[]
  versionIds: number[]
  triggers: number
  ended: number
  /** Deliveries that had no attempt yet and were made anew without the listings. */
  anew: number
  /** Keys of deliveries whose last attempt a living process is making. */
  underWay: string[]
}

/** A process that is cut off from the database, or frozen, must not hold up imports and pushes for longer. */
const idleMsMax = 10_000

/** Runs `work` in a transaction beside which no import runs; undefined where an import runs now. */
export async function inTurn<T>(
  opened: OpenDatabase,
  stop: AbortSignal,
  work: (connection: Connection) => Promise<T>,
): Promise<{ result: T } | undefined> {
  return await withTransaction(
    opened,
    async (connection) => {
      await connection.query(`set local idle_in_transaction_session_timeout = ${idleMsMax}`)
      const { rows } = await connection.query('select pg_try_advisory_xact_lock($1) as mine', [locks.leadsImport])
      return rows[0]?.mine ? { result: await work(connection) } : undefined
    },
    stop,
  )
}

/** The listings that the erasure still means: a later record may have brought another contact. */
async function findWhole(db: Database, erasure: Erasure, leadIds: readonly number[]) {
  const { rows } = await sql<{ id: number; version_id: number; fields: string }>`
    select l.id, l.version_id, ${sql.raw(contactFieldsOf('v.json'))} as fields
    from leads l join lead_versions v on v.id = l.version_id where l.id = any (${leadIds}) for update of l
  `.execute(db)
  return 'href' in erasure ? rows : rows.filter(({ fields }) => holdsContact(fields, erasure.contact))
}

/**
 * Erases the listings in `found` (version ids by listing) that the erasure still means; of the other listings only the found
 * versions.
 */
export async function eraseListings(
  connection: Connection,
  erasure: Erasure,
  found: ReadonlyMap<number, ReadonlySet<number>>,
): Promise<Erased> {
  const db = kyselyOn(connection)
  const whole = await findWhole(db, erasure, [...found.keys()])
  const leadIds = whole.map(({ id }) => id)
  const named = [...whole.map(({ version_id }) => version_id), ...[...found.values()].flatMap((ids) => [...ids])]
  await sql`delete from lead_seen where lead_id = any (${leadIds})`.execute(db)
  await sql`delete from lead_sources where lead_id = any (${leadIds})`.execute(db)
  await sql`delete from leads where id = any (${leadIds})`.execute(db)
  const versions = await sql<{ id: number }>`
    delete from lead_versions where id = any (${named})
      or id = any (array(select id from lead_versions where superseded_at is not null and lead_id = any (${leadIds})))
    returning id
  `.execute(db)
  const versionIds = versions.rows.map(({ id }) => id)
  // a trigger in the hands of a process stays: the process finds the listing gone when it looks again
  const triggers = await sql`
    delete from triggers where lead_id = any (${leadIds}) and (worker_id is null or not ${isLive(sql`triggers.worker_id`)})
  `.execute(db)
  // the answers of hooks to their triggers
  await sql`delete from hook_answers where lead_id = any (${leadIds})`.execute(db)
  const erased = { leadIds, versionIds, triggers: Number(triggers.numAffectedRows ?? 0) }
  if (versionIds.length === 0) return { ...erased, ended: 0, anew: 0, underWay: [] }
  // last, since no delivery can begin from here to the end of the transaction
  await raiseErasureCount(db)
  const isErased = new Set(versionIds)
  const keys = await findPendingWith(db, (id) => isErased.has(id))
  const anew = await makeAnew(db, keys, ({ attempts }) => attempts === 0)
  const ended = await endDeliveries(db, keys)
  // after that nothing more is recorded that was said of them
  await eraseAnswersWith(db, (id) => isErased.has(id))
  return { ...erased, anew, ...ended }
}
