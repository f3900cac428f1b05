/**
 * `users import`: imports each file in one transaction (`complete.ts` has the exception). Its records are staged, then merged into the users, whose queries are
 * resolved to searches. It sends nothing and owes no subscription push.
 */
import { randomUUID } from 'node:crypto'
import { LeadpushError } from '../base/errors.ts'
import { rideOut } from '../db/away.ts'
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { type Connection, kyselyOn, withTransaction } from '../db/transaction.ts'
import { dropStaging } from '../leads/sources.ts'
import { findPlaces } from '../places/places.ts'
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
import { plainVault, type Vault } from '../secrets/vault.ts'
import {
  beginComplete,
  type CompleteImport,
  dropListed,
  judgeListed,
  recordListed,
  unsubscribeUnlisted,
} from './complete.ts'
import { type FoldedRecord, mergeUsers } from './merge.ts'
import type { UserReadOptions } from './read-user.ts'
import { findSharedKeys } from './shared-keys.ts'
import { Resolver, stageUsers } from './stage.ts'

/** The formats of users files. */
export const userFormats: readonly RecordFormat[] = ['ndjson', 'json', 'csv']

export interface UserCounts extends ImportCounts {
  /** Queries that were the same as an earlier one of their user (contract 4.11). */
  folded: number
  /** Users who were in no file of a complete import. */
  unsubscribed: number
}

export type UserImportOutcome = ImportOutcome<UserCounts>

export interface UserImportOptions extends ImportOptions, UserReadOptions {
  /** Of files without a mark that are not in UTF-8. */
  encoding?: string | undefined
  /** Without it keys are stored as they are. */
  vault?: Vault | undefined
  /** Whether the files together have all users: others are unsubscribed. */
  complete?: boolean | undefined
  /** Whether a complete import may have fewer than half of the subscribed users. */
  accept?: boolean | undefined
  /** Counts what an import would do, each file by itself, and leaves the users as they are. */
  isDryRun?: boolean | undefined
  /** Takes what an operator should know beside the counts, a sentence each. */
  onNote?: ((text: string) => void) | undefined
}

/** With what the files share. */
interface Importing extends UserImportOptions {
  resolver: Resolver
  onFolded: (file: RecordFile, record: FoldedRecord) => void
}

/** What came of one file. */
interface ImportedFile {
  counts: UserCounts
  ignored: IgnoredFields
  /** About the users who got a key that others have too. */
  sharedKeys: string | undefined
}

/** Stages the records of a file and merges them; those of a complete import are recorded. */
async function stageAndMerge(
  connection: Connection,
  file: RecordFile,
  options: Importing,
  onRejected: OnRejected,
  complete?: CompleteImport,
): Promise<ImportedFile & { listed: number }> {
  const { name, bytesTotal } = file
  const read = { records: 0, bytesRead: 0 }
  const tell = (phase: ImportProgress['phase']) => options.onProgress?.({ file: name, phase, ...read, bytesTotal })
  const { signal, stdin, encoding, map, commandThatFits, isDryRun, resolver, vault = plainVault, onNote } = options
  const onRead = (state: typeof read) => {
    Object.assign(read, state)
    tell('reading')
  }
  await vault.hold(kyselyOn(connection))
  const tellOf = onNote && ((note: string) => onNote(`${name}: ${note}.`))
  const ways = { signal, stdin, encoding, map, commandThatFits, resolver, vault, onRead, onNote: tellOf }
  const { staged, format, header, ignored } = await stageUsers(connection, file, ways)
  tell('merging')
  const listed = complete ? await recordListed(connection, complete) : 0
  const merged = await mergeUsers(connection, {
    resolver,
    signal,
    onRejected: (reject) => onRejected({ file: name, ...reject, format, header: header?.raw }),
    onFolded: (record) => options.onFolded(file, record),
    isDryRun,
  })
  const hasChanged = !isDryRun && merged.inserted + merged.updated > 0
  const sharedKeys = hasChanged ? await findSharedKeys(kyselyOn(connection)) : undefined
  return { counts: { read: staged, ...merged, unsubscribed: 0 }, ignored, listed, sharedKeys }
}

async function importOneByOne(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  none: UserCounts,
  options: Importing,
  complete: CompleteImport | undefined,
): Promise<UserImportOutcome> {
  const { signal, isDryRun } = options
  return await importEach(files, none, options, async (file, onRejected) => {
    if (complete && file === files[0]) await judgeBeforehand(opened, files, complete, options)
    const imported = await withTransaction(
      opened,
      async (connection) => {
        const merged = await stageAndMerge(connection, file, options, onRejected, complete)
        if (complete && file === files.at(-1))
          merged.counts.unsubscribed = await unsubscribeUnlisted(connection, complete, { isDryRun })
        return merged
      },
      signal,
      // the last file of a complete import needs what those before it listed
      isDryRun && !complete ? 'rollback' : 'commit',
    )
    if (complete) complete.listed += imported.listed
    if (imported.sharedKeys) options.onNote?.(`${file.name}: ${imported.sharedKeys}`)
    return imported
  })
}

