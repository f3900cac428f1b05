/** `leadpush migrate`: brings the schema up to date. */
import type { Command } from 'commander'
import { plural } from '../base/amounts.ts'
import { type Act, type ExitCode, resolveSearches, waiting, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { writeJson, writeLine } from './output.ts'

export function addMigrate(program: Command, act: Act): void {
  program
    .command('migrate')
    .description("Bring the database's schema up to date.")
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  DATABASE_URL=postgresql://leadpush@db.internal/leadpush leadpush migrate')
    .action(act(migrate))
}

async function migrate(log: Log, options: { json?: true }): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'logFormat'], processSource())
  return await withDatabase(settings, { create: true, schema: 'any', ...waiting(log) }, async (opened) => {
    const { rideOut } = await import('../db/away.ts')
    const { migrate: migrateSchema } = await import('../db/migrate.ts')
    const applied = [...opened.migrated, ...(await rideOut(() => migrateSchema(opened.db)))]
    await rideOut(() => resolveSearches(opened.db))
    if (options.json) await writeJson({ type: 'migrate', applied })
    else if (applied.length === 0) await writeLine('The schema is up to date.')
    else await writeLine(`Applied ${plural(applied.length, 'migration')}: ${applied.join(', ')}.`)
    return 0
  })
}
