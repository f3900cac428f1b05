/** The database of an import: made if there is none. A dry run then works in a temporary one. */

import { startThrowAway } from '../db/embedded/throw-away.ts'
import { hasEmbedded } from '../db/embedded.ts'
import { migrate } from '../db/migrate.ts'
import type { OpenDatabase } from '../db/open.ts'
import { withDatabase } from './database.ts'
import type { AtDatabase, Name, ReadSettings } from './describe.ts'

/** Like `open` of a command. */
export async function openForImport<K extends Name, T>(
  { io, readSettings, open }: AtDatabase<K>,
  { dryRun }: { dryRun?: true | undefined },
  work: (opened: OpenDatabase, settings: ReadSettings<K | 'databaseUrl' | 'home'>) => Promise<T>,
): Promise<T> {
  const settings = readSettings()
  const { databaseUrl, home }: ReadSettings<'databaseUrl' | 'home'> = settings
  if (!dryRun || databaseUrl !== undefined || (await hasEmbedded(home))) {
    return await open(
      async (opened, read) => {
        // root has a home of its own: with sudo an import goes elsewhere than those of the account do
        if (databaseUrl === undefined && process.getuid?.() === 0) io.log.info(`Database: ${opened.description}`)
        return await work(opened, read)
      },
      { create: true },
    )
  }
  const server = await startThrowAway()
  try {
    return await withDatabase(io, { home, databaseUrl: server.url }, { schema: 'any' }, async (opened) => {
      await migrate(opened.db)
      return await work(opened, settings)
    })
  } finally {
    await server.leave()
  }
}
