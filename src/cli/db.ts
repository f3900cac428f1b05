/** `leadpush db`: the embedded database: where it is, how to connect to it, and stopping it. */
import type { Command } from 'commander'
import { type Act, type ExitCode, usageError } from './command.ts'
import type { Log } from './log.ts'
import { writeJson, writeLine } from './output.ts'

export function addDb(program: Command, act: Act): void {
  const db = program.command('db').description('The embedded database: show its folder or its URL, or stop it.')
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
