/** `leadpush doctor`: everything that can be wrong on this machine, in order, each with what to do about it. */
import type { Command } from 'commander'
import { plural, seconds } from '../base/amounts.ts'
import type { OpenDatabase } from '../db/open.ts'
import type { CheckLine, SummaryLine } from '../inspect/doctor/run-doctor.ts'
import { createCheckView } from './check-view.ts'
import { type Act, type ExitCode, holdDatabase, settingsSource } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { paint, type Style } from './painted.ts'

interface DoctorOptions {
  json?: true
}

export function addDoctor(program: Command, act: Act): void {
  program
    .command('doctor')
    .description('Check this machine, from Node.js and the settings to the database, the receiver and cron.')
    .option('--json', 'print one JSON object a check')
    .addHelpText(
      'after',
      `
\`validate\` judges data, \`doctor\` the machine. Each check ends as ok, warn, fail or
skipped (because of one before it), with what to do. It sends no delivery and no
ping (the receiver gets a HEAD without a key). It writes nothing and makes no
database; it starts an embedded one, and stops it again. It ends within a minute,
even if something hangs.

Exit code: 1 if a check failed, else 0.

Examples:
  leadpush doctor                    after installing, and when something is odd
  leadpush doctor --json | jq -r 'select(.status == "fail").remedy'`,
    )
    .action(act(doctor))
}

async function doctor(io: CommandIo, { json }: DoctorOptions): Promise<ExitCode> {
  const { runDoctor, titleChars } = await import('../inspect/doctor/run-doctor.ts')
  const view = await createCheckView<CheckLine>(io, json === true, (line) => writeCheck(io, line, titleChars))
  let held: ReturnType<typeof holdDatabase> | undefined
  const open = (settings: { databaseUrl: string | undefined; home: string }): Promise<OpenDatabase> => {
    held = holdDatabase(io, settings, { schema: 'untouched', connectionsMax: 2 })
    return held.opening
  }
  try {
    const { summary, hangs } = await runDoctor({
      source: settingsSource(io),
      open,
      onBegin: (title) => view.begin(title),
      onCheck: (line) => view.show(line),
    })
    view.stop()
    const exitCode = summary.failed > 0 ? 1 : 0
    await (json ? io.out.json(summary) : writeSummary(io, summary))
    // what still hangs would keep the process
    if (hangs) await io.ending.begin(exitCode)
    return exitCode
  } finally {
    view.stop()
    await held?.release()
  }
}

const statusStyles: Record<CheckLine['status'], Style> = { pass: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' }
const statusWords: Record<CheckLine['status'], string> = { pass: 'ok', warn: 'warn', fail: 'fail', skipped: 'skipped' }
const statusChars = 'skipped'.length

async function writeCheck(
  io: CommandIo,
  { status, title, message, troubles }: CheckLine,
  titleChars: number,
): Promise<void> {
  const begin = (each: CheckLine['status']) => paint(statusStyles[each], statusWords[each].padEnd(statusChars))
  const indent = statusChars + titleChars + 4
  const row = (each: CheckLine['status'], name: string, text: string) =>
    io.out.line(`${begin(each)}  ${name.padEnd(titleChars)}  ${io.out.wrap(text, indent)}`)
  if (troubles.length === 0) await row(status, title, message)
  for (const [at, trouble] of troubles.entries()) {
    await row(trouble.status, at === 0 ? title : '', trouble.message)
    const toDo = io.out.wrap(`to do: ${trouble.remedy}`, indent).slice('to do:'.length)
    await io.out.line(`${' '.repeat(indent)}${paint('dim', 'to do:')}${toDo}`)
  }
}

async function writeSummary(
  io: CommandIo,
  { status, checks, passed, warned, failed, skipped, seconds: took }: SummaryLine,
): Promise<void> {
  const verdict = { pass: 'All is well', warn: 'It works; see the warnings', fail: 'Not ready' }[status]
  const counts = `${passed} ok, ${warned} warn, ${failed} fail, ${skipped} skipped`
  await io.out.line('')
  await io.out.line(
    `${paint(statusStyles[status], verdict)}: ${plural(checks, 'check')} in ${seconds(took)}: ${counts}`,
  )
}
