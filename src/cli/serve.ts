/** `leadpush serve`: the inbound endpoints for automation platforms, until it is told to stop. */

import type { Command } from 'commander'
import type { PushProcessEnd, RequestEntry } from '../server/start-server.ts'
import { type Act, type ExitCode, openSecrets, settingsSource, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { logError } from './log.ts'
import { pushNeeds, pushSettingNames } from './push/command.ts'

/** A connection of the pool on which the database is silent for so long is given up, and whoever waits for it answered. */
const databaseSilentMsMax = 4_000
const connectionsMax = 8
/** Requests are not kept for longer than this, whatever LEADPUSH_DATABASE_AWAY says. */
const databaseAwayMsMax = 30_000
/** contract 5.6: 10 s, with something to spare. */
const endMsMax = 8_500

interface ServeOptions {
  host?: string
  port?: string
}

export function addServe(program: Command, act: Act): void {
  program
    .command('serve')
    .description('Serve the endpoints that automation platforms test, subscribe and unsubscribe with.')
    .option('--host <address>', 'where to listen (127.0.0.1)')
    .option('--port <port>', 'on which port; 0 takes a free one (8080)')
    .addHelpText(
      'after',
      `
Examples:
  leadpush serve
  LEADPUSH_TRUST_PROXY=127.0.0.1 leadpush serve --port 9000

serve speaks plain HTTP: put a proxy with TLS before it, which forwards only
/api/extern/. /healthz, /readyz, /metrics and /openapi.json are for inside.`,
    )
    .action(act(serve))
}

async function readServeSettings(io: CommandIo, options: ServeOptions) {
  const { readProxies, readSettings, readTogether } = await import('../base/config.ts')
  const flags = {
    ...(options.host !== undefined && { host: { flag: '--host', value: options.host } }),
    ...(options.port !== undefined && { port: { flag: '--port', value: options.port } }),
  }
  const source = settingsSource(io, flags)
  const names = [
    ...pushSettingNames,
    ...([
      'automation',
      'host',
      'port',
      'limitAddress',
      'limitKey',
      'trustProxy',
      'allowInsecureHooks',
      'hookHosts',
    ] as const),
  ] as const
  // what pushes need is checked here too: their processes would only fail
  const [settings] = readTogether(
    () => readSettings(names, source, pushNeeds),
    () => readProxies(source),
  )
  return settings
}

async function serve(io: CommandIo, options: ServeOptions): Promise<ExitCode> {
  const settings = await readServeSettings(io, options)
  const { buildChildEnvironment } = await import('../base/config.ts')
  const { asDatabaseError } = await import('../db/away.ts')
  const { hookRulesOf } = await import('../integrations/hook-address.ts')
  const { startServer } = await import('../server/start-server.ts')
  const awayMsMax = Math.min(databaseAwayMsMax, settings.databaseAwayMs)
  const limits = { silentMsMax: databaseSilentMsMax, connectionsMax, awayMsMax }
  return await withDatabase(io, settings, limits, async ({ db, description }) => {
    io.log.info(`Database: ${description}`)
    // for the processes of subscription pushes, which would only fail; a request needs no secret
    await openSecrets(db, settings)
    if (settings.allowInsecureHooks) {
      io.log.warn('LEADPUSH_ALLOW_INSECURE_HOOKS is set: hook URLs may lead anywhere. For development only.')
    }
    let told: (signal: NodeJS.Signals) => void = () => {}
    const stopped = new Promise<NodeJS.Signals>((resolve) => {
      told = resolve
    })
    const stop = io.stops.listen((signal) => told(signal))
    const server = await startServer({
      ...settings,
      db,
      hookRules: hookRulesOf(settings),
      childEnv: buildChildEnvironment(io.env, io.log.format),
      onRequest: (entry) => logRequest(io, entry),
      onPushEnded: (userId, end) => logPush(io, userId, end),
      onPushLine: (line) => io.log.line(line),
      onNote: (text) => io.log.info(text),
      onWarning: (text) => io.log.warn(text),
      onTrouble: (error) => logError(io.log, asDatabaseError(error)),
    })
    await io.out.line(`leadpush serve listening on ${server.url}`)
    const signal = await stopped
    io.log.info(`${signal}: answering what is under way; a second one stops at once.`)
    // a database that is away must not hold it up
    setTimeout(() => void io.ending.begin(0), endMsMax).unref()
    await server.close(signal)
    stop.dispose()
    return 0
  })
}

function logRequest(io: CommandIo, { method, route, status, durationMs, integration, address }: RequestEntry): void {
  const fields = { method, route, status, durationMs: Math.round(durationMs * 10) / 10, integration, address }
  // in one write with those that are answered at the same moment
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