/**
 * Imports the files of a complete import in one transaction, since a pipe among them cannot be read twice: with too few users nothing
 * of any file goes in. Where one breaks off, those before it go in.
 */
async function importTogether(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  none: UserCounts,
  options: Importing,
  complete: CompleteImport,
): Promise<UserImportOutcome> {
  const { signal, isDryRun } = options
  const notes: string[] = []
  const importAll = async (connection: Connection) => {
    const importOne = async (file: RecordFile, onRejected: OnRejected) => {
      signal?.throwIfAborted()
      await connection.query('savepoint file')
      try {
        const imported = await stageAndMerge(connection, file, options, onRejected, complete)
        await dropStaging(connection)
        if (imported.sharedKeys) notes.push(`${file.name}: ${imported.sharedKeys}`)
        return imported
      } catch (error) {
        await connection.query('rollback to savepoint file').catch(() => {})
        throw error
      }
    }
    const outcome = await importEach(files, none, options, importOne, false)
    if (!outcome.broken && !outcome.stopped)
      outcome.summary.unsubscribed = await unsubscribeUnlisted(connection, complete, { isDryRun })
    return outcome
  }
  const nothing = { summary: { ...none, ignored: {} }, broken: undefined, stopped: false }
  try {
    const outcome = await withTransaction(opened, importAll, signal, isDryRun ? 'rollback' : 'commit')
    for (const note of notes) options.onNote?.(note)
    return outcome
  } catch (error) {
    if (signal?.aborted) return { ...nothing, stopped: true }
    if (!(error instanceof LeadpushError) || error.code !== 'failed') throw error
    return { ...nothing, broken: { file: files[0]?.name ?? '', message: error.message, hint: error.hint } }
  }
}

/**
 * Reads several files of a complete import before the first goes in, since too few users must change nothing: throws `failed` then.
 * Files that cannot be read to their end are left to the import itself.
 */
async function judgeBeforehand(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  complete: CompleteImport,
  { signal, encoding, map, commandThatFits, resolver, vault = plainVault, onProgress }: Importing,
): Promise<void> {
  if (complete.accept || files.length < 2) return
  // under an id of its own: what the import itself records tells what the database lost meanwhile
  const judged = { ...complete, id: randomUUID() }
  const recordFile = (file: RecordFile) => {
    const { name, bytesTotal } = file
    const onRead = (read: { records: number; bytesRead: number }) =>
      onProgress?.({ file: name, phase: 'reading', ...read, bytesTotal })
    const record = async (connection: Connection) => {
      await vault.hold(kyselyOn(connection))
      await stageUsers(connection, file, { signal, encoding, map, commandThatFits, resolver, vault, onRead })
      await recordListed(connection, judged)
    }
    return withTransaction(opened, record, signal)
  }
  try {
    for (const file of files) {
      const broken = await recordFile(file).catch((error) => {
        if (error instanceof LeadpushError && error.code !== 'database') return error
        throw error
      })
      if (broken) return
    }
    await judgeListed(opened.db, judged)
  } finally {
    // what a database that is away keeps of them is deleted by a later import
    await dropListed(opened.db, judged).catch(() => {})
  }
}

/**
 * Imports `files` in their order. Throws `usage` where one of them does not exist, before anything is done; `database` where
 * the database stays away.
 */
export async function importUsers(
  opened: OpenDatabase,
  files: readonly string[],
  options: UserImportOptions = {},
): Promise<UserImportOutcome> {
  const found = findRecordFiles(files, userFormats)
  const resolver = new Resolver(await findPlaces(opened.db))
  const complete = options.complete ? await beginComplete(opened.db, options.accept ?? false, found.length) : undefined
  const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, folded: 0, unsubscribed: 0 }
  let folded: string | undefined
  const onFolded = ({ name }: RecordFile, { email, line }: FoldedRecord) => {
    folded ??= `${name}:${line}: ${email} has the same query twice, which is kept once.`
  }
  const importing = { ...options, resolver, onFolded }
  const isReadOnce = found.length > 1 && found.some(({ bytesTotal }) => bytesTotal === undefined)
  const outcome = await (complete && !complete.accept && isReadOnce
    ? importTogether(opened, found, none, importing, complete)
    : importOneByOne(opened, found, none, importing, complete))
  const isCut = outcome.broken !== undefined || outcome.stopped
  if (complete && isCut) await rideOut(() => dropListed(opened.db, complete))
  const { inserted, updated, unsubscribed } = outcome.summary
  if (!options.isDryRun) await tidyTables(opened, ['users', 'queries', 'searches'], inserted + updated + unsubscribed)
  if (complete) await tidyTables(opened, ['listed_users'], outcome.summary.read)
  if (folded !== undefined && outcome.summary.folded > 0) options.onNote?.(folded)
  return outcome
}
