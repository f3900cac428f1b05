/** `leadpush push`: deliveries to all users, to one user, after failures, or after an interruption. */
import { type Command, Option } from 'commander'
import { plural } from '../../base/amounts.ts'
import type { Database } from '../../db/open.ts'
import type { PushRequest } from '../../push/run-push.ts'
import type { Vault } from '../../secrets/vault.ts'
import { agrees, canAsk } from '../ask.ts'
import {
  type Act,
  type ExitCode,
  inShort,
  openSecrets,
  settingsSource,
  usageError,
  waiting,
  withDatabase,
} from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { boundHeap } from '../heap.ts'
import { parseCount } from '../options.ts'
import type { PushMetrics } from './metrics.ts'
import type { Ping } from './ping.ts'

export interface PushOptions {
  all?: true
  user?: string
  resume?: true
  failed?: true
  unknown?: true
  /** For `serve`: sends only what is owed by subscribing, to all users or, with `user`, to one. */
  owed?: true
  /** Other tools have it: the error points to `preview`. */
  dryRun?: true
  force?: true
  yes?: true
  limit?: number
  accept?: true
  concurrency?: string
  rate?: string
  metricsFile?: string
  json?: true
}

export function addPush(program: Command, act: Act): void {
  program
    .command('push')
    .description('Send deliveries to the receiver, and record how each ended.')
    .optionsGroup('Whom:')
    .option('--all', 'the weekly delivery, to every subscribed user who has none in this period yet')
    .option('--force', 'with --all: also a further delivery for those who had theirs')
    .option('--limit <n>', 'with --all: serve this many users, then end', parseCount)
    .option('--user <email>', 'one user, now')
    .option('--resume', 'go on with interrupted deliveries and runs, and send subscription pushes that are owed')
    .option('--failed', 'a further delivery for users whose delivery of this period failed')
    .option('--unknown', 'with --failed: also for deliveries that may have arrived')
    .addOption(new Option('--owed', 'only what is owed by subscribing; with --user: to that user').hideHelp())
    .addOption(new Option('--dry-run', 'what `preview` does').hideHelp())
    .optionsGroup('How:')
    .option('--accept', 'send what is held back: by the guard, by trouble of the receiver, or by another time zone')
    .option('--yes', 'with --force: go on without asking first')
    .option('--concurrency <n>', 'requests under way at once (LEADPUSH_CONCURRENCY)')
    .option('--rate <n>', 'attempts a second at most (LEADPUSH_RATE)')
    .optionsGroup('Output:')
    .option('--json', 'print one JSON object a line')
    .option('--metrics-file <file>', "figures for Prometheus, as node exporter's textfile collector reads them")
    .addHelpText(
      'after',
      `
Examples:
  leadpush push --all                    for cron, weekly; nobody gets two
  leadpush push --all --limit 5          a careful beginning
  leadpush push --user user@example.com  one user, also outside the week
  leadpush push --resume                 after a crash or stop; for cron, hourly
  leadpush push --failed                 once the receiver is repaired
  leadpush push --all --accept           once you know that it is right
  leadpush push --all --metrics-file /var/lib/node_exporter/leadpush-all.prom

On a terminal --force says how many users would get a further delivery, and
asks.

Give each line of a crontab a metrics file of its own, which ends in .prom. It
is replaced as a whole twice a minute, and when the run ends.`,
    )
    .action(act(push))
}

function checkOptions(options: PushOptions): void {
  if (options.dryRun)
    throw usageError(
      'Nothing was sent: `leadpush preview` is the dry run of a push.',
      'It shows what `push --all` would send now; with --user EMAIL, --force or --failed what that would.',
    )
  const forms = [
    options.all && '--all',
    options.user !== undefined && '--user',
    options.resume && '--resume',
    options.failed && '--failed',
    options.owed && options.user === undefined && '--owed',
  ]
  const given = forms.filter((form) => typeof form === 'string')
  if (given.length === 0)
    throw usageError('What shall be pushed?', 'Give one of --all, --user EMAIL, --resume, --failed.')
  if (given.length > 1) throw usageError(`${given.join(' and ')} exclude each other.`, 'Give one of them.')
  if (options.force && !options.all) throw usageError('--force goes with --all only.')
  if (options.yes && !options.force) throw usageError('--yes goes with --all --force only.')
  if (options.limit !== undefined && !options.all) throw usageError('--limit goes with --all only.')
  if (options.unknown && !options.failed) throw usageError('--unknown goes with --failed only.')
}

