/**
 * The serialised leads that pushes need, as bytes, in a cache of bounded size: a lead is read from the database once for the
 * many users who get it, and never parsed. Versions never change, so nothing in the cache goes stale but by an erasure.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { Database } from '../db/open.ts'

export interface StoredLead {
  leadId: number
  /** Of `json`, as UTF-8. */
  bytes: number
  /** Absent for a very large lead, and for one that the cache had to make room for: it is read when it is sent. */
  json: Buffer | undefined
}

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

  /** Drops all that it has; what is being read at this moment is not kept either. */
  clear(): void {
    this.cache = newCache()
  }

  /** The leads of lists of version ids; a version that is gone is missing in the result. */
  async find(lists: Iterable<Iterable<number>>): Promise<Map<number, StoredLead>> {
    const found = new Map<number, StoredLead>()
    const unknown = new Set<number>()
    const { cache } = this
    for (const versionIds of lists) {
      for (const id of versionIds) {
        if (found.has(id)) continue
        const lead = cache.get(id)
        if (lead) found.set(id, lead)
        else unknown.add(id)
      }
    }
    const missing = [...unknown]
    for (let at = 0; at < missing.length; at += versionsPerStatement) {
      for (const [id, lead] of await this.read(missing.slice(at, at + versionsPerStatement))) {
        cache.set(id, lead)
        found.set(id, lead)
      }
    }
    return found
  }

  private async read(versionIds: number[]): Promise<[number, StoredLead][]> {
    const { rows } = await sql<{ id: number; lead_id: number; bytes: number; json: string | null }>`
      select id, lead_id, bytes, case when bytes <= ${cachedLeadBytesMax} then json end as json
      from lead_versions where id = any (${versionIds})
    `.execute(this.db)
    return rows.map(({ id, lead_id, bytes, json }) => [
      id,
      { leadId: lead_id, bytes, json: json === null ? undefined : ownBytes(json, bytes) },
    ])
  }

  /** The JSON of `versionIds` in their order, where all of it is at hand. */
  peekJson(versionIds: readonly number[]): Buffer[] | undefined {
    const pieces: Buffer[] = []
    for (const id of versionIds) {
      const json = this.cache.peek(id)?.json
      if (json === undefined) return undefined
      pieces.push(json)
    }
    return pieces
  }

  /** The JSON of `versionIds` in their order; undefined if one of them is gone. */
  async readJson(versionIds: readonly number[]): Promise<Buffer[] | undefined> {
    const pieces: Buffer[] = []
    for (let at = 0; at < versionIds.length; at += versionsPerStatement) {
      const some = versionIds.slice(at, at + versionsPerStatement)
      const leads = await this.find([some])
      const found = some.map((id) => leads.get(id)?.json)
      for (const [index, id] of some.entries()) {
        const json = found[index] ?? (leads.has(id) ? await this.readLarge(id) : undefined)
        if (json === undefined) return undefined
        pieces.push(json)
      }
    }
    return pieces
  }

  private async readLarge(versionId: number): Promise<Buffer | undefined> {
    const row = await this.db.selectFrom('lead_versions').select('json').where('id', '=', versionId).executeTakeFirst()
    return row && Buffer.from(row.json)
  }
}
