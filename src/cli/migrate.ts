/** `leadpush migrate`: brings the schema up to date, and stored secrets into the form in force. */
import type { Command } from 'commander'
import { plural } from '../base/amounts.ts'
import {
  type Act,
  type ExitCode,
  openSecrets,
  resolveSearches,
  settingsSource,
  waiting,
  withDatabase,
} from './command.ts'
import type { CommandIo } from './command-io.ts'
import { writeSealed } from './rekey.ts'

export function addMigrate(program: Command, act: Act): void {
  program
    .command('migrate')
    .description("Bring the database's schema up to date.")
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
With LEADPUSH_SECRET_KEY it also encrypts the receiver keys and signing secrets
that are stored as they are. A migrate that was killed is gone on with by the
next.

Examples:
  DATABASE_URL=postgresql://leadpush@db.internal/leadpush leadpush migrate`,
    )
    .action(act(migrate))
}

async function migrate(io: CommandIo, options: { json?: true }): Promise<ExitCode> {
  const { readSettings } = await import('../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'secretKey', 'logFormat'], settingsSource(io))
  return await withDatabase(io, settings, { create: true, schema: 'any', ...waiting(io) }, async (opened) => {
    const { rideOut } = await import('../db/away.ts')
    const { migrate: migrateSchema } = await import('../db/migrate.ts')
    const { hasDataKeys } = await import('../secrets/vault.ts')
    const { sealStored } = await import('../secrets/seal-stored.ts')
    // a wrong key is told before anything is done
    if (await hasDataKeys(opened.db)) await openSecrets(opened.db, settings)
    const applied = [...opened.migrated, ...(await rideOut(() => migrateSchema(opened.db)))]
    await rideOut(() => resolveSearches(opened.db))
    const vault = await openSecrets(opened.db, settings, { begins: true })
    const changed = await sealStored(opened, vault)
    if (options.json) await io.out.json({ type: 'migrate', applied, ...changed })
    else {
      const what = `Applied ${plural(applied.length, 'migration')}: ${applied.join(', ')}.`
      await io.out.line(applied.length === 0 ? 'The schema is up to date.' : what)
      await writeSealed(io, changed, vault)
    }
    return changed.damaged > 0 ? 1 : 0
  })
}
