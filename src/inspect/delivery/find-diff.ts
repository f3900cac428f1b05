/**
 * Compares the leads that a push would send a user with the last weekly delivery that arrived: which listings are new, changed or gone.
 * Both sides are lists of version ids.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { decodeRecipe } from '../../deliveries/recipe.ts'
import type { DeliveredField } from '../../leads/lead.ts'
import { findChanged } from '../explain/deliveries.ts'

/** One listing that differs; `fields` are those that have changed. */
export type Difference =
  | { type: 'new'; href: string }
  | { type: 'changed'; href: string; fields: DeliveredField[] }
  /** `href` is null if the listing was erased or pruned. */
  | { type: 'gone'; href: string | null }

/** Listings, by how they differ. */
export interface DiffCounts {
  new: number
  changed: number
  gone: number
  unchanged: number
}

/** The last weekly push with a delivered part; keys and versions are those of its delivered parts. */
export interface LastWeekly {
  period: string
  createdAt: Date
  idempotencyKeys: string[]
  versionIds: number[]
}

/** Undefined if no weekly delivery has arrived yet. */
export async function findLastWeekly(db: Database, userId: number): Promise<LastWeekly | undefined> {
  const { rows } = await sql<{ key: string; period: string; createdAt: Date; recipe: Buffer }>`
      select d.idempotency_key as key, d.period, d.created_at as "createdAt", d.recipe
      from deliveries d join lateral (
        select run_id from deliveries where user_id = ${userId} and kind = 'weekly' and status = 'delivered'
        order by created_at desc limit 1
      ) l on l.run_id = d.run_id
      where d.user_id = ${userId} and d.kind = 'weekly' and d.status = 'delivered' order by d.part
    `.execute(db)
  const [first] = rows
  return (
    first && {
      period: first.period,
      createdAt: first.createdAt,
      idempotencyKeys: rows.map(({ key }) => key),
      versionIds: rows.flatMap(({ recipe }) => decodeRecipe(recipe)),
    }
  )
}

const versionsPerStatement = 5_000
const leadsPerRead = 200

/** Maps the id of a lead to its version among `versionIds`; deleted versions are left out. */
async function findLeads(db: Database, versionIds: readonly number[]): Promise<Map<number, number>> {
  const versionOf = new Map<number, number>()
  for (let at = 0; at < versionIds.length; at += versionsPerStatement) {
    const some = versionIds.slice(at, at + versionsPerStatement)
    const { rows } = await sql<{ id: number; leadId: number }>`
        select id, lead_id as "leadId" from lead_versions where id = any (${some})
      `.execute(db)
    for (const { id, leadId } of rows) versionOf.set(leadId, id)
  }
  return versionOf
}

async function readJson(db: Database, versionIds: readonly number[]): Promise<Map<number, string>> {
  const { rows } = await sql<{
    id: number
    json: string
  }>`select id, json from lead_versions where id = any (${versionIds})`.execute(db)
  return new Map(rows.map(({ id, json }) => [id, json]))
}

const hrefOf = (json: string): string => JSON.parse(json).href

/** Yields the new listings, then the changed, then the gone ones. `counts` is complete once all differences were read. */
export function compareVersions(
  db: Database,
  before: readonly number[],
  now: readonly number[],
): { counts: DiffCounts; differences: AsyncGenerator<Difference> } {
  const counts: DiffCounts = { new: 0, changed: 0, gone: 0, unchanged: 0 }
  return { counts, differences: findDifferences(db, before, now, counts) }
}

async function* findDifferences(
  db: Database,
  before: readonly number[],
  now: readonly number[],
  counts: DiffCounts,
): AsyncGenerator<Difference> {
  const [then, planned] = [await findLeads(db, before), await findLeads(db, now)]
  const added = [...planned].filter(([leadId]) => !then.has(leadId)).map(([, id]) => id)
  for await (const json of eachJson(db, added)) {
    counts.new++
    yield { type: 'new', href: hrefOf(json) }
  }
  const kept = [...planned].flatMap(([leadId, id]) => {
    const old = then.get(leadId)
    return old === undefined ? [] : [{ id, old }]
  })
  const other = kept.filter(({ id, old }) => id !== old)
  counts.unchanged = kept.length - other.length
  for (let at = 0; at < other.length; at += leadsPerRead) {
    const some = other.slice(at, at + leadsPerRead)
    const jsonOf = await readJson(
      db,
      some.flatMap(({ id, old }) => [id, old]),
    )
    for (const { id, old } of some) {
      const [json, oldJson] = [jsonOf.get(id), jsonOf.get(old)]
      const fields = json === undefined || oldJson === undefined ? [] : findChanged(oldJson, json)
      // a listing may have changed back
      if (json === undefined || fields.length === 0) counts.unchanged++
      else {
        counts.changed++
        yield { type: 'changed', href: hrefOf(json), fields }
      }
    }
  }
  const gone = [...then].filter(([leadId]) => !planned.has(leadId)).map(([, id]) => id)
  for await (const json of eachJson(db, gone)) {
    counts.gone++
    yield { type: 'gone', href: hrefOf(json) }
  }
  for (let left = before.length - then.size; left > 0; left--) {
    counts.gone++
    yield { type: 'gone', href: null }
  }
}

async function* eachJson(db: Database, versionIds: readonly number[]): AsyncGenerator<string> {
  for (let at = 0; at < versionIds.length; at += leadsPerRead) {
    const some = versionIds.slice(at, at + leadsPerRead)
    const jsonOf = await readJson(db, some)
    for (const id of some) {
      const json = jsonOf.get(id)
      if (json !== undefined) yield json
    }
  }
}
