/**
 * The loop of an import, of leads or of users: one file after the other, each as a whole or not at all. A file that breaks off
 * ends it, since the order of files is the order of what is newer.
 */
import type { Readable } from 'node:stream'
import { LeadpushError, messageOf } from '../base/errors.ts'
import { rideOut } from '../db/away.ts'
import { IgnoredFields } from './ignored-fields.ts'
import { findRecordFile, type RecordFile, type RecordFormat } from './read-records.ts'

export interface Rejected {
  /** As it was named. */
  file: string
  /** Where the record begins, 1-based; in a JSON array its number. */
  line: number
  /** The field, or '' for the record as a whole. */
  path: string
  message: string
  /** The record as it came; of one that is too large, the beginning. */
  raw: Buffer
  format: RecordFormat
  /** CSV: the header line as it came. */
  header: Buffer | undefined
}

export type OnRejected = (rejected: Rejected) => void | Promise<void>

export interface ImportProgress {
  file: string
  phase: 'reading' | 'merging'
  /** Of this file, so far. */
  records: number
  bytesRead: number
  /** Undefined for standard input. */
  bytesTotal: number | undefined
}

export interface ImportOptions {
  /** What `-` reads; by default the process's standard input. */
  stdin?: Readable | undefined
  signal?: AbortSignal | undefined
  /** Called for each rejected record while its file is read; the file may still break off. */
  onRejected?: OnRejected | undefined
  onProgress?: ((progress: ImportProgress) => void) | undefined
  /** A file is begun again because the database was away. */
  onAway?: ((error: unknown) => void) | undefined
}

/** `read` is the sum of the others. */
export interface ImportCounts {
  read: number
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
}

export interface ImportOutcome<C extends ImportCounts> {
  /** Of the files that went in. */
  summary: C & { ignored: Record<string, number> }
  /** The file that broke off: nothing of it went in, and no file after it was begun. */
  broken: { file: string; message: string } | undefined
  /** Whether `signal` stopped it. */
  stopped: boolean
}

/** What the names of the files say. Throws `usage` where one is not there or is none that can be imported. */
export function findRecordFiles(names: readonly string[], formats: readonly RecordFormat[]): RecordFile[] {
  if (names.filter((name) => name === '-').length > 1) {
    throw new LeadpushError('usage', 'Standard input (-) can be read once only.')
  }
  return names.map((name) => findRecordFile(name, formats))
}

type ImportFile<C> = (file: RecordFile, onRejected: OnRejected) => Promise<{ counts: C; ignored: IgnoredFields }>

/** While the database is away, a file that can be read again is, which no pipe can; what was told of it is not told twice. */
function importWithRetries<C>(file: RecordFile, options: ImportOptions, importFile: ImportFile<C>) {
  let told = 0
  const work = () => {
    let met = 0
    return importFile(file, async (rejected) => {
      met++
      if (met <= told) return
      told = met
      await options.onRejected?.(rejected)
    })
  }
  return file.bytesTotal === undefined ? work() : rideOut(work, options.onAway)
}

/** Runs `importFile`, which is to do all of a file in one transaction, for each of `files`, and adds up from `none`. */
export async function importEach<C extends ImportCounts>(
  files: readonly RecordFile[],
  none: C,
  options: ImportOptions,
  importFile: ImportFile<C>,
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
      const imported = await importWithRetries(file, options, importFile)
      for (const [key, count] of Object.entries(imported.counts)) counts.set(key, (counts.get(key) ?? 0) + count)
      ignored.addAll(imported.ignored)
    } catch (error) {
      if (options.signal?.aborted) return outcome({ stopped: true })
      if (!(error instanceof LeadpushError) || error.code === 'database') throw error
      if (error.code === 'usage' && at === 0) throw new LeadpushError('usage', `${file.name}: ${messageOf(error)}`)
      return outcome({ broken: { file: file.name, message: messageOf(error) } })
    }
  }
  return outcome()
}
