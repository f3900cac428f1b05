/**
 * Checks every listing for `validate`: whether its JSON is a lead by contract 4.2, fits into a request, and agrees with the
 * columns beside it. It reads pages of bounded bytes, however large a listing is.
 */
import { sql } from 'kysely'
import { formatPath } from '../../base/errors.ts'
import { describeIssues } from '../../base/issues.ts'
import { bodyBytesMax } from '../../base/limits.ts'
import { oneAhead } from '../../base/one-ahead.ts'
import type { Database } from '../../db/open.ts'
import { countBodyBytes } from '../../deliveries/body.ts'
import { type DeliveredLead, deliveredLeadSchema } from '../../leads/lead.ts'
import { showValue } from '../../leads/read-value.ts'
import { hashOf, sha256 } from '../../leads/staged-leads.ts'
import { inNoTable } from '../../leads/unplaced.ts'
import { type CityKeys, findCityKeys } from '../../places/city-keys.ts'
import { postalKeyOf } from '../../places/postal-key.ts'
import { serialiseQuery } from '../../users/query.ts'
import type { Finding, Findings, Level } from '../finding.ts'

interface LeadRow {
  id: number
  href_sha256: Buffer
  json_sha256: Buffer
  postal_key: string
  city_key: string | null
  /** The listing of the version; null if the version is deleted. */
  lead_id: number | null
  superseded: boolean
  json: string | null
  kept: string | null
  bytes: number | null
  seen: boolean
  gone: boolean | null
  /** Whether no source has it any more; null: it never had a source. */
  left: boolean | null
  /** Whether its postal code is known. */
  placed: boolean
}

const leadsPerPage = 1_000
/** A page ends after this many bytes of JSON; a single listing may have more. */
const pageBytes = 4 * 1024 * 1024

/** The shortest possible query: a lead that does not fit beside it fits into no request. */
const shortestQueryBytes = Buffer.byteLength(serialiseQuery({ type: 'text', value: 'a', radius: 0 }))

const importAgain = 'Import the listing again with `leadpush leads import`.'
const restore = 'The tables were changed by something else: restore them from a backup.'

async function findPage(db: Database, lastId: number): Promise<LeadRow[]> {
  const { rows } = await sql<LeadRow>`
      select * from (
        select l.id, l.href_sha256, l.json_sha256, l.postal_key, l.city_key, v.lead_id, v.superseded_at is not null as superseded, v.json, v.kept,
          v.bytes, s.lead_id is not null as seen, s.gone,
          (select bool_and(m.gone_at is not null) from lead_sources m where m.lead_id = l.id) as left,
          exists (select from postal_codes c where c.code = l.postal_key) as placed,
          sum(coalesce(v.bytes, 0)) over (order by l.id) - coalesce(v.bytes, 0) as bytes_before
        from (
          select id, href_sha256, json_sha256, postal_key, city_key, version_id from leads
          where id > ${lastId} order by id limit ${leadsPerPage}
        ) l
        left join lead_versions v on v.id = l.version_id left join lead_seen s on s.lead_id = l.id
      ) page
      where bytes_before < ${pageBytes} order by id
    `.execute(db)
  return rows
}

async function* readPages(db: Database): AsyncGenerator<LeadRow[]> {
  for (let lastId = 0; ; ) {
    const page = await findPage(db, lastId)
    const last = page.at(-1)
    if (last === undefined) return
    yield page
    lastId = last.id
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

function checkLead(row: LeadRow, cityKeys: CityKeys): Finding[] {
  const found: Finding[] = []
  const value = row.json === null ? undefined : parse(row.json)
  const href = (value as Partial<DeliveredLead> | null | undefined)?.href
  const where = typeof href === 'string' ? `lead ${href}` : `lead number ${row.id}`
  const add = (path: string, what: string, toDo: string, level: Level = 'problem') => {
    found.push({ level, code: 'lead', where, path, what, toDo })
  }
  if (!row.seen) add('', 'has no record of when it was seen: it is never delivered', restore)
  if (row.seen && row.gone !== (row.left ?? false)) {
    const state = row.gone ? 'counts as gone, although a source has it' : 'is delivered, although no source has it'
    add('', state, restore)
  }
  if (row.json === null || row.bytes === null) {
    add('', 'has lost its current version: it cannot be delivered', restore)
    return found
  }
  if (row.lead_id !== row.id || row.superseded) add('', 'has the version of another listing, or an old one', restore)
  if (!hashOf({ json: row.json, kept: row.kept }).equals(row.json_sha256))
    add('', 'has other JSON than the import wrote', restore)
  if (countBodyBytes(1, shortestQueryBytes, 1, row.bytes) > bodyBytesMax) {
    const message = `has ${row.bytes} bytes of JSON: no request of ${bodyBytesMax} bytes has room for it, so it is left out`
    add('', message, 'Import it again with a shorter description.')
  }
  const parsed = deliveredLeadSchema.safeParse(value)
  if (!parsed.success) {
    if (typeof value !== 'object' || value === null) add('', 'is no JSON object', restore)
    else {
      for (const issue of describeIssues(parsed.error.issues, value))
        add(formatPath(issue.path), issue.message, importAgain)
    }
    return found
  }
  if (!sha256(parsed.data.href).equals(row.href_sha256))
    add('href', 'is not the one under which the listing is stored', restore)
  const cityKey = cityKeys.find(parsed.data) ?? null
  if (cityKey !== row.city_key)
    add('city', `is not the one under which the listing is searched (${row.city_key})`, restore)
  if (postalKeyOf(parsed.data) !== row.postal_key) {
    add('postalCode', `is not the one under which the listing is searched (${row.postal_key})`, restore)
  } else if (!row.placed) {
    const what = `${inNoTable}: ${showValue(parsed.data.postalCode, 'postalCode')}`
    add('postalCode', what, 'Check it for a typing error.', 'note')
  }
  return found
}

/** Yields the findings on all listings, in the order of their ids; `counts` grows as listings are checked. */
export async function* checkLeads(db: Database, counts: { leads: number }, signal?: AbortSignal): Findings {
  const cityKeys = await findCityKeys(db)
  for await (const page of oneAhead(readPages(db))) {
    if (signal?.aborted) return
    for (const row of page) {
      counts.leads++
      for (const finding of checkLead(row, cityKeys)) yield finding
    }
  }
}
