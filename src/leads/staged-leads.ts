/** The rows that an import stages, a column at a time: the records of a file, and what merging makes of those that change. */
import { hash } from 'node:crypto'
import type { CopyRows } from '../db/copy.ts'
import { type StagedColumn, stagedTable } from '../db/staged-table.ts'
import { type Problem, serialiseProblem } from '../records/staged-rejects.ts'
import { contactColumns } from './contacts.ts'
import { serialiseUnread } from './examples.ts'
import { contactFields, type DeliveredLead, type StoredJson } from './lead.ts'
import type { UnreadableValue } from './read-value.ts'

export const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')

/** A listing, or a new state of one, on its way into `leads` and `lead_versions`. */
interface LeadRow {
  lead?: DeliveredLead | undefined
  /** Undefined where nothing is to be stored of them. */
  json?: string | undefined
  kept?: string | undefined
  postalKey?: string | undefined
  cityKey?: string | undefined
  house?: Buffer | undefined
  /** The lexemes of its words; undefined where they are not looked for, or have not changed. */
  lexemes?: readonly string[] | undefined
}

/** The hash by which an import sees what has not changed. */
export const hashOf = ({ json, kept }: { json: string; kept?: StoredJson['kept'] | undefined }): Buffer =>
  sha256(kept ? json + kept : json)

/** The same in SQL. */
export const hashOfStored = (json: string, kept: string) =>
  `sha256(convert_to(${json} || coalesce(${kept}, ''), 'UTF8'))`

const leadColumns: readonly StagedColumn<LeadRow>[] = [
  { name: 'postal_key', type: 'text', write: (rows, { postalKey }) => rows.text(postalKey) },
  { name: 'city_key', type: 'text', write: (rows, { cityKey }) => rows.text(cityKey) },
  { name: 'json', type: 'text', write: (rows, { json }) => rows.text(json) },
  { name: 'kept', type: 'text', write: (rows, { kept }) => rows.text(kept) },
  {
    name: 'json_sha256',
    type: 'bytea',
    write: (rows, { json, kept }) => rows.bytea(json === undefined ? undefined : hashOf({ json, kept })),
  },
  ...contactFields.map((field, at) => ({
    name: contactColumns[at] as string,
    type: 'text',
    write: (rows: CopyRows, { lead }: LeadRow) => rows.text(lead?.[field] ?? undefined),
  })),
  { name: 'search', type: 'tsvector', write: (rows, { lexemes }) => rows.tsvector(lexemes) },
  { name: 'house', type: 'bytea', write: (rows, { house }) => rows.bytea(house) },
]

/** A record of a file; one that `--where` does not take has its `href` alone. */
export interface StagedRecord extends LeadRow {
  /** Counts records, from 1. One that `--where` does not take has the `n` of the last one before it that it took. */
  n: number
  line: number
  href: string | undefined
  /** Of a good record, as `givenFields` gives it. */
  given?: number
  /** The record as it is shown, where it is, or may still be, rejected. */
  raw?: Buffer | undefined
  problem?: Problem
  unread?: readonly UnreadableValue[] | undefined
}

const contactCharsMax = 64 * 1024

/** The contact fields of a record that could not be read, as one text; undefined if it has none. */
function joinUnreadContacts(values: readonly UnreadableValue[] = []): string | undefined {
  const contacts = values.filter(({ field }) => field.startsWith('contact')).map(({ value }) => value)
  return contacts.length === 0 ? undefined : JSON.stringify(contacts).slice(0, contactCharsMax).toWellFormed()
}

export const stagedLeads = stagedTable<StagedRecord>('staged_leads', [
  { name: 'n', type: 'integer not null', write: (rows, { n }) => rows.integer(n) },
  { name: 'line', type: 'bigint not null', write: (rows, { line }) => rows.bigint(line) },
  {
    name: 'href_sha256',
    type: 'bytea',
    write: (rows, { href }) => rows.bytea(href === undefined ? undefined : sha256(href)),
  },
  { name: 'given', type: 'integer', write: (rows, { given }) => rows.integer(given) },
  { name: 'raw', type: 'bytea', write: (rows, { raw }) => rows.bytea(raw) },
  { name: 'problem', type: 'text', write: (rows, { problem }) => rows.text(problem && serialiseProblem(problem)) },
  { name: 'unread', type: 'text', write: (rows, { unread }) => rows.text(unread && serialiseUnread(unread)) },
  { name: 'unread_contacts', type: 'text', write: (rows, { unread }) => rows.text(joinUnreadContacts(unread)) },
  ...leadColumns,
])

/** What a record brings: a change of a listing, or a new one, of which `staged_leads` has the JSON. */
export interface MergedRecord extends LeadRow {
  n: number
  leadId: number
  versionId: number | undefined
  /** Undefined where the price is the same. */
  prices?: { previous: number; now: number } | undefined
}

export const mergedLeads = stagedTable<MergedRecord>('merged_leads', [
  { name: 'n', type: 'integer not null', write: (rows, { n }) => rows.integer(n) },
  { name: 'lead_id', type: 'bigint not null', write: (rows, { leadId }) => rows.bigint(leadId) },
  { name: 'version_id', type: 'bigint', write: (rows, { versionId }) => rows.bigint(versionId) },
  { name: 'previous_price', type: 'double precision', write: (rows, { prices }) => rows.double(prices?.previous) },
  { name: 'price', type: 'double precision', write: (rows, { prices }) => rows.double(prices?.now) },
  ...leadColumns,
])
