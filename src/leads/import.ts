/**
 * `leads import`: the transaction of a file stages its records and merges them into the listings. The files of a complete import of a
 * source share one.
 */
import { sql } from 'kysely'
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import type { Connection } from '../db/transaction.ts'
import { Lexemes } from '../matching/lexemes.ts'
import { findCityKeys } from '../places/city-keys.ts'
import {
  findRecordFiles,
  type ImportCounts,
  type ImportedFile,
  type ImportOptions,
  type ImportOutcome,
  type ImportProgress,
  importFiles,
  type OnRejected,
} from '../records/import-each.ts'
import type { RecordFile, RecordFormat } from '../records/read-records.ts'
import { addUnread, type Example, UnreadableValues } from './examples.ts'
import { type MergeOptions, mergeLeads } from './merge.ts'
import type { ReadOptions } from './pick-fields.ts'
import { findNearSources, recordPresent, type SourceOptions } from './sources.ts'
import { type StageOptions, stageLeads } from './stage.ts'
import { createLeadStaging, presentLeads } from './staging-tables.ts'
import { findUnplaced } from './unplaced.ts'

export const leadFormats: readonly RecordFormat[] = ['ndjson', 'json', 'csv']

/** contract 3: `read` is the sum of the numbers from `inserted` to `filtered`; the others count beside it. */
export interface LeadCounts extends ImportCounts {
  erased: number
  filtered: number
  /** Listings that no source has any more since this import. */
  gone: number
  /** Listings whose postal code is in no table. */
  unplaced: number
  /** Of a complete import, where nothing was taken away since they may be of any listing: rejected records that name none. */
  unnamed?: number
}

export interface LeadImportOutcome extends ImportOutcome<LeadCounts> {
  summary: ImportOutcome<LeadCounts>['summary'] & {
    /** Values that could not be read, by field. */
    unreadable: Record<string, number>
    /** The first of `unreadable` by field, and of `unplaced` as `postalCode`; absent where there is none. */
    examples?: Record<string, Example>
  }
}

export interface LeadImportOptions
  extends ImportOptions,
    ReadOptions,
    Pick<StageOptions, 'map' | 'encoding' | 'onNote' | 'commandThatFits'> {
  source?: SourceOptions | undefined
}

/** With what the files share. */
type Importing = LeadImportOptions & Pick<StageOptions, 'lexemes' | 'cityKeys'> & Pick<MergeOptions, 'onUnnamed'>

interface ImportedLeads extends ImportedFile<LeadCounts> {
  unreadable: UnreadableValues
}

async function stageAndMerge(
  connection: Connection,
  file: RecordFile,
  options: Importing,
  onRejected: OnRejected,
): Promise<ImportedLeads> {
  const { name, bytesTotal } = file
  const read = { records: 0, bytesRead: 0 }
  const tell = (phase: ImportProgress['phase']) => options.onProgress?.({ file: name, phase, ...read, bytesTotal })
  const onRead = (state: typeof read) => {
    Object.assign(read, state)
    tell('reading')
  }
  // contract 4.18: accepted, a complete feed may be of nothing: the last listing of a source can go
  const mayBeEmpty = options.source?.complete === true && options.source.accept
  const staged = await stageLeads(connection, file, { ...options, mayBeEmpty, onRead })
  tell('merging')
  const { format, header, encoding, ignored, hasUnread, filtered } = staged
  const counts = await mergeLeads(connection, {
    file: name,
    staged: staged.staged,
    hasUnread,
    isDryRun: options.isDryRun,
    source: options.source?.name,
    onUnnamed: options.onUnnamed,
    cityKeys: options.cityKeys,
    onRejected: (reject) => onRejected({ file: name, ...reject, format, header: header?.raw, encoding }),
  })
  const { unplaced, first } = await findUnplaced(connection)
  const unreadable = new UnreadableValues()
  if (hasUnread) await addUnread(connection, name, unreadable)
  if (first) unreadable.addExample('postalCode', { file: name, ...first })
  const sum = staged.staged + filtered
  return { counts: { read: sum, ...counts, filtered, gone: 0, unplaced }, ignored, unreadable }
}

const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0, filtered: 0 }
const nothing = { ...none, gone: 0, unplaced: 0, unreadable: {} }

/**
 * Imports `files` in their order. Throws `usage`, with nothing done, where a file does not exist or the first header lacks a
 * column of `map`; `database` where the database is away for too long; `RefusedImport` where a complete import of a source has fewer than
 * half of its live listings.
 */
export async function importLeads(
  opened: OpenDatabase,
  files: readonly string[],
  options: LeadImportOptions = {},
): Promise<LeadImportOutcome> {
  const found = findRecordFiles(files, leadFormats)
  const { source } = options
  // a first import: where most listings are known, finding words before comparing would be work in vain
  const known = await sql`select from leads limit 1`.execute(opened.db)
  // asked of the pool: the import's own connection is busy with the copy
  const lexemes = known.rows.length === 0 ? new Lexemes(opened.pool) : undefined
  const cityKeys = await findCityKeys(opened.db)
  const near = source === undefined ? [] : await findNearSources(opened.db, source.name)
  if (source && near.length > 0)
    options.onNote?.(`--source ${source.name} is a new source, beside ${near.join(' and ')}: is it another one?`)
  let unnamed = 0
  const onUnnamed = source?.complete ? (count: number) => (unnamed += count) : undefined
  const importing = { ...options, lexemes, cityKeys, onUnnamed }
  const unreadable = new UnreadableValues()
  const outcome = await importFiles<LeadCounts, ImportedLeads>(opened, found, options, {
    none: nothing,
    createTables: createLeadStaging,
    async importFile(connection, file, onRejected) {
      const imported = await stageAndMerge(connection, file, importing, onRejected)
      if (source && !source.complete) await recordPresent(connection, source)
      return imported
    },
    onImported: (_, imported) => unreadable.addAll(imported.unreadable),
    together: source?.complete
      ? {
          table: presentLeads,
          async begin() {
            unnamed = 0
          },
          async end(connection, { broken, summary }) {
            if (broken && summary.read === 0) return {}
            const hasUnnamed = unnamed > 0
            const gone = await recordPresent(connection, source, { ended: broken === undefined, hasUnnamed })
            return { gone, ...(hasUnnamed && !source.accept && { unnamed }) }
          },
        }
      : undefined,
  })
  const { inserted, updated, unchanged } = outcome.summary
  if (!options.isDryRun) {
    await tidyTables(opened, ['leads', 'lead_versions'], inserted + updated)
    await tidyTables(opened, ['lead_seen'], inserted + updated + unchanged)
    if (source) await tidyTables(opened, ['lead_sources'], inserted + updated + unchanged)
  }
  const { ignored, ...counts } = outcome.summary
  const { counts: byField, examples } = unreadable
  return {
    ...outcome,
    summary: {
      ...counts,
      unreadable: Object.fromEntries(byField),
      ignored,
      ...(examples.size > 0 && { examples: Object.fromEntries(examples) }),
    },
  }
}
