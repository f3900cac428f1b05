/** A push in this process, with a database and a receiver of its own: a new database, or one that the row of a table before has left. */
import { after, type TestContext } from 'node:test'
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

interface Given {
  users?: SeedUser[]
  leads?: ReturnType<typeof lead>[]
  answer?: TestReceiver['answer'] | undefined
}

async function furnish(house: PushHouse, given: Given): Promise<PushHouse> {
  const leads = given.leads ?? [lead('a'), lead('b')]
  if (leads.length > 0) await seedLeads(house.opened, leads)
  await seedUsers(house.db, given.users ?? users(1))
  return house
}

export async function build(t: TestContext, given: Given = {}): Promise<PushHouse> {
  const database = await createDatabase(t)
  const receiver = await startTestReceiver(given.answer)
  t.after(() => receiver.close())
  return furnish(new PushHouse(await database.open(), receiver), given)
}

/** All but what a new database has too. */
const empty = `
  do $$ declare name text; first bigint; begin
    set local session_replication_role = replica;
    for name in select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
      and relname <> all ('{postal_codes,schema_migrations,erasure_key}')
    loop execute 'delete from ' || name; end loop;
    for name, first in select sequencename, start_value from pg_sequences where schemaname = 'public'
    loop perform setval(name::regclass, first, false); end loop;
  end $$`

/** Databases that rows have left. */
const left: OpenDatabase[] = []
const drops: (() => unknown)[] = []
after(() => Promise.all(drops.map((drop) => drop())))

async function openNew(): Promise<OpenDatabase> {
  const database = await createDatabase({ after: (drop) => drops.push(drop as () => unknown) })
  return database.open()
}

/**
 * For a row of a table, which changes no table or function. If all goes well the next row gets its database, emptied: a new one, and
 * connections that know nothing yet, take more time than most rows.
 */
export async function inHouse<T>(given: Given, work: (house: PushHouse) => Promise<T>): Promise<T> {
  const found = left.pop()
  await found?.pool.query(empty)
  const opened = found ?? (await openNew())
  const receiver = await startTestReceiver(given.answer)
  try {
    const done = await work(await furnish(new PushHouse(opened, receiver), given))
    left.push(opened)
    return done
  } finally {
    await receiver.close()
  }
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
