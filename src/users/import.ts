/**
 * `users import`: the transaction of a file stages its records and merges them into the users, whose queries are resolved to searches.
 * The files of a complete import share one. It sends nothing and owes no subscription push.
 */
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'
import { findPlaces } from '../places/places.ts'
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
import { plainVault, type Vault } from '../secrets/vault.ts'
import { recordListed, unsubscribing } from './complete.ts'
import { type FoldedRecord, mergeUsers } from './merge.ts'
import type { UserReadOptions } from './read-user.ts'
import { findSharedKeys } from './shared-keys.ts'
import { Resolver, stageUsers } from './stage.ts'
import { createUserStaging } from './staged-users.ts'

/** The formats of users files. */
export const userFormats: readonly RecordFormat[] = ['ndjson', 'json', 'csv']

export interface UserCounts extends ImportCounts {
  /** Records of users who were forgotten. */
  erased: number
  /** Queries that were the same as an earlier one of their user (contract 4.11). */
  folded: number
  /** Users who were in no file of a complete import. */
  unsubscribed: number
  /** Of a complete import, where nobody was unsubscribed since they may be of any user: rejected records that name none. */
  unnamed?: number
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
  /** Takes what an operator should know beside the counts, a sentence each. */
  onNote?: ((text: string) => void) | undefined
}

/** With what the files share. */
interface Importing extends UserImportOptions {
  resolver: Resolver
  onFolded: (file: RecordFile, record: FoldedRecord) => void
  onUnnamed: ((count: number) => void) | undefined
}

interface ImportedUsers extends ImportedFile<UserCounts> {
  /** About the users who got a key that others have too. */
  sharedKeys: string | undefined
}

/** Stages the records of a file and merges them; of a complete import it notes who is in it. */
async function stageAndMerge(
  connection: Connection,
  file: RecordFile,
  options: Importing,
  onRejected: OnRejected,
): Promise<ImportedUsers> {
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
  const { format, header, ignored, ...staged } = await stageUsers(connection, file, ways)
  tell('merging')
  if (options.complete) await recordListed(connection)
  const merged = await mergeUsers(connection, {
    resolver,
    signal,
    onRejected: (reject) =>
      onRejected({ file: name, ...reject, format, header: header?.raw, encoding: staged.encoding }),
    onFolded: (record) => options.onFolded(file, record),
    onUnnamed: options.onUnnamed,
    isDryRun,
  })
  const hasChanged = merged.inserted + merged.updated > 0
  const sharedKeys = hasChanged ? await findSharedKeys(kyselyOn(connection)) : undefined
  return { counts: { read: staged.staged, ...merged, unsubscribed: 0 }, ignored, sharedKeys }
}

const counted = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0 }
const none = { ...counted, folded: 0, unsubscribed: 0 }

/**
 * Imports `files` in their order. Throws `usage` where one of them does not exist, before anything is done; `database` where
 * the database stays away; `RefusedImport` where the files of a complete import have fewer than half of the subscribed users.
 */
export async function importUsers(
  opened: OpenDatabase,
  files: readonly string[],
  options: UserImportOptions = {},
): Promise<UserImportOutcome> {
  const found = findRecordFiles(files, userFormats)
  const resolver = new Resolver(await findPlaces(opened.db))
  let folded: string | undefined
  const onFolded = ({ name }: RecordFile, { email, line }: FoldedRecord) => {
    folded ??= `${name}:${line}: ${email} has the same query twice, which is kept once.`
  }
  const unnamed = { count: 0 }
  const onUnnamed = options.complete ? (count: number) => (unnamed.count += count) : undefined
  const importing = { ...options, resolver, onFolded, onUnnamed }
  const outcome = await importFiles<UserCounts, ImportedUsers>(opened, found, options, {
    none,
    createTables: createUserStaging,
    importFile: (connection, file, onRejected) => stageAndMerge(connection, file, importing, onRejected),
    onImported({ name }, { sharedKeys }) {
      if (sharedKeys) options.onNote?.(`${name}: ${sharedKeys}`)
    },
    together: options.complete ? unsubscribing(options, found.length, unnamed) : undefined,
  })
  const { inserted, updated, unsubscribed } = outcome.summary
  if (!options.isDryRun) await tidyTables(opened, ['users', 'queries', 'searches'], inserted + updated + unsubscribed)
  if (folded !== undefined && outcome.summary.folded > 0) options.onNote?.(folded)
  return outcome
}
