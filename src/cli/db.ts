/** `leadpush db`: the embedded database: where it is, how to connect to it, stopping it, backups and restoring them. */
import type { Command } from 'commander'
import { bytes, plural } from '../base/amounts.ts'
import { type Act, type ExitCode, usageError, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { writeJson, writeLine } from './output.ts'

/** 6, the default, took three times as long for listings, and saved 8 %. */
const gzipLevel = 3

export function addDb(program: Command, act: Act): void {
  const db = program.command('db').description('The embedded database: its folder, its URL, its stop, backups.')
  db.command('path')
    .description('Print the folder of the embedded database.')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  du -sh "$(leadpush db path)"')
    .action(act((_log: Log, options: { json?: true }) => printPath(options)))
  db.command('url')
    .description('Print the URL of the embedded database, and keep it running until `db stop`.')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  psql "$(leadpush db url)"')
    .action(act((_log: Log, options: { json?: true }) => printUrl(options)))
  db.command('stop')
    .description('Stop the embedded database; if other commands use it, it stops with the last of them.')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  leadpush db stop')
    .action(act(stop))
  db.command('backup')
    .description('Save all of the embedded database in a file, while other commands use it.')
    .argument('<file>', 'where the backup goes, replacing what is there; - is standard output')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
The backup is gzipped text that later versions of leadpush and of PostgreSQL restore.
It holds keys, secrets and contacts; only its owner may read the file.

Examples:
  leadpush db backup /var/backups/leadpush.gz
  leadpush db backup - | age -r age1… > leadpush.gz.age
  leadpush db backup leadpush.gz --json     {"type":"backup","file","bytes","tables","rows",
                                             "seconds"}`,
    )
    .action(act(backup))
  db.command('restore')
    .description('Make the embedded database from a backup, in a LEADPUSH_HOME that has none.')
    .argument('<file>', 'a file of db backup; - is standard input')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
All of the backup goes in, or nothing. Keep cron and serve off until you have read
"Backup and restore" in docs/keys-and-backups.md: what happened after the backup happens again.

Examples:
  LEADPUSH_HOME=/var/lib/leadpush-new leadpush db restore /var/backups/leadpush.gz
  age -d leadpush.gz.age | leadpush db restore -
  leadpush db restore leadpush.gz --json    {"type":"restore","home","rows","madeAt",
                                             "version","postgres","seconds"}`,
    )
    .action(act(restore))
}

async function readHome(): Promise<string> {
  const { processSource, readSettings } = await import('../base/config.ts')
  const { databaseUrl, home } = readSettings(['databaseUrl', 'home', 'logFormat'], processSource())
  if (databaseUrl !== undefined) {
    throw usageError('DATABASE_URL is set: there is no embedded database.', 'Unset it to work with the embedded one.')
  }
  return home
}

async function printPath({ json }: { json?: true }): Promise<ExitCode> {
  const path = await readHome()
  await (json ? writeJson({ type: 'db', path }) : writeLine(path))
  return 0
}

async function printUrl({ json }: { json?: true }): Promise<ExitCode> {
  const { keepEmbedded } = await import('../db/embedded.ts')
  const { url } = await keepEmbedded(await readHome())
  await (json ? writeJson({ type: 'db', url }) : writeLine(url))
  return 0
}

async function stop(_log: Log, { json }: { json?: true }): Promise<ExitCode> {
  const { stopEmbedded } = await import('../db/embedded.ts')
  const state = await stopEmbedded(await readHome())
  const sentences = {
    stopped: 'Stopped.',
    'in use': 'Other commands use it: it stops with the last of them.',
    'not running': 'It was not running.',
  }
  await (json ? writeJson({ type: 'db', state }) : writeLine(sentences[state]))
  return 0
}

const secondsSince = (startedAt: number) => Math.round(performance.now() - startedAt) / 1_000

async function backup(_log: Log, path: string, { json }: { json?: true }): Promise<ExitCode> {
  const home = await readHome()
  const { openOutFile } = await import('./out-file.ts')
  const file = openOutFile(path, { isTaken: json === true })
  try {
    return await withDatabase({ databaseUrl: undefined, home }, { schema: 'untouched' }, async (opened) => {
      const startedAt = performance.now()
      const { createGzip } = await import('node:zlib')
      const { writeBackup } = await import('../db/backup.ts')
      const gzip = createGzip({ level: gzipLevel })
      const writing = writeBackup(opened, gzip)
      writing.catch(() => {}) // `file` tells it, or why it could not go on
      const size = await file.write(gzip)
      const { tables, rows } = await writing
      const seconds = secondsSince(startedAt)
      if (json) await writeJson({ type: 'backup', file: path, bytes: size, tables, rows, seconds })
      else if (path !== '-')
        await writeLine(`${path}: ${plural(rows, 'row')} in ${plural(tables, 'table')}, ${bytes(size)}`)
      return 0
    })
  } finally {
    file.discard()
  }
}

async function restore(log: Log, path: string, { json }: { json?: true }): Promise<ExitCode> {
  const home = await readHome()
  const startedAt = performance.now()
  const { checkReadable, openFile } = await import('../records/read-records.ts')
  if (path !== '-') checkReadable(path)
  const { restoreBackup } = await import('../db/restore.ts')
  const input = path === '-' ? process.stdin : openFile(path)
  const { rows, strangers, madeAt, version, postgres } = await restoreBackup(home, input)
  // brings an older schema up to date, and tells that the database can be used
  await withDatabase({ databaseUrl: undefined, home }, {}, async () => {})
  if (strangers.length > 0)
    log.warn(`Tables that are none of leadpush's were left out: ${strangers.join(', ')}. The backup has them, as text.`)
  const seconds = secondsSince(startedAt)
  if (json) await writeJson({ type: 'restore', home, rows, madeAt, version, postgres, seconds })
  else
    await writeLine(`${home}: ${plural(rows, 'row')} of ${madeAt}, from leadpush ${version} on PostgreSQL ${postgres}`)
  return strangers.length > 0 ? 1 : 0
}
