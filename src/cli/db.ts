/** `leadpush db`: the embedded database: where it is, how to connect to it, stopping it, backups and restoring them. */
import type { Command } from 'commander'
import { bytes, plural } from '../base/amounts.ts'
import { type Act, type ExitCode, settingsSource, usageError, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'

/** 6, the default, took three times as long for listings, and saved 8 %. */
const gzipLevel = 3

export function addDb(program: Command, act: Act): void {
  const db = program.command('db').description('The embedded database: its folder, its URL, its stop, backups.')
  db.command('path')
    .description('Print the folder of the embedded database.')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  du -sh "$(leadpush db path)"')
    .action(act(printPath))
  db.command('url')
    .description('Print the URL of the embedded database, and keep it running until `db stop`.')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  psql "$(leadpush db url)"')
    .action(act(printUrl))
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
The backup is gzipped text that later versions of leadpush and of PostgreSQL
restore. It holds keys, secrets and contacts; only its owner may read the file.

Examples:
  leadpush db backup /var/backups/leadpush.gz
  leadpush db backup - | age -r age1… > leadpush.gz.age

--json prints {"type":"backup","file","bytes","tables","rows","seconds"}.`,
    )
    .action(act(backup))
  db.command('restore')
    .description('Make the embedded database from a backup, in a LEADPUSH_HOME that has none.')
    .argument('<file>', 'a file of db backup; - is standard input')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
All of the backup goes in, or nothing. Keep cron and serve off until you have
read "Backup and restore" in docs/keys-and-backups.md: what happened after the
backup happens again.

Examples:
  LEADPUSH_HOME=/var/lib/new leadpush db restore /var/backups/leadpush.gz
  age -d leadpush.gz.age | leadpush db restore -

--json prints {"type":"restore","home","rows","madeAt","version","postgres",
"seconds"}.`,
    )
    .action(act(restore))
}

async function readHome(io: CommandIo): Promise<string> {
  const { readSettings } = await import('../base/config.ts')
  const { databaseUrl, home } = readSettings(['databaseUrl', 'home', 'logFormat'], settingsSource(io))
  if (databaseUrl !== undefined) {
    throw usageError('DATABASE_URL is set: there is no embedded database.', 'Unset it to work with the embedded one.')
  }
  return home
}

async function readSecretKey(io: CommandIo): Promise<Buffer | undefined> {
  const { readSettings } = await import('../base/config.ts')
  return readSettings(['secretKey'], settingsSource(io)).secretKey
}

async function printPath(io: CommandIo, { json }: { json?: true }): Promise<ExitCode> {
  const path = await readHome(io)
  await (json ? io.out.json({ type: 'db', path }) : io.out.line(path))
  return 0
}

async function printUrl(io: CommandIo, { json }: { json?: true }): Promise<ExitCode> {
  const { keepEmbedded } = await import('../db/embedded.ts')
  const { url } = await keepEmbedded(await readHome(io))
  await (json ? io.out.json({ type: 'db', url }) : io.out.line(url))
  return 0
}

async function stop(io: CommandIo, { json }: { json?: true }): Promise<ExitCode> {
  const { stopEmbedded } = await import('../db/embedded.ts')
  const state = await stopEmbedded(await readHome(io))
  const sentences = {
    stopped: 'Stopped.',
    'in use': 'Other commands use it: it stops with the last of them.',
    'not running': 'It was not running.',
  }
  await (json ? io.out.json({ type: 'db', state }) : io.out.line(sentences[state]))
  return 0
}

const secondsSince = (startedAt: number) => Math.round(performance.now() - startedAt) / 1_000

async function backup(io: CommandIo, path: string, { json }: { json?: true }): Promise<ExitCode> {
  const home = await readHome(io)
  const secretKey = await readSecretKey(io)
  const { openOutFile } = await import('./out-file.ts')
  const file = openOutFile(io, path, { isTaken: json === true })
  try {
    return await withDatabase(io, { databaseUrl: undefined, home }, { schema: 'untouched' }, async (opened) => {
      const startedAt = performance.now()
      const { createGzip } = await import('node:zlib')
      const { writeBackup } = await import('../db/backup.ts')
      const { sealErasureKey } = await import('../secrets/erasure-key.ts')
      const gzip = createGzip({ level: gzipLevel })
      const writing = writeBackup(opened, gzip, secretKey && ((key) => sealErasureKey(secretKey, key)))
      writing.catch(() => {}) // `file` tells it, or why it could not go on
      const size = await file.write(gzip)
      const { tables, rows } = await writing
      const seconds = secondsSince(startedAt)
      if (json) await io.out.json({ type: 'backup', file: path, bytes: size, tables, rows, seconds })
      else if (path !== '-')
        await io.out.line(`${path}: ${plural(rows, 'row')} in ${plural(tables, 'table')}, ${bytes(size)}`)
      return 0
    })
  } finally {
    file.discard()
  }
}

async function restore(io: CommandIo, path: string, { json }: { json?: true }): Promise<ExitCode> {
  const home = await readHome(io)
  const secretKey = await readSecretKey(io)
  const startedAt = performance.now()
  const { checkReadable, openFile } = await import('../records/read-records.ts')
  if (path !== '-') checkReadable(path)
  const { restoreBackup } = await import('../db/restore.ts')
  const { openErasureKey } = await import('../secrets/erasure-key.ts')
  const input = path === '-' ? io.openStdin() : openFile(path)
  const { rows, strangers, madeAt, version, postgres } = await restoreBackup(home, input, (sealed) =>
    openErasureKey(secretKey, sealed),
  )
  // brings an older schema up to date, and tells that the database can be used
  await withDatabase(io, { databaseUrl: undefined, home }, {}, async () => {})
  if (strangers.length > 0)
    io.log.warn(
      `Tables that are none of leadpush's were left out: ${strangers.join(', ')}. The backup has them, as text.`,
    )
  const seconds = secondsSince(startedAt)
  if (json) await io.out.json({ type: 'restore', home, rows, madeAt, version, postgres, seconds })
  else
    await io.out.line(
      `${home}: ${plural(rows, 'row')} of ${madeAt}, from leadpush ${version} on PostgreSQL ${postgres}`,
    )
  return strangers.length > 0 ? 1 : 0
}
