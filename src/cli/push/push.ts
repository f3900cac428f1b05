/** Deliveries to all users, to one user, after failures, or after an interruption. */
import { plural } from '../../base/amounts.ts'
import { inspectSettings, readProxies, type SettingsSource } from '../../base/config.ts'
import { usageError } from '../../base/errors.ts'
import type { Database, OpenDatabase } from '../../db/open.ts'
import { onCommitsHang } from '../../db/silence.ts'
import { findOpenForcedBy, findPeriod, type RunCommand } from '../../deliveries/runs.ts'
import { createHttp } from '../../http/client.ts'
import { countWithoutLater } from '../../inspect/status/status.ts'
import { countUsersOfPass } from '../../push/database/users-left.ts'
import { tellAll } from '../../push/reporter.ts'
import { type PushRequest, runPush } from '../../push/run-push.ts'
import { badEnds, forcedPass } from '../../push/whom/pass.ts'
import { openVault, type Vault } from '../../secrets/vault.ts'
import { findUser } from '../../users/users.ts'
import { agrees, canAsk } from '../ask.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { boundHeap } from '../heap.ts'
import { keepMetricsFile, type RunFigures } from '../metrics-file.ts'
import { Ping } from './ping.ts'
import type { PushNeed, PushSetting, PushSettings } from './settings.ts'
import { createPushView } from './view.ts'

interface PushOptions {
  all?: true
  user?: string
  resume?: true
  failed?: true
  unknown?: true
  doubtful?: true
  /** For `serve`: sends only owed subscription pushes, to all users or, with `user`, to one. */
  owed?: true
  force?: true
  yes?: true
  limit?: number
  accept?: true
  metricsFile?: string
}

export async function push(
  { io, source, readSettings, open }: AtDatabase<PushSetting, PushNeed>,
  options: PushOptions,
): Promise<ExitCode> {
  // contract 2: a push with --limit is not a whole one, as for `status --check`
  const ping = options.all && options.limit === undefined ? openPing(io, source) : undefined
  // a signal may come before the push listens for it
  const forget = ping && io.ending.before(() => ping.endBroken())
  try {
    const metrics = keepMetricsFile(io, options.metricsFile, 'leadpush_push', commandOf(options))
    readSettings()
    await ping?.start()
    const exitCode = await open(async (opened, settings) => {
      const opening = `Database: ${opened.description}`
      // cron would mail it each hour
      const isQuiet = options.resume && io.stderr.isTTY !== true
      if (!isQuiet) io.log.info(opening)
      const vault = await openVault(opened.db, settings)
      if (options.force && !options.yes) await agreeToForce(io, opened.db, settings, options.limit)
      const { request, notSubscribed } = await findRequest(io, opened.db, options)
      return await sendPush(io, opened, settings, request, {
        vault,
        accept: options.accept,
        metrics,
        ping,
        notSubscribed,
        ...(isQuiet && { opening }),
      })
    })
    forget?.()
    await ping?.end(exitCode)
    return exitCode
  } catch (error) {
    forget?.()
    await ping?.endBroken(error)
    throw error
  }
}

/**
 * Asks a person at a terminal whether so many users shall get a further delivery. A push without a terminal does not wait for an answer.
 */
async function agreeToForce(
  io: CommandIo,
  db: Database,
  settings: { timeZone: string; maxLeadAgeMs: number },
  limit: number | undefined,
): Promise<void> {
  if (!canAsk(io)) return
  const { period } = await findPeriod(db, settings)
  const { free, elsewhere } = await countUsersOfPass(db, forcedPass(period, await findOpenForcedBy(db, period)))
  const users = Math.min(free + elsewhere, limit ?? Number.POSITIVE_INFINITY)
  if (users === 0) return
  const what = `${plural(users, 'user')} who had theirs in ${period} would get a further delivery, with a new key.`
  if (await agrees(io, what, 'Send them?')) return
  throw usageError('Nothing was sent: nobody agreed.', 'With --yes it does not ask; without --force nobody gets two.')
}

