/**
 * Reads the records of a file and copies them into the staging table of an import: good ones as the JSON of a new listing, bad
 * ones with their problem. `merge.ts` then compares them with the stored listings.
 */
import { type CopyRows, copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import type { Lexemes, Words } from '../matching/lexemes.ts'
import { listingWords } from '../matching/words.ts'
import type { CityKeys } from '../places/city-keys.ts'
import { postalKeyOf } from '../places/postal-key.ts'
import { type Encoding, utf8 } from '../records/encoding.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import { type CommandThatFits, fitting, type Lack, lackError } from '../records/lack.ts'
import { type RecordFile, type RecordFormat, type RecordReadOptions, readRecords } from '../records/read-records.ts'
import { type CsvHeader, onOneLine } from '../records/record.ts'
import type { LeadMap } from './field-map.ts'
import { houseKey } from './house.ts'
import { completeLead, givenFields, serialiseKept } from './lead.ts'
import { NeededFields } from './needed-fields.ts'
import { FieldPicker, type Picked, type ReadOptions } from './pick-fields.ts'
import { type StagedRecord, stagedLeads } from './staged-leads.ts'

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
  encoding: Encoding
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

/** A row, but for what the words of its page bring. */
interface Found {
  row: StagedRecord
  /** Undefined if words are not found while staging; then the house is not found either. */
  words?: Words | undefined
}

/** What is staged of a record: the origin, with its raw text, and its fields or its problem. */
function toFound(
  { n, line, raw }: { n: number; line: number; raw: Buffer },
  picked: Exclude<Picked, { filtered: true }>,
  { lexemes, cityKeys }: Pick<StageOptions, 'lexemes' | 'cityKeys'>,
): Found {
  if (!('patch' in picked)) return { row: { n, line, href: picked.href, raw, problem: picked } }
  const { patch, unread } = picked
  const lead = completeLead(patch)
  const words = lexemes?.wordsOf(listingWords(lead))
  const postalKey = patch.postalCode === undefined ? undefined : postalKeyOf(lead)
  const row: StagedRecord = {
    n,
    line,
    href: patch.href,
    given: givenFields(patch),
    unread,
    lead,
    kept: serialiseKept(patch),
    postalKey,
    // only a record without a postal code can still be rejected and shown
    raw: postalKey === undefined ? raw : undefined,
    // a new listing without a postal code will be rejected
    house: words && postalKey !== undefined ? houseKey(lead) : undefined,
    cityKey: words && cityKeys.find(lead),
  }
  return { row, words }
}

function addRow(rows: CopyRows, row: StagedRecord): void {
  if (row.lead) row.json = JSON.stringify(row.lead)
  stagedLeads.add(rows, row)
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
  let encoding = utf8
  await copyInto(connection, stagedLeads.target, async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    const identity = [options.map?.get('href')?.column ?? 'href']
    for await (const page of readRecords(file, { ...options, signal, identity })) {
      format = page.format
      header = page.header
      encoding = page.encoding
      if (header) picker.setHeader(header)
      const lack = needs.look(page)
      if (lack) throw page.foreign ?? lackError(lack, options.commandThatFits ?? importWith)
      lexemes?.trim()
      const found: Found[] = []
      for (const record of page.records) {
        const picked = picker.pick(record)
        const { line } = record
        if ('filtered' in picked) {
          filtered++
          // an earlier record with its `href` does not count (contract 4.10)
          if (picked.href !== undefined) stagedLeads.add(rows, { n: staged, line, href: picked.href })
        } else {
          needs.count(picked, record)
          hasUnread ||= 'unread' in picked
          const raw = format === 'json' ? onOneLine(record.raw) : record.raw
          const one = toFound({ n: ++staged, line, raw }, picked, options)
          // of rows that wait, garbage collection makes long-lived ones
          if (one.words) found.push(one)
          else addRow(rows, one.row)
        }
        if (rows.isFull) await flush()
      }
      await lexemes?.learn()
      for (const { row, words } of found) {
        row.lexemes = words && lexemes?.lexemesOf(words)
        addRow(rows, row)
        if (rows.isFull) await flush()
      }
      options.onRead?.({ records: staged + filtered, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
    for (const note of picker.finish()) options.onNote?.(note)
  })
  await refuseUseless(connection, needs.findLack(filtered), options)
  return { staged, filtered, ignored: picker.ignored, hasUnread, format, header, encoding }
}
