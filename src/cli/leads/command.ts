/** `leadpush leads`: listings in, to look at, and out for good. */
import type { Command } from 'commander'
import { messageOf } from '../../base/errors.ts'
import { type Act, type ExitCode, openSecrets, settingsSource, usageError } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { withImportDatabase } from '../import-database.ts'
import { addRecordOptions, commandThatFits, type RecordOptions, readRecordOptions } from '../record-options.ts'
import { isStopCode } from '../signals.ts'
import type { ForgetOptions } from './forget.ts'
import { addLooks } from './look.ts'
import type { SourceFlags } from './source.ts'

interface ImportOptions extends RecordOptions, SourceFlags {
  trigger?: true
  dryRun?: true
  rejects?: string
  json?: true
}

export function addLeads(program: Command, act: Act): void {
  const leads = program.command('leads').description('Import listings, look at them, and erase them.')
  const imports = leads
    .command('import')
    .description('Import listings from NDJSON, JSON or CSV, each also with .gz; - reads standard input.')
    .argument('<file...>', 'files, taken in one after the other')
  addRecordOptions(imports)
    .option('--dry-run', 'tell what the import would do, and write nothing')
    .option('--rejects <file>', 'keep the rejected records in a file, as they came')
    .option('--source <name>', 'whose listings the files have: letters, digits, dots, hyphens, underscores')
    .option('--complete', 'with --source: the files have all its listings; others are no longer delivered')
    .option('--accept', 'with --complete: even if the files have fewer than half of its live listings')
    .option('--trigger', 'send the triggers of new listings right after, as `leadpush trigger` does')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush leads import listings.ndjson
  leadpush leads import listings.csv --map href=url --map postalCode=zip
  leadpush leads import mls.csv --map-file mls.map --where status=Open --dry-run
  leadpush leads import old.csv --encoding windows-1252
  leadpush leads import listings.csv --null n/a --null TBD --strict
  zcat *.ndjson.gz | leadpush leads import - --rejects rejected.ndjson
  leadpush leads import all-1.csv all-2.csv --source mls --complete

If your columns have other names, run the import without --map: it prints the
options to use. Importing the same file again changes nothing. An unknown value
never overwrites a known one. Numbers are read as people write them ($350,000,
350K, 1,850 sqft); a doubtful one is unknown, and counted. A listing that left
its sources is not delivered until one of them has it again.`,
    )
    .action(act(importFiles))
  addLooks(leads, act)
  leads
    .command('forget')
    .description(
      'Erase a listing, all listings with a contact, or what a list names, and keep them out of later imports.',
    )
    .option('--href <url>', 'the listing with this href; - reads it from standard input')
    .option('--contact <text>', 'all listings with this e-mail address or phone number; - reads it from standard input')
    .option('--list <file>', 'a file with a URL, an e-mail address or a phone number a line; - is standard input')
    .option('--drop <file...>', "consumer deletion lists of California's Delete Request and Opt-out Platform")
    .option('--response <dir>', 'with --drop: write a file to upload for each list into this folder')
    .option('--redact', 'keep the listings and drop their contacts, in later records too')
    .option('--dry-run', 'erase nothing; tell what would go')
    .option('--json', 'print one JSON object, and one for each response')
    .addHelpText(
      'after',
      `
Examples:
  leadpush leads forget --href https://listings.example/1
  leadpush leads forget --contact - < contact.txt
  leadpush leads forget --list erase.txt --dry-run
  leadpush leads forget --drop 20260801_1234_*.csv --response responses
  leadpush leads forget --contact - --redact < contact.txt

A contact on the command line shows in the list of processes and in the history
of the shell: give - instead, and it is read from standard input. Only a keyed
hash of it is kept, to recognise it in later imports.`,
    )
    .action(
      act(async (io: CommandIo, options: ForgetOptions) => {
        const { forget } = await import('./forget.ts')
        return await forget(io, options)
      }),
    )
}

async function importFiles(
  io: CommandIo,
  files: string[],
  options: ImportOptions,
  command: Command,
): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const { findRecordFiles } = await import('../../records/import-each.ts')
  const { importLeads, leadFormats } = await import('../../leads/import.ts')
  const { runImport } = await import('../import-view.ts')
  const { sendTriggers, triggerSettings } = await import('../trigger/command.ts')
  const { readSource } = await import('./source.ts')
  if (options.dryRun && options.trigger)
    throw usageError('--trigger sends, and --dry-run only looks: give one of them.')
  const names = ['databaseUrl', 'home', 'databaseAwayMs', 'logFormat', 'maxLeadAgeMs'] as const
  const source = settingsSource(io)
  const toSend = options.trigger ? readSettings([...names, ...triggerSettings], source) : undefined
  const settings = toSend ?? readSettings(names, source)
  const from = readSource(options, settings)
  findRecordFiles(files, leadFormats)
  const read = await readRecordOptions(options)
  return await withImportDatabase(io, settings, options, async (opened) => {
    const onNote = (note: string) => io.log.info(note)
    const vault = toSend && (await openSecrets(opened.db, toSend))
    const ways = {
      ...read,
      source: from,
      isDryRun: options.dryRun,
      onNote,
      commandThatFits: commandThatFits('leads import', files, command),
    }
    const send = async () =>
      toSend && vault ? await sendTriggers(io, opened, toSend, { vault, json: options.json }) : 0
    let hasSome = false
    const importing = runImport(io, { ...options, files }, async (how) => {
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
