/** Reads the listings of a planned push: where all of them lie, and the newest in full, but for the text of contacts. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import type { Point } from '../../places/distance.ts'
import { versionTime } from './queries.ts'

/** A listing as a card shows it. */
export interface DryLead {
  versionId: number
  href: string
  postalCode: string
  price: number
  bedrooms: number
  bathrooms: number
  sqft: number
  yearBuilt: number
  propertyType: string | null
  fullAddress: string | null
  address: string | null
  secondAddress: string | null
  city: string | null
  state: string | null
  /** Its beginning. */
  description: string | null
  hasName: boolean
  hasPhone: boolean
  hasEmail: boolean
  /** When it was first imported, and when it was last imported with a change. */
  importedAt: Date | null
  changedAt: Date | null
  /** Of its postal code; null: in no table. */
  latitude: number | null
  longitude: number | null
}

/** How many listings are in one postal code. */
export interface LeadsAt extends Point {
  name: string
  count: number
}

/** Longer texts are cut in the database, however large a listing is. */
const charsMax = 400
const leadsPerStatement = 250
const placedPerStatement = 10_000

/** In the order of `versionIds`; a version that is gone is left out. */
export async function findDryLeads(db: Database, versionIds: readonly number[]): Promise<DryLead[]> {
  const found = new Map<number, DryLead>()
  const text = (name: string) => sql`left(j.lead ->> ${sql.lit(name)}, ${sql.lit(charsMax)})`
  const number = (name: string) => sql`(j.lead ->> ${sql.lit(name)})::float8`
  const has = (name: string) => sql`coalesce(j.lead ->> ${sql.lit(name)}, '') <> ''`
  for (let at = 0; at < versionIds.length; at += leadsPerStatement) {
    const some = versionIds.slice(at, at + leadsPerStatement)
    const { rows } = await sql<DryLead>`
      select v.id as "versionId", j.lead ->> 'href' as href, ${text('postalCode')} as "postalCode", ${number('price')} as price,
        ${number('bedrooms')} as bedrooms, ${number('bathrooms')} as bathrooms, ${number('sqft')} as sqft,
        ${number('yearBuilt')} as "yearBuilt", ${text('propertyType')} as "propertyType", ${text('fullAddress')} as "fullAddress",
        ${text('address')} as address, ${text('secondAddress')} as "secondAddress", ${text('city')} as city,
        ${text('state')} as state, ${text('description')} as description, ${has('contactName')} as "hasName",
        ${has('contactPhone')} as "hasPhone", ${has('contactEmail')} as "hasEmail", i.started_at as "importedAt",
        ${versionTime('v.id')} as "changedAt", p.latitude, p.longitude
      from lead_versions v join leads l on l.id = v.lead_id left join imports i on i.id = l.first_import_id
        left join postal_codes p on p.code = l.postal_key cross join lateral (select v.json::json as lead) j
      where v.id = any (${some}::bigint[])
    `.execute(db)
    for (const row of rows) found.set(row.versionId, row)
  }
  return versionIds.flatMap((id) => found.get(id) ?? [])
}

/** Counts the listings by postal code, the largest count first; `unplaced` are those whose code is in no table. */
export async function findPlaced(
  db: Database,
  versionIds: readonly number[],
): Promise<{ points: LeadsAt[]; unplaced: number }> {
  const byCode = new Map<string, LeadsAt>()
  let unplaced = 0
  for (let at = 0; at < versionIds.length; at += placedPerStatement) {
    const { rows } = await sql<LeadsAt & { code: string | null }>`
      select p.code, concat_ws(' ', p.city || ',', p.state, p.code) as name, p.latitude, p.longitude, count(*) as count
      from lead_versions v join leads l on l.id = v.lead_id left join postal_codes p on p.code = l.postal_key
      where v.id = any (${versionIds.slice(at, at + placedPerStatement)}::bigint[])
      group by p.code
    `.execute(db)
    for (const { code, count, ...place } of rows) {
      if (code === null) unplaced += count
      else byCode.set(code, { ...place, count: count + (byCode.get(code)?.count ?? 0) })
    }
  }
  return { points: [...byCode.values()].sort((a, b) => b.count - a.count), unplaced }
}
