/**
 * The serialised leads that pushes need, as bytes, in a cache of bounded size: a lead is read from the database once for the
 * many users who get it, and never parsed. Versions never change, so nothing in the cache goes stale but by an erasure.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { Database } from '../db/open.ts'

export interface StoredLead {
  versionId: number
  leadId: number
  /** Of `json`, as UTF-8. */
  bytes: number
  /** Absent for a very large lead, and for one that the cache had to make room for: it is read when it is sent. */
  json: Buffer | undefined
}

/** Each version once; `places` says of each list where its versions stand in `leads`. A version that is gone is undefined there. */
export interface FoundLeads {
  leads: (StoredLead | undefined)[]
  places: Int32Array[]
}

/** One of the leads of a body; its JSON, where it is at hand. */
export interface LeadInBody {
  versionId: number
  json?: Buffer | undefined
}

export type LeadWithJson = LeadInBody & { json: Buffer }

export const isAtHand = (contents: readonly LeadInBody[]): contents is readonly LeadWithJson[] =>
  contents.every(({ json }) => json !== undefined)

const cacheBytesMax = 48 * 1024 * 1024
/** What an entry costs beside its bytes: the objects, the key, the links. */
const entryBytes = 400
const cachedLeadBytesMax = 64 * 1024
const versionsPerStatement = 1_000

/** In memory of its own: a slice of Node.js's shared pool would keep its neighbours there when they have left the cache. */
function ownBytes(json: string, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes)
  buffer.write(json)
  return buffer
}

const newCache = () =>
  new LRUCache<number, StoredLead>({
    maxSize: cacheBytesMax,
    sizeCalculation: (lead) => entryBytes + (lead.json?.length ?? 0),
    // whoever still has the lead keeps no bytes that are not counted here
    dispose: (lead) => {
      lead.json = undefined
    },
  })

export class LeadStore {
  private readonly db: Database
  private cache = newCache()

  constructor(db: Database) {
    this.db = db
  }

  /** Drops all that it has, also from who still has its leads; what is being read at this moment is not kept either. */
  clear(): void {
    const dropped = this.cache
    this.cache = newCache()
    dropped.clear()
  }

  /** The leads of lists of version ids. */
  async find(lists: Iterable<ArrayLike<number>>): Promise<FoundLeads> {
    const { cache } = this
    const leads: FoundLeads['leads'] = []
    const missing: number[] = []
    const placeOf = new Map<number, number>()
    const places: Int32Array[] = []
    for (const versionIds of lists) {
      const list = new Int32Array(versionIds.length)
      for (let at = 0; at < list.length; at++) {
        const id = versionIds[at] as number
        let place = placeOf.get(id)
        if (place === undefined) {
          place = leads.length
          placeOf.set(id, place)
          const lead = cache.get(id)
          leads.push(lead)
          if (lead === undefined) missing.push(id)
        }
        list[at] = place
      }
      places.push(list)
    }
    for (let at = 0; at < missing.length; at += versionsPerStatement) {
      for (const lead of await this.read(missing.slice(at, at + versionsPerStatement))) {
        cache.set(lead.versionId, lead)
        leads[placeOf.get(lead.versionId) as number] = lead
      }
    }
    return { leads, places }
  }

  /** The leads of one list, in its order. */
  async findEach(versionIds: readonly number[]): Promise<(StoredLead | undefined)[]> {
    const { leads, places } = await this.find([versionIds])
    return Array.from(places[0] ?? [], (place) => leads[place])
  }

  private async read(versionIds: number[]): Promise<StoredLead[]> {
    const { rows } = await sql<{ id: number; lead_id: number; bytes: number; json: string | null }>`
      select id, lead_id, bytes, case when bytes <= ${cachedLeadBytesMax} then json end as json
      from lead_versions where id = any (${versionIds})
    `.execute(this.db)
    return rows.map(({ id, lead_id, bytes, json }) => ({
      versionId: id,
      leadId: lead_id,
      bytes,
      json: json === null ? undefined : ownBytes(json, bytes),
    }))
  }

  /** The leads of a body in their order, with their JSON; undefined if one of them is gone. */
  async readJson(contents: readonly LeadInBody[]): Promise<LeadWithJson[] | undefined> {
    const read: LeadWithJson[] = []
    for (let at = 0; at < contents.length; at += versionsPerStatement) {
      const some = contents.slice(at, at + versionsPerStatement).map(({ versionId }) => versionId)
      const found = await this.findEach(some)
      // the cache may make room for a large one before it is its turn
      const jsonOf = found.map((lead) => lead?.json)
      for (const [index, lead] of found.entries()) {
        const json = jsonOf[index] ?? (lead && (await this.readLarge(lead.versionId)))
        if (lead === undefined || json === undefined) return undefined
        read.push({ versionId: lead.versionId, json })
      }
    }
    return read
  }

  private async readLarge(versionId: number): Promise<Buffer | undefined> {
    const row = await this.db.selectFrom('lead_versions').select('json').where('id', '=', versionId).executeTakeFirst()
    return row && Buffer.from(row.json)
  }
}
