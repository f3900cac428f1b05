/**
 * Reads the records of a file and copies them into the staging table of an import: good ones as the JSON of a new listing, bad
 * ones with their problem. `merge.ts` then compares them with the stored listings.
 */
import { copyInto } from '../db/copy.ts'
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
import { completeLead, type DeliveredLead, givenFields, serialiseKept } from './lead.ts'
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

/** A record that can be read: its place in the file, and its fields. */
interface Read {
  origin: Required<Pick<StagedRecord, 'n' | 'line' | 'raw'>>
  picked: Extract<Picked, { patch: unknown }>
  lead: DeliveredLead
}

/** `lexemes` are undefined where words are not found while staging; then house and place are not found either. */
function toRow(
  { origin, picked, lead }: Read,
  { lexemes, cityKeys }: { lexemes: readonly string[] | undefined; cityKeys: CityKeys },
): StagedRecord {
  const { patch, unread } = picked
  const postalKey = patch.postalCode === undefined ? undefined : postalKeyOf(lead)
  return {
    n: origin.n,
    line: origin.line,
    href: patch.href,
    given: givenFields(patch),
    unread,
    lead,
    json: JSON.stringify(lead),
    kept: serialiseKept(patch),
    postalKey,
    // only a record without a postal code can still be rejected and shown
    raw: postalKey === undefined ? origin.raw : undefined,
    lexemes,
    // a new listing without a postal code will be rejected
    house: lexemes && postalKey !== undefined ? houseKey(lead) : undefined,
    cityKey: lexemes && cityKeys.find(lead),
  }
}

/** Copies the records of `file` into `staged_leads`. Throws `failed` if the file breaks off. */
export async function stageLeads(connection: Connection, file: RecordFile, options: StageOptions): Promise<Staged> {
  const picker = new FieldPicker(options.map, options)
  const needs = new NeededFields(options.map)
  const { lexemes, cityKeys } = options
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
      // of these only the words are found ahead: garbage collection makes all that waits long-lived
      const found: (Read & { words: Words })[] = []
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
          const origin = { n: ++staged, line, raw: format === 'json' ? onOneLine(record.raw) : record.raw }
          if ('patch' in picked) {
            const lead = completeLead(picked.patch)
            if (lexemes) found.push({ origin, picked, lead, words: lexemes.wordsOf(listingWords(lead)) })
            else stagedLeads.add(rows, toRow({ origin, picked, lead }, { lexemes, cityKeys }))
          } else stagedLeads.add(rows, { ...origin, href: picked.href, problem: picked })
        }
        if (rows.isFull) await flush()
      }
      await lexemes?.learn()
      for (const read of found) {
        stagedLeads.add(rows, toRow(read, { lexemes: lexemes?.lexemesOf(read.words), cityKeys }))
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