export const pushSettingNames = [
  'databaseUrl',
  'home',
  'databaseAwayMs',
  'receiverUrl',
  'clientCert',
  'clientKey',
  'dataSource',
  'concurrency',
  'ratePerSecond',
  'timeoutMs',
  'retryDelayMs',
  'outageMs',
  'compress',
  'keepAnswers',
  'leaseMs',
  'guard',
  'maxLeadAgeMs',
  'sameHouse',
  'timeZone',
  'secretKey',
  'logFormat',
  'pingUrl',
  'pingBody',
] as const

export const pushNeeds = {
  receiverUrl:
    'a push needs to know where to send: the full URL of the receiver, such as https://receiver.example/leads',
}

export async function readPushSettings(io: CommandIo, options: Pick<PushOptions, 'concurrency' | 'rate'>) {
  const { readProxies, readSettings, readTogether } = await import('../../base/config.ts')
  const flags = {
    ...(options.concurrency !== undefined && { concurrency: { flag: '--concurrency', value: options.concurrency } }),
    ...(options.rate !== undefined && { ratePerSecond: { flag: '--rate', value: options.rate } }),
  }
  const source = settingsSource(io, flags)
  const [settings, proxies] = readTogether(
    () => readSettings(pushSettingNames, source, pushNeeds),
    () => readProxies(source),
  )
  return { ...settings, receiverUrl: settings.receiverUrl ?? '', proxies }
}

