/** For developers of a receiver: sends made-up deliveries to it, and grades its answers. */
import { plural, seconds } from '../base/amounts.ts'
import { usageError } from '../base/errors.ts'
import { type CheckLine, type ProbeSummaryLine, planned, runProbe } from '../receiver-kit/probe/run-probe.ts'
import { openVault } from '../secrets/vault.ts'
import { findReceiverKey } from '../users/users.ts'
import { agrees, canAsk } from './ask.ts'
import type { CommandIo } from './command-io.ts'
import type { AtDatabase, ExitCode } from './describe.ts'
import { paint, type Style } from './painted.ts'
import { startProgress } from './progress.ts'

type Setting =
  | 'receiverUrl'
  | 'clientCert'
  | 'clientKey'
  | 'dataSource'
  | 'timeoutMs'
  | 'ratePerSecond'
  | 'secretKey'
  | 'proxies'

export async function probe(
  { io, readSettings, open }: AtDatabase<Setting, 'receiverUrl'>,
  { user, yes }: { user?: string; yes?: true },
): Promise<ExitCode> {
  const { receiverUrl, clientCert, clientKey, dataSource, timeoutMs, ratePerSecond, proxies } = readSettings()
  const receiverKey =
    user === undefined
      ? undefined
      : await open(async ({ db }, settings) => findReceiverKey(db, await openVault(db, settings), user))

  const { host } = new URL(receiverUrl)
  const whose = user === undefined ? 'a made-up key' : `the key of ${user}`
  const what =
    `About to send up to ${planned.requests} requests, ${planned.megabytes} MB together, to the receiver at ${host} with ${whose}.\n` +
    'All listings are made up: their hrefs begin with https://example.com/leadpush-probe/.'
  if (yes || !canAsk(io)) io.log.info(what)
  else if (!(await agrees(io, what, 'Send them?')))
    throw usageError('Nothing was sent: nobody agreed.', 'With --yes it does not ask.')

  let doing: string | undefined
  const progress = await startProgress(io, () => doing)
  const summary = await runProbe({
    receiverUrl,
    dataSource,
    timeoutMs,
    ratePerSecond,
    proxies,
    clientCert,
    clientKey,
    receiverKey,
    onBegin(title) {
      doing = title
    },
    onCheck: (line) => io.out.result(line, () => writeCheck(io, line)),
  })
  progress.stop()
  await io.out.result(summary, () => writeSummary(io, summary))
  return summary.failed > 0 ? 1 : 0
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

async function writeSummary(io: CommandIo, summary: ProbeSummaryLine): Promise<void> {
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
