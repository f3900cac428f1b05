/** `leads show`: one listing with its history, its place, and the users whose queries match it. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { type Lead, type LeadField, leadFields, readLead, type StoredJson } from '../../leads/lead.ts'
import { findSourcesOf } from '../../leads/lead-sources.ts'
import { findListing } from '../explain/listing.ts'
import { findOwners, type Owners } from './owners.ts'

/** A field with its old and its new value. */
export interface FieldChange {
  field: LeadField
  from: string | number | null
  to: string | number | null
}

/** A state of a listing. */
export interface LeadState {
  versionId: number
  /** The beginning of this state; null: so long ago that it is unknown. */
  since: Date | null
  /** The changes against the state before; empty for the first state, and if the state before is deleted. */
  changes: FieldChange[]
}

export interface ShownLead {
  lead: Lead
  lastSeenAt: Date
  sources: string[]
  /** Whether no source has it any more: then it is not delivered. */
  gone: boolean
  /** When it was first imported; null: long ago. */
  importedAt: Date | null
  /** The newest first; `moreVersions`: there are older ones. */
  states: LeadState[]
  moreVersions: boolean
  place: {
    /** The form of the postal code that matching compares. */
    postalKey: string
    /** Null if the code is unknown. */
    city: string | null
    state: string | null
    country: string | null
    latitude: number | null
    longitude: number | null
  }
  owners: Owners
}

const statesShown = 50

/** Throws `usage` if there is no such listing. */
export async function showLead(db: Database, href: string): Promise<ShownLead> {
  const { leadId, versionId, json, kept, importedAt, seenAt, gone } = await findListing(db, href)
  const states = await findStates(db, { leadId, versionId, json, kept, importedAt })
  const { rows } = await sql<ShownLead['place']>`
      select l.postal_key as "postalKey", p.city, p.state, p.country, p.latitude, p.longitude
      from leads l left join postal_codes p on p.code = l.postal_key where l.id = ${leadId}
    `.execute(db)
  const sources = await findSourcesOf(db, [leadId])
  const unknown = { postalKey: '', city: null, state: null, country: null, latitude: null, longitude: null }
  return {
    ...{ lead: readLead({ json, kept }), lastSeenAt: seenAt, sources: sources.get(leadId) ?? [], gone, importedAt },
    ...{ states: states.slice(0, statesShown), moreVersions: states.length > statesShown },
    place: rows[0] ?? unknown,
    owners: await findOwners(db, leadId),
  }
}

interface Now extends StoredJson {
  leadId: number
  versionId: number
  importedAt: Date | null
}

/** The states, the newest first: one more than are shown, if there are more. */
async function findStates(db: Database, { leadId, versionId, json, kept, importedAt }: Now): Promise<LeadState[]> {
  const { rows } = await sql<StoredJson & { id: number; supersededAt: Date }>`
      select id, json, kept, superseded_at as "supersededAt" from lead_versions
      where lead_id = ${leadId} and superseded_at is not null order by id desc limit ${statesShown + 1}
    `.execute(db)
  const all = [{ id: versionId, json, kept }, ...rows]
  const isFirst = await isOfFirstImport(db, leadId, all.at(-1)?.id ?? versionId)
  return all.map((state, at) => {
    const before = rows[at]
    return {
      versionId: state.id,
      // each state began when it replaced the one before
      since: before?.supersededAt ?? (isFirst && at < statesShown ? importedAt : null),
      changes: before === undefined ? [] : findChanges(readLead(before), readLead(state)),
    }
  })
}

/** Whether the listing's first import made the version. If not, `prune` deleted the versions before it, and its beginning is unknown. */
async function isOfFirstImport(db: Database, leadId: number, versionId: number): Promise<boolean> {
  const { rows } = await sql<{ isFirst: boolean }>`
      select coalesce((select i.base_version_id >= ${versionId} from imports i where i.id > l.first_import_id order by i.id limit 1), true)
        as "isFirst"
      from leads l where l.id = ${leadId}
    `.execute(db)
  return rows[0]?.isFirst ?? false
}

const findChanges = (before: Lead, after: Lead): FieldChange[] =>
  leadFields.flatMap(({ name }) =>
    before[name] === after[name] ? [] : [{ field: name, from: before[name] ?? null, to: after[name] ?? null }],
  )
