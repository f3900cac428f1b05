/** The listing to explain: as it is now, when it was first imported, and when an import last had it. */
import { sql } from 'kysely'
import { LeadpushError } from '../../base/errors.ts'
import type { Database } from '../../db/open.ts'
import { isErased } from '../../leads/erasures.ts'
import { hrefSchema } from '../../leads/lead.ts'
import { sha256 } from '../../leads/staged-leads.ts'

export interface ExplainedListing {
  /** As it was imported: it may be spelt otherwise than what was asked for. */
  href: string
  leadId: number
  versionId: number
  /** The last version id before its first import: its own versions are higher. 0 if that import is deleted. */
  baseVersionId: number
  postalCode: string
  /** The form of its postal code that matching compares. */
  postalKey: string
  /** Its place, if no postal code is named after that; else null. */
  cityKey: string | null
  json: string
  kept: string | null
  /** When its first import began; null: so long ago that the import is deleted. */
  importedAt: Date | null
  seenAt: Date
  /** Whether no source has it any more: then it is not delivered. */
  gone: boolean
  /** The sources that have or had it; `goneAt`: when a complete import of the source first lacked it, null: the source has it. */
  sources: { source: string; goneAt: Date | null }[]
}

/** The URL with its host in lower case, as most feeds have it. */
const withLowerHost = (url: string) => url.replace(/^[a-z]+:\/\/[^/?#]*/i, (start) => start.toLowerCase())
const withSlashTurned = (url: string) => (url.endsWith('/') ? url.slice(0, -1) : `${url}/`)

/** Spellings of `href` that mean the same page: another case of the host, with or without a slash at the end. */
const sameAs = (href: string) => [href, withLowerHost(href)].flatMap((url) => [url, withSlashTurned(url)])

/** URLs that are easily mistaken for `href`: http instead of https or the reverse. */
const mistakenFor = (href: string) => sameAs(href.replace(/^http(s?):/i, (_, s: string) => (s ? 'http:' : 'https:')))

/** Takes the exact `href` before other spellings. Throws `usage` if it is not a URL, or not that of a stored listing. */
export async function findListing(db: Database, href: string): Promise<ExplainedListing> {
  const problem = hrefSchema.safeParse(href).error?.issues[0]?.message
  if (problem) {
    throw new LeadpushError('usage', `The listing ${JSON.stringify(href)} ${problem}.`, {
      hint: 'Give the `href` of the listing as it was imported.',
    })
  }
  const exact = (await findStored(db, sameAs(href))) ?? href
  const { rows } = await sql<Omit<ExplainedListing, 'sources' | 'href'>>`
    select l.id as "leadId", l.version_id as "versionId", coalesce(i.base_version_id, 0) as "baseVersionId", l.postal_key as "postalKey", l.city_key as "cityKey",
      v.json, v.kept, v.json::json ->> 'postalCode' as "postalCode", i.started_at as "importedAt", s.seen_at as "seenAt",
      s.gone
    from leads l join lead_versions v on v.id = l.version_id left join imports i on i.id = l.first_import_id
      join lead_seen s on s.lead_id = l.id
    where l.href_sha256 = ${sha256(exact)}
  `.execute(db)
  if (rows[0]) return { ...rows[0], href: exact, sources: await findSources(db, rows[0].leadId) }
  throw new LeadpushError('usage', `There is no listing ${JSON.stringify(href)}.`, { hint: await findHint(db, href) })
}

async function findSources(db: Database, leadId: number): Promise<ExplainedListing['sources']> {
  const { rows } = await sql<ExplainedListing['sources'][number]>`
    select o.name as source, m.gone_at as "goneAt" from lead_sources m join sources o on o.id = m.source_id
    where m.lead_id = ${leadId} order by o.name
  `.execute(db)
  return rows
}

async function findHint(db: Database, href: string): Promise<string> {
  if (await isErased(db, { href }))
    return 'It was erased with `leadpush leads forget`, and nothing is known of it any more.'
  const similar = await findStored(db, mistakenFor(href))
  return similar
    ? `There is ${JSON.stringify(similar)}: an \`href\` is compared as it stands.`
    : 'It was never imported, or it was pruned or erased since.'
}

/** The first of the spellings that is the `href` of a listing. */
async function findStored(db: Database, spellings: readonly string[]): Promise<string | undefined> {
  const { rows } = await sql<{ hash: Buffer }>`
    select href_sha256 as hash from leads where href_sha256 = any (${spellings.map(sha256)})
  `.execute(db)
  return spellings.find((spelling) => rows.some(({ hash }) => hash.equals(sha256(spelling))))
}
