/**
 * Erases a batch of listings in one transaction: their rows, all kept versions, their triggers, and the pending deliveries
 * that hold them. From its commit on no process begins anything with them.
 */
import { sql } from 'kysely'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { type Connection, kyselyOn } from '../../db/transaction.ts'
import { eraseAnswersOf, eraseAnswersWith } from '../../deliveries/answers.ts'
import { endDeliveries, findPendingWith } from '../../deliveries/erased-deliveries.ts'
import { raiseErasureCount } from '../../deliveries/erasure-count.ts'
import { makeAnew } from '../../deliveries/made-anew.ts'
import { redactListings } from './redact.ts'
import type { MeantVersion, Target } from './target.ts'

/** The ids and counts of an erased batch. */
export interface Erased {
  listings: number
  /** Listings that stay, without their contacts. */
  redacted: number
  versionIds: number[]
  triggers: number
  /** Listings with triggers that living processes are sending. */
  inHand: number[]
  ended: number
  /** Deliveries that had no attempt yet and were made anew without the listings. */
  anew: number
  /** Keys of deliveries whose last attempt a living process is making. */
  underWay: string[]
}

/** The current versions that still match: a later record may have brought another contact. Locks the listings. */
async function findCurrent(db: Database, target: Target, leadIds: readonly number[]): Promise<MeantVersion[]> {
  const { rows } = await sql<{ id: number }>`
    select version_id as id from leads where id = any (${leadIds}) order by id for update
  `.execute(db)
  return await target.find(db, sql<boolean>`t.id = any (${rows.map(({ id }) => id)})`)
}

/** Notes the erasures that found something. */
async function noteFound(db: Database, found: readonly MeantVersion[]): Promise<void> {
  const marks = found.flatMap((version) => version.marks)
  if (marks.length === 0) return
  await sql`
    update erasures set found = true
    where not found and mark in (select substring(${Buffer.concat(marks)}::bytea from (at - 1) * 32 + 1 for 32)
      from generate_series(1, ${marks.length}::integer) as at)
  `.execute(db)
}

/** Erases the listings of found versions that still match the target; of other listings it erases only the found versions. */
export async function eraseListings(
  connection: Connection,
  target: Target,
  found: readonly MeantVersion[],
): Promise<Erased> {
  const db = kyselyOn(connection)
  const current = await findCurrent(db, target, [...new Set(found.map(({ leadId }) => leadId))])
  await noteFound(db, [...found, ...current])
  const wholeIds = current.filter(({ redacts }) => !redacts).map(({ leadId }) => leadId)
  const named = [...new Set([...current, ...found].map(({ id }) => id))]
  // they lose every version with a contact
  const toRedact = current.filter(({ redacts }) => redacts)
  const replaced = await redactListings(db, toRedact)
  await sql`delete from lead_seen where lead_id = any (${wholeIds})`.execute(db)
  await sql`delete from lead_sources where lead_id = any (${wholeIds})`.execute(db)
  await sql`delete from lead_events where lead_id = any (${wholeIds})`.execute(db)
  await sql`delete from leads where id = any (${wholeIds})`.execute(db)
  const versions = await sql<{ id: number }>`
    delete from lead_versions where id = any (${named})
      or id = any (array(select id from lead_versions where superseded_at is not null and lead_id = any (${wholeIds})))
    returning id
  `.execute(db)
  const versionIds = [...versions.rows.map(({ id }) => id), ...replaced.superseded]
  const leadIds = [...wholeIds, ...toRedact.map(({ leadId }) => leadId)]
  const inHand = await sql<{ id: number }>`
    select distinct lead_id as id from triggers
    where (lead_id = any (${leadIds}) or version_id = any (${versionIds})) and ${isLive(sql`triggers.worker_id`)}
  `.execute(db)
  // a trigger that a process is sending stays: the process finds the listing gone when it looks again
  const triggers = await sql`
    delete from triggers where lead_id = any (${wholeIds}) and (worker_id is null or not ${isLive(sql`triggers.worker_id`)})
  `.execute(db)
  // the answers of hooks to their triggers
  await sql`delete from hook_answers where lead_id = any (${leadIds})`.execute(db)
  const erased = {
    listings: wholeIds.length,
    redacted: toRedact.length,
    versionIds,
    triggers: Number(triggers.numAffectedRows ?? 0),
    inHand: inHand.rows.map(({ id }) => id),
  }
  if (versionIds.length === 0) return { ...erased, ended: 0, anew: 0, underWay: [] }
  const isErased = new Set(versionIds)
  await eraseAnswersWith(db, (id) => isErased.has(id))
  // last, since no delivery can begin from here to the end of the transaction
  await raiseErasureCount(db)
  const keys = await findPendingWith(db, (id) => isErased.has(id))
  const anew = await makeAnew(db, keys, ({ attempts }) => attempts === 0, replaced.by)
  const ended = await endDeliveries(db, keys)
  // after that no more answers about them are recorded
  await eraseAnswersOf(db, keys)
  return { ...erased, anew, ...ended }
}
