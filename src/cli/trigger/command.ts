/** `leadpush trigger`: events of leads to the hooks of automation platforms. */
import type { Command } from 'commander'
import { formatCount, idCharsMin, plural, seconds } from '../../base/amounts.ts'
import { apiKeyCharsMin, lostKeptDays } from '../../base/limits.ts'
import type { Database, OpenDatabase } from '../../db/open.ts'
import type { TriggerLine, TriggerSummaryLine } from '../../index.ts'
import type { Vault } from '../../secrets/vault.ts'
import type { LostToRenew } from '../../triggers/lost-triggers.ts'
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
import { readDuration } from '../options.ts'
import { toJsonLine } from '../output.ts'
import { paint } from '../painted.ts'
import type { TriggerMetrics } from './metrics.ts'

interface TriggerOptions {
  again?: true
  hook?: string
  since?: string
  metricsFile?: string
  json?: true
}

/** So many triggers that were not delivered are shown to a person; the rest are counted. */
const shownMax = 50
const progressMs = 10_000

export function addTrigger(program: Command, act: Act): void {
  program
    .command('trigger')
    .description(
      'Send new listings, new prices and listings that went to the hooks of automation platforms, and failed triggers again.',
    )
    .option('--again', 'also send what was abandoned or dropped, for 30 days after that')
    .option('--hook <id>', 'with --again: of this hook alone, as `integrations list` shows it')
    .option('--since <duration>', 'with --again: only what was lost since, such as 2d')
    .option('--metrics-file <file>', "figures for Prometheus, as node exporter's textfile collector reads them")
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush trigger                               for cron, every few minutes
  leadpush leads import listings.csv --trigger   right after an import
  leadpush trigger --again --since 2d            after a platform was down
  leadpush trigger --metrics-file /var/lib/node_exporter/leadpush-trigger.prom

A hook gets each listing once that matches one of its user's queries and was
imported after the hook was registered. If it asked for price_change, it gets
each one whose price changed since the last run; if it asked for lead_gone, each
one that left its complete feed. Later runs try again what failed, after 1, 5
and 30 minutes, 2, 8, 16, 24 and 24 hours. A hook that did not answer in time,
or failed 5 times in a row, gets nothing for a minute, or for as long as its
Retry-After asks. A host gets at most 30 a second. One run sends at a time:
another asks it to look again, and ends.`,
    )
    .action(act(trigger))
}

export const triggerSettings = [
  'leaseMs',
  'maxLeadAgeMs',
  'sameHouse',
  'allowInsecureHooks',
  'hookHosts',
  'keepAnswers',
  'secretKey',
] as const

const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
/** Of a text that may be an API key the beginning is shown. */
const nameOf = (id: string) =>
  id.length < apiKeyCharsMin || uuid.test(id)
    ? JSON.stringify(id)
    : `${JSON.stringify(`${id.slice(0, 4)}…`)} (${id.length} characters)`

/** The id of the one hook that `given` names, by its whole id or the beginning of it. Throws `usage`. */
async function findHook(db: Database, given: string): Promise<string> {
  const { findHookIds } = await import('../../integrations/hooks.ts')
  const [id, another] = await findHookIds(db, given)
  if (id !== undefined && another === undefined) return id
  throw another === undefined
    ? usageError(
        `There is no hook ${nameOf(given)}: an id is a UUID, or its first ${idCharsMin} characters or more.`,
        '`leadpush integrations list` shows them.',
      )
    : usageError(
        `Several hooks have ids that begin with ${nameOf(given)}.`,
        '`leadpush integrations list --json` shows whole ids.',
      )
}

async function trigger(io: CommandIo, options: TriggerOptions): Promise<ExitCode> {
  const since = options.since
  if (!options.again && (since !== undefined || options.hook !== undefined)) {
    throw usageError('--hook and --since go with --again.', '`leadpush trigger --help` has examples.')
  }
  const metrics = await openMetrics(io, options)
  const { readSettings } = await import('../../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'databaseAwayMs', 'logFormat', ...triggerSettings],
    settingsSource(io),
  )
  const sinceMs = since === undefined ? undefined : await readDuration('--since', since, '1s', `${lostKeptDays}d`)
  return await withDatabase(io, settings, { ...inShort, ...waiting(io) }, async (opened) => {
    const vault = await openSecrets(opened.db, settings)
    const hookId = options.hook === undefined ? undefined : await findHook(opened.db, options.hook)
    const again = options.again && { hookId, sinceMs }
    return await sendTriggers(io, opened, settings, { ...options, vault, again, metrics })
  })
}

async function openMetrics(io: CommandIo, options: TriggerOptions): Promise<TriggerMetrics | undefined> {
  if (options.metricsFile === undefined) return undefined
  const { keepMetricsFile } = await import('../metrics-file.ts')
  const { TriggerMetrics } = await import('./metrics.ts')
  const command = options.again ? 'again' : 'trigger'
  return keepMetricsFile(io, options.metricsFile, (before) => new TriggerMetrics(command, before, io.nowMs()))
}

/** Runs `trigger` with everything that a person or a machine sees of it. */
export async function sendTriggers(
  io: CommandIo,
  opened: OpenDatabase,
  settings: {
    leaseMs: number
    maxLeadAgeMs: number
    sameHouse: 'each' | 'once'
    allowInsecureHooks: string | undefined
    hookHosts: string[] | undefined
    keepAnswers: 'on' | 'off'
  },
  {
    vault,
    json,
    again,
    metrics,
  }: { vault: Vault; json?: true | undefined; again?: LostToRenew | undefined; metrics?: TriggerMetrics | undefined },
): Promise<ExitCode> {
  const { runTriggers } = await import('../../triggers/triggers.ts')
  const stop = io.stops.listen((signal) =>
    io.log.info(`${signal}: finishing what is under way and beginning nothing new; a second one stops at once.`),
  )
  let done = 0
  let undelivered = 0
  const progress = setInterval(() => io.log.info(`${plural(done, 'trigger')} sent`), progressMs).unref()
  try {
    const summary = await runTriggers({
      opened,
      vault,
      settings,
      stop: stop.signal,
      again,
      onNote: (text) => io.log.warn(text),
      onOff: () => metrics?.off(),
      onTrigger(line, durationMs) {
        done++
        metrics?.line(line, durationMs)
        const { integration, webhookId, hook, attempts, httpStatus, error } = line
        const what = error === null ? 'trigger delivered' : 'trigger not delivered'
        io.log.detail(what, { integration, hook, webhookId, attempt: attempts, durationMs, httpStatus, error })
        if (json) io.out.writeNow(toJsonLine(line))
        else if (line.status !== 'delivered' && ++undelivered <= shownMax) io.out.lineNow(describe(line))
      },
    })
    metrics?.noteEnd(summary, stop.signal.aborted)
    if (json) await io.out.json(summary)
    else {
      if (undelivered > shownMax)
        await io.out.line(`… and ${formatCount(undelivered - shownMax)} more; --json lists all`)
      await writeSummary(io, summary)
    }
    return stop.exitCode ?? (summary.abandoned > 0 ? 1 : 0)
  } finally {
    clearInterval(progress)
    stop.dispose()
  }
}

function describe({ hook, href, status, attempts, error }: TriggerLine): string {
  const painted = paint(status === 'abandoned' ? 'red' : 'yellow', status)
  return `${href}  ${painted}  hook ${hook}, attempt ${attempts}${error === null ? '' : `: ${error}`}`
}

async function writeSummary(io: CommandIo, summary: TriggerSummaryLine): Promise<void> {
  const { due, delivered, failed, abandoned, removed, dropped, waiting } = summary
  const facts: [string, string][] = [
    ['due', plural(due, 'trigger')],
    ['delivered', paint('green', formatCount(delivered))],
  ]
  if (failed > 0) facts.push(['failed', `${paint('yellow', formatCount(failed))}, to be tried again by later runs`])
  if (abandoned > 0) facts.push(['abandoned', `${paint('red', formatCount(abandoned))} after their last attempt`])
  if (removed > 0) facts.push(['removed', `${formatCount(removed)}: the platform has ended the hook`])
  if (dropped > 0) facts.push(['dropped', `${formatCount(dropped)} beyond the newest of a hook`])
  if (waiting > 0) facts.push(['waiting', `${formatCount(waiting)} for the end of a pause of their hooks`])
  facts.push(['took', seconds(summary.seconds)])
  await io.out.facts(facts)
  if (abandoned > 0) await io.out.line('Which hooks are in trouble, and why: leadpush status')
}
