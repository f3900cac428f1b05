/** Listings in, and with `--trigger` their triggers out. */
import { messageOf } from '../../base/errors.ts'
import { importLeads, leadFormats } from '../../leads/import.ts'
import { checkSourceName } from '../../leads/sources.ts'
import { findRecordFiles } from '../../records/import-each.ts'
import { openVault } from '../../secrets/vault.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { openForImport } from '../import-database.ts'
import { type ImportViewOptions, runImport } from '../import-view.ts'
import { commandThatFits, type RecordOptions, readRecordOptions } from '../record-options.ts'
import { isStopCode } from '../signals.ts'
import type { TriggerSetting } from '../trigger/settings.ts'
import { sendTriggers } from '../trigger/trigger.ts'

interface ImportOptions extends RecordOptions, Omit<ImportViewOptions, 'files' | 'of'> {
  trigger?: true
  source?: string
  complete?: true
  accept?: true
}

export async function importFiles(
  at: AtDatabase<'maxLeadAgeMs' | TriggerSetting>,
  files: string[],
  options: ImportOptions,
): Promise<ExitCode> {
  const { io, command } = at
  const { maxLeadAgeMs } = at.readSettings()
  const { source: name, complete = false, accept = false } = options
  if (name !== undefined) checkSourceName(name)
  findRecordFiles(files, leadFormats)
  const ways = {
    ...readRecordOptions(options),
    source: name === undefined ? undefined : { name, complete, accept, maxLeadAgeMs },
    isDryRun: options.dryRun,
    commandThatFits: commandThatFits(command),
  }
  return await openForImport(at, options, async (opened, settings) => {
    const vault = options.trigger && (await openVault(opened.db, settings))
    const send = async () => (vault ? await sendTriggers(io, opened, settings, { vault }) : 0)
    let hasSome = false
    const importing = runImport(io, { ...options, files, of: { who: 'listing', by: 'href' } }, async (how) => {
      const outcome = await importLeads(opened, files, { ...how, ...ways })
      hasSome = outcome.summary.read > 0 && !outcome.stopped
      return outcome
    })
    const imported = await importing.catch(async (error) => {
      // files before one that broke off went in
      if (hasSome) await send().catch((other) => io.log.warn(`Not all triggers were sent: ${messageOf(other)}`))
      throw error
    })
    return isStopCode(imported) ? imported : Math.max(imported, await send())
  })
}
