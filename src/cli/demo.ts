/**
 * The main job end to end without setting anything up: a throw-away database, the sample listings and users, a strict receiver on
 * loopback, a push, and what arrived. Leaves nothing behind.
 */
import { join } from 'node:path'
import { bytes, formatCount, plural, seconds } from '../base/amounts.ts'
import { packageRoot } from '../base/package-root.ts'
import { numberColumns } from '../base/table.ts'
import { startThrowAway } from '../db/embedded/throw-away.ts'
import { migrate } from '../db/migrate.ts'
import type { OpenDatabase } from '../db/open.ts'
import { createHttp } from '../http/client.ts'
import { importLeads } from '../leads/import.ts'
import { runPush } from '../push/run-push.ts'
import { startReceiver } from '../receiver-kit/receiver/receiver.ts'
import { importUsers } from '../users/import.ts'
import type { CommandIo } from './command-io.ts'
import { withDatabase } from './database.ts'
import type { At, ExitCode } from './describe.ts'
import { paint } from './painted.ts'
import { createPushView } from './push/view.ts'

const sample = (file: string) => join(packageRoot, 'demo', file)

export async function demo({ io, readSettings }: At): Promise<ExitCode> {
  readSettings()
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: cleaning up.`))
  const say = async (...texts: string[]) => {
    if (!io.out.isJson) await io.out.line(...texts)
  }
  try {
    await say(paint('bold', 'leadpush demo: listings in, each user’s weekly delivery out'))
    const server = await startThrowAway()
    try {
      if (stop.exitCode !== undefined) return stop.exitCode
      const settings = { databaseUrl: server.url, home: server.home }
      await say('1. A throw-away PostgreSQL is running; its schema is in place.')
      const exitCode = await withDatabase(io, settings, { create: true, schema: 'any' }, async (opened) => {
        await migrate(opened.db)
        return await deliver(io, opened, stop.signal, say)
      })
      return stop.exitCode ?? exitCode
    } finally {
      await server.leave()
    }
  } catch (error) {
    // a signal to the whole group may end a program of the server just as it starts
    if (stop.exitCode === undefined) throw error
    return stop.exitCode
  }
}

async function deliver(
  io: CommandIo,
  opened: OpenDatabase,
  stop: AbortSignal,
  say: (...texts: string[]) => Promise<void>,
): Promise<ExitCode> {
  const leads = await importLeads(opened, [sample('leads.csv')], { signal: stop })
  const users = await importUsers(opened, [sample('users.json')], { signal: stop })
  if (stop.aborted) return 1
  await say(
    `2. Imported ${plural(leads.summary.inserted, 'listing')} from demo/leads.csv and ${plural(users.summary.inserted, 'user')} from demo/users.json.`,
  )

  const arrived: string[][] = []
  const receiver = await startReceiver({
    db: opened,
    host: '127.0.0.1',
    port: 0,
    onDelivery: ({ status, msg, queries, leads: received, bytes: length }) => {
      arrived.push([String(status), formatCount(queries), formatCount(received), bytes(length), msg])
    },
  })
  await say(`3. A strict receiver listens on ${receiver.url}; pushing…`, '')
  const http = createHttp({ timeoutMs: 10_000, concurrency: 16 })
  const view = await createPushView(io, { single: true })
  try {
    const end = await runPush({
      db: opened.db,
      http,
      stop,
      request: { what: 'all', force: false, limit: undefined },
      reporter: view.reporter,
      settings: {
        receiverUrl: receiver.url,
        dataSource: 'leadpush-demo',
        timeoutMs: 10_000,
        retryDelayMs: 500,
        concurrency: 16,
        ratePerSecond: undefined,
        outageMs: 0,
        leaseMs: 60_000,
        timeZone: 'UTC',
        maxLeadAgeMs: 30 * 86_400_000,
        sameHouse: 'each',
        guard: 'on',
        compress: 'off',
      },
    })
    io.progress.stop()
    if (io.out.isJson) await io.out.json(end.summary)
    else if (!end.stopped) await tell(io, end.summary, arrived)
    return end.ok ? 0 : 1
  } finally {
    await http.close()
    await receiver.close()
  }
}

async function tell(
  io: CommandIo,
  summary: { delivered: number; leads: number; seconds: number },
  arrived: readonly (readonly string[])[],
): Promise<void> {
  await io.out.line(
    '',
    `4. What arrived: ${plural(summary.delivered, 'request')} with ${plural(summary.leads, 'lead')} in ${seconds(summary.seconds)}.`,
    '',
  )
  await io.out.table({
    columns: [{ head: 'status' }, ...numberColumns('queries', 'leads', 'bytes'), { head: 'answer', wide: true }],
    rows: arrived,
  })
  const leadpush = io.program.endsWith('.js') ? 'node bin/leadpush.js' : 'leadpush'
  await io.out.line(
    '',
    'Nothing of this is left. Next, with data of your own:',
    `  ${leadpush} leads import LISTINGS.csv --map href=url --map postalCode=zip`,
    `  ${leadpush} users import USERS.json`,
    `  ${leadpush} preview`,
    `  LEADPUSH_RECEIVER_URL=https://… ${leadpush} push --all --limit 5`,
    `  ${leadpush} push --help`,
  )
}
