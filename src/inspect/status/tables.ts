/** The tables of `status`, which the report shows too. */
import { seconds } from '../../base/amounts.ts'
import { counted, numberColumns, type Table, toned } from '../../base/table.ts'
import type { SourceReport } from './sources.ts'
import { type RunReport, runNames } from './status.ts'

type Time = (at: Date | null) => string

export const runsTable = (runs: readonly RunReport[], time: Time): Table => ({
  columns: [...['begun', 'run', 'period', 'outcome'].map((head) => ({ head })), ...numberColumns('took')],
  rows: runs.map(({ startedAt, endedAt, command, period, outcome }) => {
    const took = endedAt === null ? undefined : (endedAt.getTime() - startedAt.getTime()) / 1_000
    return [
      time(startedAt),
      runNames[command],
      period,
      toned(outcome, outcome === 'complete' ? 'good' : 'doubtful'),
      took === undefined ? '' : seconds(took),
    ]
  }),
})

export const sourcesTable = (sources: readonly SourceReport[], time: Time): Table => ({
  columns: [
    ...['source', 'imported', 'complete'].map((head) => ({ head })),
    ...numberColumns('live', 'gone', 'too old'),
  ],
  rows: sources.map(({ source, importedAt, completedAt, live, gone, tooOld }) => [
    source,
    time(importedAt),
    completedAt === null ? 'never' : time(completedAt),
    ...[live, gone, tooOld].map((listings) => counted(listings)),
  ]),
})
