/** Serves the inbound endpoints for automation platforms until it is told to stop. */

import { buildChildEnvironment } from '../base/config.ts'
import { hookRulesOf } from '../integrations/hook-address.ts'
import { openVault } from '../secrets/vault.ts'
import { type PushProcessEnd, type RequestEntry, startServer } from '../server/start-server.ts'
import type { CommandIo } from './command-io.ts'
import type { AtDatabase, ExitCode } from './describe.ts'
import { logError } from './log.ts'
import type { PushNeed, PushSetting } from './push/settings.ts'

/** A connection of the pool is given up after so long without a word from the database; requests that wait for it are answered. */
const databaseSilentMsMax = 4_000
const connectionsMax = 8
/** Requests are not kept for longer than this, even if LEADPUSH_DATABASE_AWAY is longer. */
const databaseAwayMsMax = 30_000
/** contract 5.6: 10 s, with something to spare. */
const endMsMax = 8_500

type Setting = PushSetting | 'automation' | 'host' | 'port' | 'limitAddress' | 'limitKey' | 'trustProxy' | HookSetting
type HookSetting = 'allowInsecureHooks' | 'hookHosts'

export async function serve({ io, open, readSettings }: AtDatabase<Setting, PushNeed>): Promise<ExitCode> {
  const awayMsMax = Math.min(databaseAwayMsMax, readSettings().databaseAwayMs)
  const limits = { silentMsMax: databaseSilentMsMax, connectionsMax, awayMsMax }
  return await open(async ({ db, hasty, patience, description }, settings) => {
    io.log.info(`Database: ${description}`)
    // needed by the processes of subscription pushes, which would only fail; a request needs no secret
    await openVault(db, settings)
    if (settings.allowInsecureHooks) {
      io.log.warn('LEADPUSH_ALLOW_INSECURE_HOOKS is set: hook URLs may lead anywhere. For development only.')
    }
    const stopped = new Promise<NodeJS.Signals>((resolve) => void io.stops.listen(resolve))
    const server = await startServer({
      ...settings,
      db: hasty,
      hookRules: hookRulesOf(settings),
      childEnv: buildChildEnvironment(io.env, io.log.format),
      onRequest: (entry) => logRequest(io, entry),
      onPushEnded: (userId, end) => logPush(io, userId, end),
      onPushLine: (line) => io.log.line(line),
      onNote: (text) => io.log.info(text),
      onWarning: (text) => io.log.warn(text),
      onTrouble: (error) => logError(io.log, patience.asTold(error)),
    })
    await io.out.line(`leadpush serve listening on ${server.url}`)
    const signal = await stopped
    io.log.info(`${signal}: answering the requests under way; a second signal stops at once.`)
    // a database that is away must not hold it up
    setTimeout(() => void io.ending.begin(0), endMsMax).unref()
    await server.close(signal)
    return 0
  }, limits)
}

function logRequest(io: CommandIo, { method, route, status, durationMs, integration, address }: RequestEntry): void {
  const fields = { method, route, status, durationMs: Math.round(durationMs * 10) / 10, integration, address }
  // in one write with requests that are answered at the same moment
  if (io.log.format === 'json') io.log.detail('request', fields)
  else {
    io.log.info(
      `${method} ${route} ${status}, ${fields.durationMs} ms, ${address}${integration === undefined ? '' : `, integration ${integration}`}`,
    )
  }
}

function logPush(io: CommandIo, userId: number | undefined, { exitCode, outcome }: PushProcessEnd): void {
  const ended = outcome ?? (exitCode === 0 ? 'nothing was owed any more' : 'nothing was sent')
  const message =
    userId === undefined
      ? `The subscription pushes of a long line ended: ${ended}.`
      : `The subscription push of user ${userId} ended: ${ended}.`
  const fields = { ...(userId !== undefined && { userId }), exitCode }
  if (exitCode === 0) io.log.info(message, fields)
  else io.log.warn(`${message} Its process ended with ${exitCode ?? 'a signal'}.`, fields)
}