async function push(io: CommandIo, options: PushOptions): Promise<ExitCode> {
  checkOptions(options)
  // contract 2: a push of a part is no whole one, as `status --check` has it
  const ping = options.all && options.limit === undefined ? await openPing(io) : undefined
  // a signal that comes before the push listens for it
  const forget = ping && io.ending.before(() => ping.endStopped())
  try {
    const metrics = await openMetrics(io, options)
    const settings = await readPushSettings(io, options)
    await ping?.start()
    const exitCode = await withDatabase(io, settings, { ...inShort, ...waiting(io) }, async (opened) => {
      io.log.info(`Database: ${opened.description}`)
      const vault = await openSecrets(opened.db, settings)
      if (options.force && !options.yes) await agreeToForce(io, opened.db, settings, options.limit)
      const { request, again } = await findRequest(io, opened.db, options)
      return await sendPush(io, opened, settings, request, { ...options, vault, metrics, ping, again })
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

/** Asks a person at a terminal whether so many users shall get a further delivery; a push without a terminal is not held up. */
async function agreeToForce(
  io: CommandIo,
  db: Database,
  settings: { timeZone: string; maxLeadAgeMs: number },
  limit: number | undefined,
): Promise<void> {
  if (!canAsk(io)) return
  const { findPeriod } = await import('../../deliveries/runs.ts')
  const { countUsersOfPass } = await import('../../push/database/users-left.ts')
  const { forcedPass } = await import('../../push/whom/pass.ts')
  const { period } = await findPeriod(db, settings)
  const { free, held } = await countUsersOfPass(db, forcedPass(period))
  const users = Math.min(free + held, limit ?? Number.POSITIVE_INFINITY)
  if (users === 0) return
  const what = `${plural(users, 'user')} who had theirs in ${period} would get a further delivery, with a new key.`
  if (await agrees(io, what, 'Send them?')) return
  throw usageError(
    'Nothing was sent: it was not agreed to.',
    'With --yes it does not ask; without --force nobody gets two.',
  )
}

async function openMetrics(io: CommandIo, options: PushOptions): Promise<PushMetrics | undefined> {
  if (options.metricsFile === undefined) return undefined
  const { keepMetricsFile } = await import('../metrics-file.ts')
  const { PushMetrics } = await import('./metrics.ts')
  const command = options.all
    ? options.force
      ? 'force'
      : 'all'
    : options.resume
      ? 'resume'
      : options.failed
        ? 'failed'
        : options.user === undefined
          ? 'owed'
          : 'user'
  return keepMetricsFile(io, options.metricsFile, (before) => new PushMetrics(command, before, io.nowMs()))
}

/** What is asked for. `again`: the command for what failed, where `push --failed` would not serve the user. */
async function findRequest(
  io: CommandIo,
  db: Database,
  options: PushOptions,
): Promise<{ request: PushRequest; again?: string }> {
  if (options.all) return { request: { what: 'all', force: options.force ?? false, limit: options.limit } }
  if (options.resume) return { request: { what: 'resume' } }
  if (options.failed) return { request: { what: 'failed', unknown: options.unknown ?? false } }
  if (options.user === undefined) return { request: { what: 'owed' } }
  const { findUser } = await import('../../users/users.ts')
  const { user, owed, subscribed } = await findUser(db, options.user)
  if (options.owed) return { request: { what: 'user', user, owed, owedOnly: true } }
  const request: PushRequest = { what: 'user', user, owed }
  if (subscribed) return { request }
  io.log.info(`${user.email} is not subscribed to the lead push: sending all the same.`)
  return { request, again: `push --user ${user.email}` }
}

/** Runs a push with its output: lines, progress, log and metrics. */
export async function sendPush(
  io: CommandIo,
  opened: { db: Database },
  settings: Awaited<ReturnType<typeof readPushSettings>>,
  request: PushRequest,
  options: {
    vault: Vault
    json?: true
    accept?: true
    metrics?: PushMetrics | undefined
    ping?: Ping | undefined
    again?: string | undefined
  },
): Promise<ExitCode> {
  await boundHeap()
  const { onCommitsHang } = await import('../../db/silence.ts')
  const { createHttp } = await import('../../http/client.ts')
  const { runPush } = await import('../../push/run-push.ts')
  const { tellAll } = await import('../../push/reporter.ts')
  const { createPushView } = await import('./view.ts')
  const http = createHttp(settings)
  const view = await createPushView(io, {
    json: options.json ?? false,
    single: request.what === 'user' && !request.further,
    again: options.again,
  })
  const stop = io.stops.listen((signal) => {
    view.reporter.waits('what is under way')
    io.log.info(`${signal}: finishing what is under way and beginning nothing new; a second one stops at once.`)
  })
  const forget = onCommitsHang((hangs) => view.reporter.waits(hangs ? 'a synchronous standby' : undefined))
  try {
    const { db } = opened
    const { vault, metrics, ping } = options
    const reporter = tellAll(view.reporter, ...[metrics, ping?.reporter].filter((each) => each !== undefined))
    const end = await runPush({
      db,
      http,
      vault,
      settings,
      request,
      accept: options.accept,
      reporter,
      stop: stop.signal,
    })
    metrics?.noteEnd(end)
    await view.end(end.summary, end)
    return stop.exitCode ?? (end.ok ? 0 : 1)
  } finally {
    view.stop()
    forget()
    stop.dispose()
    await http.close()
  }
}

/** Goes by its own settings alone: it tells of others that are bad too. */
async function openPing(io: CommandIo): Promise<Ping | undefined> {
  const { inspectSettings, readProxies } = await import('../../base/config.ts')
  const source = settingsSource(io)
  const { pingUrl, pingBody = 'off' } = inspectSettings(['pingUrl', 'pingBody'], source).settings
  if (pingUrl === undefined) return undefined
  const { Ping } = await import('./ping.ts')
  let proxies = {}
  try {
    proxies = readProxies(source)
  } catch {
    // the push tells of it
  }
  return new Ping(io.log, { pingUrl, pingBody, proxies })
}
