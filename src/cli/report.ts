/** `leadpush report`: the state of things as one page, for people who would rather look. */
import type { Command } from 'commander'
import { bytes } from '../base/amounts.ts'
import { type Act, type ExitCode, settingsSource, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { paint } from './painted.ts'

interface ReportOptions {
  out: string
  json?: true
}

export function addReport(program: Command, act: Act): void {
  program
    .command('report')
    .description('Write one HTML page: how the weeks went, what did not arrive and why, the receiver, the listings.')
    .requiredOption('--out <file>', 'write the page to this file, replacing it; - is standard output')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
The page is one file that loads nothing, and can be sent by mail. It holds the
e-mail addresses of users in trouble, no key and no contact of a listing; only
its owner may read the file.

Examples:
  leadpush report --out report.html
  leadpush report --out - | ssh web.example.com 'cat > report.html'

--json prints {"type":"report","file","bytes","period","seconds","sampled",
"findings"}.`,
    )
    .action(act(report))
}

async function report(io: CommandIo, { out, json }: ReportOptions): Promise<ExitCode> {
  const { readSettings } = await import('../base/config.ts')
  const names = [
    'databaseUrl',
    'home',
    'timeZone',
    'maxLeadAgeMs',
    'sameHouse',
    'feedMaxAgeMs',
    'keepAnswers',
    'logFormat',
  ] as const
  const settings = readSettings(names, settingsSource(io))
  const { openOutFile } = await import('./out-file.ts')
  const file = openOutFile(io, out, { isTaken: json === true, option: '--out' })
  try {
    return await withDatabase(io, settings, {}, async ({ db }) => {
      const startedAt = performance.now()
      const { toFindingLine } = await import('../inspect/finding.ts')
      const { findFigures } = await import('../inspect/report/figures/find-figures.ts')
      const [figures, { buildReport, buildHeadline }] = await Promise.all([
        findFigures(db, settings),
        import('../inspect/report/page/build-report.ts'),
      ])
      const size = await file.write(buildReport(figures, settings))
      const seconds = Math.round(performance.now() - startedAt) / 1_000
      const { status, isSampled: sampled } = figures
      const findings = figures.alarms.map(toFindingLine)
      if (json)
        await io.out.json({ type: 'report', file: out, bytes: size, period: status.period, seconds, sampled, findings })
      else if (out !== '-') {
        await io.out.line(`${paint('bold', out)}  ${bytes(size)}`)
        await io.out.line(`${status.period}: ${buildHeadline(figures)}`)
      }
      return 0
    })
  } finally {
    file.discard()
  }
}
