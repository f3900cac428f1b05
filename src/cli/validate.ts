/** `leadpush validate`: settings, connection, schema and all data; or files, before they are imported or sent. */
import type { Command } from 'commander'
import { formatCount, plural } from '../base/amounts.ts'
import type { Finding, Findings } from '../inspect/validate/finding.ts'
import { type Act, type ExitCode, inShort, openSecrets, settingsSource, usageError, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { paint } from './painted.ts'
import { addRecordOptions, commandThatFits, type RecordOptions, readOptionsOfEither } from './record-options.ts'

interface ValidateOptions extends RecordOptions {
  json?: true
}

type Counts = Record<string, number>

const plainProgressMs = 10_000
const livelyProgressMs = 200
/** So many problems and so many notes are shown to a person; the rest are counted. */
const shownMax = { problem: 100, note: 20 } as const

export function addValidate(program: Command, act: Act): void {
  const command = program
    .command('validate')
    .description('Check settings, database and all data; or files: a delivery body, listings, users.')
    .argument('[file...]', 'files to check instead; this needs no database')
  addRecordOptions(command)
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush validate                 before the first push, or if something looks odd
  leadpush validate listings.csv    would the import take each record?
  zcat users.json.gz | leadpush validate -
  leadpush validate export.csv --map-file mls.map --where status=Active --null TBD
  leadpush preview --user user@example.com --body > body.json
  leadpush validate body.json`,
    )
    .action(act(validate))
}

async function validate(io: CommandIo, files: string[], options: ValidateOptions, command: Command): Promise<ExitCode> {
  const { json: _, ...read } = options
  if (files.length === 0 && Object.keys(read).length > 0) {
    const hint = 'Name the files; without any, `leadpush validate` checks the settings and the database.'
    throw usageError('Options that say how records are read go with files.', hint)
  }
  const stop = io.stops.listen((signal) =>
    io.log.info(`${signal}: coming to an end; what was not looked at is not counted.`),
  )
  try {
    const check = files.length > 0 ? validateFiles : validateDatabase
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

async function validateDatabase(
  io: CommandIo,
  _files: string[],
  options: ValidateOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { readProxies, readSettings, readTogether, settingNames } = await import('../base/config.ts')
  const source = settingsSource(io)
  const [settings] = readTogether(
    () => readSettings(settingNames, source),
    () => readProxies(source),
  )
  return await withDatabase(io, settings, { ...inShort, awayMsMax: 0 }, async (opened) => {
    const { checkDatabase } = await import('../inspect/validate/database.ts')
    io.log.info(`Database: ${opened.description}`)
    const vault = await openSecrets(opened.db, settings)
    const counts = { users: 0, subscribed: 0, queries: 0, hooks: 0, leads: 0 }
    return await show(io, checkDatabase(opened, settings, counts, signal, vault), counts, options)
  })
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

const describe = ({ type, where, path, message, hint }: Finding) =>
  `${where}  ${paint(type === 'problem' ? 'red' : 'yellow', type)}  ${path ? `${path} ` : ''}${message}${hint ? `. ${hint}` : ''}`

async function show(io: CommandIo, findings: Findings, counts: Counts, { json }: ValidateOptions): Promise<ExitCode> {
  const found = { problem: 0, note: 0 }
  const progress = await startProgress(io, counts, json ?? false)
  try {
    for await (const finding of findings) {
      found[finding.type]++
      if (json) await io.out.json(finding)
      else if (found[finding.type] <= shownMax[finding.type]) await io.out.line(describe(finding))
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
