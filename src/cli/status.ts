/** `leadpush status`: how the period and the last runs went, one user's deliveries, and a check for a monitor. */
import type { Command } from 'commander'
import type { Database } from '../db/open.ts'
import type { HookInTrouble } from '../integrations/hooks-in-trouble.ts'
import type { DeliveryInTrouble, RunReport, Status, Troubles } from '../report/status.ts'
import type { UserDelivery } from '../report/user-deliveries.ts'
import { type Act, type ExitCode, inShort, usageError, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import {
  bytes,
  count,
  paint,
  plural,
  type Style,
  seconds,
  timeFormat,
  writeFacts,
  writeJson,
  writeLine,
  writeTable,
} from './output.ts'

interface StatusOptions {
  user?: string
  check?: true
  json?: true
}

interface StatusSettings {
  timeZone: string
  maxLeadAgeMs: number
}

/** So many deliveries of a user are shown to a person. */
const deliveriesShown = 50

export function addStatus(program: Command, act: Act): void {
  program
    .command('status')
    .description('Show how the period and the last runs went, and what is left to do.')
    .option('--user <email>', 'the deliveries of one user, with their attempts')
    .option('--check', 'exit 1 if somebody should look: for a monitor')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush status
  leadpush status --user user@example.com
  leadpush status --check --json         what a monitor runs once a day

--check exits 1 if deliveries are stuck or failed, if the guard holds something
back, or if users are subscribed and no \`push --all\` came to its end in 8 days.`,
    )
    .action(act(status))
}

