/**
 * The loop of an import of leads or users: one file after the other, each completely or not at all. A file that breaks off
 * ends the loop, because a later file counts as newer.
 */
import type { Readable } from 'node:stream'
import { LeadpushError, messageOf } from '../base/errors.ts'
import { rideOut } from '../db/away.ts'
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
  /** The record as it came; where it is too large, its beginning; empty where it must not be kept. */
  raw: Buffer
  format: RecordFormat
  /** In CSV the header line as it came. */
  header: Buffer | undefined
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
  onProgress?: ((progress: ImportProgress) => void) | undefined
  /** Called when a file is begun again because the database was away. */
  onAway?: ((error: unknown) => void) | undefined
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

type ImportFile<C> = (file: RecordFile, onRejected: OnRejected) => Promise<{ counts: C; ignored: IgnoredFields }>

/**
 * Runs `importFiles`, which imports `files`, and again when the database was away; a pipe cannot be read again. Rejected records are
 * told once.
 */
export function importWithRetries<T>(
  files: readonly RecordFile[],
  options: ImportOptions,
  importFiles: (onRejected: OnRejected) => Promise<T>,
): Promise<T> {
  let told = 0
  const work = () => {
    let met = 0
    return importFiles(async (rejected) => {
      met++
      if (met <= told) return
      told = met
      await options.onRejected?.(rejected)
    })
  }
  return files.some(({ bytesTotal }) => bytesTotal === undefined) ? work() : rideOut(work, options.onAway)
}

const usageOf = ({ name }: RecordFile, error: LeadpushError) =>
  new LeadpushError('usage', `${name}: ${messageOf(error)}`, error.hint === undefined ? {} : { hint: error.hint })

/**
 * Runs `importFile`, which must import a file completely or not at all, for each of `files`, and adds the counts up from `none`.
 * `retries`: a file is begun again when the database was away. Throws `usage` where the first file cannot be imported, `database`
 * where the database stays away.
 */
export async function importEach<C extends ImportCounts>(
  files: readonly RecordFile[],
  none: C,
  options: ImportOptions,
  importFile: ImportFile<C>,
  retries = true,
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
      const attempt = (onRejected: OnRejected) => importFile(file, onRejected)
      const imported = await (retries
        ? importWithRetries([file], options, attempt)
        : attempt(async (rejected) => options.onRejected?.(rejected)))
      for (const [key, count] of Object.entries(imported.counts)) counts.set(key, (counts.get(key) ?? 0) + count)
      ignored.addAll(imported.ignored)
    } catch (error) {
      if (options.signal?.aborted) return outcome({ stopped: true })
      if (!(error instanceof LeadpushError) || error.code === 'database') throw error
      if (error.code === 'usage' && at === 0) throw usageOf(file, error)
      return outcome({ broken: { file: file.name, message: messageOf(error), hint: error.hint } })
    }
  }
  return outcome()
}
