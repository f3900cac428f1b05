/**
 * An import of leads or users: one file after the other, each completely or not at all. A file that breaks off ends it, because a later
 * file counts as newer. A file is one transaction; the files of a complete import share one.
 */
import type { Readable } from 'node:stream'
import { LeadpushError, messageOf } from '../base/errors.ts'
import type { OpenDatabase } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { type Connection, withTransaction } from '../db/transaction.ts'
import type { Encoding } from './encoding.ts'
import { IgnoredFields } from './ignored-fields.ts'
import { findRecordFile, type RecordFile, type RecordFormat } from './read-records.ts'

/** A record that was not imported, and why. */
export interface Rejected {
  /** The file's name as it was given. */
  file: string
  /** The line on which the record begins, from 1; in a JSON array the number of the element. */
  line: number
  /** The field, or '' for the record as a whole. */
  path: string
  message: string
  /** The text of the record; where it is too large, its beginning; empty where it must not be kept. */
  raw: Buffer
  format: RecordFormat
  /** In CSV the header line. */
  header: Buffer | undefined
  /** Of the file; `raw` and `header` are UTF-8. */
  encoding: Encoding
}

/** Takes each rejected record; reading waits for it. */
export type OnRejected = (rejected: Rejected) => void | Promise<void>

/** How far the import of a file has come. */
export interface ImportProgress {
  file: string
  phase: 'reading' | 'merging'
  /** Records of this file so far. */
  records: number
  bytesRead: number
  /** Undefined for standard input. */
  bytesTotal: number | undefined
}

/** Where `-` reads from, how the import is stopped, and whom it tells. */
export interface ImportOptions {
  /** The stream for `-`; by default the process's standard input. */
  stdin?: Readable | undefined
  signal?: AbortSignal | undefined
  /** Called for each rejected record while its file is read; the file may still break off. */
  onRejected?: OnRejected | undefined
  /** Counts what an import would do, and changes nothing. */
  isDryRun?: boolean | undefined
  onProgress?: ((progress: ImportProgress) => void) | undefined
}

/** How many records came to what; `read` is the sum of the others. */
export interface ImportCounts {
  read: number
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
}

/** What came of all files. */
export interface ImportOutcome<C extends ImportCounts> {
  /** The sums over the imported files. */
  summary: C & { ignored: Record<string, number> }
  /** The file that broke off: nothing of it was imported, and no later file was begun. */
  broken: { file: string; message: string; hint?: string | undefined } | undefined
  /** Whether `signal` stopped the import. */
  stopped: boolean
}

/** An import of which nothing went in, since its files together have too little. */
export class RefusedImport extends LeadpushError {
  /** Counts the records that were told as rejected, and no others. */
  readonly summary: ImportOutcome<ImportCounts>['summary']

  constructor({ message, hint }: LeadpushError, summary: ImportOutcome<ImportCounts>['summary']) {
    super('failed', message, hint === undefined ? {} : { hint })
    this.summary = summary
  }
}

/** The files by their names. Throws `usage` where one does not exist or cannot be imported. */
export function findRecordFiles(names: readonly string[], formats: readonly RecordFormat[]): RecordFile[] {
  if (names.filter((name) => name === '-').length > 1) {
    throw new LeadpushError('usage', 'Standard input (-) can be read once only.')
  }
  return names.map((name) => findRecordFile(name, formats))
}

/** What came of a file. */
export interface ImportedFile<C extends ImportCounts> {
  counts: C
  ignored: IgnoredFields
}

/** How files are imported. */
export interface Importer<C extends ImportCounts, F extends ImportedFile<C>> {
  none: C
  /** Makes the temporary tables of a transaction. Each file finds them empty, but for the one that the files share. */
  createTables(connection: Connection): Promise<void>
  /** Imports the file in the transaction. */
  importFile(connection: Connection, file: RecordFile, onRejected: OnRejected): Promise<F>
  /** Takes what came of each file, once it is committed. */
  onImported(file: RecordFile, imported: F): void
  together?: Together<C> | undefined
}

/** What files that share one transaction have in common. */
export interface Together<C extends ImportCounts> {
  /** The temporary table that all of them fill. */
  table: string
  /** Comes before the first file. */
  begin?(connection: Connection): Promise<void>
  /**
   * Completes the transaction, and returns what all files count together; where a file broke off, those before it. Throws `failed` where
   * they have too little, which changes nothing.
   */
  end(connection: Connection, outcome: ImportOutcome<C>): Promise<Partial<C>>
}

/**
 * Runs `work`, which imports `files`, and again when the database was away; a pipe cannot be read again. Rejected records are told once.
 */
function importWithRetries<T>(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  options: ImportOptions,
  work: (onRejected: OnRejected) => Promise<T>,
): Promise<T> {
  let told = 0
  const attempt = () => {
    let met = 0
    return work(async (rejected) => {
      met++
      if (met <= told) return
      told = met
      await options.onRejected?.(rejected)
    })
  }
  return files.some(({ bytesTotal }) => bytesTotal === undefined) ? attempt() : rideOut(opened.db, attempt)
}

