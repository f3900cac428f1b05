/** The throw-away PostgreSQL servers of a test run, each with migrated templates that test databases are cloned from. */
import { existsSync, statfsSync } from 'node:fs'
import { startThrowAway, type ThrowAwayServer } from '../../src/db/embedded/throw-away.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'

/** The postal codes in a database: of a few states, or of all. Each import of users reads every one. */
export type PlacesOfDatabase = 'few' | 'all'
export const templateNames = { few: 'leadpush_few_places', all: 'leadpush_all_places' } as const
const fewStates = ['TX', 'NY', 'PR', 'AK', 'ON', 'MA', 'OR']

/** 18 comes with npm; 15, the oldest that leadpush supports, is used where the system has it. */
export type ServerVersion = 15 | 18

export const serverVariable = (version: ServerVersion) =>
  version === 18 ? 'TEST_DATABASE_URL' : `TEST_DATABASE_URL_${version}`

const systemFolder = (version: ServerVersion) => `/usr/lib/postgresql/${version}/bin`

/** Set to 1 where tests run on the oldest version. */
export const oldestVariable = 'TEST_OLDEST_POSTGRES'

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

async function openOnly<T>(databaseUrl: string, work: (opened: OpenDatabase) => Promise<T>): Promise<T> {
  const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any', connectionsMax: 1 })
  return await work(opened).finally(() => opened.close())
}

export async function startServer(version: ServerVersion): Promise<ThrowAwayServer> {
  const server = await startEmpty(version)
  const url = withDatabase(server.url, 'postgres')
  try {
    await openOnly(server.url, ({ db }) => migrate(db))
    // nobody is connected to it any more, as a rename and a copy demand
    await openOnly(url, async ({ pool }) => {
      await pool.query(`alter database leadpush rename to ${templateNames.all}`)
      await pool.query(`create database ${templateNames.few} template ${templateNames.all} strategy file_copy`)
    })
    await openOnly(withDatabase(server.url, templateNames.few), async ({ pool }) => {
      await pool.query('delete from postal_codes where state <> all ($1)', [fewStates])
      await pool.query('vacuum full postal_codes')
    })
    return { ...server, url }
  } catch (error) {
    await server.leave()
    throw error
  }
}
