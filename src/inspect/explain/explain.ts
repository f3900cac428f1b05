/**
 * Finds the facts on why a listing was, or was not, sent to a user. It plans with the code of a push, so it says the same as a push does;
 * `cli/explain/view.ts` puts the facts into words.
 */

import { sql } from 'kysely'
import { LeadpushError } from '../../base/errors.ts'
import type { Database } from '../../db/open.ts'
import { findInterruptedRuns, findOtherTimeZone, findPeriod } from '../../deliveries/runs.ts'
import type { Live } from '../../matching/listed.ts'
import { findWeek } from '../../push/database/find-week.ts'
import { Planner } from '../../push/database/planner.ts'
import { findUsersToServe } from '../../push/database/users-to-serve.ts'
import { type Hold, toReason } from '../../push/hold.ts'
import { judge, judgePlan } from '../../push/whom/guard.ts'
import { weeklyPass } from '../../push/whom/pass.ts'
import { findUser } from '../../users/users.ts'
import { type ExplainedDelivery, explainDeliveries } from './deliveries.ts'
import { findListing } from './listing.ts'
import { type ExplainedQuery, explainQueries } from './queries.ts'
import { findSameHouse } from './same-house.ts'

/** The facts of an explanation; `--json` prints them. */
export interface Explanation {
  user: string
  href: string
  period: string
  subscribed: boolean
  /** When the weekly delivery of the period was begun; null: there is none yet. */
  servedAt: Date | null
  /** What the user is owed: the weekly delivery or the subscription push; null: nothing. */
  owed: 'weekly' | 'subscription' | null
  /** Why the owed delivery is held back. */
  held: string | null
  postalCode: string
  /** The form of the postal code that matching compares. */
  postalKey: string
  /** When it was first imported; null: more than `importDays` ago. */
  importedAt: Date | null
  seenAt: Date
  /** The time since an import last had it. */
  ageSeconds: number
  /** The end of its delivery, unless an import has it again. */
  deliverableUntil: Date
  tooOld: boolean
  /** No source has it any more: it is not delivered until a source has it again. */
  gone: boolean
  /** The sources that have or had it; `goneAt` null: the source has it. */
  sources: { source: string; goneAt: Date | null }[]
  queries: ExplainedQuery[]
  /** Its place in a push that is planned now: the first query with it among its newest 300; null: no query has it. */
  planned: { query: number; part: number; parts: number } | null
  /** The listing of the same house that is sent instead; null: there is none, or each is sent. */
  sameHouse: string | null
  /** It is too large even for a request with nothing else in it. */
  tooLarge: boolean
  /** Deliveries that held it, the newest first. */
  deliveries: ExplainedDelivery[]
  /** Periods of deliveries that may have held it: their content is no longer stored. */
  untold: string[]
  /** Older deliveries were not looked at. */
  more: boolean
}

/** Explains the listing `href` for the user `email`. Throws `usage` if one of them does not exist. */
export async function explain(
  db: Database,
  { email, href }: { email: string; href: string },
  settings: {
    timeZone: string
    maxLeadAgeMs: number
    guard: 'on' | 'off'
    sameHouse: Live['sameHouse']
    keepAnswers?: 'on' | 'off'
  },
): Promise<Explanation> {
  const { user, subscribed, owed: owesSubscription } = await findUser(db, email)
  const listing = await findListing(db, href)
  const { period, seenSince } = await findPeriod(db, settings)
  const { servedAt, next, compared, heldRun } = await findTurn(db, user, period, settings)

  const live = { seenSince, sameHouse: settings.sameHouse }
  const planner = new Planner(db, live)
  const { value: plan } = await planner.plan([user], compared).next()
  if (plan?.tooSlow !== undefined)
    throw new LeadpushError('failed', `A query of ${user.email} takes too long to look up: ${plan.tooSlow}`)
  const planned = plan?.queries ?? []
  const delivery = plan?.deliveries.find(({ contents }) =>
    contents.some(({ versionId }) => versionId === listing.versionId),
  )
  const broughtBy = planned.findIndex(({ versionIds }) => Array.from(versionIds).includes(listing.versionId))
  const queries = await explainQueries(db, user.id, listing, planned, live)
  const found = await explainDeliveries(db, user.id, listing, settings.keepAnswers ?? 'off')
  // an import changed the listing meanwhile: begin again
  if ((await findListing(db, href)).versionId !== listing.versionId) return explain(db, { email, href }, settings)

  // the delivery was pruned, or belonged to an earlier user with this e-mail, who was removed
  const isLost =
    servedAt !== null && servedAt >= (listing.importedAt ?? servedAt) && !found.periods.has(period) && !found.more

  const hold: Hold | undefined = heldRun ?? (next && plan ? judgePlan(plan) : undefined)
  const nowMs = seenSince.getTime() + settings.maxLeadAgeMs
  return {
    user: user.email,
    href: listing.href,
    period,
    subscribed,
    servedAt,
    owed: owesSubscription && queries.length > 0 ? 'subscription' : next ? 'weekly' : null,
    held: hold ? toReason(hold) : null,
    postalCode: listing.postalCode,
    postalKey: listing.postalKey,
    importedAt: listing.importedAt,
    seenAt: listing.seenAt,
    ageSeconds: Math.max(0, Math.round((nowMs - listing.seenAt.getTime()) / 1_000)),
    deliverableUntil: new Date(listing.seenAt.getTime() + settings.maxLeadAgeMs),
    tooOld: listing.seenAt < seenSince,
    gone: listing.gone,
    sources: listing.sources,
    queries,
    planned: delivery ? { query: broughtBy + 1, part: delivery.part, parts: delivery.parts } : null,
    sameHouse: delivery ? null : await findSameHouse(db, listing, live, user.id),
    tooLarge: plan?.tooLarge.includes(listing.href) ?? false,
    deliveries: found.with,
    untold: [...(isLost ? [period] : []), ...found.untold],
    more: found.more,
  }
}

/** When the user was served in the period, whether `push --all` serves them next, and why the guard would hold that whole run. */
export async function findTurn(
  db: Database,
  user: { id: number; email: string },
  period: string,
  { guard, timeZone }: { guard: 'on' | 'off'; timeZone: string },
) {
  const { scope } = weeklyPass(period)
  const claim = await db
    .selectFrom('claims')
    .select('claimed_at')
    .where('scope', '=', scope)
    .where('email', '=', user.email)
    .executeTakeFirst()
  if (claim) return { servedAt: claim.claimed_at, next: undefined, compared: [], heldRun: undefined }
  const interrupted = await findInterruptedRuns(db, period)
  const otherTimeZone = await findOtherTimeZone(db, timeZone)
  const { held, earlier } = judge(await findWeek(db, period), {
    guard,
    accept: false,
    interrupted,
    timeZone,
    otherTimeZone,
  })
  const pass = { ...weeklyPass(period, earlier), only: sql<boolean>`u.id = ${user.id}` }
  const [next] = await findUsersToServe(db, pass, undefined, 1)
  return { servedAt: null, next, compared: pass.compared, heldRun: next && held }
}
