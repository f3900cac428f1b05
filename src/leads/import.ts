/**
 * `leads import`: file by file, each in one transaction: its records are staged, then merged into the listings. A file that
 * breaks off, or one that is under way when the import is stopped, leaves nothing behind; those before it stay.
 */
import type { Readable } from 'node:stream'
import type { OpenDatabase } from '../db/open.ts'
import { withTransaction } from '../db/transaction.ts'
import { LeadpushError, messageOf } from '../errors.ts'
import { mergeLeads } from './merge.ts'
import { type FieldMap, IgnoredFields } from './pick-fields.ts'
import { findRecordFile, type RecordFile, type RecordFormat } from './read-records.ts'
import { type Rejected, stageLeads } from './stage.ts'

export const leadFormats: readonly RecordFormat[] = ['ndjson', 'json', 'csv']

/** contract 3; `read` is the sum of the six that follow it. */
export interface LeadImportSummary {
  read: number
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
  erased: number
  ignored: Record<string, number>
}

export interface LeadImportOutcome {
  /** Of the files that went in. */
  summary: LeadImportSummary
  /** The file that broke off: nothing of it went in, and no file after it was begun. */
  broken: { file: string; message: string } | undefined
  /** Whether `signal` stopped it. */
  stopped: boolean
}

export interface ImportProgress {
  file: string
  phase: 'reading' | 'merging'
  /** Of this file, so far. */
  records: number
  bytesRead: number
  /** Undefined for standard input. */
  bytesTotal: number | undefined
}

export interface LeadImportOptions {
  map?: FieldMap | undefined
  /** What `-` reads; by default the process's standard input. */
  stdin?: Readable | undefined
  signal?: AbortSignal | undefined
  /** Called for each rejected record while its file is read; the file may still break off. */
  onRejected?: ((rejected: Rejected) => void | Promise<void>) | undefined
  onProgress?: ((progress: ImportProgress) => void) | undefined
}

/** What the names of the files say. Throws `usage` where one is not there or is none that can be imported. */
export function findRecordFiles(names: readonly string[], formats: readonly RecordFormat[]): RecordFile[] {
  if (names.filter((name) => name === '-').length > 1) {
    throw new LeadpushError('usage', 'Standard input (-) can be read once only.')
  }
  return names.map((name) => findRecordFile(name, formats))
}

async function importFile(
  opened: OpenDatabase,
  file: RecordFile,
  options: LeadImportOptions,
): Promise<{ counts: Omit<LeadImportSummary, 'ignored'>; ignored: IgnoredFields }> {
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
      const { format, header } = staged
      const rejection = { file: name, path: 'postalCode', message: 'is missing', format, header: header?.raw }
      const merged = await mergeLeads(connection, {
        file: name,
        ...staged,
        onRejected: (line, raw) => options.onRejected?.({ ...rejection, line, raw }),
      })
      const { inserted, updated, unchanged, repeated } = merged
      const rejected = staged.rejected + merged.rejected
      const total = staged.staged + staged.rejected
      return {
        counts: { read: total, inserted, updated, unchanged, rejected, repeated, erased: 0 },
        ignored: staged.ignored,
      }
    },
    options.signal,
  )
}

/**
 * Imports `files` in their order. Throws `usage` where a file of the names is not there, or the header of the first one has
 * not the columns that `map` asks for: then nothing was done; and whatever the database throws.
 */
export async function importLeads(
  opened: OpenDatabase,
  files: readonly string[],
  options: LeadImportOptions = {},
): Promise<LeadImportOutcome> {
  const counts = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0 }
  const ignored = new IgnoredFields()
  const outcome = (rest: Partial<LeadImportOutcome>): LeadImportOutcome => ({
    summary: { ...counts, ignored: ignored.toObject() },
    broken: undefined,
    stopped: false,
    ...rest,
  })
  for (const [at, file] of findRecordFiles(files, leadFormats).entries()) {
    try {
      const imported = await importFile(opened, file, options)
      for (const key of Object.keys(counts) as (keyof typeof counts)[]) counts[key] += imported.counts[key]
      ignored.addAll(imported.ignored)
    } catch (error) {
      if (options.signal?.aborted) return outcome({ stopped: true })
      if (!(error instanceof LeadpushError) || error.code === 'database') throw error
      if (error.code === 'usage' && at === 0) {
        throw new LeadpushError('usage', `${file.name}: ${messageOf(error)}`)
      }
      return outcome({ broken: { file: file.name, message: messageOf(error) } })
    }
  }
  return outcome({})
}
