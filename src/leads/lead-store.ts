/**
 * The serialised leads that pushes need, as bytes, in a cache of bounded size: a lead is read from the database once for the
 * many users who get it, and never parsed. Versions never change, so nothing in the cache goes stale but by an erasure.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { Database } from '../db/open.ts'

/** A version of a lead, as the cache holds it. */
export interface StoredLead {
  versionId: number
  leadId: number
  /** Of `json`, as UTF-8. */
  bytes: number
  /** Undefined for a very large lead, and for one that has left the cache: its JSON is read when it is sent. */
  json: Buffer | undefined
  /** See `findPlace`; empty as long as the JSON is not at hand. */
  place: string
}

/** `leads` has each version once, undefined where it is deleted; `indexes` has, for each list, its indexes in `leads`. */
export interface FoundLeads {
  leads: (StoredLead | undefined)[]
  indexes: Int32Array[]
}

/** One of the leads of a body; its JSON and its place, where they are at hand. */
export interface LeadInBody {
  versionId: number
  json?: Buffer | undefined
  place?: string
}

export type LeadWithJson = LeadInBody & { json: Buffer; place: string }

/** Whether the JSON of every lead is in memory. */
export const isAtHand = (contents: readonly LeadInBody[]): contents is readonly LeadWithJson[] =>
  contents.every(({ json }) => json !== undefined)

const cacheBytesMax = 48 * 1024 * 1024
/** What an entry costs beside its bytes: the objects, the key, the links. */
const entryBytes = 400
const cachedLeadBytesMax = 64 * 1024
const versionsPerStatement = 1_000

/** Allocates outside Node.js's shared pool: a slice would keep the whole pool in memory after its neighbours left the cache. */
function ownBytes(json: string, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes)
  buffer.write(json)
  return buffer
}

const placeMark = '"postalCode":"'

/**
 * The postal code in a serialised lead, as it is written there: it belongs to the version, so that the order of a body that
 * depends on it never changes. Inside a string every quote is escaped, so that the first match is the field.
 */
function findPlace(json: string): string {
  const begin = json.indexOf(placeMark) + placeMark.length
  return begin < placeMark.length ? '' : json.slice(begin, json.indexOf('"', begin))
}

const newCache = () =>
  new LRUCache<number, StoredLead>({
    maxSize: cacheBytesMax,
    sizeCalculation: (lead) => entryBytes + (lead.json?.length ?? 0),
    // code that still holds the lead keeps no bytes that the cache does not count
    dispose: (lead) => {
      lead.json = undefined
    },
  })

/** Reads leads by their version ids, through a cache of bounded size. */
export class LeadStore {
  private readonly db: Database
  private cache = newCache()

  constructor(db: Database) {
    this.db = db
  }

  /** Empties the cache, and takes the JSON out of leads that others still hold; a read under way is not cached either. */
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
    const indexOf = new Map<number, number>()
    const indexes: Int32Array[] = []
    for (const versionIds of lists) {
      const list = new Int32Array(versionIds.length)
      for (let at = 0; at < list.length; at++) {
        const id = versionIds[at] as number
        let index = indexOf.get(id)
        if (index === undefined) {
          index = leads.length
          indexOf.set(id, index)
          const lead = cache.get(id)
          leads.push(lead)
          if (lead === undefined) missing.push(id)
        }
        list[at] = index
      }
      indexes.push(list)
    }
    for (let at = 0; at < missing.length; at += versionsPerStatement) {
      for (const lead of await this.read(missing.slice(at, at + versionsPerStatement))) {
        cache.set(lead.versionId, lead)
        leads[indexOf.get(lead.versionId) as number] = lead
      }
    }
    return { leads, indexes }
  }

  /** The leads of one list, in its order. */
  async findEach(versionIds: readonly number[]): Promise<(StoredLead | undefined)[]> {
    const { leads, indexes } = await this.find([versionIds])
    return Array.from(indexes[0] ?? [], (index) => leads[index])
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
      place: json === null ? '' : findPlace(json),
    }))
  }

  /** The leads of a body in their order, with their JSON; undefined if one of them is gone. */
  async readJson(contents: readonly LeadInBody[]): Promise<LeadWithJson[] | undefined> {
    const read: LeadWithJson[] = []
    for (let at = 0; at < contents.length; at += versionsPerStatement) {
      const some = contents.slice(at, at + versionsPerStatement).map(({ versionId }) => versionId)
      const found = await this.findEach(some)
      // reading a large lead may push the others out of the cache before they are copied
      const jsonOf = found.map((lead) => lead?.json)
      for (const [index, lead] of found.entries()) {
        if (lead === undefined) return undefined
        const { versionId, place } = lead
        const json = jsonOf[index]
        const one = json ? { versionId, json, place } : await this.readLarge(versionId)
        if (one === undefined) return undefined
        read.push(one)
      }
    }
    return read
  }

  private async readLarge(versionId: number): Promise<LeadWithJson | undefined> {
    const row = await this.db.selectFrom('lead_versions').select('json').where('id', '=', versionId).executeTakeFirst()
    return row && { versionId, json: Buffer.from(row.json), place: findPlace(row.json) }
  }
}
