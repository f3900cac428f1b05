/** `leadpush prune`: deletes what is old and needed no more. */
import type { Command } from 'commander'
import type { OpenDatabase } from '../db/open.ts'
import type { PruneCounts, PrunedPart } from '../prune/prune.ts'
import { type Act, type ExitCode, usageError, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { count, isLively, writeFacts, writeJson } from './output.ts'
import { listenForStop } from './signals.ts'

interface PruneOptions {
  olderThan: string
  json?: true
}

const olderThanDaysMax = 36_500

const names: Record<PrunedPart, string> = {
  deliveries: 'deliveries',
  claims: 'claims',
  runs: 'runs',
  workers: 'processes',
  leads: 'listings',
  versions: 'old versions',
  imports: 'imports',
  searches: 'searches',
  receiverDeliveries: 'received',
}

export function addPrune(program: Command, act: Act): void {
  program
    .command('prune')
    .description('Delete old deliveries, stale listings and what only they needed; never what is still owed.')
    .requiredOption('--older-than <duration>', 'what is older goes: a number and a unit, such as 90d')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  leadpush prune --older-than 90d        for cron, monthly

Listings that were seen within LEADPUSH_MAX_LEAD_AGE stay, and so does what keeps a
user from a second weekly delivery. It may run beside pushes and imports.`,
    )
    .action(act(runPrune))
}

async function runPrune(log: Log, options: PruneOptions): Promise<ExitCode> {
  const { parseDuration, processSource, readSettings } = await import('../config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'maxLeadAgeMs', 'logFormat'], processSource())
  const olderThanMs = parseDuration(options.olderThan) ?? 0
  if (!(olderThanMs > 0 && olderThanMs <= olderThanDaysMax * 86_400_000)) {
    throw usageError(
      `--older-than: holds ${JSON.stringify(options.olderThan)}; allowed: a number with a unit (ms, s, m, h, d) above 0, up to ${olderThanDaysMax}d, such as 90d`,
    )
  }
  return await withDatabase(settings, {}, (opened) => pruneAndTell(log, opened, { ...settings, olderThanMs }, options))
}

async function pruneAndTell(
  log: Log,
  opened: OpenDatabase,
  settings: { olderThanMs: number; maxLeadAgeMs: number },
  { json }: PruneOptions,
): Promise<ExitCode> {
  const { prune } = await import('../prune/prune.ts')
  const { tidyTables } = await import('../db/tidy.ts')
  const { default: ora } = isLively() && log.format === 'pretty' ? await import('ora') : { default: undefined }
  const spinner = ora?.({ stream: process.stderr, discardStdin: false })
  const stop = listenForStop((signal) => log.info(`${signal}: ending after what is under way.`))
  try {
    const counts = await prune(opened.db, {
      ...settings,
      stop: stop.signal,
      onPart: (part) => void spinner?.start(`Looking for old ${names[part]}`),
      onAway: () => log.warn('The database is away: waiting for it, for 30 s at most.'),
    })
    spinner?.stop()
    // elsewhere autovacuum does it, and knows better when
    if (opened.embedded && !stop.signal.aborted) {
      await tidyTables(opened, ['deliveries', 'claims'], counts.deliveries + counts.claims)
      await tidyTables(opened, ['leads', 'lead_seen', 'lead_versions'], counts.leads + counts.versions)
    }
    if (json) await writeJson({ type: 'prune', ...counts })
    else await writeCounts(counts)
    return stop.exitCode ?? 0
  } finally {
    spinner?.stop()
    stop.dispose()
  }
}

async function writeCounts(counts: PruneCounts): Promise<void> {
  const facts = (Object.keys(names) as PrunedPart[]).map((part) => [names[part], count(counts[part])] as const)
  await writeFacts(facts)
}
