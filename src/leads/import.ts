/**
 * `leads import`: each file is one transaction, which stages its records and merges them into the listings. A file that breaks
 * off, or is under way when the import is stopped, leaves nothing behind; the files before it stay. The files of a complete import
 * of a source share one transaction.
 */
import { LeadpushError } from '../base/errors.ts'
import { rideOut } from '../db/away.ts'
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { type Connection, withTransaction } from '../db/transaction.ts'
import { Lexemes } from '../matching/lexemes.ts'
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
  RefusedImport,
} from '../records/import-each.ts'
import type { RecordFile, RecordFormat } from '../records/read-records.ts'
import { addUnread, type Example, UnreadableValues } from './examples.ts'
import { mergeLeads } from './merge.ts'
import type { ReadOptions } from './pick-fields.ts'
import { dropStaging, recordPresent, type SourceOptions, startNoting } from './sources.ts'
import { type StageOptions, stageLeads } from './stage.ts'
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
  /** Counts what an import would do, and leaves the listings as they are. */
  isDryRun?: boolean | undefined
  source?: SourceOptions | undefined
}

/** With what the files share. */
type Importing = LeadImportOptions & Pick<StageOptions, 'lexemes'>

/** What came of one file. */
interface ImportedFile {
  counts: LeadCounts
  ignored: IgnoredFields
  unreadable: UnreadableValues
}

/** What came of all files. */
type Imported = ImportOutcome<LeadCounts> & { unreadable: UnreadableValues }

async function stageAndMerge(
  connection: Connection,
  file: RecordFile,
  options: Importing,
  onRejected: OnRejected,
): Promise<ImportedFile> {
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
  const { format, header, ignored, hasUnread, filtered } = staged
  const counts = await mergeLeads(connection, {
    file: name,
    staged: staged.staged,
    hasUnread,
    isDryRun: options.isDryRun,
    notes: options.source !== undefined,
    onRejected: (reject) => onRejected({ file: name, ...reject, format, header: header?.raw }),
  })
  const { unplaced, first } = await findUnplaced(connection)
  const unreadable = new UnreadableValues()
  if (hasUnread) await addUnread(connection, name, unreadable)
  if (first) unreadable.addExample('postalCode', { file: name, ...first })
  const sum = staged.staged + filtered
  return { counts: { read: sum, ...counts, filtered, gone: 0, unplaced }, ignored, unreadable }
}

function importFile(
  opened: OpenDatabase,
  file: RecordFile,
  options: Importing,
  onRejected: OnRejected,
): Promise<ImportedFile> {
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
    options.isDryRun ? 'rollback' : 'commit',
  )
}

async function importOneByOne(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  none: LeadCounts,
  options: Importing,
): Promise<Imported> {
  const unreadable = new UnreadableValues()
  const outcome = await importEach(files, none, options, async (file, onRejected) => {
    const imported = await importFile(opened, file, options, onRejected)
    unreadable.addAll(imported.unreadable)
    return imported
  })
  return { ...outcome, unreadable }
}

/**
 * Imports the files in one transaction, since all of them together say what is gone, and whether they can be meant. Where one breaks
 * off, those before it go in.
 */
async function importTogether(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  none: LeadCounts,
  options: Importing & { source: SourceOptions },
): Promise<Imported> {
  const { source, signal } = options
  let rejected = 0
  const importAll = async (connection: Connection, tellRejected: OnRejected) => {
    rejected = 0
    const onRejected: OnRejected = (one) => {
      rejected++
      return tellRejected(one)
    }
    await startNoting(connection)
    const unreadable = new UnreadableValues()
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
          unreadable.addAll(imported.unreadable)
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
    return { ...outcome, unreadable }
  }
  try {
    return await importWithRetries(files, options, (onRejected) =>
      withTransaction(
        opened,
        (connection) => importAll(connection, onRejected),
        signal,
        options.isDryRun ? 'rollback' : 'commit',
      ),
    )
  } catch (error) {
    if (!signal?.aborted) {
      if (!isFailed(error)) throw error
      const refused = { ...none, read: rejected, rejected, unreadable: {}, ignored: {} }
      throw new RefusedImport(error, refused)
    }
    return { summary: { ...none, ignored: {} }, broken: undefined, stopped: true, unreadable: new UnreadableValues() }
  }
}

const isFailed = (error: unknown): error is LeadpushError => error instanceof LeadpushError && error.code === 'failed'

const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0, filtered: 0 }
const nothing: LeadCounts = { ...none, gone: 0, unplaced: 0 }

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
  const known = await rideOut(() => opened.pool.query('select from leads limit 1'), options.onAway)
  // asked of the pool: the import's own connection is busy with the copy
  const importing = { ...options, lexemes: known.rowCount === 0 ? new Lexemes(opened.pool) : undefined }
  const { unreadable, ...outcome } = await (source?.complete
    ? importTogether(opened, found, nothing, { ...importing, source })
    : importOneByOne(opened, found, nothing, importing))
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
