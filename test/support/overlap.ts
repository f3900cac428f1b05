/** Pushes at once: processes on one database with 700 users and one listing, whose requests tell which process they come from. */
import { createDatabase } from './database.ts'
import { buildHouse, type House } from './house.ts'
import { type ProgramResult, startProgram } from './program.ts'
import type { TestReceiver } from './receiver.ts'
import { seedLeads, seedUsers } from './seed.ts'
import { until } from './until.ts'

/** So many that none of four processes finds all of them in the hands of others, however late it begins: each has some 170 at a time. */
export const emails = Array.from({ length: 700 }, (_, at) => `user-${at}@example.com`)
const template = await createDatabase()
const opened = await template.open()
await seedLeads(opened, [{ href: 'https://listings.example/a' }])
await seedUsers(
  opened.db,
  emails.map((email) => ({ email, receiverKey: email })),
)
await opened.close()

/** With the first `users` of the users. */
export async function buildOverlap(users: number, answer: TestReceiver['answer']): Promise<House> {
  const database = await template.copy()
  const opened = await database.open()
  await opened.pool.query('update users set subscribed = false where receiver_key <> all ($1)', [
    emails.slice(0, users),
  ])
  await opened.close()
  return await buildHouse({ database, answer })
}

/** A process whose requests go to the path `/NAME`. */
export const startPush = ({ env, receiver }: House, name: string, args: string, more: Record<string, string> = {}) =>
  startProgram(['push', ...args.split(' '), '--json'], {
    env: { ...env, LEADPUSH_RECEIVER_URL: new URL(`/${name}`, receiver.url).href, LEADPUSH_CONCURRENCY: '4', ...more },
  })

/** Answers when `processes` of them have something under way: none may come to take its part too late. */
export function answerTogether(processes: number, delayMs: number): TestReceiver['answer'] {
  const names = new Set<string>()
  return async ({ path }) => {
    names.add(path)
    await until('each process has one under way', () => names.size >= processes)
    return { status: 200, delayMs }
  }
}

export const requestsOf = ({ receiver }: House, name: string) =>
  receiver.requests.filter(({ path }) => path === `/${name}`)
export const summaryOf = ({ json }: ProgramResult) => json.at(-1)
