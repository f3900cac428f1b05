/** `leadpush validate`: this machine, its settings, the receiver, the database and all data; or files, before they are imported or sent. */
import type { Command } from 'commander'
import { formatCount, plural } from '../base/amounts.ts'
import type { OpenDatabase } from '../db/open.ts'
import { type Findings, toFindingLine } from '../inspect/finding.ts'
import { type Act, type ExitCode, holdDatabase, inShort, settingsSource, usageError } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { writeFinding } from './findings-view.ts'
import { paint } from './painted.ts'
import { addRecordOptions, commandThatFits, type RecordOptions, readOptionsOfEither } from './record-options.ts'

interface ValidateOptions extends RecordOptions {
  quick?: true
  json?: true
}

type Counts = Record<string, number>

const plainProgressMs = 10_000
const livelyProgressMs = 200
/** So many problems and so many notes are shown to a person; the rest are counted. */
const shownMax = { problem: 100, note: 20, skipped: 20 } as const

export function addValidate(program: Command, act: Act): void {
  const command = program
    .command('validate')
    .description('Is anything wrong, and what to do: this machine, the receiver, all data; or files.')
    .argument('[file...]', 'files to check instead: a delivery body, listings, users; - is standard input')
  addRecordOptions(command)
    .option('--quick', 'leave out the pass over the data')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Without files it looks at Node.js, settings, database, receiver (a HEAD without
a key; nothing is sent), clock, disk, cron, and at every user, key, query, hook
and lead. It writes nothing, makes no database, and gives up on what hangs. A
note is no trouble of deliveries, and does not count. Files are judged as their
import would.

Exit code: 1 where there is a problem, else 0.

Examples:
  leadpush validate                 after installing, or if something looks odd
  leadpush validate --quick         the machine alone
  leadpush validate listings.csv    would the import take each record?
  zcat users.json.gz | leadpush validate -
  leadpush validate mls.csv --map-file mls.map --where status=Active --null TBD
  leadpush preview --user user@example.com --body > body.json
  leadpush validate body.json`,
    )
    .action(act(validate))
}

async function validate(io: CommandIo, files: string[], options: ValidateOptions, command: Command): Promise<ExitCode> {
  const { json: _, quick, ...read } = options
  if (files.length === 0 && Object.keys(read).length > 0) {
    const hint = 'Name the files; without any, `leadpush validate` checks this machine and its data.'
    throw usageError('Options that say how records are read go with files.', hint)
  }
  if (files.length > 0 && quick) throw usageError('--quick goes without files: it leaves out the pass over the data.')
  const stop = io.stops.listen((signal) =>
    io.log.info(`${signal}: coming to an end; what was not looked at is not counted.`),
  )
  try {
    const check = files.length > 0 ? validateFiles : validateEverything
    const exitCode = await check(io, files, options, stop.signal, command)
    return stop.exitCode ?? exitCode
  } finally {
    stop.dispose()
  }
}

async function validateFiles(
  io: CommandIo,
  names: string[],
  options: ValidateOptions,
  signal: AbortSignal,
  command: Command,
): Promise<ExitCode> {
  const { readSettings } = await import('../base/config.ts')
  const { checkFiles, findFiles } = await import('../inspect/validate/files.ts')
  readSettings(['logFormat'], settingsSource(io))
  const stdin = names.includes('-') ? io.openStdin() : undefined
  const commandOf = commandThatFits('validate', names, command)
  const how = { ...(await readOptionsOfEither(options)), commandThatFits: commandOf, stdin }
  const counts = { files: 0, records: 0, ...(options.where && { filtered: 0 }) }
  return await show(io, checkFiles(findFiles(names), counts, signal, how), counts, options)
}

async function validateEverything(
  io: CommandIo,
  _files: string[],
  options: ValidateOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { checkEverything } = await import('../inspect/validate/everything.ts')
  const counts = { checks: 0, users: 0, subscribed: 0, queries: 0, hooks: 0, leads: 0 }
  let held: ReturnType<typeof holdDatabase> | undefined
  let hangs = false
  const open = (settings: { databaseUrl: string | undefined; home: string }): Promise<OpenDatabase> => {
    held = holdDatabase(io, settings, { ...inShort, awayMsMax: 0, schema: 'untouched', connectionsMax: 4 })
    return held.opening
  }
  const onHang = () => {
    hangs = true
  }
  const { quick = false } = options
  const how = { source: settingsSource(io), open, quick, signal, onHang }
  try {
    const exitCode = await show(io, checkEverything(how, counts), counts, options)
    // what still hangs would keep the process
    if (hangs) await io.ending.begin(exitCode)
    return exitCode
  } finally {
    await held?.release()
  }
}

/** Tells on standard error how far it is: in a line that moves on a terminal, elsewhere one every 10 s. */
async function startProgress(io: CommandIo, counts: Counts, json: boolean): Promise<{ stop(): void }> {
  const text = () =>
    Object.entries(counts)
      .map(([what, value]) => `${formatCount(value)} ${what}`)
      .join(', ')
  const spinner = await io.out.openSpinner(io.log.format, json)
  if (!spinner) {
    const timer = setInterval(() => io.log.info(`Checked ${text()}.`), plainProgressMs).unref()
    return { stop: () => clearInterval(timer) }
  }
  spinner.start(text())
  const timer = setInterval(() => {
    spinner.text = text()
  }, livelyProgressMs).unref()
  return {
    stop: () => {
      clearInterval(timer)
      spinner.stop()
    },
  }
}

async function show(io: CommandIo, findings: Findings, counts: Counts, { json }: ValidateOptions): Promise<ExitCode> {
  const found = { problem: 0, note: 0, skipped: 0 }
  const progress = await startProgress(io, counts, json ?? false)
  try {
    for await (const finding of findings) {
      const { level } = finding
      found[level]++
      if (json) await io.out.json(toFindingLine(finding))
      else if (found[level] <= shownMax[level]) await writeFinding(io, finding)
    }
  } finally {
    progress.stop()
  }
  const { problem: problems, note: notes } = found
  if (json) await io.out.json({ type: 'summary', problems, notes, ...counts })
  else await writeSummary(io, problems, notes, counts)
  return problems > 0 ? 1 : 0
}

async function writeSummary(io: CommandIo, problems: number, notes: number, counts: Counts): Promise<void> {
  for (const [type, value] of [
    ['problem', problems],
    ['note', notes],
  ] as const) {
    const more = value - shownMax[type]
    if (more > 0) await io.out.line(`… and ${plural(more, type)} more; --json lists all`)
  }
  const checked = Object.entries(counts).map(([what, value]): [string, string] => [what, formatCount(value)])
  await io.out.facts([
    ...checked,
    ['notes', notes > 0 ? paint('yellow', formatCount(notes)) : '0'],
    ['problems', problems > 0 ? paint('red', formatCount(problems)) : paint('green', '0')],
  ])
}
