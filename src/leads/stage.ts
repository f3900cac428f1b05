/**
 * The staging table of an import: reads the records of a file, and copies them in, the good ones as what they would be if they
 * were new, the bad ones with what is wrong. The merge compares that with what is there.
 */
import { hash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { type CopyRows, copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { postalKey } from '../places/postal-key.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import { type RecordFile, type RecordFormat, readRecords } from '../records/read-records.ts'
import { type CsvHeader, onOneLine } from '../records/record.ts'
import { type Problem, serialiseProblem } from '../records/staged-rejects.ts'
import { givenFields, type LeadPatch, serialiseLead } from './lead.ts'
import { type FieldMap, FieldPicker, type Picked } from './pick-fields.ts'

export interface Staged {
  /** Records in the staging table, numbered from 1 in the order of the file. */
  staged: number
  ignored: IgnoredFields
  format: RecordFormat
  header: CsvHeader | undefined
}

export interface StageOptions {
  map?: FieldMap | undefined
  stdin?: Readable | undefined
  signal?: AbortSignal | undefined
  /** After each page. */
  onRead?: ((state: { records: number; bytesRead: number }) => void) | undefined
}

const columns = ['n', 'line', 'href_sha256', 'postal_key', 'given', 'json', 'json_sha256', 'raw', 'problem']

/** What is long is not compressed: it is written once and read once. */
async function createStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_leads (
      n integer not null, line bigint not null, href_sha256 bytea, postal_key text, given integer, json text,
      json_sha256 bytea, raw bytea, problem text
    ) on commit drop`)
  await connection.query(`
    alter table staged_leads alter json set storage external, alter raw set storage external`)
}

export const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')

interface Place {
  n: number
  line: number
  /** As it is shown. */
  raw: Buffer
}

function addRow(rows: CopyRows, { n, line, raw }: Place, patch: LeadPatch & { href: string }): void {
  const json = serialiseLead(patch)
  const key = patch.postalCode === undefined ? undefined : postalKey(patch.postalCode)
  rows.begin(columns.length)
  rows.integer(n)
  rows.bigint(line)
  rows.bytea(sha256(patch.href))
  rows.text(key)
  rows.integer(givenFields(patch))
  rows.text(json)
  rows.bytea(sha256(json))
  // only these can still be rejected, and are shown then
  rows.bytea(key === undefined ? raw : undefined)
  rows.null()
}

function addBadRow(rows: CopyRows, { n, line, raw }: Place, problem: Problem & { href?: string }): void {
  rows.begin(columns.length)
  rows.integer(n)
  rows.bigint(line)
  rows.bytea(problem.href === undefined ? undefined : sha256(problem.href))
  for (let nulls = 0; nulls < 4; nulls++) rows.null()
  rows.bytea(raw)
  rows.text(serialiseProblem(problem))
}

/** A postal code that is given must be one; one that is not given may be known. */
function checkPostalCode(picked: Picked): Picked {
  if (!('patch' in picked)) return picked
  const { href, postalCode } = picked.patch
  if (postalCode === undefined || postalKey(postalCode) !== undefined) return picked
  return { path: 'postalCode', message: 'is no postal code', href }
}

/** Copies the records of `file` into `staged_leads`, which it makes. Throws `failed` where the file is broken off. */
export async function stageLeads(connection: Connection, file: RecordFile, options: StageOptions): Promise<Staged> {
  await createStaging(connection)
  const picker = new FieldPicker(options.map)
  let staged = 0
  let format: RecordFormat = file.format ?? 'ndjson'
  let header: CsvHeader | undefined
  await copyInto(connection, `staged_leads (${columns.join(', ')})`, async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    for await (const page of readRecords(file, { ...options, signal })) {
      format = page.format
      header = page.header
      if (header) picker.setHeader(header)
      for (const record of page.records) {
        const picked = checkPostalCode(picker.pick(record))
        const raw = format === 'json' ? onOneLine(record.raw) : record.raw
        const place = { n: ++staged, line: record.line, raw }
        if ('patch' in picked) addRow(rows, place, picked.patch)
        else addBadRow(rows, place, picked)
        if (rows.isFull) await flush()
      }
      options.onRead?.({ records: staged, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
  })
  return { staged, ignored: picker.ignored, format, header }
}
