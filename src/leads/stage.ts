/**
 * The staging table of an import: reads the records of a file, refuses the bad ones, and copies the others in as what they
 * would be if they were new. The merge compares that with what is there.
 */
import { hash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { type CopyRows, copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { postalKey } from '../places/postal-key.ts'
import type { IgnoredFields } from './ignored-fields.ts'
import type { OnRejected } from './import-each.ts'
import { givenFields, type LeadPatch, serialiseLead } from './lead.ts'
import { type FieldMap, FieldPicker } from './pick-fields.ts'
import { type RecordFile, type RecordFormat, readRecords } from './read-records.ts'
import { type CsvHeader, onOneLine, type ReadRecord } from './record.ts'

export interface Staged {
  /** Records in the staging table, numbered from 1 in the order of the file. */
  staged: number
  rejected: number
  /** Would have been rejected, had they not been erased. */
  erased: number
  /** Records without a postal code: good only if the listing is known. */
  withoutPostalCode: number
  ignored: IgnoredFields
  format: RecordFormat
  header: CsvHeader | undefined
}

export interface StageOptions {
  map?: FieldMap | undefined
  stdin?: Readable | undefined
  signal?: AbortSignal | undefined
  onRejected: OnRejected
  /** Whether a record that would be rejected was erased: it is counted, and nobody is shown it. */
  isErased?: ((raw: Buffer) => Promise<boolean>) | undefined
  /** After each page. */
  onRead?: ((state: { records: number; bytesRead: number }) => void) | undefined
}

const columns = ['n', 'line', 'href_sha256', 'postal_key', 'given', 'json', 'json_sha256', 'raw']

/** What is long is not compressed: it is written once and read once. */
async function createStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_leads (
      n integer not null, line bigint not null, href_sha256 bytea not null, postal_key text, given integer not null,
      json text not null, json_sha256 bytea not null, raw bytea
    ) on commit drop`)
  await connection.query(`
    alter table staged_leads alter json set storage external, alter raw set storage external`)
}

export const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')

function addRow(rows: CopyRows, n: number, record: ReadRecord, patch: LeadPatch & { href: string }): boolean {
  const json = serialiseLead(patch)
  const key = patch.postalCode === undefined ? undefined : postalKey(patch.postalCode)
  rows.begin(columns.length)
  rows.integer(n)
  rows.bigint(record.line)
  rows.bytea(sha256(patch.href))
  rows.text(key)
  rows.integer(givenFields(patch))
  rows.text(json)
  rows.bytea(sha256(json))
  // only these can still be rejected, and are shown then
  rows.bytea(key === undefined ? (record.cells ? record.raw : onOneLine(record.raw)) : undefined)
  return key !== undefined
}

/** A postal code that is given must be one; one that is not given may be known. */
function problemOf(patch: LeadPatch): { path: string; message: string } | undefined {
  if (patch.postalCode === undefined || postalKey(patch.postalCode) !== undefined) return undefined
  return { path: 'postalCode', message: 'is no postal code' }
}

/** Copies the good records of `file` into `staged_leads`, which it makes. Throws `failed` where the file is broken off. */
export async function stageLeads(connection: Connection, file: RecordFile, options: StageOptions): Promise<Staged> {
  await createStaging(connection)
  const picker = new FieldPicker(options.map)
  let [staged, rejected, erased, withoutPostalCode, records] = [0, 0, 0, 0, 0]
  let format: RecordFormat = file.format ?? 'ndjson'
  let header: CsvHeader | undefined
  await copyInto(connection, `staged_leads (${columns.join(', ')})`, async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    for await (const page of readRecords(file, { ...options, signal })) {
      format = page.format
      header = page.header
      if (header) picker.setHeader(header)
      for (const record of page.records) {
        const picked = picker.pick(record)
        const problem = 'patch' in picked ? problemOf(picked.patch) : picked
        if (problem || !('patch' in picked)) {
          if (await options.isErased?.(record.raw)) {
            erased++
            continue
          }
          rejected++
          const { line } = record
          const raw = format === 'json' ? onOneLine(record.raw) : record.raw
          const told = { file: file.name, line, path: '', message: '', ...problem, raw, format, header: header?.raw }
          await options.onRejected(told)
          continue
        }
        staged++
        if (!addRow(rows, staged, record, picked.patch)) withoutPostalCode++
        if (rows.isFull) await flush()
      }
      records += page.records.length
      options.onRead?.({ records, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
  })
  return { staged, rejected, erased, withoutPostalCode, ignored: picker.ignored, format, header }
}
