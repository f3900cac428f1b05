/** Writes the state of the pushes as one page. */
import { bytes, secondsSince } from '../base/amounts.ts'
import { toFindingLine } from '../inspect/finding.ts'
import { findFigures } from '../inspect/report/figures/find-figures.ts'
import { buildHeadline, buildReport } from '../inspect/report/page/build-report.ts'
import type { AtDatabase, ExitCode } from './describe.ts'
import { openOutFile, writeFile } from './out-file.ts'
import { paint } from './painted.ts'

type Settings = 'timeZone' | 'maxLeadAgeMs' | 'feedMaxAgeMs' | 'keepAnswers'

export async function report(
  { io, open, readSettings }: AtDatabase<Settings>,
  { out }: { out: string },
): Promise<ExitCode> {
  readSettings()
  const file = openOutFile(io, out, `--out ${out}`)
  try {
    return await open(async ({ db }, settings) => {
      const startedAt = performance.now()
      const figures = await findFigures(db, settings)
      const size = await writeFile(file, buildReport(figures, settings))
      const seconds = secondsSince(startedAt)
      const { period } = figures.status
      const findings = figures.alarms.map(toFindingLine)
      const line = { type: 'report', file: out, bytes: size, period, seconds, findings }
      // standard output may have the page itself
      const texts = [`${paint('bold', out)}  ${bytes(size)}`, `${period}: ${buildHeadline(figures)}`]
      await io.out.result(line, out === '-' ? [] : texts)
      return 0
    })
  } finally {
    file.discard()
  }
}
