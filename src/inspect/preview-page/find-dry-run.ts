/**
 * Finds the facts for the page of `preview --user`: the listings that a push of the user would send or leave out, and why. It plans with
 * the code of a push, and only reads.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { type DeliveryKind, isTooLate } from '../../deliveries/ledger.ts'
import { findLeadsBefore } from '../../push/database/users-to-serve.ts'
import { toReason } from '../../push/hold.ts'
import type { Preview } from '../../push/preview/preview.ts'
import { judgePlan } from '../../push/whom/guard.ts'
import type { FoundUser } from '../../users/users.ts'
import { findTurn } from '../explain/explain.ts'
import { type DryLead, findDryLeads } from './leads.ts'
import { type DryQuery, findDryQueries, shareOut } from './queries.ts'

/** The facts of the page, as plain data. */
export interface DryRun {
  user: string
  subscribed: boolean
  kind: 'single' | 'subscription'
  period: string
  madeAt: Date
  /** How many requests. */
  parts: number
  leads: number
  bytes: number
  queries: DryQuery[]
  /** Listings that exceed a request, by their href. */
  tooLarge: string[]
  /** Earlier deliveries with an attempt left, which are not part of this push, the longest due first. */
  begun: BegunDelivery[]
  /** When the user was served in this period; null: not yet. */
  servedAt: Date | null
  /** Why the guard would hold back the weekly delivery that the user is owed. */
  held: string | null
  /** The newest listings, each with the number of the query that brings it. */
  shown: (DryLead & { query: number })[]
}

export interface BegunDelivery {
  kind: DeliveryKind
  period: string
  part: number
  parts: number
  leads: number
  createdAt: Date
}

/** The most listings on a page. */
export const shownMax = 500
const begunMax = 20

async function findBegun(db: Database, userId: number): Promise<BegunDelivery[]> {
  const { rows } = await sql<BegunDelivery>`
    select d.kind, d.period, d.part, d.parts, d.leads, d.created_at as "createdAt" from deliveries d
    where d.user_id = ${userId} and d.status = 'pending' and d.attempts < 2 and d.end_reason is null and not ${isTooLate}
    order by d.due_at limit ${begunMax}
  `.execute(db)
  return rows
}

/** The lines of `planned` must have been read to their end: then it holds the user's plan. */
export async function findDryRun(
  db: Database,
  { user, subscribed, owed }: FoundUser,
  planned: Preview,
  settings: { guard: 'on' | 'off'; maxLeadAgeMs: number; timeZone: string },
): Promise<DryRun> {
  const { lastPlan: plan, period, live } = planned
  if (plan === undefined) throw new Error('nothing was planned')
  const { servedAt, next, compared, heldRun } = await findTurn(db, user, period, settings)
  const before = await findLeadsBefore(db, [user], new Map([[user.id, plan.queriesMark]]), compared)
  const hold = heldRun ?? (next && judgePlan({ ...plan, leadsBefore: before.get(user.id) }))
  const { broughtBy } = shareOut(plan)
  const newest = [...broughtBy.keys()].sort((a, b) => b - a).slice(0, shownMax)
  return {
    user: user.email,
    subscribed,
    kind: owed ? 'subscription' : 'single',
    period,
    madeAt: new Date(live.seenSince.getTime() + settings.maxLeadAgeMs),
    parts: plan.deliveries.length,
    leads: plan.deliveries.reduce((sum, { leads }) => sum + leads, 0),
    bytes: plan.deliveries.reduce((sum, { bytes }) => sum + bytes, 0),
    queries: await findDryQueries(db, plan, live),
    tooLarge: plan.tooLarge,
    begun: await findBegun(db, user.id),
    servedAt,
    held: hold ? toReason(hold) : null,
    shown: (await findDryLeads(db, newest)).map((lead) => ({
      ...lead,
      query: (broughtBy.get(lead.versionId) ?? 0) + 1,
    })),
  }
}
