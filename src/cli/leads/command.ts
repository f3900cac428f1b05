/** `leadpush leads`: listings in, and out for good. */
import type { Command } from 'commander'
import { type Act, type ExitCode, waiting, withDatabase } from '../command.ts'
import type { Log } from '../log.ts'
import { isStopCode } from '../signals.ts'
import type { ForgetOptions } from './forget.ts'

interface ImportOptions {
  map?: string[]
  trigger?: true
  rejects?: string
  json?: true
}

export function addLeads(program: Command, act: Act): void {
  const leads = program.command('leads').description('Import listings, and erase them.')
  leads
    .command('import')
    .description('Import listings from NDJSON, JSON arrays or CSV, each also with .gz; - reads standard input.')
    .argument('<file...>', 'files, taken in one after the other')
    .option(
      '--map <field=column>',
      'read a field from a column or key of another name; may be repeated',
      (entry: string, map: string[] = []) => [...map, entry],
    )
    .option('--rejects <file>', 'keep the rejected records in a file, as they came')
    .option('--trigger', 'send the triggers of new listings right after, as `leadpush trigger` does')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush leads import listings.ndjson
  leadpush leads import listings.csv --map href=property_url --map postalCode=zip
  zcat *.ndjson.gz | leadpush leads import - --rejects rejected.ndjson

Importing the same file again changes nothing; an unknown value never wipes out
a known one.`,
    )
    .action(act(importFiles))
  leads
    .command('forget')
    .description('Erase a listing, or all listings with a contact, and keep them out of later imports.')
    .option('--href <url>', 'the listing with this href; - reads it from standard input')
    .option('--contact <text>', 'all listings with this e-mail address or phone number; - reads it from standard input')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  leadpush leads forget --href https://listings.example/1
  leadpush leads forget --contact - < contact.txt

A contact on the command line shows in the list of processes and in the history
of the shell: give - instead, and it is read from standard input. Only a keyed
hash of it is kept, to recognise it in later imports.`,
    )
    .action(
      act(async (log: Log, options: ForgetOptions) => {
        const { forget } = await import('./forget.ts')
        return await forget(log, options)
      }),
    )
}

async function importFiles(log: Log, files: string[], options: ImportOptions): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../../base/config.ts')
  const { findRecordFiles } = await import('../../records/import-each.ts')
  const { importLeads, leadFormats } = await import('../../leads/import.ts')
  const { parseFieldMap } = await import('../../leads/pick-fields.ts')
  const { runImport } = await import('../import-view.ts')
  const { sendTriggers, triggerSettings } = await import('../trigger.ts')
  const names = ['databaseUrl', 'home', 'databaseAwayMs', 'logFormat'] as const
  const source = processSource()
  const toSend = options.trigger ? readSettings([...names, ...triggerSettings], source) : undefined
  const settings = toSend ?? readSettings(names, source)
  findRecordFiles(files, leadFormats)
  const map = parseFieldMap(options.map ?? [])
  return await withDatabase(settings, { create: true, ...waiting(log) }, async (opened) => {
    const advice = 'Columns of other names are read with --map FIELD=COLUMN, such as --map href=property_url'
    const adviceOnLack = options.map === undefined ? { adviceOnLack: advice } : {}
    const imported = await runImport(log, { ...options, ...adviceOnLack, files }, (how) =>
      importLeads(opened, files, { ...how, map }),
    )
    if (!toSend || isStopCode(imported)) return imported
    return Math.max(imported, await sendTriggers(log, opened, toSend, options))
  })
}
