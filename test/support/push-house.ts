/** A push in this process, with a database and a receiver of its own. */
import type { TestContext } from 'node:test'
import { sql } from 'kysely'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { createHttp } from '../../src/http/client.ts'
import type { DeliveryLine, PushLine, SummaryLine } from '../../src/index.ts'
import { databaseLedger } from '../../src/push/database/database-ledger.ts'
import { carryOut, type PushRequest, type PushSettings } from '../../src/push/run-push.ts'
import { httpWire } from '../../src/push/wire.ts'
import { findUser } from '../../src/users/users.ts'
import { createDatabase } from './database.ts'
import { collectingReporter } from './push-reporter.ts'
import { testPushSettings } from './push-settings.ts'
import { startTestReceiver, type TestReceiver } from './receiver.ts'
import { type SeedUser, seedLeads, seedUsers } from './seed.ts'

export const all: PushRequest = { what: 'all', force: false, limit: undefined }
export const resume: PushRequest = { what: 'resume' }

export interface Pushed {
  lines: PushLine[]
  deliveries: DeliveryLine[]
  summary: SummaryLine
  ok: boolean
  /** Users whom the guard held back one by one. */
  heldUsers: number
  notes: string[]
}

export class PushHouse {
  readonly opened: OpenDatabase
  readonly receiver: TestReceiver

  constructor(opened: OpenDatabase, receiver: TestReceiver) {
    this.opened = opened
    this.receiver = receiver
  }

  get db() {
    return this.opened.db
  }

  async push(
    request: PushRequest = all,
    settings: Partial<PushSettings> = {},
    stop = new AbortController(),
    accept = false,
    clock: Clock = systemClock,
  ): Promise<Pushed> {
    const lines: PushLine[] = []
    const notes: string[] = []
    const full = testPushSettings(this.receiver.url, settings)
    const http = createHttp({ timeoutMs: full.timeoutMs, concurrency: full.concurrency })
    try {
      const reporter = collectingReporter(lines, notes)
      const world = { ledger: databaseLedger(this.db), wire: httpWire(http, full), clock, reporter }
      const { ok, summary, heldUsers } = await carryOut({
        ...world,
        settings: full,
        request,
        accept,
        stop: stop.signal,
      })
      return { lines, deliveries: lines.filter((line) => line.type === 'delivery'), summary, ok, heldUsers, notes }
    } finally {
      await http.close()
    }
  }

  /** How many deliveries had how many attempts. */
  async attempts(): Promise<Record<string, number>> {
    const { rows } = await sql<{ what: string; n: number }>`
      select status || ' ' || attempts as what, count(*) as n from deliveries group by 1 order by 1
    `.execute(this.db)
    return Object.fromEntries(rows.map(({ what, n }) => [what, n]))
  }

  async userRequest(email: string): Promise<PushRequest> {
    return { what: 'user', ...(await findUser(this.db, email)) }
  }
}

/** How many requests came with each key. */
export const counts = ({ receiver }: PushHouse) => [...receiver.keys().values()].map(({ length }) => length)
export const most = (house: PushHouse) => Math.max(0, ...counts(house))
export const skips = ({ lines }: Pick<Pushed, 'lines'>) => lines.filter((line) => line.type === 'skip')

export const users = (n: number, more: Partial<SeedUser> = {}) =>
  Array.from({ length: n }, (_, at) => ({ email: `user-${String(at).padStart(4, '0')}@example.com`, ...more }))

export const lead = (name: string, more = {}) => ({ href: `https://listings.example/${name}`, ...more })

export async function build(
  t: TestContext,
  given: { users?: SeedUser[]; leads?: ReturnType<typeof lead>[]; answer?: TestReceiver['answer'] } = {},
) {
  const database = await createDatabase(t)
  const receiver = await startTestReceiver(given.answer)
  t.after(() => receiver.close())
  const house = new PushHouse(await database.open(), receiver)
  const leads = given.leads ?? [lead('a'), lead('b')]
  if (leads.length > 0) await seedLeads(house.opened, leads)
  await seedUsers(house.db, given.users ?? users(1))
  return house
}

/** Stops a push when that many requests have come: before the last of them is answered. */
export function stopAfter({ receiver }: PushHouse, requests: number): AbortController {
  const stop = new AbortController()
  const { answer } = receiver
  receiver.answer = (request, nth) => {
    if (nth >= requests) stop.abort()
    return answer(request, nth)
  }
  return stop
}