async function status(_log: Log, options: StatusOptions): Promise<ExitCode> {
  if (options.check && options.user !== undefined) throw usageError('--check and --user exclude each other.')
  const { processSource, readSettings } = await import('../config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'timeZone', 'maxLeadAgeMs', 'logFormat'], processSource())
  return await withDatabase(settings, inShort, async ({ db }) => {
    if (options.user !== undefined) return await showUser(db, options.user, settings, options)
    return await showStatus(db, settings, options)
  })
}

async function showStatus(db: Database, settings: StatusSettings, { check, json }: StatusOptions): Promise<ExitCode> {
  const { findAlarms, findStatus } = await import('../report/status.ts')
  const found = await findStatus(db, settings)
  const alarms = check ? findAlarms(found) : []
  if (json) await writeJson(toStatusLine(found, check ? alarms : undefined))
  else {
    await writeStatus(db, found, settings.timeZone)
    for (const alarm of alarms) await writeLine(`${paint('red', 'check')}  ${alarm}`)
    if (check && alarms.length === 0) await writeLine(`${paint('green', 'check')}  All is well.`)
  }
  return alarms.length > 0 ? 1 : 0
}

/** contract 3; `alarms` only where a check was asked for. */
function toStatusLine(found: Status, alarms: string[] | undefined): object {
  const { period, subscribed, delivered, failed, unknown, pending, stuck, owed, held, lastRun, hooksInTrouble } = found
  const run = lastRun && {
    startedAt: lastRun.startedAt,
    endedAt: lastRun.endedAt,
    outcome: lastRun.outcome,
    command: lastRun.command,
    period: lastRun.period,
  }
  const line = {
    type: 'status',
    period,
    subscribed,
    delivered,
    failed,
    unknown,
    owed,
    lastRun: run ?? null,
    hooksInTrouble,
  }
  return { ...line, pending, stuck, ...(held && { held }), ...(alarms && { alarms }) }
}

const statusStyles: Partial<Record<string, Style>> = { delivered: 'green', complete: 'green', failed: 'red' }
const paintStatus = (text: string) => paint(statusStyles[text] ?? 'yellow', text)

async function writeStatus(db: Database, found: Status, timeZone: string): Promise<void> {
  const { describeHeld, findEndedInTrouble, findLastRuns, findPending, findTroubledHooks } = await import(
    '../report/status.ts'
  )
  const time = timeFormat(timeZone)
  await writeFacts(describeStatus(found, timeZone))
  if (found.held) await writeLine(`${paint('red', 'held')}  The guard holds back ${describeHeld(found.held)}.`)
  const runs = await findLastRuns(db)
  if (runs.length > 0) await writeRuns(runs, time)
  if (found.pending > 0) await writePending(await findPending(db), time)
  if (found.failed + found.unknown > 0) await writeEnded(await findEndedInTrouble(db, found.period), time)
  if (found.hooksInTrouble > 0) await writeHooks(await findTroubledHooks(db), found.hooksInTrouble, time)
  const advice = adviseOn(found)
  if (advice.length > 0) await writeLine('')
  for (const sentence of advice) await writeLine(sentence)
}

function describeStatus(found: Status, timeZone: string): [string, string][] {
  const facts: [string, string][] = [
    ['period', `${found.period} (${timeZone})`],
    ['subscribed', plural(found.subscribed, 'user')],
    ['delivered', paint('green', count(found.delivered))],
    ['failed', found.failed > 0 ? paint('red', count(found.failed)) : '0'],
    ['unknown', found.unknown > 0 ? paint('yellow', count(found.unknown)) : '0'],
  ]
  if (found.pending > 0) {
    const stuck = found.stuck > 0 ? `, ${paint('red', `${count(found.stuck)} stuck`)}` : ''
    facts.push(['pending', `${count(found.pending)}${stuck}`])
  }
  facts.push(['owed', found.owed > 0 ? paint('yellow', plural(found.owed, 'user')) : '0 users'])
  return facts
}

async function writeRuns(runs: RunReport[], time: (at: Date | null) => string): Promise<void> {
  await writeLine(`\n${paint('bold', 'Last runs')}`)
  const commands = { all: '--all', force: '--all --force', resume: '--resume', failed: '--failed', user: '--user' }
  const rows = runs.map(({ startedAt, endedAt, command, period, outcome }) => {
    const took = endedAt === null ? '' : seconds((endedAt.getTime() - startedAt.getTime()) / 1_000)
    return [time(startedAt), `push ${commands[command]}`, period, paintStatus(outcome), took]
  })
  const heads = ['begun', 'run', 'period', 'outcome', 'took']
  await writeTable(
    heads.map((head) => ({ head })),
    rows,
  )
}

async function writeHooks(hooks: HookInTrouble[], total: number, time: (at: Date | null) => string): Promise<void> {
  await writeLine(`\n${paint('bold', 'Hooks in trouble')}`)
  const rows = hooks.map(({ lastAt, user, url, failing, abandoned, error }) => [
    time(lastAt),
    user,
    url,
    [failing > 0 && `${count(failing)} failing`, abandoned > 0 && `${count(abandoned)} abandoned`]
      .filter(Boolean)
      .join(', '),
    error ?? 'the last one was delivered',
  ])
  const heads = ['last attempt', 'user', 'hook', 'triggers', 'why']
  await writeTable(
    heads.map((head) => ({ head, ...(['hook', 'why'].includes(head) && { wide: true }) })),
    rows,
  )
  if (total > hooks.length) await writeLine(`… and ${plural(total - hooks.length, 'hook')} more.`)
}

const partOf = ({ part, parts }: { part: number; parts: number }) => (parts > 1 ? ` ${part}/${parts}` : '')

async function writeTroubles(
  title: string,
  last: string,
  { total, newest }: Troubles,
  time: (at: Date | null) => string,
  lastOf: (delivery: DeliveryInTrouble) => string,
): Promise<void> {
  await writeLine(`\n${paint('bold', title)}`)
  const rows = newest.map((delivery) => [
    time(delivery.since),
    delivery.email ?? '(removed user)',
    `${delivery.kind}${partOf(delivery)}`,
    paintStatus(delivery.stuck ? 'stuck' : delivery.status),
    String(delivery.attempts),
    lastOf(delivery),
  ])
  await writeTable(
    [{ head: 'begun' }, { head: 'user', wide: true }, { head: 'kind' }, { head: 'status' }, { head: 'attempts', align: 'right' }, { head: last, wide: true }],
    rows,
  ) // biome-ignore format: a list
  if (total > newest.length) await writeLine(`… and ${count(total - newest.length)} more`)
}

async function writePending(troubles: Troubles, time: (at: Date | null) => string): Promise<void> {
  await writeTroubles('Pending deliveries', 'last error', troubles, time, ({ error }) => error ?? '')
}

async function writeEnded(troubles: Troubles, time: (at: Date | null) => string): Promise<void> {
  await writeTroubles('Not delivered in this period', 'why', troubles, time, ({ error }) => error ?? '')
}

/** What to do next, a sentence each. */
function adviseOn({ stuck, failedWithoutLater, unknown, owed, held, subscribed, lastRun }: Status): string[] {
  const advice: string[] = []
  const isRunning = lastRun?.outcome === 'running'
  if (subscribed === 0) advice.push('Nobody is subscribed yet: leadpush users import FILE')
  if (stuck > 0) advice.push('To go on with what is stuck: leadpush push --resume')
  if (held) {
    advice.push('Once what was imported is mended: leadpush push --all')
    advice.push('If what is held back is right: leadpush push --all --accept')
  } else if (stuck === 0 && owed > 0 && !isRunning)
    advice.push('To serve the users that are owed a delivery: leadpush push --all')
  if (failedWithoutLater > 0) advice.push('Once the cause of what failed is mended: leadpush push --failed')
  if (unknown > 0) advice.push('To send again what may have arrived: leadpush push --failed --unknown')
  return advice
}

async function showUser(
  db: Database,
  email: string,
  { timeZone }: StatusSettings,
  { json }: StatusOptions,
): Promise<ExitCode> {
  const { findUser } = await import('../users/users.ts')
  const { findUserDeliveries } = await import('../report/user-deliveries.ts')
  const found = await findUser(db, email)
  const deliveries = findUserDeliveries(db, found.user.id)
  if (json) {
    const { toDeliveryLine } = await import('../push/reporter.ts')
    for await (const { attemptLog, createdAt, recipe: _, ...delivery } of deliveries) {
      await writeJson({ ...toDeliveryLine(delivery), createdAt, attemptLog })
    }
    return 0
  }
  await writeFacts([
    ['user', found.user.email],
    ['subscribed', `${found.subscribed ? 'yes' : 'no'}${found.owed ? ', a subscription push is owed' : ''}`],
  ])
  const shown: UserDelivery[] = []
  let more = false
  for await (const delivery of deliveries) {
    more = shown.length === deliveriesShown
    if (more) break
    shown.push(delivery)
  }
  await writeLine('')
  if (shown.length === 0) await writeLine('No delivery yet.')
  else await writeDeliveries(shown, timeFormat(timeZone))
  if (more) await writeLine(`These are the newest ${count(deliveriesShown)}; --json shows all.`)
  return 0
}

/** A row an attempt; what a second one shares with the first is not repeated. */
async function writeDeliveries(deliveries: UserDelivery[], time: (at: Date | null) => string): Promise<void> {
  const rows = deliveries.flatMap((delivery) => {
    const { period, kind, leads, status, attemptLog, error } = delivery
    const facts = [period, `${kind}${partOf(delivery)}`, count(leads), bytes(delivery.bytes), paintStatus(status)]
    if (attemptLog.length === 0) return [[...facts, '', '', error ?? '']]
    return attemptLog.map((attempt, at) => {
      const took = attempt.durationMs === null ? '' : `${count(attempt.durationMs)} ms`
      const isLast = at === attemptLog.length - 1
      const answer = attempt.httpStatus === null ? '' : `HTTP ${attempt.httpStatus}`
      // why it ended may be more than what the last attempt came to
      const why = (isLast ? error : undefined) ?? attempt.error ?? answer
      return [...(at === 0 ? facts : facts.map(() => '')), time(attempt.at), took, why]
    })
  })
  const heads = ['period', 'kind', 'leads', 'bytes', 'status', 'attempt at', 'took', 'what came of it']
  const columns = heads.map((head) => ({
    head,
    ...(['leads', 'bytes', 'took'].includes(head) && { align: 'right' as const }),
    ...(head === 'what came of it' && { wide: true }),
  }))
  await writeTable(columns, rows)
}
