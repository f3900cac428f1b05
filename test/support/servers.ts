/** The throw-away PostgreSQL servers of a test run, each with a migrated template that test databases are cloned from. */
import { existsSync, statfsSync } from 'node:fs'
import { startThrowAway, type ThrowAwayServer } from '../../src/db/embedded/throw-away.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'

export const templateName = 'leadpush_template'

/** 18 comes with npm; 15, the oldest that leadpush supports, is used where the system has it. */
export type ServerVersion = 15 | 18

export const serverVariable = (version: ServerVersion) =>
  version === 18 ? 'TEST_DATABASE_URL' : `TEST_DATABASE_URL_${version}`

const systemFolder = (version: ServerVersion) => `/usr/lib/postgresql/${version}/bin`

export const hasServer = (version: ServerVersion) => version === 18 || existsSync(`${systemFolder(version)}/postgres`)

/** `url` with another database. */
export function withDatabase(url: string, name: string): string {
  return url.replace(/\/[^/]*$/, `/${name}`)
}

const memoryFolder = '/dev/shm'
const memoryBytesMin = 4_000_000_000

function hasMemoryToSpare(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memoryFolder)
    return Math.min(bavail * bsize, process.availableMemory()) >= memoryBytesMin
  } catch {
    return false
  }
}

/**
 * Where to keep the data: in memory where there is plenty, since hundreds of databases come and go, each of hundreds of
 * files.
 */
async function startEmpty(version: ServerVersion): Promise<ThrowAwayServer> {
  const options = version === 18 ? {} : { binaries: { folder: systemFolder(version), major: version } }
  if (hasMemoryToSpare()) {
    try {
      return await startThrowAway({ ...options, folder: memoryFolder })
    } catch {} // not writable, or no programs may run there
  }
  return await startThrowAway(options)
}

export async function startServer(version: ServerVersion): Promise<ThrowAwayServer> {
  const server = await startEmpty(version)
  try {
    const opened = await openDatabase({ databaseUrl: server.url, home: '' }, { schema: 'any' })
    try {
      await migrate(opened.db)
    } finally {
      await opened.close()
    }
    // nobody is connected any more, as a rename demands
    const maintenance = await openDatabase(
      { databaseUrl: withDatabase(server.url, 'postgres'), home: '' },
      { schema: 'any' },
    )
    try {
      await maintenance.pool.query(`alter database leadpush rename to ${templateName}`)
    } finally {
      await maintenance.close()
    }
    return { ...server, url: withDatabase(server.url, 'postgres') }
  } catch (error) {
    await server.leave()
    throw error
  }
}
