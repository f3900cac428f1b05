/** `leadpush probe`: for whoever develops a receiver: made-up deliveries to it, and a graded report of what came back. */
import type { Command } from 'commander'
import { plural, seconds } from '../base/amounts.ts'
import type { CheckLine, SummaryLine } from '../receiver-kit/probe/run-probe.ts'
import { agrees, canAsk } from './ask.ts'
import { createCheckView } from './check-view.ts'
import { type Act, type ExitCode, inShort, openSecrets, settingsSource, usageError, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { paint, type Style } from './painted.ts'

interface ProbeCommandOptions {
  user?: string
  yes?: true
  json?: true
}

export function addProbe(program: Command, act: Act): void {
  program
    .command('probe')
    .description('Try a receiver with made-up deliveries, and print a graded report. Nothing of yours is sent.')
    .option('--user <email>', 'send with the receiver key of this user, not with a made-up one')
    .option('--yes', 'send without asking first')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
It sends to LEADPUSH_RECEIVER_URL. All listings are made up and say so: their
hrefs begin with https://example.com/leadpush-probe/. To see a wrong key refused
it sends the key leadpush-key-that-is-never-valid: give it to no user.

What a repeated key or a null did is visible only if the receiver tells it. One
whose 2xx answers are JSON with the counts of the leads that were \`new\`,
\`changed\` and \`unchanged\` by this delivery, such as
  {"new":0,"changed":1,"unchanged":299}
is graded by them; otherwise these checks come to \`not visible\`.

Exit code: 1 if a check failed, else 0.

Examples:
  LEADPUSH_RECEIVER_URL=http://127.0.0.1:9000 leadpush probe
  leadpush probe --user user@example.com --yes --json`,
    )
    .action(act(probe))
}

async function probe(io: CommandIo, options: ProbeCommandOptions): Promise<ExitCode> {
  const { readProxies, readSettings, readTogether } = await import('../base/config.ts')
  const { planned, runProbe } = await import('../receiver-kit/probe/run-probe.ts')
  const source = settingsSource(io)
  const names = [
    'receiverUrl',
    'clientCert',
    'clientKey',
    'dataSource',
    'timeoutMs',
    'ratePerSecond',
    'databaseUrl',
    'home',
    'secretKey',
    'logFormat',
  ] as const
  const needed = { receiverUrl: 'it names the receiver to try' }
  const [settings, proxies] = readTogether(
    () =>
      readSettings(
        names.filter((name) => options.user !== undefined || !databaseNames.has(name)),
        source,
        needed,
      ),
    () => readProxies(source),
  )
  const { receiverUrl = '', clientCert, clientKey, dataSource, timeoutMs, ratePerSecond } = settings
  const receiverKey = options.user === undefined ? undefined : await findKey(io, settings, options.user)

  const { host } = new URL(receiverUrl)
  const whose = options.user === undefined ? 'a made-up key' : `the key of ${options.user}`
  const what =
    `About to send up to ${planned.requests} requests, ${planned.megabytes} MB together, to the receiver at ${host} with ${whose}.\n` +
    'All listings are made up: their hrefs begin with https://example.com/leadpush-probe/.'
  if (options.yes || !canAsk(io)) io.log.info(what)
  else if (!(await agrees(io, what, 'Send them?')))
    throw usageError('Nothing was sent: it was not agreed to.', 'With --yes it does not ask.')

  const view = await createCheckView(io, options.json === true, (line: CheckLine) => writeCheck(io, line))
  try {
    const summary = await runProbe({
      receiverUrl,
      dataSource,
      timeoutMs,
      ratePerSecond,
      proxies,
      clientCert,
      clientKey,
      receiverKey,
      onBegin: (title) => view.begin(title),
      onCheck: (line) => view.show(line),
    })
    view.stop()
    if (options.json) await io.out.json(summary)
    else await writeSummary(io, summary)
    return summary.failed > 0 ? 1 : 0
  } finally {
    view.stop()
  }
}

const databaseNames: ReadonlySet<string> = new Set(['databaseUrl', 'home', 'secretKey'])

async function findKey(
  io: CommandIo,
  settings: { databaseUrl: string | undefined; home: string; secretKey: Buffer | undefined },
  email: string,
): Promise<string> {
  const { findReceiverKey } = await import('../users/users.ts')
  return await withDatabase(io, settings, inShort, async ({ db }) =>
    findReceiverKey(db, await openSecrets(db, settings), email),
  )
}

const styleOf: Record<CheckLine['grade'], Style> = { pass: 'green', warn: 'yellow', fail: 'red', 'not visible': 'dim' }
const gradeChars = 'not visible'.length

async function writeCheck(io: CommandIo, { grade, title, clause, sent, received, advice }: CheckLine): Promise<void> {
  const isTrouble = grade === 'fail' || grade === 'warn'
  const shown = paint(styleOf[grade], grade.padEnd(gradeChars))
  await io.out.line(`${shown}  ${title}${isTrouble ? '' : paint('dim', `: ${received}`)}`)
  if (!isTrouble) return
  for (const [name, value] of [
    ['sent', sent],
    ['came back', received],
    ['clause', `docs/contract-delivery.md ${clause}`],
    ['to do', advice],
  ]) {
    await io.out.line(`${' '.repeat(gradeChars)}    ${paint('dim', (name ?? '').padEnd(9))}  ${value}`)
  }
}

const verdicts = {
  pass: 'all is well',
  warn: 'it works; some of it could be better',
  fail: 'it is not ready for deliveries',
} as const

async function writeSummary(io: CommandIo, summary: SummaryLine): Promise<void> {
  const { grade, checks, passed, warned, failed, notVisible, requests, probe: id } = summary
  await io.out.line('')
  await io.out.facts([
    ['grade', `${paint(styleOf[grade], grade)}: ${verdicts[grade]}`],
    ['checks', `${plural(checks, 'check')}: ${passed} pass, ${warned} warn, ${failed} fail, ${notVisible} not visible`],
    [
      'sent',
      `${plural(requests, 'request')} in ${seconds(summary.seconds)}, under https://example.com/leadpush-probe/${id}/`,
    ],
  ])
}
