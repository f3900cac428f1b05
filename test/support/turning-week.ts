/**
 * A PostgreSQL server of a test's own in which a new week begins when the test says so: one time zone's rules are the test's,
 * and sessions that begin later read the new ones, as of a country that changed its clock.
 */
import { chmodSync, cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { findAccount } from '../../src/db/embedded/account.ts'
import { type Binaries, findBinaries } from '../../src/db/embedded/binaries.ts'
import { newTemporaryName } from '../../src/db/embedded/cluster.ts'
import { findPlace } from '../../src/db/embedded/place.ts'
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
  /** A database with the current schema and what `fill` puts into it; `query` asks it on a connection of its own. */
  createDatabase(fill: (opened: OpenDatabase) => Promise<void>): Promise<WeekDatabase>
  /** From now on `turningZone` is in the ISO week after; everybody is disconnected, and comes back into the new week. */
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

/** PostgreSQL's programs with rules of time zones that may be changed, where the server's user may run them. */
async function copyPrograms(home: string): Promise<{ binaries: Binaries; zoneFile: string }> {
  const found = await findBinaries(await findAccount(await findPlace(home)), home, newTemporaryName())
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
