/**
 * The leads that a platform shows while a person sets up a workflow: the user's newest leads in the form of a trigger, or made-up ones if
 * there are none yet.
 */
import { sql } from 'kysely'
import { sampleTextCharsMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import type { FlatLead, TriggerKind } from '../index.ts'
import { buildExampleLead } from '../leads/example-lead.ts'
import type { DeliveredLead } from '../leads/lead.ts'
import type { Live } from '../matching/listed.ts'
import { findMatches, isTooSlow, type SearchToMatch } from '../matching/match.ts'
import type { Kind } from '../triggers/kinds/kind.ts'
import { kinds } from '../triggers/kinds/kinds.ts'

const samples = 3
/**
 * With very many queries, or a slow database, the leads found in this time are enough. It is less than the time after which a silent
 * database is given up.
 */
const searchingMsMax = 3_000

async function findSearches(db: Database, userId: number): Promise<SearchToMatch[]> {
  return await db
    .selectFrom('searches as s')
    .select(['s.kind', 's.places', 's.words'])
    .where('s.id', 'in', (query) => query.selectFrom('queries').select('search_id').where('user_id', '=', userId))
    .orderBy('s.id')
    .execute()
}

/** Joins the searches for places into one: the newest leads of all are the newest of their union. */
function joinPlaces(searches: readonly SearchToMatch[]): SearchToMatch[] {
  const places = new Set(searches.flatMap((search) => (search.kind === 'place' ? (search.places ?? []) : [])))
  const others = searches.filter(({ kind }) => kind !== 'place')
  return places.size > 0 ? [{ kind: 'place', places: [...places], words: null }, ...others] : others
}

/** Undefined if the search takes longer than `msMax`. */
async function findInTime(db: Database, search: SearchToMatch, live: Live, msMax: number) {
  return await findMatches(db, search, live, samples, msMax).catch((error) => {
    if (isTooSlow(error)) return undefined
    throw error
  })
}

/**
 * The 3 newest leads that match the user's queries, the newest first, without leads last seen more than `maxLeadAgeMs` ago. If there are
 * none, examples whose `href` begins with `https://listings.example/`.
 */
export async function findSampleLeads(
  db: Database,
  userId: number,
  {
    maxLeadAgeMs,
    sameHouse,
    trigger = 'new_lead',
  }: { maxLeadAgeMs: number; sameHouse: Live['sameHouse']; trigger?: TriggerKind },
): Promise<FlatLead[]> {
  const kind: Kind = kinds[trigger]
  const build = (lead: DeliveredLead, occurredAt: Date) =>
    kind.build(lead, { occurredAt, payload: kind.samplePayload?.(lead) ?? null })
  const began = performance.now()
  const clock = await sql<{ since: Date }>`select now() - ${maxLeadAgeMs} * interval '1 millisecond' as since`.execute(
    db,
  )
  const live = { seenSince: clock.rows[0]?.since ?? new Date(0), sameHouse }
  const found = new Set<number>()
  for (const search of joinPlaces(await findSearches(db, userId))) {
    const leftMs = Math.floor(searchingMsMax - (performance.now() - began))
    // PostgreSQL takes 0 for no limit
    const newest = leftMs > 0 ? await findInTime(db, search, live, leftMs) : undefined
    if (newest === undefined) break
    for (const id of newest.ids) found.add(id)
  }
  const newest = [...found].sort((a, b) => b - a).slice(0, samples)
  if (newest.length === 0) return examples.map((lead) => build(lead, exampleAt))
  const { rows } = await sql<{ json: string; at: Date }>`
    select v.json, coalesce(i.started_at, s.seen_at) as at from lead_versions v join leads l on l.id = v.lead_id
      join lead_seen s on s.lead_id = l.id left join imports i on i.id = l.first_import_id
    where v.id = any (${newest}) order by v.id desc
  `.execute(db)
  return rows.map(({ json, at }) => build(cutTexts(JSON.parse(json)), at))
}

/** A sample shows the shape, and answers of many megabytes would wait in memory until they are read. */
const cutTexts = (lead: DeliveredLead): DeliveredLead =>
  Object.fromEntries(Object.entries(lead).map(([name, value]) => [name, cut(value)])) as unknown as DeliveredLead

const cut = (value: unknown) =>
  typeof value === 'string' && value.length > sampleTextCharsMax
    ? `${value.slice(0, sampleTextCharsMax).toWellFormed()}…`
    : value

const examples = [1, 2, 3].map(buildExampleLead)
const exampleAt = new Date('2026-01-01T00:00:00Z')
