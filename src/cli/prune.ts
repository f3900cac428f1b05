/** Deletes old data that nothing needs. */
import { formatCount } from '../base/amounts.ts'
import { messageOf } from '../base/errors.ts'
import { parseDuration } from '../base/setting-values.ts'
import { findIndexes, findRows, findThinned, rebuildIndexes } from '../db/indexes.ts'
import type { OpenDatabase } from '../db/open.ts'
import { tidyTables } from '../db/tidy.ts'
import { countDeleted, type PruneCounts, type PrunedPart, prune } from '../upkeep/prune/prune.ts'
import type { CommandIo } from './command-io.ts'
import { type AtDatabase, type ExitCode, wrongValue } from './describe.ts'
import { startProgress } from './progress.ts'

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

export async function runPrune(
  { io, open, readSettings }: AtDatabase<'maxLeadAgeMs'>,
  { olderThan, dryRun = false }: { olderThan: string; dryRun?: boolean },
): Promise<ExitCode> {
  readSettings()
  const olderThanMs = parseDuration(olderThan) ?? 0
  if (!(olderThanMs > 0 && olderThanMs <= olderThanDaysMax * 86_400_000)) {
    const allowed = `a number with a unit (ms, s, m, h, d) above 0, up to ${olderThanDaysMax}d, such as 90d`
    throw wrongValue('--older-than', olderThan, allowed)
  }
  return await open((opened, { maxLeadAgeMs }) => pruneAndTell(io, opened, { maxLeadAgeMs, olderThanMs }, dryRun))
}

async function pruneAndTell(
  io: CommandIo,
  opened: OpenDatabase,
  settings: { olderThanMs: number; maxLeadAgeMs: number },
  dryRun: boolean,
): Promise<ExitCode> {
  let doing: string | undefined
  const progress = await startProgress(io, () => doing)
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: ending after the statement under way.`))
  const rows = await findRows(opened.db)
  const counts = await prune(opened.db, {
    ...settings,
    dryRun,
    stop: stop.signal,
    onPart(part) {
      doing = `Looking for old ${names[part]}`
    },
  })
  if (!dryRun && !stop.signal.aborted) await tidy(opened, counts)
  const tables = findThinned(rows, countDeleted(counts))
  const indexes = dryRun
    ? await findIndexes(opened.db, tables)
    : await rebuildIndexes(opened, tables, {
        stop: stop.signal,
        onIndex(name) {
          doing = `Rebuilding ${name}`
        },
        onTrouble: (what, error) => io.log.warn(`While ${what}: ${messageOf(error)}.`),
      })
  progress.stop()
  const rebuilt = indexes.length > 0 && { rebuilt: indexes }
  const line = { type: 'prune', ...(dryRun && { dryRun }), ...counts, indexes: indexes.length, ...rebuilt }
  await io.out.result(line, () => writeCounts(io, counts, indexes, dryRun))
  return stop.exitCode ?? 0
}

/** Elsewhere autovacuum does it, and knows better when. */
async function tidy(opened: OpenDatabase, counts: PruneCounts): Promise<void> {
  if (!opened.embedded) return
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
