/** The database of an import: made where there is none, but for a dry run, which works in one that is gone afterwards. */
import type { OpenDatabase } from '../db/open.ts'
import { waiting, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'

/** As `withDatabase`. */
export async function withImportDatabase<T>(
  io: CommandIo,
  settings: Parameters<typeof withDatabase>[1],
  { dryRun = false }: { dryRun?: boolean },
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  const { hasEmbedded } = await import('../db/embedded.ts')
  const isThere = settings.databaseUrl !== undefined || (await hasEmbedded(settings.home))
  if (!dryRun || isThere) return await withDatabase(io, settings, { create: true, ...waiting(io) }, work)
  const { startThrowAway } = await import('../db/embedded/throw-away.ts')
  const server = await startThrowAway()
  try {
    return await withDatabase(io, { ...settings, databaseUrl: server.url }, { schema: 'any' }, async (opened) => {
      const { migrate } = await import('../db/migrate.ts')
      await migrate(opened.db)
      return await work(opened)
    })
  } finally {
    await server.leave()
  }
}
