/**
 * `users import`: imports each file in one transaction. Its records are staged, then merged into the users, whose queries are
 * resolved to searches. It sends nothing and owes no subscription push.
 */
import { randomUUID } from 'node:crypto'
import { plural } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
import { rideOut } from '../db/away.ts'
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { type Connection, kyselyOn, withTransaction } from '../db/transaction.ts'
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

export interface UserImportOptions extends ImportOptions {
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

async function importFile(
  opened: OpenDatabase,
  file: RecordFile,
  { resolver, complete, isLast }: { resolver: Resolver; complete: CompleteImport | undefined; isLast: boolean },
  options: UserImportOptions & { onFolded: (record: FoldedRecord) => void },
  onRejected: OnRejected,
): Promise<{ counts: UserCounts; ignored: IgnoredFields; listed: number }> {
  const { name, bytesTotal } = file
  const read = { records: 0, bytesRead: 0 }
  const tell = (phase: ImportProgress['phase']) => options.onProgress?.({ file: name, phase, ...read, bytesTotal })
  const { signal, stdin, encoding, isDryRun, vault = plainVault } = options
  return withTransaction(
    opened,
    async (connection) => {
      const onRead = (state: typeof read) => {
        Object.assign(read, state)
        tell('reading')
      }
      await vault.hold(kyselyOn(connection))
      const { staged, format, header, ignored } = await stageUsers(connection, file, {
        signal,
        stdin,
        encoding,
        resolver,
        vault,
        onRead,
      })
      tell('merging')
      const listed = complete ? await recordListed(connection, complete) : 0
      const merged = await mergeUsers(connection, {
        resolver,
        signal,
        onRejected: (reject) => onRejected({ file: name, ...reject, format, header: header?.raw }),
        onFolded: options.onFolded,
        isDryRun,
      })
      const unsubscribed = complete && isLast ? await unsubscribeUnlisted(connection, complete, { isDryRun }) : 0
      return { counts: { read: staged, ...merged, unsubscribed }, ignored, listed }
    },
    signal,
    // the last file of a complete import needs what those before it listed
    isDryRun && !complete ? 'rollback' : 'commit',
  )
}

/**
 * Reads several files of a complete import before the first goes in, since too few users must change nothing: throws `failed` then.
 * Files that cannot be read twice, or not to their end, are left to the import itself.
 */
async function judgeBeforehand(
  opened: OpenDatabase,
  files: readonly RecordFile[],
  complete: CompleteImport,
  resolver: Resolver,
  { signal, encoding, vault = plainVault, onProgress }: UserImportOptions,
): Promise<void> {
  if (complete.accept || files.length < 2 || files.some(({ bytesTotal }) => bytesTotal === undefined)) return
  // under an id of its own: what the import itself records tells what the database lost meanwhile
  const judged = { ...complete, id: randomUUID() }
  const recordFile = (file: RecordFile) => {
    const { name, bytesTotal } = file
    const onRead = (read: { records: number; bytesRead: number }) =>
      onProgress?.({ file: name, phase: 'reading', ...read, bytesTotal })
    const record = async (connection: Connection) => {
      await vault.hold(kyselyOn(connection))
      await stageUsers(connection, file, { signal, encoding, resolver, vault, onRead })
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
  const complete = options.complete ? await beginComplete(opened.db, options.accept ?? false) : undefined
  const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, folded: 0, unsubscribed: 0 }
  let folded: string | undefined
  const outcome = await importEach(found, none, options, async (file, onRejected) => {
    const how = { resolver, complete, isLast: file === found.at(-1) }
    const onFolded = ({ email, line }: FoldedRecord) => {
      folded ??= `${file.name}:${line}: ${email} has the same query twice, which is kept once.`
    }
    if (complete && file === found[0]) await judgeBeforehand(opened, found, complete, resolver, options)
    const imported = await importFile(opened, file, how, { ...options, onFolded }, onRejected)
    if (complete) complete.listed += imported.listed
    return imported
  })
  const isCut = outcome.broken !== undefined || outcome.stopped
  if (complete && isCut) await rideOut(() => dropListed(opened.db, complete))
  const { inserted, updated, unsubscribed } = outcome.summary
  if (!options.isDryRun) await tidyTables(opened, ['users', 'queries', 'searches'], inserted + updated + unsubscribed)
  if (complete) await tidyTables(opened, ['listed_users'], outcome.summary.read)
  if (folded !== undefined && outcome.summary.folded > 0) options.onNote?.(folded)
  if (options.onNote && !options.isDryRun && inserted + updated > 0) await noteSharedKeys(opened, options.onNote)
  return outcome
}

async function noteSharedKeys({ db }: OpenDatabase, onNote: (text: string) => void): Promise<void> {
  const shared = await findSharedKeys(db)
  if (!shared) return
  const pairs = shared.examples.map(([one, other]) => `${one} and ${other}`)
  const more = shared.keys > pairs.length ? `, and ${plural(shared.keys - pairs.length, 'key')} more` : ''
  onNote(
    `${plural(shared.users, 'user')} share a receiver key with another user, so the receiver puts their leads into one account: ${pairs.join('; ')}${more}.`,
  )
}
