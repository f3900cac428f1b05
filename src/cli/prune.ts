/** `leadpush prune`: deletes what is old and needed no more. */
import type { Command } from 'commander'
import { formatCount } from '../base/amounts.ts'
import { messageOf } from '../base/errors.ts'
import type { OpenDatabase } from '../db/open.ts'
import type { PruneCounts, PrunedPart } from '../upkeep/prune/prune.ts'
import { type Act, type ExitCode, settingsSource, usageError, waiting, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'

interface PruneOptions {
  olderThan: string
  dryRun?: true
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
  events: 'changes of listings',
  imports: 'imports',
  searches: 'searches',
  triggers: 'triggers',
  receiverDeliveries: 'received',
}

export function addPrune(program: Command, act: Act): void {
  program
    .command('prune')
    .description('Delete old deliveries, stale listings and what only they needed; never what is still owed.')
    .requiredOption('--older-than <duration>', 'delete what is older: a number and a unit, such as 90d')
    .option('--dry-run', 'delete nothing; tell what would be deleted')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  leadpush prune --older-than 90d        for cron, monthly
  leadpush prune --older-than 90d --dry-run

Listings that were seen within LEADPUSH_MAX_LEAD_AGE stay, and so does what
keeps a user from a second weekly delivery. At the end it rebuilds the indexes
of tables that lost half of their rows. It may run beside pushes and imports.`,
    )
    .action(act(runPrune))
}

async function runPrune(io: CommandIo, options: PruneOptions): Promise<ExitCode> {
  const { readSettings } = await import('../base/config.ts')
  const { parseDuration } = await import('../base/setting-values.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'databaseAwayMs', 'maxLeadAgeMs', 'logFormat'],
    settingsSource(io),
  )
  const olderThanMs = parseDuration(options.olderThan) ?? 0
  if (!(olderThanMs > 0 && olderThanMs <= olderThanDaysMax * 86_400_000)) {
    throw usageError(
      `--older-than: holds ${JSON.stringify(options.olderThan)}; allowed: a number with a unit (ms, s, m, h, d) above 0, up to ${olderThanDaysMax}d, such as 90d`,
    )
  }
  return await withDatabase(io, settings, waiting(io), (opened) =>
    pruneAndTell(io, opened, { ...settings, olderThanMs }, options),
  )
}

async function pruneAndTell(
  io: CommandIo,
  opened: OpenDatabase,
  settings: { olderThanMs: number; maxLeadAgeMs: number },
  { json, dryRun = false }: { json?: true; dryRun?: boolean },
): Promise<ExitCode> {
  const { formatAwayMax, rideOut } = await import('../db/away.ts')
  const { countDeleted, prune } = await import('../upkeep/prune/prune.ts')
  const { findIndexes, findRows, findThinned, rebuildIndexes } = await import('../db/indexes.ts')
  const spinner = await io.out.openSpinner(io.log.format, json)
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: ending after what is under way.`))
  try {
    const rows = await rideOut(() => findRows(opened.db))
    const counts = await prune(opened.db, {
      ...settings,
      dryRun,
      stop: stop.signal,
      onPart: (part) => void spinner?.start(`Looking for old ${names[part]}`),
      onAway: () => io.log.warn(`The database is away: waiting for it, for ${formatAwayMax()} at most.`),
    })
    if (!dryRun && !stop.signal.aborted) await tidy(opened, counts)
    const tables = findThinned(rows, countDeleted(counts))
    const indexes = dryRun
      ? await findIndexes(opened.db, tables)
      : await rebuildIndexes(opened, tables, {
          stop: stop.signal,
          onIndex: (name) => void spinner?.start(`Rebuilding ${name}`),
          onTrouble: (what, error) => io.log.warn(`While ${what}: ${messageOf(error)}.`),
        })
    spinner?.stop()
    if (json) {
      const rebuilt = indexes.length > 0 && { rebuilt: indexes }
      await io.out.json({ type: 'prune', ...(dryRun && { dryRun }), ...counts, indexes: indexes.length, ...rebuilt })
    } else await writeCounts(io, counts, indexes, dryRun)
    return stop.exitCode ?? 0
  } finally {
    spinner?.stop()
    stop.dispose()
  }
}

/** Elsewhere autovacuum does it, and knows better when. */
async function tidy(opened: OpenDatabase, counts: PruneCounts): Promise<void> {
  if (!opened.embedded) return
  const { tidyTables } = await import('../db/tidy.ts')
  await tidyTables(opened, ['deliveries', 'claims'], counts.deliveries + counts.claims)
  await tidyTables(opened, ['leads', 'lead_seen', 'lead_sources', 'lead_versions'], counts.leads + counts.versions)
}

async function writeCounts(
  io: CommandIo,
  counts: PruneCounts,
  indexes: readonly string[],
  dryRun: boolean,
): Promise<void> {
  if (dryRun) await io.out.line('Nothing was deleted. This would go:', '')
  const facts = (Object.keys(names) as PrunedPart[]).map((part) => [names[part], formatCount(counts[part])] as const)
  await io.out.facts([...facts, ['indexes', formatCount(indexes.length)]])
  for (const name of indexes) await io.out.line(`${name} ${dryRun ? 'would be' : 'was'} rebuilt`)
}
