/** Reads the newest listings of a planned push, without their contacts: only whether there are any. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'

/** A listing as the page shows it. */
export interface DryLead {
  versionId: number
  href: string
  postalCode: string
  price: number
  bedrooms: number
  bathrooms: number
  sqft: number
  fullAddress: string | null
  address: string | null
  secondAddress: string | null
  city: string | null
  state: string | null
  hasName: boolean
  hasPhone: boolean
  hasEmail: boolean
  /** When it was first imported. */
  importedAt: Date | null
}

/** Longer texts are cut in the database, however large a listing is. */
const charsMax = 400

/** In the order of `versionIds`; a deleted version is left out. */
export async function findDryLeads(db: Database, versionIds: readonly number[]): Promise<DryLead[]> {
  const text = (name: string) => sql`left(j.lead ->> ${sql.lit(name)}, ${sql.lit(charsMax)})`
  const number = (name: string) => sql`(j.lead ->> ${sql.lit(name)})::float8`
  const has = (name: string) => sql`coalesce(j.lead ->> ${sql.lit(name)}, '') <> ''`
  const { rows } = await sql<DryLead>`
    select v.id as "versionId", j.lead ->> 'href' as href, ${text('postalCode')} as "postalCode", ${number('price')} as price,
      ${number('bedrooms')} as bedrooms, ${number('bathrooms')} as bathrooms, ${number('sqft')} as sqft,
      ${text('fullAddress')} as "fullAddress", ${text('address')} as address, ${text('secondAddress')} as "secondAddress",
      ${text('city')} as city, ${text('state')} as state, ${has('contactName')} as "hasName",
      ${has('contactPhone')} as "hasPhone", ${has('contactEmail')} as "hasEmail", i.started_at as "importedAt"
    from lead_versions v join leads l on l.id = v.lead_id left join imports i on i.id = l.first_import_id
      cross join lateral (select v.json::json as lead) j
    where v.id = any (${versionIds}::bigint[])
  `.execute(db)
  const found = new Map(rows.map((row) => [row.versionId, row]))
  return versionIds.flatMap((id) => found.get(id) ?? [])
}