const usageOf = ({ name }: RecordFile, error: LeadpushError) =>
  new LeadpushError('usage', `${name}: ${messageOf(error)}`, error.hint === undefined ? {} : { hint: error.hint })

/** Imports each of `files` by `importFile`, and adds the counts up from `none`. */
async function importEach<C extends ImportCounts>(
  files: readonly RecordFile[],
  none: C,
  signal: AbortSignal | undefined,
  importFile: (file: RecordFile) => Promise<ImportedFile<C>>,
): Promise<ImportOutcome<C>> {
  const counts = new Map<string, number>(Object.entries(none))
  const ignored = new IgnoredFields()
  const outcome = (rest: Partial<ImportOutcome<C>> = {}): ImportOutcome<C> => ({
    summary: { ...(Object.fromEntries(counts) as unknown as C), ignored: ignored.toObject() },
    broken: undefined,
    stopped: false,
    ...rest,
  })
  for (const [at, file] of files.entries()) {
    try {
      const imported = await importFile(file)
      for (const [key, count] of Object.entries(imported.counts)) counts.set(key, (counts.get(key) ?? 0) + count)
      ignored.addAll(imported.ignored)
    } catch (error) {
      if (signal?.aborted) return outcome({ stopped: true })
      if (!(error instanceof LeadpushError) || error.code === 'database') throw error
      if (error.code === 'usage' && at === 0) throw usageOf(file, error)
      return outcome({ broken: { file: file.name, message: messageOf(error), hint: error.hint } })
    }
  }
  return outcome()
}

const endingOf = ({ isDryRun }: ImportOptions) => (isDryRun ? 'rollback' : 'commit')

/** Empties the temporary tables of a file for the next one. */
async function emptyTables(connection: Connection, kept: string): Promise<void> {
  const { rows } = await connection.query<{ tables: string | null }>(
    `select string_agg(quote_ident(relname), ', ') as tables from pg_class
     where relnamespace = pg_my_temp_schema() and relkind = 'r' and relname <> $1`,
    [kept],
  )
  if (rows[0]?.tables) await connection.query(`truncate ${rows[0].tables}`)
}

/** In one transaction, since all files together say what is in none of them, and whether they can be meant. */
async function importTogether<C extends ImportCounts, F extends ImportedFile<C>>(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  options: ImportOptions,
  { none, createTables, importFile, onImported, together }: Importer<C, F> & { together: Together<C> },
): Promise<ImportOutcome<C>> {
  const { signal } = options
  let imported: [RecordFile, F][] = []
  let rejected = 0
  const importAll = async (connection: Connection, tellRejected: OnRejected) => {
    imported = []
    rejected = 0
    const onRejected: OnRejected = (one) => {
      rejected++
      return tellRejected(one)
    }
    await createTables(connection)
    await together.begin?.(connection)
    const outcome = await importEach(files, none, signal, async (file) => {
      signal?.throwIfAborted()
      await connection.query('savepoint file')
      try {
        const one = await importFile(connection, file, onRejected)
        // outside of the savepoint, whose locks and whose tables' files would stay to the end
        await connection.query('release savepoint file')
        await emptyTables(connection, together.table)
        imported.push([file, one])
        return one
      } catch (error) {
        await connection.query('rollback to savepoint file').catch(() => {})
        throw error
      }
    })
    // what was stopped is rolled back
    if (!outcome.stopped) Object.assign(outcome.summary, await together.end(connection, outcome))
    return outcome
  }
  try {
    const outcome = await importWithRetries(opened, files, options, (onRejected) =>
      withTransaction(opened, (connection) => importAll(connection, onRejected), signal, endingOf(options)),
    )
    for (const [file, one] of imported) onImported(file, one)
    return outcome
  } catch (error) {
    if (signal?.aborted) return { summary: { ...none, ignored: {} }, broken: undefined, stopped: true }
    if (!(error instanceof LeadpushError) || error.code !== 'failed') throw error
    throw new RefusedImport(error, { ...none, read: rejected, rejected, ignored: {} })
  }
}

/**
 * Imports `files`. A transaction is begun again when the database was away. Throws `usage` where the first file cannot be imported,
 * `database` where the database stays away, `RefusedImport` where files that share a transaction have too little together.
 */
export async function importFiles<C extends ImportCounts, F extends ImportedFile<C>>(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  options: ImportOptions,
  importer: Importer<C, F>,
): Promise<ImportOutcome<C>> {
  const { none, createTables, importFile, onImported, together } = importer
  if (together) return importTogether(opened, files, options, { ...importer, together })
  return importEach(files, none, options.signal, async (file) => {
    const imported = await importWithRetries(opened, [file], options, (onRejected) =>
      withTransaction(
        opened,
        async (connection) => {
          await createTables(connection)
          return await importFile(connection, file, onRejected)
        },
        options.signal,
        endingOf(options),
      ),
    )
    onImported(file, imported)
    return imported
  })
}
