/** Checks this machine, its settings, the receiver, the database and all data; or files, before they are imported or sent. */
import { formatCount } from '../base/amounts.ts'
import type { OpenDatabase } from '../db/open.ts'
import { type Findings, sentenceOf, toFindingLine } from '../inspect/finding.ts'
import { checkEverything } from '../inspect/validate/everything.ts'
import { checkFiles, findFiles } from '../inspect/validate/files.ts'
import type { CommandIo } from './command-io.ts'
import { holdDatabase, optionsOf } from './database.ts'
import type { At, ExitCode } from './describe.ts'
import { writeFinding } from './findings-view.ts'
import { paint } from './painted.ts'
import { startProgress } from './progress.ts'
import { commandThatFits, type RecordOptions, readOptionsOfEither } from './record-options.ts'

interface ValidateOptions extends RecordOptions {
  quick?: true
}

type Counts = Record<string, number>

/** A person is shown at most so many problems and so many notes, and of those that say the same so many; the others are counted. */
const shownMax = { problem: 100, note: 20, skipped: 20 } as const
const alikeMax = 5
/** So many different ones are told apart. */
const kindsMax = 1_000

export async function validate(at: At, files: string[], options: ValidateOptions): Promise<ExitCode> {
  const { io } = at
  const stop = io.stops.listen((signal) =>
    io.log.info(`${signal}: finishing; data that were not looked at are not counted.`),
  )
  const check = files.length > 0 ? validateFiles : validateEverything
  const exitCode = await check(at, files, options, stop.signal)
  return stop.exitCode ?? exitCode
}

async function validateFiles(
  { io, command, readSettings }: At,
  names: string[],
  options: ValidateOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  readSettings()
  const stdin = names.includes('-') ? io.openStdin() : undefined
  const how = { ...readOptionsOfEither(options), commandThatFits: commandThatFits(command), stdin }
  const counts = { files: 0, records: 0, ...(options.where && { filtered: 0 }) }
  return await show(io, checkFiles(findFiles(names), counts, signal, how), counts)
}

async function validateEverything(
  { io, source }: At,
  _files: string[],
  options: ValidateOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const counts = { checks: 0 }
  let held: ReturnType<typeof holdDatabase> | undefined
  let hangs = false
  const open = (settings: { databaseUrl: string | undefined; home: string }): Promise<OpenDatabase> => {
    held = holdDatabase(io, settings, {
      ...optionsOf.reads,
      awayMsMax: 0,
      schema: 'untouched',
      connectionsMax: 4,
    })
    return held.opening
  }
  const onHang = () => {
    hangs = true
  }
  const { quick = false } = options
  const how = { source, open, quick, signal, onHang }
  try {
    const exitCode = await show(io, checkEverything(how, counts), counts)
    // what still hangs would keep the process
    if (hangs) await io.ending.begin(exitCode)
    return exitCode
  } finally {
    await held?.release()
  }
}

const describeCounts = (counts: Counts) =>
  Object.entries(counts)
    .map(([what, value]) => `${formatCount(value)} ${what}`)
    .join(', ')

async function show(io: CommandIo, findings: Findings, counts: Counts): Promise<ExitCode> {
  const found = { problem: 0, note: 0, skipped: 0 }
  const shown = { problem: 0, note: 0, skipped: 0 }
  const alike = new Map<string, number>()
  const progress = await startProgress(io, () => `Checked ${describeCounts(counts)}.`)
  for await (const finding of findings) {
    const { level } = finding
    found[level]++
    if (io.out.isJson) {
      await io.out.json(toFindingLine(finding))
      continue
    }
    const kind = `${level}  ${sentenceOf(finding)}`
    const same = (alike.get(kind) ?? 0) + 1
    if (same > 1 || alike.size < kindsMax) alike.set(kind, same)
    if (same > alikeMax || shown[level] >= shownMax[level]) continue
    shown[level]++
    await writeFinding(io, finding)
  }
  progress.stop()
  const { problem: problems, note: notes } = found
  const line = { type: 'summary', problems, notes, ...counts }
  await io.out.result(line, async () => {
    for (const [kind, count] of alike) await io.out.more(count - alikeMax, undefined, ` like it: ${kind}`)
    await io.out.more(problems - shown.problem, 'problem', ' in all; --json lists them')
    await io.out.more(notes - shown.note, 'note', ' in all; --json lists them')
    await writeSummary(io, problems, notes, counts)
  })
  return problems > 0 ? 1 : 0
}

async function writeSummary(io: CommandIo, problems: number, notes: number, counts: Counts): Promise<void> {
  await io.out.facts([
    ...Object.entries(counts).map(([what, value]): [string, string] => [what, formatCount(value)]),
    ['notes', notes > 0 ? paint('yellow', formatCount(notes)) : '0'],
    ['problems', problems > 0 ? paint('red', formatCount(problems)) : paint('green', '0')],
  ])
}
