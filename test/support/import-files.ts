/**
 * Writes files for imports into a folder that is removed after the test file, imports them, and reads what the database then
 * holds.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { OpenDatabase } from '../../src/db/open.ts'
import { importLeads, type LeadImportOptions } from '../../src/leads/import.ts'
import type { Lead, LeadPatch } from '../../src/leads/lead.ts'
import type { Rejected } from '../../src/records/import-each.ts'

const folder = mkdtempSync(join(tmpdir(), 'leadpush-test-'))
after(() => rmSync(folder, { recursive: true, force: true }))

export function writeInput(name: string, content: string | Buffer): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

export const toLines = (records: readonly unknown[]) => records.map((record) => `${JSON.stringify(record)}\n`).join('')

export async function importing(opened: OpenDatabase, files: string[], options: LeadImportOptions = {}) {
  const rejected: Rejected[] = []
  const outcome = await importLeads(opened, files, { onRejected: (one) => void rejected.push(one), ...options })
  const { read, inserted, updated, unchanged, rejected: bad, repeated, erased, filtered } = outcome.summary
  if (read !== inserted + updated + unchanged + bad + repeated + erased + filtered)
    throw new Error('the counts do not add up')
  return { ...outcome, rejected }
}

let files = 0

/** Imports `records` as NDJSON. */
export function importRecords(opened: OpenDatabase, records: readonly unknown[], options: LeadImportOptions = {}) {
  return importing(opened, [writeInput(`${++files}.ndjson`, toLines(records))], options)
}

export const hrefOf = (name: string | number) => `https://example.com/${name}`

export const listing = (name: string | number, fields: Omit<LeadPatch, 'href'> | Record<string, unknown> = {}) => ({
  href: hrefOf(name),
  postalCode: '78704',
  ...fields,
})

export interface StoredLead {
  lead: Lead
  json: string
  id: number
  versionId: number
  postalKey: string
  seenAt: Date
  firstImportId: number
  search: string
  versions: number
}

/** The stored listing; undefined where there is none. */
export async function findStored(opened: OpenDatabase, name: string | number): Promise<StoredLead | undefined> {
  const { rows } = await opened.pool.query(
    `select l.id, l.version_id as "versionId", l.postal_key as "postalKey", l.first_import_id as "firstImportId",
       l.search::text, s.seen_at as "seenAt", v.json,
       (select count(*) from lead_versions o where o.lead_id = l.id) as versions,
       (select count(*) from lead_versions o where o.lead_id = l.id and o.superseded_at is null) as current
     from leads l join lead_seen s on s.lead_id = l.id
       join lead_versions v on v.id = l.version_id and v.lead_id = l.id and v.superseded_at is null
     where l.href_sha256 = $1`,
    [createHash('sha256').update(hrefOf(name)).digest()],
  )
  const [row] = rows
  if (row && row.current !== 1) throw new Error(`${row.current} versions are current`)
  return row && { ...row, lead: JSON.parse(row.json) }
}
