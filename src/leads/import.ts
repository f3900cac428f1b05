/**
 * `leads import`: each file is one transaction, which stages its records and merges them into the listings. A file that breaks
 * off, or is under way when the import is stopped, leaves nothing behind; the files before it stay. The files of a complete import
 * of a source share one transaction.
 */
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { type Connection, withTransaction } from '../db/transaction.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import {
  findRecordFiles,
  type ImportCounts,
  type ImportOptions,
  type ImportOutcome,
  type ImportProgress,
  importEach,
  importWithRetries,
  type OnRejected,
} from '../records/import-each.ts'
import type { RecordFile, RecordFormat } from '../records/read-records.ts'
import { mergeLeads } from './merge.ts'
import type { FieldMap } from './pick-fields.ts'
import { dropStaging, recordPresent, type SourceOptions, startNoting } from './sources.ts'
import { stageLeads } from './stage.ts'

export const leadFormats: readonly RecordFormat[] = ['ndjson', 'json', 'csv']

/** contract 3; `read` is the sum of the six that follow it. */
export interface LeadCounts extends ImportCounts {
  erased: number
  /** Listings that no source has any more since this import. */
  gone: number
}

export type LeadImportOutcome = ImportOutcome<LeadCounts>

export interface LeadImportOptions extends ImportOptions {
  map?: FieldMap | undefined
  source?: SourceOptions | undefined
}

type Imported = { counts: LeadCounts; ignored: IgnoredFields }

async function stageAndMerge(
  connection: Connection,
  file: RecordFile,
  options: LeadImportOptions,
  onRejected: OnRejected,
): Promise<Imported> {
  const { name, bytesTotal } = file
  const read = { records: 0, bytesRead: 0 }
  const tell = (phase: ImportProgress['phase']) => options.onProgress?.({ file: name, phase, ...read, bytesTotal })
  const onRead = (state: typeof read) => {
    Object.assign(read, state)
    tell('reading')
  }
  const staged = await stageLeads(connection, file, { ...options, onRead })
  tell('merging')
  const { format, header, ignored } = staged
  const counts = await mergeLeads(connection, {
    file: name,
    staged: staged.staged,
    notes: options.source !== undefined,
    onRejected: (reject) => onRejected({ file: name, ...reject, format, header: header?.raw }),
  })
  return { counts: { read: staged.staged, ...counts, gone: 0 }, ignored }
}

function importFile(
  opened: OpenDatabase,
  file: RecordFile,
  options: LeadImportOptions,
  onRejected: OnRejected,
): Promise<Imported> {
  const { source, signal } = options
  return withTransaction(
    opened,
    async (connection) => {
      if (source) await startNoting(connection)
      const imported = await stageAndMerge(connection, file, options, onRejected)
      if (source) await recordPresent(connection, source)
      return imported
    },
    signal,
  )
}

/**
 * Imports the files in one transaction, since all of them together say what is gone, and whether they can be meant. Where one breaks
 * off, those before it go in.
 */
async function importTogether(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  none: LeadCounts,
  options: LeadImportOptions & { source: SourceOptions },
): Promise<LeadImportOutcome> {
  const { source, signal } = options
  const importAll = async (connection: Connection, onRejected: OnRejected) => {
    await startNoting(connection)
    const outcome = await importEach(
      files,
      none,
      { ...options, onRejected },
      async (file, onRejected) => {
        signal?.throwIfAborted()
        await connection.query('savepoint file')
        try {
          const imported = await stageAndMerge(connection, file, options, onRejected)
          await dropStaging(connection)
          return imported
        } catch (error) {
          await connection.query('rollback to savepoint file').catch(() => {})
          throw error
        }
      },
      false,
    )
    const isWhole = outcome.broken === undefined
    // what was stopped is rolled back
    if (!outcome.stopped && (isWhole || outcome.summary.read > 0))
      outcome.summary.gone = await recordPresent(connection, source, isWhole)
    return outcome
  }
  try {
    return await importWithRetries(files, options, (onRejected) =>
      withTransaction(opened, (connection) => importAll(connection, onRejected), signal),
    )
  } catch (error) {
    if (!signal?.aborted) throw error
    return { summary: { ...none, ignored: {} }, broken: undefined, stopped: true }
  }
}

/**
 * Imports `files` in their order. Throws `usage`, with nothing done, where a file does not exist or the first header lacks a
 * column of `map`; `database` where the database is away for too long; `failed`, with nothing done, where a complete import of a
 * source has fewer than half of its live listings.
 */
export async function importLeads(
  opened: OpenDatabase,
  files: readonly string[],
  options: LeadImportOptions = {},
): Promise<LeadImportOutcome> {
  const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0, gone: 0 }
  const found = findRecordFiles(files, leadFormats)
  const { source } = options
  const outcome = await (source?.complete
    ? importTogether(opened, found, none, { ...options, source })
    : importEach(found, none, options, (file, onRejected) => importFile(opened, file, options, onRejected)))
  const { inserted, updated, unchanged } = outcome.summary
  await tidyTables(opened, ['leads', 'lead_versions'], inserted + updated)
  await tidyTables(opened, ['lead_seen'], inserted + updated + unchanged)
  if (source) await tidyTables(opened, ['lead_sources'], inserted + updated + unchanged)
  return outcome
}
