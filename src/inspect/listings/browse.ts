/**
 * `leads list` and `leads count`: the listings that fulfil conditions, the newest first, page by page along the index of recency.
 * Conditions on the postal code, and on fields whose words are searched, use an index; any other condition reads every listing until
 * there are enough.
 */

import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { type Lead, leadFields, readLead } from '../../leads/lead.ts'
import { findSourcesOf } from '../../leads/lead-sources.ts'
import { type Condition, holds } from '../../leads/where.ts'
import { findCounted, isListed, type Live } from '../../matching/listed.ts'
import { countLeftOut, hasWords } from '../../matching/match.ts'
import { queryWords } from '../../matching/words.ts'
import { keyAbroad, postalKey } from '../../places/postal-key.ts'

export interface ListedLead {
  lead: Lead
  lastSeenAt: Date
  sources: string[]
}

/** Pages grow: few listings may be wanted, or few of very many may fit. */
const pageFirst = 100
const pageMost = 5_000
/** A listing may have up to 8 MiB, so listings are read in small groups. */
const leadsPerRead = 20

/** Fields whose words are in the index. A value is looked up there only if it is short enough to be indexed as a whole. */
const wordFields = new Set(['address', 'secondAddress', 'fullAddress', 'city', 'state', 'propertyType'])
const wordCharsMax = 1_000

/** SQL over `leads l`, with an index, that is true for all listings that fulfil the condition; undefined if no index helps. */
function narrow({ field, value, negated }: Condition): RawBuilder<boolean> | undefined {
  if (negated || value === '' || value.length > wordCharsMax) return undefined
  if (field === 'postalCode') {
    const key = postalKey(value)
    return key === undefined ? undefined : sql<boolean>`l.postal_key = any (${[key, keyAbroad(key)]})`
  }
  const words = wordFields.has(field) ? queryWords(value) : ''
  return words === '' ? undefined : hasWords(words)
}

interface Row {
  id: number
  version_id: number
  values: (string | null)[]
}

/** Yields the listings that fulfil the conditions, the newest first, a page of rows at a time. */
async function* findHolding(
  db: Database,
  conditions: readonly Condition[],
  signal?: AbortSignal,
): AsyncGenerator<Row[]> {
  const narrowed = conditions.flatMap((condition) => narrow(condition) ?? [])
  const where = narrowed.length > 0 ? sql`and ${sql.join(narrowed, sql` and `)}` : sql``
  // numbers are compared as the text of the JSON
  const values = conditions.map(
    ({ field }) => sql`coalesce(v.json::json ->> ${field}::text, v.kept::json ->> ${field}::text)`,
  )
  let last = Number.MAX_SAFE_INTEGER
  for (let size = pageFirst; ; size = Math.min(pageMost, size * 2)) {
    signal?.throwIfAborted()
    const { rows } = await sql<Row>`
        select l.id, l.version_id, array[${sql.join(values.length > 0 ? values : [sql`null`])}]::text[] as values
        from (
          select id, version_id from leads l where version_id < ${last} ${where} order by version_id desc limit ${size}
        ) l cross join lateral (
          -- fenced in: each by its key, however few pages the statistics say there are
          select json, kept from lead_versions where id = l.version_id offset 0
        ) v
        order by l.version_id desc
      `.execute(db)
    yield rows.filter(({ values }) => conditions.every((condition, at) => isMet(condition, values[at] ?? null)))
    if (rows.length < size) return
    last = rows.at(-1)?.version_id ?? 0
  }
}

const numberFields = new Set<string>(leadFields.flatMap(({ name, kind }) => (kind === 'number' ? [name] : [])))

/** An unknown number is stored as 0: a condition on the empty text takes 0 as missing. */
function isMet(condition: Condition, value: string | null): boolean {
  const isUnknown = value === '0' && condition.value === '' && numberFields.has(condition.field)
  return holds([condition], () => (isUnknown ? null : value))
}

/** Reads the listings, in the given order; one that is deleted meanwhile is left out. */
async function readLeads(db: Database, rows: readonly Row[]): Promise<ListedLead[]> {
  const ids = rows.map(({ id }) => id)
  const { rows: found } = await sql<{ id: number; json: string; kept: string | null; lastSeenAt: Date }>`
      select v.lead_id as id, v.json, v.kept, s.seen_at as "lastSeenAt"
      from unnest(${rows.map((row) => row.version_id)}::bigint[]) with ordinality as g (version_id, n)
        cross join lateral (select lead_id, json, kept from lead_versions where id = g.version_id offset 0) v
        cross join lateral (select seen_at from lead_seen where lead_id = v.lead_id offset 0) s
      order by g.n
    `.execute(db)
  const sources = await findSourcesOf(db, ids)
  return found.map(({ id, json, kept, lastSeenAt }) => ({
    lead: readLead({ json, kept }),
    lastSeenAt,
    sources: sources.get(id) ?? [],
  }))
}

/** The newest `limit` listings that fulfil all conditions. */
export async function* listLeads(
  db: Database,
  conditions: readonly Condition[],
  limit: number,
  signal?: AbortSignal,
): AsyncGenerator<ListedLead> {
  let left = limit
  for await (const rows of findHolding(db, conditions, signal)) {
    for (let at = 0; at < rows.length && left > 0; at += leadsPerRead) {
      const leads = await readLeads(db, rows.slice(at, at + Math.min(leadsPerRead, left)))
      left -= leads.length
      yield* leads
    }
    if (left === 0) return
  }
}

export interface LeadCount {
  /** Listings of any age. */
  leads: number
  /** The listings among `leads` that are not sent, because another one of their house counts; undefined if each counts. */
  sameHouse: number | undefined
}

/** Counts the listings that fulfil all conditions. */
export async function countLeads(
  db: Database,
  conditions: readonly Condition[],
  live: Live,
  signal?: AbortSignal,
): Promise<LeadCount> {
  const isOnce = live.sameHouse === 'once'
  if (conditions.length === 0) {
    const { rows } = await sql<{ n: number }>`select count(*) as n from leads`.execute(db)
    return { leads: rows[0]?.n ?? 0, sameHouse: isOnce ? await countLeftOut(db, live) : undefined }
  }
  let [leads, sameHouse] = [0, 0]
  for await (const rows of findHolding(db, conditions, signal)) {
    leads += rows.length
    if (isOnce && rows.length > 0) sameHouse += await countLeftOutOf(db, rows, live)
  }
  return { leads, sameHouse: isOnce ? sameHouse : undefined }
}

async function countLeftOutOf(db: Database, listings: readonly Row[], { seenSince }: Live): Promise<number> {
  const { rows } = await sql<{ n: number }>`
      select count(*) as n from leads l join lead_seen s on s.lead_id = l.id
      where l.id = any (${listings.map(({ id }) => id)}) and ${isListed(sql`s`, seenSince)}
        and ${findCounted(sql`l`, seenSince)} is not null
    `.execute(db)
  return rows[0]?.n ?? 0
}