function commandOf({ all, force, resume, failed, user }: PushOptions): RunCommand {
  if (all) return force ? 'force' : 'all'
  if (resume) return 'resume'
  if (failed) return 'failed'
  return user === undefined ? 'owed' : 'user'
}

/** The order for the push. `notSubscribed`: the user whom `push --failed` would not serve. */
async function findRequest(
  io: CommandIo,
  db: Database,
  options: PushOptions,
): Promise<{ request: PushRequest; notSubscribed?: string }> {
  if (options.all) return { request: { what: 'all', force: options.force ?? false, limit: options.limit } }
  if (options.resume) return { request: { what: 'resume' } }
  if (options.failed) return { request: { what: 'failed', ends: badEnds(options) } }
  if (options.user === undefined) return { request: { what: 'owed' } }
  const { user, owed, subscribed } = await findUser(db, options.user)
  if (options.owed) return { request: { what: 'user', user, owed, owedOnly: true } }
  const request: PushRequest = { what: 'user', user, owed }
  if (subscribed) return { request }
  io.log.info(`${user.email} is not subscribed to the lead push: sending all the same.`)
  return { request, notSubscribed: user.email }
}

interface PushContext {
  vault: Vault
  accept?: true | undefined
  metrics?: RunFigures | undefined
  ping?: Ping | undefined
  /** The user whom `push --failed` would not serve. */
  notSubscribed?: string | undefined
  /** What it says before the first thing that happens, if anything does. */
  opening?: string | undefined
}

/** Runs a push with its output: lines, progress, log and metrics. */
export async function sendPush(
  io: CommandIo,
  { db, patience }: Pick<OpenDatabase, 'db' | 'patience'>,
  settings: PushSettings,
  request: PushRequest,
  { vault, accept, metrics, ping, notSubscribed, opening }: PushContext,
): Promise<ExitCode> {
  boundHeap()
  const http = createHttp(settings)
  const single = request.what === 'user' && !request.further
  const view = await createPushView(io, { single, notSubscribed, opening })
  const stop = io.stops.listen((signal) => {
    view.reporter.waits('what is under way')
    io.log.info(
      `${signal}: finishing the attempts under way, and beginning nothing new; a second signal stops at once.`,
    )
  })
  patience.listener = {
    onAway(text) {
      view.reporter.waits('the database')
      view.reporter.note(text)
    },
    onBack() {
      view.reporter.waits(undefined)
      view.reporter.note('The database answers again: going on.')
    },
  }
  const forget = onCommitsHang((hangs) => {
    view.reporter.waits(hangs ? 'a synchronous standby' : undefined)
    view.reporter.note(hangs ? 'Commits wait for a synchronous standby.' : 'Commits go on: the standby answers.')
  })
  try {
    const reporter = tellAll(view.reporter, ...[metrics, ping].filter((each) => each !== undefined))
    const end = await runPush({ db, http, vault, settings, request, accept, reporter, stop: stop.signal })
    // whoever is asked to accept what holds a push hears of doubtful deliveries of earlier ones first
    if (end.guard || end.heldUsers > 0)
      end.doubtful ||= (await countWithoutLater(db, end.summary.period)).doubtfulWithoutLater
    metrics?.end({ ...end.summary, held: end.held }, end.cameToEnd)
    ping?.noteEnd(end)
    await view.end(end)
    return stop.exitCode ?? (end.ok ? 0 : 1)
  } finally {
    forget()
    await http.close()
  }
}

/** Uses only its own settings: it also reports other settings that are bad. */
function openPing(io: CommandIo, source: SettingsSource): Ping | undefined {
  const { pingUrl, pingBody = 'off' } = inspectSettings(['pingUrl', 'pingBody'], source).settings
  if (pingUrl === undefined) return undefined
  let proxies = {}
  try {
    proxies = readProxies(source)
  } catch {
    // the push tells of it
  }
  return new Ping(io.log, { pingUrl, pingBody, proxies })
}
