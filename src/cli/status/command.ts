/** `leadpush status`: how the period and the last runs went, one user's deliveries, and a check for a monitor. */
import type { Command } from 'commander'
import { formatCount, plural, seconds, timeFormat } from '../../base/amounts.ts'
import type { Database } from '../../db/open.ts'
import { type Finding, toFindingLine } from '../../inspect/finding.ts'
import type { RunReport, Status } from '../../inspect/status/status.ts'
import { type Act, type ExitCode, inShort, settingsSource, usageError, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { paint, paintStatus } from '../painted.ts'

interface StatusOptions {
  user?: string
  check?: true
  quiet?: true
  json?: true
}

interface StatusSettings {
  timeZone: string
  maxLeadAgeMs: number
  feedMaxAgeMs: number | undefined
  keepAnswers: 'on' | 'off'
  guard: 'on' | 'off'
}

export function addStatus(program: Command, act: Act): void {
  program
    .command('status')
    .description('Show how the period and the last runs went, and what is left to do.')
    .option('--user <email>', 'the deliveries of one user, with their attempts')
    .option('--check', 'exit 1 if something is wrong: for a monitor')
    .option('--quiet', 'with --check: print nothing but what is wrong')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush status
  leadpush status --user user@example.com
  leadpush status --check --quiet        for a monitor, once a day

What is wrong comes first, with what to do; --check exits 1 for each of these:
  deliveries   the receiver refuses all; some are stuck, failed or unknown
  users        some were left out, are held back, or half of them have no lead
  the week     no whole \`push --all\` finished in the last 8 days, or the
               database lost records of a push
  listings     none were imported for LEADPUSH_FEED_MAX_AGE, or none of a source
  platforms    triggers were abandoned, dropped or not sent; a hook failed for a
               day`,
    )
    .action(act(status))
}

async function status(io: CommandIo, options: StatusOptions): Promise<ExitCode> {
  if (options.check && options.user !== undefined) throw usageError('--check and --user exclude each other.')
  if (options.quiet && !options.check) throw usageError('--quiet goes with --check.')
  const { readSettings } = await import('../../base/config.ts')
  const names = [
    'databaseUrl',
    'home',
    'timeZone',
    'maxLeadAgeMs',
    'feedMaxAgeMs',
    'keepAnswers',
    'guard',
    'logFormat',
  ] as const
  const settings = readSettings(names, settingsSource(io))
  return await withDatabase(io, settings, inShort, async ({ db }) => {
    if (options.user !== undefined) return await showUser(io, db, options.user, settings, options)
    return await showStatus(io, db, settings, options)
  })
}

async function showStatus(
  io: CommandIo,
  db: Database,
  settings: StatusSettings,
  { check, quiet, json }: StatusOptions,
): Promise<ExitCode> {
  const { findStatus } = await import('../../inspect/status/status.ts')
  const { findAlarms } = await import('../../inspect/status/alarms.ts')
  const { writeFinding } = await import('../findings-view.ts')
  const found = await findStatus(db, settings)
  const findings = await findAlarms(db, found, settings)
  if (json) await io.out.json(toStatusLine(found, findings))
  else {
    for (const finding of findings) await writeFinding(io, finding)
    if (findings.length === 0 && !quiet) await io.out.line(paint('green', 'All is well.'))
    if (!quiet) await writeStatus(io, db, found, settings)
  }
  return check && findings.length > 0 ? 1 : 0
}

/** contract 3. */
function toStatusLine(found: Status, findings: readonly Finding[]): object {
  const { period, subscribed, delivered, failed, unknown, owed, hooksInTrouble, lastRun } = found
  const { pending, stuck, held, refused, down, lost, sources } = found
  return {
    ...{
      type: 'status',
      period,
      subscribed,
      delivered,
      failed,
      unknown,
      owed,
      lastRun: lastRun ?? null,
      hooksInTrouble,
    },
    ...{ pending, stuck },
    ...(held && { held: { reason: held.reason, users: held.users } }),
    ...(refused && { refused }),
    ...(down && { down }),
    ...(lost && { lost }),
    ...(sources.length > 0 && { sources }),
    findings: findings.map(toFindingLine),
  }
}

