/**
 * Stores deliveries in PostgreSQL, so that any number of receivers may share them. A delivery is claimed by its key; then its leads and
 * the record that it was applied are written in one transaction.
 */
import { createHash, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import type { DeliveredLead } from '../../leads/lead.ts'
import type { DeliveryHead } from './check-request.ts'

/** How many leads of a delivery were new, changed or unchanged, and how many values the null rule kept. */
export interface Applied {
  new: number
  changed: number
  unchanged: number
  kept: number
}

/**
 * - `mine`: the key was free; apply the delivery with this claim
 * - `under-way`: another request is applying it
 * - `same`, `other-body`: it was applied before
 */
export type Claim =
  | { kind: 'mine'; claim: string; times: number }
  | { kind: 'under-way'; times: number }
  | { kind: 'same'; times: number }
  | { kind: 'other-body'; times: number }

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

/**
 * Claims a delivery's key for `claimMs`; a claim that was neither kept nor given up is over by then. Keys are unique over all users,
 * since a user may get a new receiver key between two attempts.
 */
export async function claimDelivery(db: Database, head: DeliveryHead, bytes: Buffer, claimMs: number): Promise<Claim> {
  const claim = randomUUID()
  const body = sha256(bytes)
  const free = sql`d.applied_at is null and d.claimed_until < now()`
  const { rows } = await sql<{ mine: boolean; applied: boolean; same: boolean; times: number }>`
    insert into receiver_deliveries as d (idempotency_key, user_key_sha256, data_source, body_sha256, claim, claimed_until)
    values (${head.idempotencyKey}, ${sha256(head.receiverKey)}, ${head.dataSource}, ${body}, ${claim},
      now() + ${claimMs}::double precision * interval '1 millisecond')
    on conflict (idempotency_key) do update set
      times = d.times + 1,
      claim = case when ${free} then excluded.claim else d.claim end,
      claimed_until = case when ${free} then excluded.claimed_until else d.claimed_until end,
      user_key_sha256 = case when ${free} then excluded.user_key_sha256 else d.user_key_sha256 end,
      data_source = case when ${free} then excluded.data_source else d.data_source end,
      body_sha256 = case when ${free} then excluded.body_sha256 else d.body_sha256 end
    returning d.claim = ${claim} as mine, d.applied_at is not null as applied, d.body_sha256 = ${body} as same, d.times
  `.execute(db)
  const { mine = false, applied = false, same = false, times = 1 } = rows[0] ?? {}
  if (mine) return { kind: 'mine', claim, times }
  return { kind: applied ? (same ? 'same' : 'other-body') : 'under-way', times }
}

/**
 * Applies a claimed delivery: a null or absent value never overwrites a stored one. Undefined if the claim was lost meanwhile: then
 * nothing was written.
 */
export async function applyDelivery(
  db: Database,
  head: DeliveryHead,
  leads: readonly DeliveredLead[],
  claim: string,
): Promise<Applied | undefined> {
  const user = sha256(head.receiverKey)
  const key = head.idempotencyKey
  const lost = new Error('the claim was lost')
  try {
    return await db.transaction().execute(async (transaction) => {
      // in the order of their hrefs: two deliveries at once would lock each other's leads otherwise
      const { rows } = await sql<{ added: number; changed: number; kept: number }>`
        with given as (
          select lead ->> 'href' as href, lead from jsonb_array_elements(${JSON.stringify(leads)}::jsonb) as each (lead)
        ), kept as (
          select 1 from given join receiver_leads as l on l.user_key_sha256 = ${user} and l.href = given.href,
            jsonb_each(l.lead) as was (field, value)
          where was.value <> 'null' and coalesce(given.lead -> was.field, 'null') = 'null'
        ), written as (
          insert into receiver_leads as l (user_key_sha256, href, lead, first_delivery, last_delivery)
          select ${user}, href, lead, ${key}, ${key} from given order by href collate "C"
          on conflict (user_key_sha256, href) do update
            set lead = l.lead || jsonb_strip_nulls(excluded.lead), last_delivery = excluded.last_delivery
            where l.lead is distinct from l.lead || jsonb_strip_nulls(excluded.lead)
          returning xmax = 0 as is_new
        )
        select count(*) filter (where is_new) as added, count(*) filter (where not is_new) as changed,
          (select count(*) from kept) as kept from written
      `.execute(transaction)
      // last, so that a repeat finds the delivery under way meanwhile, and need not wait
      const { rows: recorded } = await sql`
        update receiver_deliveries set applied_at = now()
        where idempotency_key = ${key} and claim = ${claim} and applied_at is null returning 1
      `.execute(transaction)
      if (recorded.length === 0) throw lost
      const { added = 0, changed = 0, kept = 0 } = rows[0] ?? {}
      return { new: added, changed, unchanged: leads.length - added - changed, kept }
    })
  } catch (error) {
    if (error === lost) return undefined
    throw error
  }
}

/** Ends the claim of a delivery that could not be applied, so that the next attempt need not wait. */
export async function giveUpClaim(db: Database, head: DeliveryHead, claim: string): Promise<void> {
  await sql`
    update receiver_deliveries set claimed_until = '-infinity'
    where idempotency_key = ${head.idempotencyKey} and claim = ${claim} and applied_at is null
  `.execute(db)
}
