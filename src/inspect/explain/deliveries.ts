/** Finds which deliveries of a user held a listing, and in which version, from their recipes. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { decodeRecipe } from '../../deliveries/recipe.ts'
import { type DeliveredField, type DeliveredLead, deliveredFields } from '../../leads/lead.ts'
import { findUserDeliveries, type UserDelivery } from '../status/user-deliveries.ts'
import type { ExplainedListing } from './listing.ts'

/** A delivery that held the listing. */
export interface ExplainedDelivery extends Omit<UserDelivery, 'recipe'> {
  /** The fields of the listing that have changed since then; empty if there are none. */
  changed: DeliveredField[]
}

export interface FoundDeliveries {
  /** Deliveries that held the listing, the newest first. */
  with: ExplainedDelivery[]
  /** Periods of weekly deliveries that were looked at. */
  periods: Set<string>
  /** Periods of deliveries that may have held it: one of their versions is no longer stored. */
  untold: string[]
  /** Older deliveries were not looked at. */
  more: boolean
}

const deliveriesMax = 500
const versionsMax = 200_000

/** The fields in which two versions of a listing, both as JSON, differ. */
export function findChanged(then: string, now: string): DeliveredField[] {
  const [before, after] = [JSON.parse(then), JSON.parse(now)] as [DeliveredLead, DeliveredLead]
  return deliveredFields.flatMap(({ name }) => (before[name] === after[name] ? [] : [name]))
}

/** Finds the JSON of versions of the listing: null if a version is deleted, undefined if it belongs to another listing. */
class Versions {
  private readonly known = new Map<number, string | null | undefined>()
  private readonly db: Database
  private readonly listing: ExplainedListing

  constructor(db: Database, listing: ExplainedListing) {
    this.db = db
    this.listing = listing
    this.known.set(listing.versionId, listing.json)
  }

  get isFull(): boolean {
    return this.known.size > versionsMax
  }

  async find(versionIds: readonly number[]): Promise<(string | null | undefined)[]> {
    const { versionId, baseVersionId } = this.listing
    const possible = versionIds.filter((id) => id > baseVersionId && id <= versionId)
    // a delivery has at most one version of a listing, and the current one is known
    const unknown = possible.includes(versionId) ? [] : possible.filter((id) => !this.known.has(id))
    for (const id of unknown) this.known.set(id, undefined)
    if (unknown.length > 0) await this.read(unknown)
    return possible.map((id) => this.known.get(id))
  }

  private async read(versionIds: readonly number[]): Promise<void> {
    const { rows } = await sql<{ id: number; json: string | null }>`
      select n.id, v.json from unnest(${versionIds}::bigint[]) as n (id) left join lead_versions v on v.id = n.id
      where v.id is null or v.lead_id = ${this.listing.leadId}
    `.execute(this.db)
    for (const { id, json } of rows) this.known.set(id, json)
  }
}

/** Looks at the user's deliveries from the newest back to when the listing first came. */
export async function explainDeliveries(
  db: Database,
  userId: number,
  listing: ExplainedListing,
  keepAnswers: 'on' | 'off',
): Promise<FoundDeliveries> {
  const versions = new Versions(db, listing)
  const found: FoundDeliveries = { with: [], periods: new Set(), untold: [], more: false }
  let looked = 0
  for await (const { recipe, ...delivery } of findUserDeliveries(db, userId, keepAnswers)) {
    if (listing.importedAt !== null && delivery.createdAt < listing.importedAt) break
    found.more = looked++ >= deliveriesMax || versions.isFull
    if (found.more) break
    if (delivery.kind === 'weekly') found.periods.add(delivery.period)
    const states = await versions.find(decodeRecipe(recipe))
    const then = states.find((json) => typeof json === 'string')
    if (then !== undefined) found.with.push({ ...delivery, changed: findChanged(then, listing.json) })
    else if (states.includes(null)) found.untold.push(delivery.period)
  }
  return found
}