async function writeStatus(
  io: CommandIo,
  db: Database,
  found: Status,
  { timeZone, keepAnswers }: Pick<StatusSettings, 'timeZone' | 'keepAnswers'>,
): Promise<void> {
  const { findLastRuns, findTroubledHooks } = await import('../../inspect/status/status.ts')
  const { writeEnded, writeHooks, writeStuck } = await import('./trouble-view.ts')
  const time = timeFormat(timeZone)
  await io.out.line('')
  await io.out.facts(describeStatus(found, timeZone))
  const runs = await findLastRuns(db)
  if (runs.length > 0) await writeRuns(io, runs, time)
  if (found.sources.length > 0) await (await import('./sources-view.ts')).writeSources(io, found.sources, time)
  if (found.stuck > 0) await writeStuck(io, db, time, keepAnswers)
  if (found.failed + found.unknown > 0) await writeEnded(io, db, found, keepAnswers)
  if (found.hooksInTrouble > 0)
    await writeHooks(io, await findTroubledHooks(db, keepAnswers), found.hooksInTrouble, time)
  const { subscribed, owed, held, refused, lost, stuck, lastRun } = found
  if (subscribed === 0) await io.out.line('', 'Nobody is subscribed yet: leadpush users import FILE')
  // otherwise what is wrong has said what to do
  else if (owed > 0 && !held && !refused && !lost && stuck === 0 && lastRun?.outcome !== 'running')
    await io.out.line('', 'To serve the users that are owed a delivery: leadpush push --all')
}

function describeStatus(found: Status, timeZone: string): [string, string][] {
  const facts: [string, string][] = [
    ['period', `${found.period} (${timeZone})`],
    ['subscribed', plural(found.subscribed, 'user')],
    ['delivered', paint('green', plural(found.delivered, 'delivery'))],
    ['failed', found.failed > 0 ? paint('red', plural(found.failed, 'delivery')) : '0'],
    ['unknown', found.unknown > 0 ? paint('yellow', plural(found.unknown, 'delivery')) : '0'],
  ]
  if (found.pending > 0) {
    const stuck = found.stuck > 0 ? `, ${paint('red', `${formatCount(found.stuck)} stuck`)}` : ''
    facts.push(['pending', `${plural(found.pending, 'delivery')}${stuck}`])
  }
  facts.push(['owed', found.owed > 0 ? paint('yellow', plural(found.owed, 'user')) : '0 users'])
  return facts
}

async function writeRuns(io: CommandIo, runs: RunReport[], time: (at: Date | null) => string): Promise<void> {
  await io.out.line('', paint('bold', 'Last runs'))
  const { runNames } = await import('../../inspect/status/status.ts')
  const rows = runs.map(({ startedAt, endedAt, command, period, outcome }) => {
    const took = endedAt === null ? '' : seconds((endedAt.getTime() - startedAt.getTime()) / 1_000)
    return [time(startedAt), runNames[command], period, paintStatus(outcome), took]
  })
  const heads = ['begun', 'run', 'period', 'outcome', 'took']
  await io.out.table(
    heads.map((head) => ({ head })),
    rows,
  )
}

async function showUser(
  io: CommandIo,
  db: Database,
  email: string,
  settings: StatusSettings,
  { json }: StatusOptions,
): Promise<ExitCode> {
  if (!json) {
    const { findUserFacts } = await import('../../inspect/user/find-user-facts.ts')
    const { writeUser } = await import('../users/show.ts')
    await writeUser(io, await findUserFacts(db, email, settings), timeFormat(settings.timeZone))
    return 0
  }
  const { findUser } = await import('../../users/users.ts')
  const { findUserDeliveries } = await import('../../inspect/status/user-deliveries.ts')
  const { toDeliveryLine } = await import('../../push/reporter.ts')
  const { user } = await findUser(db, email)
  for await (const delivery of findUserDeliveries(db, user.id, settings.keepAnswers)) {
    const { attemptLog, createdAt } = delivery
    await io.out.json({ ...toDeliveryLine(delivery), createdAt, attemptLog })
  }
  return 0
}
