/**
 * `leads import`: each file is one transaction, which stages its records and merges them into the listings. A file that breaks
 * off, or is under way when the import is stopped, leaves nothing behind; the files before it stay.
 */
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { withTransaction } from '../db/transaction.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import {
  findRecordFiles,
  type ImportCounts,
  type ImportOptions,
  type ImportOutcome,
  type ImportProgress,
  importEach,
  type OnRejected,
} from '../records/import-each.ts'
import type { RecordFile, RecordFormat } from '../records/read-records.ts'
import { mergeLeads } from './merge.ts'
import type { PickOptions } from './pick-fields.ts'
import { type StageOptions, stageLeads } from './stage.ts'

export const leadFormats: readonly RecordFormat[] = ['ndjson', 'json', 'csv']

/** contract 3; `read` is the sum of those that follow it. */
export interface LeadCounts extends ImportCounts {
  erased: number
  /** Not taken by `--where`. */
  filtered: number
}

export type LeadImportOutcome = ImportOutcome<LeadCounts>

export interface LeadImportOptions
  extends ImportOptions,
    PickOptions,
    Pick<StageOptions, 'encoding' | 'onNote' | 'commandThatFits'> {
  /** Counts what an import would do, and leaves the listings as they are. */
  isDryRun?: boolean | undefined
}

async function importFile(
  opened: OpenDatabase,
  file: RecordFile,
  options: LeadImportOptions,
  onRejected: OnRejected,
): Promise<{ counts: LeadCounts; ignored: IgnoredFields }> {
  const { name, bytesTotal } = file
  const read = { records: 0, bytesRead: 0 }
  const tell = (phase: ImportProgress['phase']) => options.onProgress?.({ file: name, phase, ...read, bytesTotal })
  return withTransaction(
    opened,
    async (connection) => {
      const onRead = (state: typeof read) => {
        Object.assign(read, state)
        tell('reading')
      }
      const staged = await stageLeads(connection, file, { ...options, onRead })
      tell('merging')
      const { format, header, ignored, filtered } = staged
      const counts = await mergeLeads(connection, {
        file: name,
        staged: staged.staged,
        isDryRun: options.isDryRun,
        onRejected: (reject) => onRejected({ file: name, ...reject, format, header: header?.raw }),
      })
      return { counts: { read: staged.staged + filtered, ...counts, filtered }, ignored }
    },
    options.signal,
    options.isDryRun ? 'rollback' : 'commit',
  )
}

/**
 * Imports `files` in their order. Throws `usage`, with nothing done, where a file does not exist or the first header lacks a
 * column of `map`; `database` where the database is away for too long.
 */
export async function importLeads(
  opened: OpenDatabase,
  files: readonly string[],
  options: LeadImportOptions = {},
): Promise<LeadImportOutcome> {
  const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0, filtered: 0 }
  const outcome = await importEach(findRecordFiles(files, leadFormats), none, options, (file, onRejected) =>
    importFile(opened, file, options, onRejected),
  )
  if (options.isDryRun) return outcome
  const { inserted, updated, unchanged } = outcome.summary
  await tidyTables(opened, ['leads', 'lead_versions'], inserted + updated)
  await tidyTables(opened, ['lead_seen'], inserted + updated + unchanged)
  return outcome
}
