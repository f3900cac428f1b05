/** `leadpush preview`: what a push would send, without sending or writing anything. */

import type { Command } from 'commander'
import { bytes, formatCount, plural } from '../base/amounts.ts'
import type { Database } from '../db/open.ts'
import type { DeliveryLine, LeadsPerUser } from '../index.ts'
import type { PreviewSettings } from '../push/preview/preview.ts'
import type { FoundUser } from '../users/users.ts'
import { type Act, type ExitCode, inShort, settingsSource, usageError, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { parseCount } from './options.ts'
import type { OutFile } from './out-file.ts'
import { paint } from './painted.ts'

interface PreviewOptions {
  user?: string
  force?: true
  failed?: true
  unknown?: true
  limit?: number
  body?: true
  diff?: true
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
    .option('--unknown', 'with --failed: also for deliveries that may have arrived')
    .option('--limit <n>', 'list only the first n users; the summary counts all', parseCount)
    .option('--body', 'print each body, one to a line, byte for byte')
    .option('--diff', 'with --user: what is new, changed and gone against the last weekly delivery that arrived')
    .option('--out <file>', 'with --user: also write a page to look at, with the listings; - is standard output')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Users are listed in the order in which a push comes to them: interrupted
deliveries, subscription pushes, then by where their first query lies. The
summary counts all of them, and names who would get the fewest and the most
leads. --limit shortens the output of --body and --json too.

The page of --out is one file that loads nothing: what each query matches,
brings and leaves out and why, the requests' sizes, a map, and up to 1,000
listings as cards. It holds no contact of a listing and no key. Only its owner
may read the file. It changes nothing about what is printed.

Examples:
  leadpush preview --limit 20            a look at a few, and the summary of all
  leadpush preview --user user@example.com --body | jq '.fsbos | length'
  leadpush preview --user user@example.com --diff
  leadpush preview --user user@example.com --out preview.html`,
    )
    .action(act(preview))
}

async function preview(io: CommandIo, options: PreviewOptions): Promise<ExitCode> {
  const exclusive = [
    options.user !== undefined && '--user',
    options.force && '--force',
    options.failed && '--failed',
  ].filter(Boolean)
  if (exclusive.length > 1) throw usageError(`${exclusive.join(' and ')} exclude each other.`)
  if (options.limit !== undefined && options.user !== undefined)
    throw usageError('--limit and --user exclude each other.')
  if (options.unknown && !options.failed) throw usageError('--unknown goes with --failed only.')
  if (options.body && options.json)
    throw usageError('--body and --json exclude each other.', 'A body is a line of JSON already.')
  if (options.diff && options.user === undefined)
    throw usageError('--diff goes with --user only.', 'It compares what one user would get: name the user.')
  if (options.diff && options.body) throw usageError('--diff and --body exclude each other.')
  if (options.diff && options.out !== undefined) throw usageError('--diff and --out exclude each other.')
  if (options.out !== undefined && options.user === undefined)
    throw usageError('--out goes with --user only.', 'A page shows what one user would get: name the user.')
  if (options.out !== undefined && options.body)
    throw usageError('--out and --body exclude each other.', 'A body is for programs, a page for people.')
  const { readSettings } = await import('../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'timeZone', 'maxLeadAgeMs', 'sameHouse', 'guard', 'logFormat'],
    settingsSource(io),
  )
  const { out } = options
  if (out === undefined) return await withDatabase(io, settings, inShort, ({ db }) => show(io, db, options, settings))
  const { openOutFile } = await import('./out-file.ts')
  const file = openOutFile(io, out, { isTaken: options.json === true, option: '--out' })
  try {
    return await withDatabase(io, settings, inShort, ({ db }) => show(io, db, options, settings, file))
  } finally {
    file.discard()
  }
}

async function show(
  io: CommandIo,
  db: Database,
  options: PreviewOptions,
  settings: PreviewSettings,
  file?: OutFile,
): Promise<ExitCode> {
  const startedAt = performance.now()
  const { findUser } = await import('../users/users.ts')
  const { Preview } = await import('../push/preview/preview.ts')
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
  if (options.diff && user) {
    const { writeDiff } = await import('./preview-diff.ts')
    await passOver(io, planned)
    await writeDiff(io, db, user, planned.versionIds, { json: options.json ?? false, period: planned.period })
    return 0
  }
  const isPrinted = options.out !== '-'
  const print = options.body ? showBodies : options.json ? showJson : isPrinted ? showTable : passOver
  await print(io, planned, options.limit)
  const seconds = Math.round(performance.now() - startedAt) / 1_000
  const summary = planned.summary(seconds)
  const size = file && user && (await writePage(db, user, planned, settings, file))
  const leadsPerUser = planned.spread.get()
  if (options.json) await io.out.json({ ...summary, ...(leadsPerUser && { leadsPerUser }) })
  else if (!options.body && isPrinted) await writeSummary(io, summary, leadsPerUser)
  if (size !== undefined && !options.json && isPrinted)
    await io.out.line(`${paint('bold', options.out ?? '')}  ${bytes(size)}`)
  return 0
}

async function writePage(
  db: Database,
  user: FoundUser,
  planned: Planned,
  settings: PreviewSettings,
  file: OutFile,
): Promise<number> {
  const { rideOut } = await import('../db/away.ts')
  const { findDryRun } = await import('../inspect/preview-page/find-dry-run.ts')
  const { buildDryRunPage } = await import('../inspect/preview-page/build-page.ts')
  const found = await rideOut(() => findDryRun(db, user, planned, settings))
  return await file.write(buildDryRunPage(found, settings.timeZone))
}

type Planned = import('../push/preview/preview.ts').Preview

type Found = Planned extends { lines(): AsyncGenerator<infer F> } ? F : never

/** The lines of the first `limit` users; the others are read for the summary alone. */
async function* firstOf(planned: Planned, limit = Number.POSITIVE_INFINITY): AsyncGenerator<Found> {
  let last: string | null | undefined
  let users = 0
  for await (const found of planned.lines()) {
    const { user } = 'line' in found ? found.line : (found as { user?: string })
    if (user !== last) users++
    last = user
    if (users <= limit) yield found
  }
}

async function passOver(_io: CommandIo, planned: Planned): Promise<void> {
  for await (const _ of planned.lines());
}

async function showBodies(io: CommandIo, planned: Planned, limit?: number): Promise<void> {
  for await (const found of firstOf(planned, limit)) {
    if (!('line' in found)) continue
    await io.out.write(await found.readBody())
    await io.out.write('\n')
  }
}

async function showJson(io: CommandIo, planned: Planned, limit?: number): Promise<void> {
  for await (const found of firstOf(planned, limit)) await io.out.json('line' in found ? found.line : found)
}

/** After this many lines a new table begins, since a table must have all its rows before it is printed. */
const rowsPerTable = 200
/** The most skipped users and left-out listings that are printed without --json; the rest are counted. */
const notesShown = 20

async function showTable(io: CommandIo, planned: Planned, limit?: number): Promise<void> {
  let rows: string[][] = []
  const notes: string[] = []
  let unshown = 0
  const flush = async () => {
    const heads = ['queries', 'matches', 'leads', 'bytes', 'parts']
    const numbers = heads.map((head) => ({ head, align: 'right' as const }))
    if (rows.length > 0) await io.out.table([{ head: 'kind' }, ...numbers, { head: 'user' }], rows)
    rows = []
  }
  for await (const found of firstOf(planned, limit)) {
    if ('line' in found) {
      rows.push(toRow(found.line, found.matches))
      if (rows.length >= rowsPerTable) await flush()
    } else if (notes.length >= notesShown) unshown++
    else if (found.type === 'skip')
      notes.push(`${found.user ?? 'all users'}  ${paint('yellow', 'skipped')}  ${found.reason}`)
    else if (found.type === 'warning')
      notes.push(`${found.user}  ${paint('yellow', 'warning')}  ${found.href ?? 'all of it'}: ${found.message}`)
  }
  await flush()
  if (notes.length > 0) await io.out.line('', ...notes)
  if (unshown > 0) await io.out.line(`… and ${formatCount(unshown)} more; --json lists all`)
}

function toRow(line: DeliveryLine, matches: number | null): string[] {
  const { user, kind, queries, leads, part, parts, attempts } = line
  // the e-mail comes last, where it is not cut for want of room
  return [
    `${kind}${attempts > 0 ? ', 2nd attempt' : ''}`,
    formatCount(queries),
    matches === null ? '' : formatCount(matches),
    formatCount(leads),
    bytes(line.bytes),
    parts > 1 ? `${part}/${parts}` : '1',
    user ?? '',
  ]
}

async function writeSummary(
  io: CommandIo,
  summary: {
    period: string
    users: number
    deliveries: number
    skipped: number
    leads: number
    bytes: number
    sameHouse?: number
  },
  leadsPerUser: LeadsPerUser | undefined,
): Promise<void> {
  if (summary.deliveries === 0) {
    await io.out.line(`Nothing would be sent in ${summary.period}.`)
    return
  }
  const skipped = summary.skipped > 0 ? `, ${formatCount(summary.skipped)} skipped` : ''
  await io.out.line(
    '',
    io.out.wrap(
      `${summary.period}: ${plural(summary.deliveries, 'delivery')} to ${plural(summary.users - summary.skipped, 'user')} would be sent, ${plural(summary.leads, 'lead')}, ${bytes(summary.bytes)}${skipped}.`,
      0,
    ),
  )
  if (summary.sameHouse)
    await io.out.line(
      io.out.wrap(`Left out, since another listing of the house counts: ${plural(summary.sameHouse, 'listing')}.`, 0),
    )
  // one user has nobody to be compared with
  if (leadsPerUser === undefined || summary.users < 2) return
  const { withoutLeads, smallest, median, largest } = leadsPerUser
  const name = ({ user, leads }: typeof smallest) => `${formatCount(leads)} (${user})`
  await io.out.line(
    io.out.wrap(
      `Leads a user: smallest ${name(smallest)}, median ${formatCount(median)}, largest ${name(largest)}.`,
      0,
    ),
  )
  if (withoutLeads > 0)
    await io.out.line(paint('yellow', `${plural(withoutLeads, 'user')} would get a delivery with no lead.`))
}
