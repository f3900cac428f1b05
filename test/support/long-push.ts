/** A push of the real program that takes a while: 40 users, one listing, 4 requests under way at once. */
import { after } from 'node:test'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { callProgram, type ProgramResult, type StartedProgram, startProgram } from './program.ts'
import { startTestReceiver, type TestReceiver } from './receiver.ts'
import { seedLeads, seedUsers } from './seed.ts'

export const longPushUsers = 40

export interface LongPush {
  opened: OpenDatabase
  receiver: TestReceiver
  push(args: string[], env?: Record<string, string>): StartedProgram
  /** The same within this process, for a push to which nothing happens. */
  call(args: string[], env?: Record<string, string>): Promise<ProgramResult>
  /** How many deliveries have each status. */
  ends(): Promise<Record<string, number>>
}

export const slowly = () => ({ status: 200, delayMs: 100 })

/** Prepares the push in the empty or migrated database at `databaseUrl`; the program uses `programUrl` where that differs. */
export async function buildLongPush(
  databaseUrl: string,
  answer: TestReceiver['answer'],
  programUrl: string = databaseUrl,
): Promise<LongPush> {
  const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
  after(() => opened.close())
  await migrate(opened.db)
  await seedLeads(opened, [{ href: 'https://listings.example/a' }])
  await seedUsers(
    opened.db,
    Array.from({ length: longPushUsers }, (_, at) => ({ email: `user-${at}@example.com`, receiverKey: `key-${at}` })),
  )
  const receiver = await startTestReceiver(answer)
  after(() => receiver.close())
  const env = {
    DATABASE_URL: programUrl,
    LEADPUSH_RECEIVER_URL: receiver.url,
    LEADPUSH_CONCURRENCY: '4',
    LEADPUSH_LEASE: '60s',
    LEADPUSH_RETRY_DELAY: '100ms',
    LEADPUSH_OUTAGE: '0s',
  }
  return {
    opened,
    receiver,
    push: (args, more = {}) =>
      startProgram(['push', ...args, '--json'], { env: { ...env, ...more }, timeoutMs: 240_000 }),
    call: (args, more = {}) => callProgram(['push', ...args, '--json'], { env: { ...env, ...more } }),
    async ends() {
      const { rows } = await opened.pool.query('select status, count(*) as n from deliveries group by status')
      return Object.fromEntries(rows.map(({ status, n }) => [status, Number(n)]))
    },
  }
}

/** How often the most frequent key came. */
export const timesMax = (receiver: TestReceiver) =>
  Math.max(...[...receiver.keys().values()].map(({ length }) => length))
