/** Prints the sources of listings in `status`. */

import { formatCount, plural } from '../../base/amounts.ts'
import type { SourceReport } from '../../inspect/status/sources.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'

/** So many are printed without --json. */
const sourcesShown = 20

export async function writeSources(
  io: CommandIo,
  sources: readonly SourceReport[],
  time: (at: Date | null) => string,
): Promise<void> {
  await io.out.line('', paint('bold', 'Sources of listings'))
  const rows = sources
    .slice(0, sourcesShown)
    .map(({ source, importedAt, completedAt, live, gone, tooOld }) => [
      source,
      time(importedAt),
      completedAt === null ? 'never' : time(completedAt),
      formatCount(live),
      formatCount(gone),
      formatCount(tooOld),
    ])
  await io.out.table(
    [
      { head: 'source' },
      { head: 'imported' },
      { head: 'complete' },
      ...['live', 'gone', 'too old'].map((head) => ({ head, align: 'right' as const })),
    ],
    rows,
  )
  if (sources.length > rows.length)
    await io.out.line(`… and ${plural(sources.length - rows.length, 'source')} more; --json shows all.`)
}
