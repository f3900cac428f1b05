/** A migrated database for one test file, cloned from a template of the run's server in about 0.1 s, dropped after it. */
import { randomBytes } from 'node:crypto'
import { after, type TestContext } from 'node:test'
import pg from 'pg'
import { type OpenDatabase, type OpenOptions, openDatabase } from '../../src/db/open.ts'
import {
  oldestVariable,
  type PlacesOfDatabase,
  type ServerVersion,
  serverVariable,
  startServer,
  templateNames,
  withDatabase,
} from './servers.ts'

export interface TestDatabase {
  url: string
  /** Opens the database as a command does; closed at the latest when the database is dropped. */
  open(options?: OpenOptions): Promise<OpenDatabase>
  /** Makes another database with the same content, like a restored backup. Nobody may be connected meanwhile. */
  copy(): Promise<TestDatabase>
  drop(): Promise<void>
}

/** On what the tests run: the newest or, with `--oldest` of `test/run.ts`, the oldest. */
export const postgresVersion: ServerVersion = process.env[oldestVariable] === '1' ? 15 : 18

let own: Promise<string> | undefined

/** The server of the test run, or one of its own where a file runs by itself. */
function findServerUrl(): Promise<string> {
  const given = process.env[serverVariable(postgresVersion)]
  if (given) return Promise.resolve(given)
  // ends with this process; an `after` here would belong to the first test
  own ??= startServer(postgresVersion).then((server) => server.url)
  return own
}

let admin: Promise<pg.Pool> | undefined

/** Makes and drops databases: a connection of its own for each would cost more than what it does. */
function findAdmin(): Promise<pg.Pool> {
  admin ??= findServerUrl().then((connectionString) => {
    const pool = new pg.Pool({ connectionString, max: 2, idleTimeoutMillis: 0, allowExitOnIdle: true })
    return pool.on('error', () => {})
  })
  return admin
}

/**
 * Makes a database with the current schema and a few states' postal codes, or those of all `places`; with `empty`, one with
 * nothing in it. Dropped after test `t`, or after the file; everything that `open` opened is
 * closed then.
 */
export async function createDatabase(
  t?: Pick<TestContext, 'after'> | undefined,
  options: { empty?: boolean; places?: PlacesOfDatabase; template?: string } = {},
): Promise<TestDatabase> {
  const [server, pool] = await Promise.all([findServerUrl(), findAdmin()])
  const name = `test_${process.pid}_${randomBytes(4).toString('hex')}`
  const template = options.template ?? (options.empty ? 'template0' : templateNames[options.places ?? 'few'])
  await pool.query(`create database ${name} template ${template} strategy file_copy`)
  const url = withDatabase(server, name)
  const opened: OpenDatabase[] = []
  let dropped = false
  const database: TestDatabase = {
    url,
    async open(openOptions) {
      const one = await openDatabase({ databaseUrl: url, home: '' }, openOptions)
      let closed = false
      const close = one.close
      one.close = async () => {
        if (closed) return
        closed = true
        await close()
      }
      opened.push(one)
      return one
    },
    copy: () => createDatabase(t, { ...options, template: name }),
    async drop() {
      if (dropped) return
      dropped = true
      await Promise.all(opened.map((one) => one.close().catch(() => {})))
      await pool.query(`drop database if exists ${name} with (force)`)
    },
  }
  if (t) t.after(() => database.drop())
  else after(() => database.drop())
  return database
}
