/**
 * Reads the records of a file and copies them into the staging table of an import: good ones as the JSON of a new listing, bad
 * ones with their problem. `merge.ts` then compares them with the stored listings.
 */
import { hash } from 'node:crypto'
import { type CopyRows, copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import type { Lexemes, Words } from '../matching/lexemes.ts'
import { listingWords } from '../matching/words.ts'
import type { CityKeys } from '../places/city-keys.ts'
import { postalKey, postalKeyOf } from '../places/postal-key.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import { type CommandThatFits, fitting, type Lack, lackError } from '../records/lack.ts'
import { type RecordFile, type RecordFormat, type RecordReadOptions, readRecords } from '../records/read-records.ts'
import { type CsvHeader, onOneLine } from '../records/record.ts'
import { type Problem, serialiseProblem } from '../records/staged-rejects.ts'
import { serialiseUnread } from './examples.ts'
import type { LeadMap } from './field-map.ts'
import { houseKey } from './house.ts'
import { completeLead, givenFields, type Lead, type LeadPatch } from './lead.ts'
import { NeededFields } from './needed-fields.ts'
import { FieldPicker, type Picked, type ReadOptions } from './pick-fields.ts'
import { showValue, type UnreadableValue } from './read-value.ts'

/** The outcome of staging one file. */
export interface Staged {
  /** Records in the staging table, numbered from 1 in the order of the file. */
  staged: number
  /** Records that `--where` does not take: they are not staged. */
  filtered: number
  ignored: IgnoredFields
  /** Whether a record has a value that could not be read. */
  hasUnread: boolean
  format: RecordFormat
  header: CsvHeader | undefined
}

export interface StageOptions extends RecordReadOptions, ReadOptions {
  map?: LeadMap | undefined
  /** The command with the `--map` options that fit a file whose columns have other names. */
  commandThatFits?: CommandThatFits | undefined
  /** Given if most listings will be new: their words are then found here, while the database stores others. */
  lexemes?: Lexemes | undefined
  cityKeys: CityKeys
  /** Called with notes on the file. */
  onNote?: ((note: string) => void) | undefined
  /** After each page. */
  onRead?: ((state: { records: number; bytesRead: number }) => void) | undefined
}

const importWith = fitting('leadpush leads import FILE')

/** Throws `failed` if no record has the fields that a new listing needs, and none is of a known listing. */
async function refuseUseless(connection: Connection, lack: Lack | undefined, options: StageOptions): Promise<void> {
  if (!lack) return
  const known =
    lack.mayBeKnown &&
    (await connection.query(
      `select from staged_leads s join leads l on l.href_sha256 = s.href_sha256 where s.given is not null limit 1`,
    ))
  if (!known || known.rowCount === 0) throw lackError(lack, options.commandThatFits ?? importWith)
}

const columns = [
  'n',
  'line',
  'href_sha256',
  'postal_key',
  'given',
  'json',
  'json_sha256',
  'raw',
  'problem',
  'unread',
  'unread_contacts',
  'search',
  'house',
  'city_key',
]

export const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')

type Patch = LeadPatch & { href: string }

/** The origin of a row. */
interface Origin {
  /** Counts records, from 1. */
  n: number
  line: number
  /** The record as it is shown if it is rejected. */
  raw: Buffer
}

const contactCharsMax = 64 * 1024

/** The contact fields of a record that could not be read, as one text; undefined if it has none. */
function joinUnreadContacts(values: readonly UnreadableValue[]): string | undefined {
  const contacts = values.filter(({ field }) => field.startsWith('contact')).map(({ value }) => value)
  return contacts.length === 0 ? undefined : JSON.stringify(contacts).slice(0, contactCharsMax).toWellFormed()
}

/** A record that may go in. */
interface GoodRecord {
  patch: Patch
  lead: Lead
  unread: readonly UnreadableValue[]
  /** Undefined if words are not found while staging; then the house is not found either. */
  words: Words | undefined
}

function addRow(
  rows: CopyRows,
  { n, line, raw }: Origin,
  record: GoodRecord,
  { lexemes, cityKeys }: Pick<StageOptions, 'lexemes' | 'cityKeys'>,
): void {
  const { patch, lead, unread, words } = record
  const json = JSON.stringify(lead)
  const key = patch.postalCode === undefined ? undefined : postalKeyOf(lead)
  rows.begin(columns.length)
  rows.integer(n)
  rows.bigint(line)
  rows.bytea(sha256(patch.href))
  rows.text(key)
  rows.integer(givenFields(patch))
  rows.text(json)
  rows.bytea(sha256(json))
  // only a record without a postal code can still be rejected and shown
  rows.bytea(key === undefined ? raw : undefined)
  rows.null()
  rows.text(unread.length === 0 ? undefined : serialiseUnread(unread))
  rows.text(unread.length === 0 ? undefined : joinUnreadContacts(unread))
  rows.tsvector(words && lexemes?.lexemesOf(words))
  // a new listing without a postal code will be rejected
  rows.bytea(words && key !== undefined ? houseKey(lead) : undefined)
  rows.text(words && cityKeys.find(lead))
}

type BadRecord = Problem & { href?: string }

function addBadRow(rows: CopyRows, { n, line, raw }: Origin, problem: BadRecord): void {
  rows.begin(columns.length)
  rows.integer(n)
  rows.bigint(line)
  rows.bytea(problem.href === undefined ? undefined : sha256(problem.href))
  for (let nulls = 0; nulls < 4; nulls++) rows.null()
  rows.bytea(raw)
  rows.text(serialiseProblem(problem))
  for (let nulls = 0; nulls < 5; nulls++) rows.null()
}

/**
 * A record that `--where` does not take, `n` after the last one that it took: an earlier record with its `href` does not count (contract
 * 4.10).
 */
function addFilteredRow(rows: CopyRows, { n, line, href }: { n: number; line: number; href: string }): void {
  rows.begin(columns.length)
  rows.integer(n)
  rows.bigint(line)
  rows.bytea(sha256(href))
  for (let nulls = 3; nulls < columns.length; nulls++) rows.null()
}

/** A given postal code must be valid; a missing one may be known from an earlier import. */
function checkPostalCode(picked: Picked): Picked {
  if (!('patch' in picked)) return picked
  const { href, postalCode } = picked.patch
  if (postalCode === undefined || postalKey(postalCode) !== undefined) return picked
  return { path: 'postalCode', message: `is not a postal code: ${showValue(postalCode, 'postalCode')}`, href }
}

/** Copies the records of `file` into `staged_leads`. Throws `failed` if the file breaks off. */
export async function stageLeads(connection: Connection, file: RecordFile, options: StageOptions): Promise<Staged> {
  const picker = new FieldPicker(options.map, options)
  const needs = new NeededFields(options.map)
  const { lexemes } = options
  let hasUnread = false
  let [staged, filtered] = [0, 0]
  let format: RecordFormat = file.format ?? 'ndjson'
  let header: CsvHeader | undefined
  await copyInto(connection, `staged_leads (${columns.join(', ')})`, async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    for await (const page of readRecords(file, { ...options, signal })) {
      format = page.format
      header = page.header
      if (header) for (const note of picker.setHeader(header)) options.onNote?.(note)
      const lack = needs.look(page)
      if (lack) throw lackError(lack, options.commandThatFits ?? importWith)
      lexemes?.trim()
      const found: { origin: Origin; record: GoodRecord | BadRecord }[] = []
      const passed: { n: number; line: number; href: string }[] = []
      for (const record of page.records) {
        const picked = checkPostalCode(picker.pick(record))
        if ('filtered' in picked) {
          filtered++
          if (picked.href !== undefined) passed.push({ n: staged, line: record.line, href: picked.href })
          continue
        }
        needs.count(picked, record)
        const raw = format === 'json' ? onOneLine(record.raw) : record.raw
        const origin = { n: ++staged, line: record.line, raw }
        if ('patch' in picked) {
          const { patch, unread = [] } = picked
          hasUnread ||= unread.length > 0
          const lead = completeLead(patch)
          const words = lexemes?.wordsOf(listingWords(lead))
          found.push({ origin, record: { patch, lead, unread, words } })
        } else found.push({ origin, record: picked })
      }
      await lexemes?.learn()
      for (const { origin, record } of found) {
        if ('patch' in record) addRow(rows, origin, record, options)
        else addBadRow(rows, origin, record)
        if (rows.isFull) await flush()
      }
      for (const one of passed) {
        addFilteredRow(rows, one)
        if (rows.isFull) await flush()
      }
      options.onRead?.({ records: staged + filtered, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
    for (const note of picker.finish()) options.onNote?.(note)
  })
  await refuseUseless(connection, needs.findLack(filtered), options)
  return { staged, filtered, ignored: picker.ignored, hasUnread, format, header }
}
