/** `leadpush preview`: what a push would send, without sending or writing anything. */
import type { Command } from 'commander'
import { type Act, type ExitCode, inShort, usageError, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { bytes, count, paint, plural, write, writeJson, writeLine, writeTable } from './output.ts'

interface PreviewOptions {
  user?: string
  force?: true
  failed?: true
  unknown?: true
  body?: true
  out?: string
  json?: true
}

export function addPreview(program: Command, act: Act): void {
  program
    .command('preview')
    .description('Show what a push would send now. Nothing is sent, nothing is written.')
    .option('--user <email>', 'what `push --user` would send')
    .option('--force', 'what `push --all --force` would send')
    .option('--failed', 'what `push --failed` would send')
    .option('--unknown', 'with --failed: also where it is unknown whether the delivery arrived')
    .option('--body', 'print each body, one to a line, byte for byte')
    .option('--out <file>', 'with --user: also write a page to look at, with the listings; - is standard output')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
The page of --out is one file that asks for nothing: what each query matches, brings
and leaves out and why, the requests' sizes, a map, and up to 1,000 listings as cards.
It holds no contact of a listing and no key; only its owner may read the file. With
--json the lines are printed as without it.

Examples:
  leadpush preview
  leadpush preview --user user@example.com --body | jq '.fsbos | length'
  leadpush preview --user user@example.com --out preview.html`,
    )
    .action(act(preview))
}

async function preview(_log: Log, options: PreviewOptions): Promise<ExitCode> {
  const exclusive = [
    options.user !== undefined && '--user',
    options.force && '--force',
    options.failed && '--failed',
  ].filter(Boolean)
  if (exclusive.length > 1) throw usageError(`${exclusive.join(' and ')} exclude each other.`)
  if (options.unknown && !options.failed) throw usageError('--unknown goes with --failed only.')
  if (options.body && options.json)
    throw usageError('--body and --json exclude each other.', 'A body is a line of JSON already.')
  if (options.out !== undefined && options.user === undefined)
    throw usageError('--out goes with --user only.', 'A page shows what one user would get: name the user.')
  if (options.out !== undefined && options.body)
    throw usageError('--out and --body exclude each other.', 'A body is for programs, a page for people.')
  const { processSource, readSettings } = await import('../config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'timeZone', 'maxLeadAgeMs', 'guard', 'logFormat'],
    processSource(),
  )
  const { out } = options
  if (out === undefined) return await withDatabase(settings, inShort, ({ db }) => show(db, options, settings))
  const { openPageFile } = await import('./page-file.ts')
  const file = openPageFile(out, { isTaken: options.json === true })
  try {
    return await withDatabase(settings, inShort, ({ db }) => show(db, options, settings, file))
  } finally {
    file.discard()
  }
}

async function show(
  db: import('../db/open.ts').Database,
  options: PreviewOptions,
  settings: { timeZone: string; maxLeadAgeMs: number; guard: 'on' | 'off' },
  file?: import('./page-file.ts').PageFile,
): Promise<ExitCode> {
  const startedAt = performance.now()
  const { findUser } = await import('../users/users.ts')
  const { Preview } = await import('../push/preview.ts')
  const { user: email } = options
  const user = email === undefined ? undefined : await findUser(db, email)
  const planned = await Preview.create(
    db,
    user
      ? { what: 'user', ...user }
      : options.failed
        ? { what: 'failed', unknown: options.unknown ?? false }
        : { what: 'all', force: options.force ?? false },
    settings,
  )
  const isPrinted = options.out !== '-'
  const print = options.body ? showBodies : options.json ? showJson : isPrinted ? showTable : passOver
  await print(planned)
  const seconds = Math.round(performance.now() - startedAt) / 1_000
  const summary = planned.summary(seconds)
  const size = file && user && (await writePage(db, user, planned, settings, file))
  if (options.json) await writeJson(summary)
  else if (!options.body && isPrinted) await writeSummary(summary)
  if (size !== undefined && !options.json && isPrinted)
    await writeLine(`${paint('bold', options.out ?? '')}  ${bytes(size)}`)
  return 0
}

async function writePage(
  db: import('../db/open.ts').Database,
  user: import('../users/users.ts').FoundUser,
  planned: Planned,
  settings: { timeZone: string; maxLeadAgeMs: number; guard: 'on' | 'off' },
  file: import('./page-file.ts').PageFile,
): Promise<number> {
  const { rideOut } = await import('../db/away.ts')
  const { findDryRun } = await import('../dry-run/find-dry-run.ts')
  const { buildDryRunPage } = await import('../dry-run/build-page.ts')
  const found = await rideOut(() => findDryRun(db, user, planned, settings))
  return await file.write(buildDryRunPage(found, settings.timeZone))
}

type Planned = import('../push/preview.ts').Preview

async function passOver(planned: Planned): Promise<void> {
  for await (const _ of planned.lines());
}

async function showBodies(planned: Planned): Promise<void> {
  for await (const found of planned.lines()) {
    if (!('line' in found)) continue
    await write(await found.readBody())
    await write('\n')
  }
}

async function showJson(planned: Planned): Promise<void> {
  for await (const found of planned.lines()) await writeJson('line' in found ? found.line : found)
}

/** So many lines make a table; then the next begins: a table needs to know all its rows. */
const rowsPerTable = 200

async function showTable(planned: Planned): Promise<void> {
  let rows: string[][] = []
  const flush = async () => {
    const heads = ['queries', 'matches', 'leads', 'bytes', 'parts']
    const numbers = heads.map((head) => ({ head, align: 'right' as const }))
    if (rows.length > 0) await writeTable([{ head: 'user', wide: true }, { head: 'kind' }, ...numbers], rows)
    rows = []
  }
  for await (const found of planned.lines()) {
    if ('line' in found) {
      const { user, kind, queries, leads, part, parts, attempts } = found.line
      const begun = attempts > 0 ? ', 2nd attempt' : ''
      const matches = found.matches === null ? '' : count(found.matches)
      rows.push([
        user ?? '',
        `${kind}${begun}`,
        count(queries),
        matches,
        count(leads),
        bytes(found.line.bytes),
        parts > 1 ? `${part}/${parts}` : '1',
      ])
      if (rows.length >= rowsPerTable) await flush()
      continue
    }
    await flush()
    if (found.type === 'skip')
      await writeLine(`${found.user ?? 'all users'}  ${paint('yellow', 'skipped')}  ${found.reason}`)
    if (found.type === 'warning')
      await writeLine(`${found.user}  ${paint('yellow', 'warning')}  ${found.href}: ${found.message}`)
  }
  await flush()
}

async function writeSummary(summary: {
  period: string
  users: number
  deliveries: number
  skipped: number
  leads: number
  bytes: number
}): Promise<void> {
  if (summary.deliveries === 0) {
    await writeLine(`Nothing would be sent in ${summary.period}.`)
    return
  }
  const skipped = summary.skipped > 0 ? `, ${count(summary.skipped)} skipped` : ''
  await writeLine(
    `\n${summary.period}: ${plural(summary.deliveries, 'delivery')} to ${plural(summary.users - summary.skipped, 'user')} would be sent, ${plural(summary.leads, 'lead')}, ${bytes(summary.bytes)}${skipped}.`,
  )
}
