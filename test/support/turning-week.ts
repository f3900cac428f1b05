/**
 * A PostgreSQL server for one test, in which a new week begins when the test says so. The test rewrites the rules of one time
 * zone, and sessions that begin later read the new rules, as for a country that changed its clock.
 */
import { chmodSync, cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { findAccount } from '../../src/db/embedded/account.ts'
import { type Binaries, findBinaries } from '../../src/db/embedded/binaries.ts'
import { newTemporaryName } from '../../src/db/embedded/cluster.ts'
import { findPaths } from '../../src/db/embedded/paths.ts'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { withDatabase } from './servers.ts'

export const turningZone = 'Antarctica/Troll'

export interface WeekDatabase {
  url: string
  // biome-ignore lint/suspicious/noExplicitAny: rows
  query(statement: string): Promise<any[]>
}

export interface TurningWeek {
  /** Makes a database with the current schema and the rows of `fill`; `query` uses a connection of its own. */
  createDatabase(fill: (opened: OpenDatabase) => Promise<void>): Promise<WeekDatabase>
  /** Moves `turningZone` into the next ISO week and ends all connections, so that everybody comes back into the new week. */
  turn(): Promise<void>
  leave(): Promise<void>
}

/** A zone file (RFC 8536, version 1) without transitions. */
function buildZone(offsetSeconds: number): Buffer {
  const file = Buffer.alloc(44 + 6 + 4)
  file.write('TZif')
  file.writeUInt32BE(1, 36) // one type of local time
  file.writeUInt32BE(4, 40) // its name, with the NUL at its end
  file.writeInt32BE(offsetSeconds, 44)
  file.write('XXX', 50)
  return file
}

async function query(url: string, statement: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

/** PostgreSQL's programs with time zone rules that can be changed, where the server's user may run them. */
export async function copyPrograms(home: string): Promise<{ binaries: Binaries; zoneFile: string }> {
  const found = await findBinaries(await findAccount(await findPaths(home)), home, newTemporaryName())
  const [native, copy] = [dirname(found.folder), join(home, 'turning')]
  for (const part of ['bin', 'share']) cpSync(join(native, part), join(copy, part), { recursive: true })
  symlinkSync(join(native, 'lib'), join(copy, 'lib'))
  return {
    binaries: { ...found, folder: join(copy, 'bin') },
    zoneFile: join(copy, 'share/postgresql/timezone', turningZone),
  }
}

export async function startTurningWeek(): Promise<TurningWeek> {
  const home = mkdtempSync(join(tmpdir(), 'leadpush-week-'))
  chmodSync(home, 0o711)
  const { binaries, zoneFile } = await copyPrograms(home)
  const server = await startThrowAway({ binaries })
  let weeks = 0
  const writeZone = () => writeFileSync(zoneFile, buildZone(weeks * 7 * 86_400))
  writeZone()
  let databases = 0
  return {
    async createDatabase(fill) {
      const name = `week_${++databases}`
      const url = withDatabase(server.url, name)
      await query(withDatabase(server.url, 'postgres'), `create database ${name}`)
      const opened = await openDatabase({ databaseUrl: url, home: '' }, { schema: 'any' })
      await migrate(opened.db)
      await fill(opened)
      await opened.close()
      return { url, query: (statement) => query(url, statement) }
    },
    async turn() {
      weeks++
      writeZone()
      await query(
        withDatabase(server.url, 'postgres'),
        'select pg_terminate_backend(pid) from pg_stat_activity where datname is not null and datname <> current_database()',
      )
    },
    async leave() {
      await server.leave()
      rmSync(home, { recursive: true, force: true })
    },
  }
}
