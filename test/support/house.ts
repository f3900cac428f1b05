/** A database with listings and users, and a receiver, around the real program: the start of most tests that run it. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after } from 'node:test'
import { importLeads } from '../../src/leads/import.ts'
import { importUsers } from '../../src/users/import.ts'
import { createDatabase, type TestDatabase } from './database.ts'
import { toLines } from './import-files.ts'
import { type CallOptions, callProgram, type ProgramOptions, type ProgramResult, runProgram } from './program.ts'
import { startTestReceiver, type TestReceiver } from './receiver.ts'
import type { PlacesOfDatabase } from './servers.ts'

export interface House {
  database: TestDatabase
  receiver: TestReceiver
  env: Record<string, string>
  /** Runs the program. The arguments are a list, or one text with spaces between them. */
  run(args: string | readonly string[], options?: ProgramOptions): Promise<ProgramResult>
  /** The same within this process: for wrong usage, for preparing a test, and for looking at its results. */
  call(args: string | readonly string[], options?: CallOptions): Promise<ProgramResult>
  /** Imports records; fails if one is rejected. */
  put(what: 'leads' | 'users', records: readonly object[]): Promise<void>
}

export const hrefOf = (name: string | number) => `https://listings.example/${name}`
export const zip = (value: string, radius = 0) => ({ type: 'zipcode', value, radius })

/** `count` subscribed users who ask for 78704. */
export const makeUsers = (count: number, from = 0) =>
  Array.from({ length: count }, (_, at) => ({
    email: `user-${from + at}@example.com`,
    receiverApiKey: `key-${from + at}`,
    queries: [zip('78704')],
  }))

/** As the program does, but within this process: starting a process costs more than the work. */
async function put(database: TestDatabase, records: { leads?: readonly object[]; users?: readonly object[] }) {
  const { leads = [], users = [] } = records
  if (leads.length + users.length === 0) return
  const opened = await database.open()
  for (const [importFiles, each] of [
    [importLeads, leads],
    [importUsers, users],
  ] as const) {
    if (each.length === 0) continue
    const stdin = Readable.from([toLines(each)], { objectMode: false })
    const { broken, summary } = await importFiles(opened, ['-'], { stdin })
    assert.deepEqual([broken, summary.rejected], [undefined, 0])
  }
  await opened.close()
}

/** Makes a house that is removed after the test file. Call it at the top of a file or in a test. */
export async function buildHouse({
  leads = [],
  users = [],
  answer = () => 200,
  places = 'few',
  database: given,
}: {
  leads?: readonly object[]
  users?: readonly object[]
  answer?: TestReceiver['answer']
  /** Whose postal codes a query can name. */
  places?: PlacesOfDatabase
  database?: TestDatabase
} = {}): Promise<House> {
  const database = given ?? (await createDatabase(undefined, { places }))
  const receiver = await startTestReceiver(answer)
  after(() => receiver.close())
  const env = {
    DATABASE_URL: database.url,
    LEADPUSH_RECEIVER_URL: `${receiver.url}?tenant=1`,
    LEADPUSH_RETRY_DELAY: '50ms',
  }
  const words = (args: string | readonly string[]) => (typeof args === 'string' ? args.split(' ') : args)
  const house: House = {
    database,
    receiver,
    env,
    run: (args, options = {}) => runProgram(words(args), { ...options, env: { ...env, ...options.env } }),
    call: (args, options = {}) => callProgram(words(args), { ...options, env: { ...env, ...options.env } }),
    put: (what, records) => put(database, { [what]: records }),
  }
  await put(database, { leads, users })
  return house
}

// biome-ignore lint/suspicious/noExplicitAny: lines of JSON
export const deliveriesOf = (json: any[]) => json.filter(({ type }) => type === 'delivery')

/** The fields of a summary that do not depend on the day. */
export const countsOf = ({ type: _, period: __, seconds: ___, bytes: ____, ...counts }: Record<string, unknown>) =>
  counts

export const noCounts = {
  users: 0, deliveries: 0, delivered: 0, failed: 0, unknown: 0, skipped: 0, already: 0, elsewhere: 0, owed: 0, leads: 0,
} // biome-ignore format: a list
