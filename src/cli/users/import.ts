/** Takes users in. */

import { findRecordFiles } from '../../records/import-each.ts'
import { openVault } from '../../secrets/vault.ts'
import { userMaps } from '../../users/field-map.ts'
import { importUsers, userFormats } from '../../users/import.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { openForImport } from '../import-database.ts'
import { type ImportViewOptions, runImport } from '../import-view.ts'
import { commandThatFits, type RecordOptions, readEncoding } from '../record-options.ts'
import { endWhatNobodyWants } from './change.ts'

interface ImportOptions extends RecordOptions, Omit<ImportViewOptions, 'files' | 'of'> {
  complete?: true
  accept?: true
}

export async function importFiles(
  at: AtDatabase<'secretKey'>,
  files: string[],
  options: ImportOptions,
): Promise<ExitCode> {
  const { io, command } = at
  at.readSettings()
  const { complete, accept, dryRun } = options
  const encoding = readEncoding(options)
  findRecordFiles(files, userFormats)
  const reading = { map: userMaps.read(options), commandThatFits: commandThatFits(command) }
  return await openForImport(at, options, async (opened, settings) => {
    const vault = await openVault(opened.db, settings, { begins: !dryRun })
    let unsubscribed = 0
    const imported = await runImport(io, { ...options, files, of: { who: 'user', by: 'e-mail' } }, async (how) => {
      const ways = { ...reading, vault, complete, accept, encoding, isDryRun: dryRun }
      const outcome = await importUsers(opened, files, { ...how, ...ways })
      unsubscribed = outcome.summary.unsubscribed
      return outcome
    })
    if (unsubscribed > 0 && !dryRun) await endWhatNobodyWants(opened)
    return imported
  })
}
