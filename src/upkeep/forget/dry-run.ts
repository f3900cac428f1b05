/**
 * Counts the rows that an erasure would delete, in the transaction of the look, which is rolled back at its end. It takes no lock of an
 * import.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { findPendingWith } from '../../deliveries/erased-deliveries.ts'
import { hasContact } from '../../leads/contacts.ts'
import { type FindOptions, findVersions } from './find-listings.ts'
import type { MeantVersion, Target } from './target.ts'
import { Totals } from './totals.ts'

async function countFound(db: Database, target: Target, found: readonly MeantVersion[], totals: Totals): Promise<void> {
  if (found.length === 0) return
  const leadIds = [...new Set(found.map(({ leadId }) => leadId))]
  const isCurrent = sql<boolean>`t.id in (select version_id from leads where id = any (${leadIds}))`
  const current = await target.find(db, isCurrent)
  const meant = new Set(current.map(({ leadId }) => leadId))
  const isHere = new Set(found.map(({ id }) => id))
  // a listing counts with its current version, with which all its other versions go
  const here = current.filter(({ id }) => isHere.has(id))
  const idsOf = (redacts: boolean) => here.flatMap((one) => (one.redacts === redacts ? one.leadId : []))
  const [whole, redacted] = [idsOf(false), idsOf(true)]
  const { rows } = await sql<{ id: number }>`
    select id from lead_versions where superseded_at is not null and (lead_id = any (${whole}) or lead_id = any (${redacted})
      and ${sql.raw(hasContact('lead_versions'))})
  `.execute(db)
  const alone = found.filter(({ leadId }) => !meant.has(leadId))
  const triggers = await sql<{ n: number }>`
    select count(*) as n from triggers where lead_id = any (${whole})
  `.execute(db)
  totals.add({
    listings: whole.length,
    redacted: redacted.length,
    versionIds: [...here, ...rows, ...alone].map(({ id }) => id),
    triggers: triggers.rows[0]?.n ?? 0,
  })
}

/** Counts; `transaction` must be one. */
export async function countMeant(transaction: Database, target: Target, options: FindOptions): Promise<Totals> {
  const totals = new Totals()
  const since = { at: 'infinity', lastVersionId: Number.MAX_SAFE_INTEGER }
  await findVersions(transaction, target, since, options, (found) => countFound(transaction, target, found, totals))
  if (totals.versions === 0) return totals
  const keys = await findPendingWith(transaction, (id) => totals.versionIds.has(id))
  const { rows } = await sql<{ ended: number; anew: number }>`
    select count(*) filter (where attempts > 0) as ended, count(*) filter (where attempts = 0) as anew
    from deliveries where idempotency_key = any (${keys})
  `.execute(transaction)
  totals.add(rows[0] ?? {})
  return totals
}
