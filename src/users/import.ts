/**
 * `users import`: imports each file in one transaction. Its records are staged, then merged into the users, whose queries are
 * resolved to searches. It sends nothing and owes no subscription push.
 */
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { withTransaction } from '../db/transaction.ts'
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
import { mergeUsers } from './merge.ts'
import { Resolver, stageUsers } from './stage.ts'

/** The formats of users files. */
export const userFormats: readonly RecordFormat[] = ['ndjson', 'json']

export type UserImportOutcome = ImportOutcome<ImportCounts>

async function importFile(
  opened: OpenDatabase,
  file: RecordFile,
  resolver: Resolver,
  options: ImportOptions,
  onRejected: OnRejected,
): Promise<{ counts: ImportCounts; ignored: IgnoredFields }> {
  const { name, bytesTotal } = file
  const read = { records: 0, bytesRead: 0 }
  const tell = (phase: ImportProgress['phase']) => options.onProgress?.({ file: name, phase, ...read, bytesTotal })
  const { signal, stdin } = options
  return withTransaction(
    opened,
    async (connection) => {
      const onRead = (state: typeof read) => {
        Object.assign(read, state)
        tell('reading')
      }
      const { staged, format, ignored } = await stageUsers(connection, file, { signal, stdin, resolver, onRead })
      tell('merging')
      const merged = await mergeUsers(connection, {
        resolver,
        signal,
        onRejected: (reject) => onRejected({ file: name, ...reject, format, header: undefined }),
      })
      return { counts: { read: staged, ...merged }, ignored }
    },
    signal,
  )
}

/**
 * Imports `files` in their order. Throws `usage` where one of them does not exist, before anything is done; `database` where
 * the database stays away.
 */
export async function importUsers(
  opened: OpenDatabase,
  files: readonly string[],
  options: ImportOptions = {},
): Promise<UserImportOutcome> {
  const found = findRecordFiles(files, userFormats)
  const resolver = new Resolver(await findPlaces(opened.db))
  const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0 }
  const outcome = await importEach(found, none, options, (file, onRejected) =>
    importFile(opened, file, resolver, options, onRejected),
  )
  const { inserted, updated } = outcome.summary
  await tidyTables(opened, ['users', 'queries', 'searches'], inserted + updated)
  return outcome
}
